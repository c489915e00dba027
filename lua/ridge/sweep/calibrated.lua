-- SPDX-License-Identifier: MIT
--- The machine's ceilings and noise, measured once for a device and thread count, kept in the
-- database beside what is judged by them.

local clock = require 'ridge.store.clock'
local options = require 'ridge.options'
local store = require 'ridge.store'

local M = {}

local SPEC = {
  db = { 'string', doc = 'database file; the default one when left out' },
  quick = { 'boolean', default = true, doc = 'the short calibration' },
  again = { 'boolean', default = false, doc = 'measure even if there is one' },
}

--- The calibration of a device at the threads in use: from the database, or measured now and kept.
---@param st table store open for writing
---@param device_id integer
---@param lab table ridge.sweep.lab
---@param say function called with a line now and then while it is measured
---@param opt table quick, again
---@return table rows each name, threads, unit, value, ci_lo, ci_hi
---@return boolean measured
function M.rows(st, device_id, lab, say, opt)
  local threads, rows = lab.threads(), {}
  for _, row in ipairs(st:ceilings(device_id)) do
    if row.threads == threads then rows[#rows + 1] = row end
  end
  if #rows > 0 and not opt.again then return rows, false end
  rows = lab.calibrate(say, opt.quick)
  st:add_ceilings(device_id, rows, clock.now_us())
  return rows, true
end

--- The same for a database by its name, before a sweep; sw:run() does it by itself otherwise.
-- >> local list = calibrated.ensure{ quick = false }.list
---@param given table|nil db, quick, again
---@return table result list (the rows), measured, lab (for sw:run)
function M.ensure(given)
  local opt = options.check(SPEC, given, 'calibrated.ensure')
  local lab = require 'ridge.sweep.lab'
  local st = store.open(opt.db or store.default_path(), 'write')
  local function say(text) io.stderr:write('calibrating: ', text, '\n') end
  local ok, list, measured = pcall(function()
    local facts = lab.facts()
    return M.rows(st, st:device(st:machine(facts.machine), facts.device), lab, say, opt)
  end)
  st:close()
  if not ok then error(list, 0) end
  return { list = list, measured = measured, lab = lab }
end

return M

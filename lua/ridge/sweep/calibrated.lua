-- SPDX-License-Identifier: MIT
--- The machine's ceilings and noise, measured once for a device and thread count, kept in the
-- database beside what is judged by them.

local lab = require 'ridge.sweep.lab'
local measure = require 'ridge.measure'
local options = require 'ridge.options'
local store = require 'ridge.store'

local M = {}

local SPEC = {
  db = { 'string', doc = 'database file; the default one when left out' },
  threads = { 'integer', min = 1, doc = 'thread count; the current one when left out' },
  quick = { 'boolean', default = true, doc = 'the short calibration' },
  again = { 'boolean', default = false, doc = 'measure even if there is one' },
}

local function of_threads(list, threads)
  local out = {}
  for _, row in ipairs(list) do
    if row.threads == threads then out[#out + 1] = row end
  end
  return out
end

--- The calibration of this machine: read from the database, or measured now and kept there.
---@param given table|nil db, threads, quick, again
---@return table { list =, calibration =, lab =, measured = }; lab goes to sw:run
-- >> local cal = calibrated.ensure{ quick = true }; sw:run{ lab = cal.lab }
function M.ensure(given)
  local opt = options.check(SPEC, given, 'calibrated.ensure')
  local threads = opt.threads or require('ridge.backend').threads()
  local st = store.open(opt.db or store.default_path(), 'write')
  local ok, result = pcall(function()
    local facts = lab.facts()
    local device = st:device(st:machine(facts.machine), facts.device)
    local list = of_threads(st:ceilings(device), threads)
    local measured = opt.again or #list == 0
    if measured then
      list = measure.calibrate {
        threads = threads, quick = opt.quick,
        progress = function(text) io.stderr:write('calibrating: ', text, '\n') end,
      }
      st:add_ceilings(device, list, require('ridge.store.clock').now_us())
    end
    return { list = list, measured = measured,
             calibration = measure.calibration(list, threads) }
  end)
  st:close()
  if not ok then error(result, 0) end
  result.lab = setmetatable({
    block = function(points, protocol)
      return measure.block(points, protocol, { calibration = result.calibration })
    end,
  }, { __index = lab })
  return result
end

return M

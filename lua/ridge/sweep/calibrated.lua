-- SPDX-License-Identifier: MIT
--- The machine's ceilings and noise, measured once for a device and thread count, kept in the
--- database beside what is judged by them.

local blame = require 'ridge.blame'
local clock = require 'ridge.store.clock'
local options = require 'ridge.options'
local store = require 'ridge.store'
local told = require 'ridge.measure.told'

local M = {}

local SPEC = {
  db = { 'string', doc = 'database file; the default one when left out' },
  quick = { 'boolean', default = true, doc = 'the short calibration' },
  again = { 'boolean', default = false, doc = 'measure even if there is one' },
  device = { 'string', doc = "'cuda:0' ...; the CPU when left out" },
}

local function lab_of(device) return require('ridge.sweep.device').lab(device) end

-- Without noise the machine was busy, and what it did at best meanwhile is no ceiling either.
local function is_whole(rows)
  for _, row in ipairs(rows) do
    if row.name == 'noise.aa' then return true end
  end
  return false
end

local function newest(st, device_id, threads)
  local rows = {}
  for _, row in ipairs(st:ceilings(device_id)) do
    if row.threads == threads then rows[#rows + 1] = row end
  end
  return rows
end

--- The calibration of a device at the threads in use: from the database, or measured now and kept.
-- Where the noise could not be measured, because other processes ran, all is tried again as soon as
-- they do not: while they do it would take as long and find as little as before.
-- A simulated device has none: what a program takes to play it is no ceiling of anything.
---@param st table store open for writing
---@param device_id integer
---@param lab table ridge.sweep.lab
---@param say function called with a line now and then while it is measured
---@param opt table quick, again
---@return table rows each name, threads, unit, value, ci_lo, ci_hi
---@return boolean measured
---@return boolean|nil whole when it was measured: with its noise
function M.rows(st, device_id, lab, say, opt)
  if lab.simulated then return {}, false end
  local threads = lab.threads()
  local rows = newest(st, device_id, threads)
  if is_whole(rows) and not opt.again then return rows, false end
  if #rows > 0 and not opt.again and not lab.is_quiet() then
    say 'not now: other processes run, so the noise of this machine stays unknown'
    return rows, false
  end
  local found = lab.calibrate(say, opt.quick)
  st:add_ceilings(device_id, found, clock.now_us())
  return newest(st, device_id, threads), true, is_whole(found)
end

--- The stored calibration of this machine at the threads in use; nil where there is none. Measures
--- and writes nothing.
---@param path string|nil database file; the default one when left out
---@param device string|nil 'cuda:0' ...; the CPU when left out
---@return table|nil rows as `rows` gives them
-- >> local list = require('ridge.sweep.calibrated').stored()
function M.stored(path, device)
  path = path or store.default_path()
  local file = io.open(path, 'rb')
  if not file then return nil end
  file:close()
  local lab = lab_of(device)
  local st = store.open(path, 'read')
  local ok, result = pcall(function()
    local facts, threads, rows = lab.facts(), lab.threads(), {}
    local id = st:find_device(facts.machine, facts.device)
    for _, row in ipairs(id and st:ceilings(id) or {}) do
      if row.threads == threads then rows[#rows + 1] = row end
    end
    return #rows > 0 and rows or nil
  end)
  st:close()
  if not ok then error(result, 0) end
  return result
end

--- Raise unless `keep` can write, before what takes minutes to measure.
---@param path string|nil database file; the default one when left out
function M.may_keep(path) store.open(path or store.default_path(), 'write'):close() end

--- Keep rows beside the ceilings of the CPU of this machine, as `ridge trust` does.
---@param rows table each name, threads, unit, value
---@param path string|nil database file; the default one when left out
function M.keep(rows, path)
  local facts = lab_of().facts()
  local st = store.open(path or store.default_path(), 'write')
  local ok, err = pcall(function()
    st:add_ceilings(st:device(st:machine(facts.machine), facts.device), rows, clock.now_us())
  end)
  st:close()
  if not ok then error(err, 0) end
end

local MEASURE = {
  db = SPEC.db,
  quick = { 'boolean', default = false, doc = 'the short calibration' },
  threads = { 'table', doc = 'thread counts; the current one when left out' },
  device = SPEC.device,
  say = { 'function', doc = 'called with a line now and then' },
}

-- The newest rows of this machine, of all thread counts.
local function rows_of(st, lab)
  local facts = lab.facts()
  local device = st:find_device(facts.machine, facts.device)
  return told.calibration(device and st:ceilings(device) or {})
end

--- Everything stored about this machine: the newest row of each name and thread count, dated.
---@param path string|nil database file; the default one when left out
---@param device string|nil 'cuda:0' ...; the CPU when left out
---@return table rows each name, threads, unit, value, ci_lo, ci_hi, at (microseconds since 1970)
function M.all(path, device)
  local lab = lab_of(device)
  local st = store.open(path or store.default_path(), 'read')
  local ok, rows = pcall(rows_of, st, lab)
  st:close()
  if not ok then error(rows, 0) end
  return rows
end

--- Calibrate now, for several thread counts, and keep what was found: `ridge calibrate`.
-- >> local rows = require('ridge.sweep.calibrated').measure { threads = { 1, 2 }, quick = true }
---@param given table|nil db, quick, threads, device, say
---@return table rows as `all` gives them
---@return table disturbed the thread counts whose noise other processes hid, however well it is
---  known from another time
function M.measure(given)
  local opt = options.check(MEASURE, given, 'calibrated.measure')
  local backend, lab = require 'ridge.backend', lab_of(opt.device)
  if lab.simulated then
    blame.raise(('calibrate: %s is simulated: its ceilings would be those of a program'):format(
      opt.device), 'ENOSUP', 'calibrate')
  end
  local before, lease = backend.threads(), lab.lease()
  local function note(text) io.stderr:write('calibrating: ', text, '\n') end
  local disturbed = {}
  local st = store.open(opt.db or store.default_path(), 'write')
  local ok, rows = pcall(function()
    local facts = lab.facts()
    local device = st:device(st:machine(facts.machine), facts.device)
    if lease then lease:exclusive() end
    for _, n in ipairs(lab.device and { before } or opt.threads or { before }) do
      backend.set_threads(n)
      local _, _, whole = M.rows(st, device, lab, opt.say or note, { quick = opt.quick,
        again = true })
      if not whole then disturbed[#disturbed + 1] = lab.threads() end
    end
    return rows_of(st, lab)
  end)
  backend.set_threads(before)
  if lease then lease:close() end
  st:close()
  if not ok then error(rows, 0) end
  return rows, disturbed
end

--- The same for a database by its name, before a sweep; sw:run() does it by itself otherwise.
-- >> local list = calibrated.ensure{ quick = false }.list
---@param given table|nil db, quick, again, device
---@return table result list (the rows), measured, lab (for sw:run)
function M.ensure(given)
  local opt = options.check(SPEC, given, 'calibrated.ensure')
  local lab = lab_of(opt.device)
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

-- SPDX-License-Identifier: MIT
--- The table of measured paths in a results database: what ridge.autotune found on this machine is
--- kept there, and taken from there by who comes later.

local choices = require 'ridge.choices'
local options = require 'ridge.options'
local rows = require 'ridge.store.choices'
local store = require 'ridge.store'

local M = {}

local PRODUCT = 'product'
local DB = { db = { 'string', doc = 'database file; else RIDGE_DB, else results/ridge.db' } }

local function machine() return require('ridge.sweep.lab').facts().machine end

local function stored_of(r)
  return { operation = PRODUCT, problem = choices.problem(r), path = r.path,
    standard = r.standard, rounds = r.rounds, times = r.paths, at = r.at }
end

--- Keep what was measured in this process and is not kept yet, in an open database.
---@param st table store open for writing
---@return integer n rows that are new
function M.keep(st)
  local list = {}
  for _, r in ipairs(choices.all()) do
    if r.at and r.rounds > 0 then list[#list + 1] = stored_of(r) end
  end
  if #list == 0 then return 0 end
  return st:within(function()
    return rows.add(st, st:machine(machine()), choices.versions(), list)
  end)
end

--- Put what is stored of this machine in force, from an open database.
---@param st table
---@param opt table|nil machine (facts; this one's when left out), last (rows up to this number)
---@return table taken put = choices that are new to this process, known = those that are as good
---  here already, skipped = rows that this ridge does not know
function M.take(st, opt)
  opt = opt or {}
  local taken = { put = 0, known = 0, skipped = 0 }
  local id = st:find_machine(opt.machine or machine())
  if not id then return taken end
  local list, others = rows.newest(st, id, choices.versions(), PRODUCT, opt.last)
  local put, unknown = choices.put(list)
  taken.put, taken.known, taken.skipped = put, #list - put - unknown, others + unknown
  return taken
end

local function with(path, mode, fn)
  local st = store.open(path or store.default_path(), mode)
  local ok, result = pcall(fn, st)
  st:close()
  if not ok then error(result, 0) end
  return result
end

--- Keep what ridge.autotune found in this process in a results database, for this machine and these
--- versions of ridge and its libraries. Kept twice it is one row.
---@param opt table|nil db = file, made where there is none; else RIDGE_DB, else results/ridge.db
---@return integer n how many are new there
-- >> ridge.backend.save_choices{ db = 'choices.db' }
function M.save(opt)
  opt = options.check(DB, opt, 'backend.save_choices')
  return with(opt.db, 'write', M.keep)
end

--- Let 'auto' take the paths that were measured on this machine and are kept in a results database:
--- the newest of each product, of these versions of ridge and its libraries. What was measured here
--- later stays; rows that this ridge does not know are skipped.
---@param opt table|nil db = file; else RIDGE_DB, else results/ridge.db
---@return table taken put = (new to this process), known = (as good here already), skipped =
-- >> ridge.backend.save_choices{ db = 'choices.db' }
-- >> return ridge.backend.load_choices{ db = 'choices.db' }.put
function M.load(opt)
  opt = options.check(DB, opt, 'backend.load_choices')
  return with(opt.db, 'read', M.take)
end

return M

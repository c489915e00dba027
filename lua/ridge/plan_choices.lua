-- SPDX-License-Identifier: MIT
--- How graphs run best on this machine, measured by ridge.compile's max-autotune: which passes are
--- left out, which activations stay apart from their product, which chains are taken apart. Rows of
--- the table of choices beside those of products (ridge.choices), kept and taken with them.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'

local M = {}

M.OPERATIONS = { 'passes', 'layout', 'epilogue', 'chain' }

local known -- by operation and problem: rows

local function now_us() return os.time() * 1e6 end

--- A problem as it is kept: what is chosen may differ by threads and instructions.
---@param text string
---@return string
function M.problem(text)
  return ('%s t%d %s'):format(text, C.rg_threads(), ffi.string(C.rg_isa_name(C.rg_isa())))
end

--- What was chosen; nil where it was not measured, and where `deterministic` is on.
---@param operation string one of OPERATIONS
---@param problem string
---@return string|nil path
function M.get(operation, problem)
  if C.rg_device_modes_now().deterministic ~= 0 then return nil end
  local row = known[operation][problem]
  return row and row.path
end

--- Remember a choice that was measured now.
---@param operation string
---@param problem string
---@param path string what is taken
---@param standard string what is taken where nothing was measured
---@param ms table<string, number> milliseconds by path
---@param rounds integer
function M.put(operation, problem, path, standard, ms, rounds)
  local times = {}
  for name, value in pairs(ms) do times[name] = { ns = value * 1e6 } end
  known[operation][problem] = { operation = operation, problem = problem, path = path,
    standard = standard, rounds = rounds, times = times, at = now_us() }
end

--- All that is known.
---@param since number|nil only what was measured from then on, microseconds since 1970
---@return table[] rows as ridge.store.choices.add takes them
function M.all(since)
  local list = {}
  for _, operation in ipairs(M.OPERATIONS) do
    for _, row in pairs(known[operation]) do
      -- clocks of both are compared: this one counts seconds
      if row.at >= math.floor((since or 0) / 1e6) * 1e6 then list[#list + 1] = row end
    end
  end
  table.sort(list, function(a, b)
    if a.operation ~= b.operation then return a.operation < b.operation end
    return a.problem < b.problem
  end)
  return list
end

--- Put rows in force that were measured before; what was measured here later stays.
---@param operation string
---@param list table as ridge.store.choices.newest gives it
---@return integer n how many are new
function M.take(operation, list)
  local n = 0
  for _, row in ipairs(list) do
    local here = known[operation][row.problem]
    if not here or here.at < row.at then
      known[operation][row.problem] = { operation = operation, problem = row.problem,
        path = row.path, standard = row.standard, rounds = row.rounds, at = row.at,
        times = row.times and row.times() or {} }
      n = n + 1
    end
  end
  return n
end

--- Forget all of it.
function M.forget()
  known = {}
  for _, operation in ipairs(M.OPERATIONS) do known[operation] = {} end
end

M.forget()

return M

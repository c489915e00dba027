-- SPDX-License-Identifier: MIT
--- How long candidates take: they run in turn, so that what the machine does meanwhile falls on all
--- of them, and each one's median counts. This chooses; what is claimed is measured by
--- ridge.measure.ab.

local C = require 'ridge.ffi.lib'

local M = {}

local ROUNDS, FEWEST = 15, 3
local BUDGET_NS = 100e6 -- of all candidates together, but for the fewest rounds

M.ROUNDS = ROUNDS

local function now() return tonumber(C.rg_clock_ns()) end

--- Milliseconds of one call.
---@param f function
---@return number ms
---@return any what f returns, up to three values
function M.once(f)
  local start = now()
  local a, b, c = f()
  return (now() - start) / 1e6, a, b, c
end

local function median(list)
  table.sort(list)
  local n = #list
  return n % 2 == 1 and list[(n + 1) / 2] or (list[n / 2] + list[n / 2 + 1]) / 2
end

--- Medians of candidates.
---@param list function[] each is called once in each round
---@return number[] ms
function M.medians(list)
  local times, start = {}, now()
  for i = 1, #list do times[i] = {} end
  for round = 1, ROUNDS do
    for i, f in ipairs(list) do
      local from = now()
      f()
      times[i][round] = (now() - from) / 1e6
    end
    if round >= FEWEST and now() - start > BUDGET_NS then break end
  end
  local out = {}
  for i = 1, #list do out[i] = median(times[i]) end
  return out
end

return M

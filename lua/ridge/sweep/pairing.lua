-- SPDX-License-Identifier: MIT
--- Two points of a sweep held against each other pass by pass: what the machine did in a pass fell
--- on both, so their ratio knows more than their two intervals.

local passes = require 'ridge.measure.passes'

local M = {}

-- Medians by number of the pass, of a row's text.
local function medians_of(row, phase)
  local text = row[phase .. '_by_pass']
  if type(text) ~= 'string' then return nil end
  local list, i = {}, 0
  for word in text:gmatch '%S+' do
    i = i + 1
    list[i] = tonumber(word) or false
  end
  return list
end

--- The ratio of two rows by the passes that both have.
---@param a table row of ridge.store.results
---@param b table
---@param phase string
---@return table|nil found of ridge.measure.passes.ratio, b over a; nil where one has no passes
function M.ratio(a, b, phase)
  local x, y = medians_of(a, phase), medians_of(b, phase)
  return x and y and passes.ratio(x, y) or nil
end

--- Let a row say how it compares with another one: its partner from now on, as if it had been timed
--- beside it.
---@param row table
---@param other table
---@param phase string
function M.join(row, other, phase)
  if row.partner == other.trial and row[phase .. '_ratio'] then return end
  local found = M.ratio(other, row, phase)
  if not found then return end
  row.partner = other.trial
  row[phase .. '_ratio'] = found.med
  row[phase .. '_ratio_lo'], row[phase .. '_ratio_hi'] = found.lo, found.hi
end

return M

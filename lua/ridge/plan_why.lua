-- SPDX-License-Identifier: MIT
--- How each step of a plan is computed, and why so: ridge.backend.why(plan).

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local choices = require 'ridge.choices'
local guard = require 'ridge.guard'

local M = {}

local BY = { 'measured', 'given', 'probed', 'expected', 'forced', 'pinned', 'only' } -- RG_BY_...

local Ways = {}
Ways.__index = Ways

local function row_of(w)
  local row = w.by == C.RG_BY_NONE and {} or choices.row(w.choice)
  row.step, row.op, row.by = tonumber(w.step) + 1, ffi.string(w.op), BY[w.by]
  row.way = w.path[0] ~= 0 and ffi.string(w.path) or nil
  row.module = w.module ~= nil and ffi.string(w.module) or nil
  return row
end

-- Was another path than the plan's measured to be faster, by the rule of the table of choices?
local function is_late(row)
  if row.path ~= row.standard or row.by == 'forced' or row.by == 'only' then return false end
  for _, t in pairs(row.paths) do
    if t.ratio_hi and t.ratio_hi < 1 then return true end
  end
  return false
end

function Ways:__tostring()
  local later = 0
  local text = choices.table({ 'step', 'operation', 'module', 'm x k x n', 'way', 'by' }, self,
    function(r)
      later = later + (r.by and is_late(r) and 1 or 0)
      return { r.step, r.op, r.module or '', r.by and choices.sizes(r) or '', r.way or '',
        r.by or '' }
    end, { [1] = true })
  if self.waits then
    text = text .. '\nit has not run yet: a path is chosen when a step first runs'
  elseif later > 0 then
    text = ('%s\n%d measured since to be faster by another path: capture it again'):format(text,
      later)
  end
  return text
end
Ways.__tostring = guard.text(Ways.__tostring)

--- How each step of a plan is computed; ridge.backend.why says what comes out.
---@param plan table
---@return table list of rows; waits = true where it has not run yet; tostring is a table
function M.why(plan)
  if plan._p == nil then blame.raise('why: the plan was released', 'EARG', 'why') end
  local n = C.rg_plan_ways(plan._p, nil, 0)
  local ways = ffi.new('rg_plan_way[?]', n)
  C.rg_plan_ways(plan._p, ways, n)
  local list = setmetatable({}, Ways)
  for i = 0, tonumber(n) - 1 do list[i + 1] = row_of(ways[i]) end
  list.waits = C.rg_plan_prepared(plan._p) == 0 or nil
  return list
end

return M

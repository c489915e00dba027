-- SPDX-License-Identifier: MIT
--- What is claimed of smaller nets (document 004), with a verdict by what was measured of this one.

local M = {}

-- Holds where the whole interval reaches what is claimed, does not where none of it does.
local function verdict(lo, hi, least)
  if lo >= least then return 'holds' end
  return hi < least and 'does not hold' or 'open'
end

local function faster(p, least)
  return ('%.2f [%.2f, %.2f]'):format(p.speedup, p.speedup_lo, p.speedup_hi),
    verdict(p.speedup_lo, p.speedup_hi, least)
end

local function smaller(p, original)
  local found = original.mb / p.mb
  return ('%.2f'):format(found), verdict(found, found, 4)
end

local function size(p, original)
  local found = 1 - p.stored_mb / original.stored_mb
  return ('%.1f %%'):format(100 * found), verdict(found, found, 0.5)
end

local function loss(p)
  return ('%+.2f %% [%+.2f, %+.2f]'):format(-100 * p.drop, -100 * p.drop_hi, -100 * p.drop_lo),
    verdict(-p.drop_hi, -p.drop_lo, -0.01)
end

local function twice(p) return faster(p, 2) end

local CLAIMS = {
  { 'dense', 'dynamic', 'i8 dynamic: 2 to 3 times as fast', twice },
  { 'dense', 'static', 'i8 static: 3 to 4 times as fast', function(p) return faster(p, 3) end },
  { 'dense', 'dynamic', 'i8 dynamic: 4 to 5 times less memory', smaller },
  { 'dense', 'static', 'i8 static: 4 to 5 times less memory', smaller },
  { 'dense', 'dynamic', 'i8 dynamic: 50 to 75 % less size', size },
  { 'dense', 'static', 'i8 static: 50 to 75 % less size', size },
  { 'dense', 'dynamic', 'i8 dynamic: less than 1 % of accuracy', loss },
  { 'dense', 'static', 'i8 static: less than 1 % of accuracy', loss },
  { 'element 50 %', 'f32', 'half of the weights 0: 2 times as fast', twice },
  { 'block 50 %', 'f32', 'half of the weights 0, in blocks: 2 times as fast', twice },
  { 'width 0.5', 'f32', 'half of the units: 2 times as fast', twice },
}

--- Each claim that something was measured for.
---@param points table[] of the search
---@return table[] rows {claim, found, verdict}
function M.rows(points)
  local by, original = {}, points[1]
  for _, p in ipairs(points) do by[p.structure .. '\n' .. p.bits] = p end
  local rows = {}
  for _, c in ipairs(CLAIMS) do
    local p = by[c[1] .. '\n' .. c[2]]
    if p and p.mb then
      local found, said = c[4](p, original)
      rows[#rows + 1] = { claim = c[3], found = found, verdict = said }
    end
  end
  return rows
end

return M

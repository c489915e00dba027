-- SPDX-License-Identifier: MIT
--- What to say of a smaller net that is not faster, and why it is not.

local M = {}

-- By what a net is made of.
local WHY = {
  i8 = 'rounding what comes into a layer takes longer than its product gains; more rows, or fewer '
    .. 'layers (skip)',
  packed = 'opening codes takes longer than reading weights that stay in the caches; larger layers '
    .. 'gain',
}

--- What layers of some kinds are made of, of all that explains a time.
---@param kinds string[] 'i8', 'w4', ...
---@return string|nil of 'packed' or 'i8'; nil where neither is there
function M.of(kinds)
  local of
  for _, kind in ipairs(kinds) do
    if kind:find '^w%d' then return 'packed' end
    if kind:find '^[iu]8' then of = 'i8' end
  end
  return of
end

--- What is said of a time that is not shown to be less, or nil where it is.
---@param lo number times as fast: the ends of the interval
---@param hi number
---@param of string|nil as `of` gives it
---@return string|nil
function M.speed(lo, hi, of)
  if hi < 1 then
    return 'slower than the original with this input' .. (WHY[of] and ': ' .. WHY[of] or '')
  end
  if lo <= 1 then return 'no difference in speed was shown' end
end

return M

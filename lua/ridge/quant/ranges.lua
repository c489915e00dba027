-- SPDX-License-Identifier: MIT
--- Ranges of values chosen from how they lie: without the outermost (percentile), with the least
--- error of rounding (mse), with the least information lost (entropy).

local scheme = require 'ridge.quant.scheme'

local M = {}

local TRIED = 128 -- ranges between nothing and all

--- Leave out the outermost values, the same share of all on either side.
---@param h table histogram
---@param share number of values that stay inside, such as 0.9999
---@return number lo
---@return number hi
function M.percentile(h, share)
  local middles, counts, width = h:filled()
  local outside, lo, hi = h.n * (1 - share) / 2, nil, nil
  local sum = 0
  for i = 1, #middles do
    sum = sum + counts[i]
    if sum > outside then
      lo = middles[i] - width / 2
      break
    end
  end
  sum = 0
  for i = #middles, 1, -1 do
    sum = sum + counts[i]
    if sum > outside then
      hi = middles[i] + width / 2
      break
    end
  end
  return lo, hi
end

-- The smallest loss of ranges that are parts of one; the range itself is among them.
local function least(lo, hi, loss)
  local best, best_lo, best_hi = math.huge, lo, hi
  for i = TRIED, 1, -1 do
    local part = i / TRIED
    local value = loss(lo * part, hi * part)
    if value < best then best, best_lo, best_hi = value, lo * part, hi * part end
  end
  return best_lo, best_hi
end

--- The range in which rounding and cutting make the least mean squared error.
---@param h table histogram
---@param lo number the smallest value
---@param hi number the largest
---@param dtype string 'u8' or 'i8'
---@return number lo
---@return number hi
function M.mse(h, lo, hi, dtype)
  local middles, counts = h:filled()
  return least(lo, hi, function(a, b)
    local scale, zero = scheme.of(a, b, dtype)
    local low, high = scheme.limits(dtype)
    local sum = 0
    for i = 1, #middles do
      local x = middles[i]
      local q = math.floor(x / scale + 0.5) + zero
      if q < low then q = low elseif q > high then q = high end
      local d = x - (q - zero) * scale
      sum = sum + counts[i] * d * d
    end
    return sum
  end)
end

--- The range whose whole numbers keep most of what is known of the values: the divergence (KL) of
--- how they lie, with what is outside moved to the edge, from the same in as many steps as there
--- are whole numbers (as TensorRT calibrates; Migacz, 2017). Zeros do not count: 0 is a whole
--- number in every range, and behind a ReLU half of all values would be one bin, which only ranges
--- that cut most of the others off would tell from the bins beside it.
---@param h table histogram
---@param lo number
---@param hi number
---@param dtype string
---@return number lo
---@return number hi
function M.entropy(h, lo, hi, dtype)
  local middles, counts = h:filled(true)
  return least(lo, hi, function(a, b)
    local scale, zero = scheme.of(a, b, dtype)
    local low, high = scheme.limits(dtype)
    -- bins by the whole number that they become: their mass, with and without what is cut
    local inside, filled, codes = {}, {}, {}
    local p_low, p_high = 0, 0
    local from, to = (low - zero - 0.5) * scale, (high - zero + 0.5) * scale
    local first, last
    for i = 1, #middles do
      local x = middles[i]
      if x < from then p_low = p_low + counts[i]
      elseif x > to then p_high = p_high + counts[i]
      else
        local code = math.floor(x / scale + 0.5) + zero
        codes[i] = code
        inside[code] = (inside[code] or 0) + counts[i]
        filled[code] = (filled[code] or 0) + 1
        first, last = first or i, i
      end
    end
    if not first then return math.huge end
    local kept, all = 0, h.n - h.zeros
    for _, mass in pairs(inside) do kept = kept + mass end
    local loss = 0
    for i = first, last do
      if codes[i] then
        local p = counts[i] + (i == first and p_low or 0) + (i == last and p_high or 0)
        local q = inside[codes[i]] / filled[codes[i]]
        loss = loss + p / all * math.log((p / all) / (q / kept))
      end
    end
    return loss
  end)
end

return M

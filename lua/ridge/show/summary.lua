-- SPDX-License-Identifier: MIT
--- The footer under a tensor: type, shape, device, bytes, mean, spread, and a histogram between the
--- smallest and the largest value.

local colour = require 'ridge.show.colour'

local M = {}

local BARS = { '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█' }
local BINS = 24
local FEW = 8           -- elements up to which everything is seen at a glance anyway
local ALL = 2 ^ 20      -- elements up to which every one is read; above, evenly spaced ones

---@class ridge.show.Stats
---@field mean number of the finite values
---@field std number their standard deviation (n - 1)
---@field min number smallest finite value
---@field max number largest finite value
---@field histogram? integer[] counts in equal bins from min to max
---@field nan? number how many are not a number, about so many where they are sampled
---@field inf? number how many are infinite, likewise
---@field sampled? boolean computed from a part of the values

--- The terminal's width, 80 where there is none.
---@return integer columns
function M.columns()
  local host = package.loaded['ridge.host']
  return host and host.columns and host.columns() or 80
end

--- Bytes for people: '392 KB'.
---@param n number bytes
---@return string text
function M.bytes(n)
  local units, i = { 'B', 'KB', 'MB', 'GB', 'TB' }, 1
  while n >= 1023.5 and i < #units do -- which would be written as 1024
    n, i = n / 1024, i + 1
  end
  local digits = (n < 9.95 and n % 1 ~= 0) and '%.1f %s' or '%.0f %s'
  return digits:format(n, units[i])
end

--- Sizes as '[2,3]', every digit of them.
---@param sizes number[]
---@return string text
function M.shape(sizes)
  local list = {}
  for i, size in ipairs(sizes) do list[i] = ('%.0f'):format(size) end
  return '[' .. table.concat(list, ',') .. ']'
end

--- Counts as a line of bars.
---@param counts number[] not negative
---@return string bars
function M.spark(counts)
  local highest = 0
  for _, c in ipairs(counts) do highest = math.max(highest, c) end
  local list = {}
  for i, c in ipairs(counts) do
    -- a bin that holds anything is never drawn as an empty one
    list[i] = c == 0 and ' ' or BARS[math.max(1, math.ceil(c / highest * #BARS))]
  end
  return table.concat(list)
end

local function number(x)
  if type(x) == 'boolean' then return x and 1 or 0 end
  return tonumber(x)
end

-- The power of two that values up to `size` are divided by, where squares or sums of them would
-- leave the range of doubles; else 1.
local function unit_of(size)
  if size == 0 or size >= 1e-150 and size <= 1e150 then return 1 end
  return 2 ^ (select(2, math.frexp(size)) - 1)
end

--- Statistics of n values: two passes, so that large means do not swallow small spreads.
---@param get fun(flat0: integer): number|boolean the value at a flat index, from 0
---@param n integer how many there are
---@return ridge.show.Stats|nil stats nil if no value is finite
function M.stats(get, n)
  local step = n > ALL and math.floor(n / ALL) or 1
  local sum, used, nan, inf = 0, 0, 0, 0
  local min, max = math.huge, -math.huge
  for i = 0, n - 1, step do
    local x = number(get(i))
    if x ~= x then
      nan = nan + 1
    elseif x == math.huge or x == -math.huge then
      inf = inf + 1
    else
      sum, used = sum + x, used + 1
      if x < min then min = x end
      if x > max then max = x end
    end
  end
  local each = step > 1 and n / math.ceil(n / step) or 1 -- each one looked at stands for so many
  nan, inf = nan * each, inf * each
  if used == 0 then return { nan = nan, inf = inf, sampled = step > 1 } end
  local unit = unit_of(math.max(max, -min))
  if unit > 1 then -- the sum may be infinite
    sum = 0
    for i = 0, n - 1, step do
      local x = number(get(i))
      if x - x == 0 then sum = sum + x / unit end
    end
  else
    sum = sum / unit
  end
  local mean, squares, histogram = sum / used, 0, {}
  for k = 1, BINS do histogram[k] = 0 end
  local least = min / unit
  local scale = max > min and BINS / (max / unit - least) or 0
  for i = 0, n - 1, step do
    local x = number(get(i))
    if x - x == 0 then
      x = x / unit
      squares = squares + (x - mean) ^ 2
      local k = math.min(BINS, math.floor((x - least) * scale) + 1)
      histogram[k] = histogram[k] + 1
    end
  end
  return {
    mean = mean * unit, std = math.sqrt(squares / math.max(1, used - 1)) * unit,
    min = min, max = max,
    histogram = histogram, nan = nan, inf = inf, sampled = step > 1,
  }
end

--- Mean and deviation side by side: in one form, chosen by the larger.
local function mean_and_std(mean, std)
  local size = math.max(math.abs(mean), std)
  local form = (size >= 1e5 or (size > 0 and size < 1e-3)) and '%.2e' or '%.4f'
  return form:format(mean), form:format(std)
end

local function edge_number(x)
  local size = math.abs(x)
  if size >= 1e5 or (size > 0 and size < 1e-3) then return ('%.2e'):format(x) end
  return ('%.4g'):format(x)
end

--- How the values are spread, in words; '' if there is nothing to say. The caller's statistics are
--- used where reading every value here would take too long.
local function spread(t, n)
  if n <= FEW then return '' end
  local stats = t.get and M.stats(t.get, n) or { sampled = true }
  if stats.sampled and t.stats and t.stats.mean == t.stats.mean then
    stats = { mean = t.stats.mean, std = t.stats.std, min = t.stats.min, max = t.stats.max,
      nan = t.stats.nan, inf = t.stats.inf, histogram = t.stats.histogram or stats.histogram }
  end
  local words, about = {}, stats.sampled and '~' or ''
  if (stats.nan or 0) > 0 then
    words[#words + 1] = colour.paint('bad', ('%s%.0f nan'):format(about, stats.nan))
  end
  if (stats.inf or 0) > 0 then
    words[#words + 1] = colour.paint('bad', ('%s%.0f inf'):format(about, stats.inf))
  end
  if t.dtype == 'bool' and stats.mean then
    words[#words + 1] = ('true %.1f %%'):format(100 * stats.mean)
  elseif stats.mean then
    local mean, std = mean_and_std(stats.mean, stats.std)
    words[#words + 1] = ('mean %s%s std %s%s'):format(about, mean, about, std)
    if stats.min == stats.max then
      words[#words + 1] = ('all %s'):format(edge_number(stats.min))
    else
      local drawn = stats.histogram and n >= BINS
      local bars = drawn and ' ' .. M.spark(stats.histogram) .. ' ' or ' .. '
      words[#words + 1] = edge_number(stats.min) .. bars .. edge_number(stats.max)
    end
  end
  if #words == 0 then return '' end
  return '   ' .. table.concat(words, '   ')
end

--- The footer line of a tensor.
---@param t ridge.show.Tensor what it is and how to get its values
---@param n integer its number of elements
---@return string line
function M.footer(t, n)
  local words = { ('tensor %s%s %s'):format(t.dtype, M.shape(t.shape), t.device or 'cpu') }
  for _, flag in ipairs(t.flags or {}) do words[#words + 1] = flag end
  if t.bytes then words[#words + 1] = M.bytes(t.bytes) end
  local what = table.concat(words, '  ')
  if n == 0 then return what end
  return what .. spread(t, n)
end

return M

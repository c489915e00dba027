-- SPDX-License-Identifier: MIT
--- Lists of values that a parameter takes: in equal steps, in equal ratios, around the sizes at
--- which hardware changes its mind, or drawn at random.

local blame = require 'ridge.blame'
local guard = require 'ridge.guard'

local M = {}

-- Values beyond which a list is a mistake of the recipe rather than a plan.
M.MOST = 1e6

-- Values computed by adding or multiplying are cut to 12 digits: 0.1 + 0.2 is 0.3 for a person.
local function clean(x) return tonumber(('%.12g'):format(x)) end

local function finite(what, name, x)
  if type(x) ~= 'number' or x ~= x or math.abs(x) == math.huge then
    blame.raise(('%s: %s is %s; expected a finite number'):format(what, name, blame.show(x)),
      'EARG', what)
  end
end

local function check_length(what, n)
  if n > M.MOST then
    blame.raise(('%s: %.0f values are more than %d'):format(what, n, M.MOST), 'EARG', what)
  end
end

-- The distance or ratio of two finite numbers may be no finite one.
local function check_span(what, a, b, span)
  if span == math.huge then
    blame.raise(('%s: %s and %s are too far apart to put numbers between them'):format(what, a, b),
      'EARG', what)
  end
end

--- Numbers from a to b in equal steps, both ends included where the step meets them.
-- >> ridge.range(128, 512, 128)
---@param a number first
---@param b number last, not below a
---@param step number|nil above 0, default 1
---@return table list
function M.range(a, b, step)
  step = step or 1
  finite('range', 'the first number', a)
  finite('range', 'the last number', b)
  finite('range', 'the step', step)
  if step <= 0 or b < a then
    blame.raise(('range(%s, %s, %s) is empty: it goes up by a step above 0'):format(a, b, step),
      'EARG', 'range')
  end
  check_span('range', a, b, b - a)
  -- a step that meets b but for rounding still counts
  local n = math.floor((b - a) / step + 1e-9)
  check_length('range', n)
  local list = {}
  for i = 0, n do list[i + 1] = clean(a + i * step) end
  return list
end

--- Numbers from a to b, each `factor` times the one before.
-- >> ridge.geom(1, 64, 4)
---@param a number first, above 0
---@param b number last, not below a
---@param factor number|nil above 1, default 2
---@return table list
function M.geom(a, b, factor)
  factor = factor or 2
  finite('geom', 'the first number', a)
  finite('geom', 'the last number', b)
  finite('geom', 'the factor', factor)
  if a <= 0 or b < a or factor <= 1 then
    blame.raise(('geom(%s, %s, %s) is empty: it starts above 0 and grows by a factor above 1')
      :format(a, b, factor), 'EARG', 'geom')
  end
  check_span('geom', a, b, b / a)
  check_length('geom', math.log(b / a) / math.log(factor))
  local list, x = {}, a
  -- up to the largest number there is: behind it infinity, which would go on for good
  while x <= b * (1 + 1e-9) and x < math.huge do
    list[#list + 1] = clean(x)
    if x * factor <= x then -- below 2^-1022 the factor may be lost in rounding
      blame.raise(('geom(%s, %s, %s): %s times %s is rounded to itself'):format(a, b, factor, x,
        factor), 'EARG', 'geom')
    end
    x = x * factor
  end
  return list
end

--- n numbers from a to b at equal distances, both ends included.
-- >> ridge.between(0, 1, 5)
---@param a number first
---@param b number last, above a
---@param n integer how many, at least 2
---@return table list
function M.between(a, b, n)
  finite('between', 'the first number', a)
  finite('between', 'the last number', b)
  finite('between', 'the number of values', n)
  check_length('between', n)
  if b <= a or n < 2 or n % 1 ~= 0 then
    blame.raise(('between(%s, %s, %s) is no list: it has 2 or more numbers and goes up'):format(a,
      b, n), 'EARG', 'between')
  end
  check_span('between', a, b, b - a)
  local list = {}
  for i = 0, n - 1 do list[i + 1] = clean(a + (b - a) * i / (n - 1)) end
  return list
end

--- n numbers from a to b in equal ratios, both ends included.
-- >> ridge.logs(1e-4, 1e-1, 4)
---@param a number first, above 0
---@param b number last, above a
---@param n integer how many, at least 2
---@return table list
function M.logs(a, b, n)
  finite('logs', 'the first number', a)
  finite('logs', 'the last number', b)
  finite('logs', 'the number of values', n)
  check_length('logs', n)
  if a <= 0 or b <= a or n < 2 or n % 1 ~= 0 then
    blame.raise(('logs(%s, %s, %s) is no list: it has 2 or more numbers, starts above 0 and goes '
      .. 'up'):format(a, b, n), 'EARG', 'logs')
  end
  check_span('logs', a, b, b / a)
  local list = {}
  for i = 0, n - 1 do list[i + 1] = clean(a * (b / a) ^ (i / (n - 1))) end
  return list
end

--- Whole numbers that step on the edges of tiles, waves and vectors: powers of two and halfway
--- between them (3 * 2^k), each with its neighbours, an odd number in each gap, and both ends.
--- Powers of two alone cannot show a saw-tooth.
-- >> ridge.probe(64, 256)
---@param a integer first, at least 1
---@param b integer last, above a
---@return table list
function M.probe(a, b)
  finite('probe', 'the first number', a)
  finite('probe', 'the last number', b)
  if a < 1 or b <= a or a % 1 ~= 0 or b % 1 ~= 0 or b > 2 ^ 40 then
    blame.raise(('probe(%s, %s) is no list: it goes up through whole numbers from 1'):format(a, b),
      'EARG', 'probe')
  end
  local list, seen = {}, {}
  local function add(x)
    if x >= a and x <= b and not seen[x] then seen[x], list[#list + 1] = true, x end
  end
  add(a)
  add(b)
  local edge = 1
  while edge <= b + 1 do
    for _, centre in ipairs { edge, edge * 3 / 2 } do
      if centre % 1 == 0 then
        for by = -1, 1 do add(centre + by) end
        -- about a fifth of the way to the next edge, and odd
        local odd = math.floor(centre * 1.19)
        if centre >= 8 then add(odd % 2 == 1 and odd or odd + 1) end
      end
    end
    edge = edge * 2
  end
  table.sort(list)
  return list
end

-- Random numbers -----------------------------------------------------------------------------

local Random = {}
Random.__index = Random

--- Is this a range that values are drawn from?
---@param values any
---@return boolean
function M.is_random(values) return getmetatable(values) == Random end

--- A range that each point of a sweep with `samples` draws its own number from; whole numbers where
--- both ends are whole.
-- >> ridge.random(1e-4, 1e-1, { log = true })
---@param a number smallest
---@param b number largest, above a
---@param opt table|nil log = true: as likely in each decade
---@return table random
function M.random(a, b, opt)
  finite('random', 'the smallest number', a)
  finite('random', 'the largest number', b)
  local log = opt and opt.log or false
  if b <= a or log and a <= 0 then
    blame.raise(('random(%s, %s) is empty: it goes up%s'):format(a, b,
      log and ', from above 0' or ''), 'EARG', 'random')
  end
  check_span('random', a, b, log and b / a or b - a)
  return setmetatable({ a = a, b = b, log = log, whole = a % 1 == 0 and b % 1 == 0 }, Random)
end

--- The number at a share of the way.
---@param share number 0 up to, but not, 1
---@return number
function Random:at(share)
  local a, b = self.a, self.b
  if self.whole then b = b + 1 end -- each whole number is as wide as the others
  local x = self.log and a * (b / a) ^ share or a + (b - a) * share
  if self.whole then return math.min(math.floor(x), self.b) end
  return tonumber(('%.6g'):format(x))
end

function Random:__tostring()
  return ('~%s%.12g..%.12g'):format(self.log and 'log:' or '', self.a, self.b)
end

guard.all(Random)

return M

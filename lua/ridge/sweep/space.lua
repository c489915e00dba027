-- SPDX-License-Identifier: MIT
--- The space of a sweep: which values each parameter takes, which combinations count, what order.
--
-- A grid is expanded before anything is measured, so that resuming, progress and the size of the
-- whole are plain facts. The order is random, by a hash of the seed and the point: a drift of the
-- machine over an hour then does not look like an effect of a parameter, and the order of the
-- points that stay does not change when others are added.

local blame = require 'ridge.blame'
local canonical = require 'ridge.store.canonical'
local schema = require 'ridge.store.schema'
local sha256 = require 'ridge.store.sha256'

local M = {}

-- Combinations beyond which a grid is a mistake of the recipe rather than a plan.
local MOST = 1e6

-- An anchor is measured again after this many points (storage.md, section 7).
M.ANCHOR_EVERY = 20

-- Values -------------------------------------------------------------------------------------

-- Values computed by adding or multiplying are cut to 12 digits: 0.1 + 0.2 is 0.3 for a person.
local function clean(x) return tonumber(('%.12g'):format(x)) end

local function finite(what, name, x)
  if type(x) ~= 'number' or x ~= x or math.abs(x) == math.huge then
    blame.raise(('%s: %s is %s; expected a finite number'):format(what, name, tostring(x)), 'EARG',
      what)
  end
end

local function check_length(what, n)
  if n > MOST then
    blame.raise(('%s: %.0f values are more than %d'):format(what, n, MOST), 'EARG', what)
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
  check_length('geom', math.log(b / a) / math.log(factor))
  local list, x = {}, a
  while x <= b * (1 + 1e-9) do
    list[#list + 1] = clean(x)
    x = x * factor
  end
  return list
end

local function check_value(name, value)
  local kind = type(value)
  if kind == 'number' and (value ~= value or math.abs(value) == math.huge)
      or kind ~= 'number' and kind ~= 'string' and kind ~= 'boolean' then
    blame.raise(('sweep: parameter %s has the value %s (%s); numbers, text and booleans can be '
      .. 'swept'):format(name, tostring(value), kind), 'EARG', 'sweep')
  end
end

local function check_list(name, list)
  local n, seen = 0, {}
  for key, value in pairs(list) do
    if type(key) ~= 'number' then
      blame.raise(('sweep: parameter %s is a table with the key %s; expected a list of values')
        :format(name, tostring(key)), 'EARG', 'sweep')
    end
    check_value(name, value)
    if seen[value] then
      blame.raise(('sweep: parameter %s has the value %s twice'):format(name, tostring(value)),
        'EARG', 'sweep')
    end
    seen[value], n = true, n + 1
  end
  if n == 0 or n ~= #list then
    blame.raise(('sweep: parameter %s has %s'):format(name, n == 0 and 'no values'
      or 'a list with holes'), 'EARG', 'sweep')
  end
  return list
end

--- A choice among values; the same as the plain list, said aloud.
-- >> ridge.any{ 'linear', 'sketched' }
---@param list table values
---@return table list
function M.any(list)
  if type(list) ~= 'table' then
    blame.raise(('any: expected a list, got %s'):format(type(list)), 'EARG', 'any')
  end
  return check_list('of any', list)
end

local When = {}

--- Values a parameter takes only where a condition holds; elsewhere it is absent.
-- >> ridge.when(function(p) return p.kind == 'sketched' end, { 2, 4, 8 })
---@param condition function of the other parameters, those without a condition
---@param values any a list, or one value
---@return table when
function M.when(condition, values)
  if type(condition) ~= 'function' then
    blame.raise(('when: expected a function first, got %s'):format(type(condition)), 'EARG', 'when')
  end
  if values == nil then blame.raise('when: no values after the condition', 'EARG', 'when') end
  return setmetatable({ condition = condition, values = values }, When)
end

-- Description --------------------------------------------------------------------------------

local fixed

local function check_name(name)
  if not fixed then
    fixed = {}
    for _, column in ipairs(schema.FIXED) do fixed[column] = true end
  end
  if type(name) ~= 'string' or not name:find '^[%a_][%w_]*$' then
    blame.raise(('sweep: %s cannot be the name of a parameter'):format(
      type(name) == 'string' and ('%q'):format(name) or type(name)), 'EARG', 'sweep')
  end
  if fixed[name:lower()] then
    blame.raise(('sweep: a parameter cannot be called %q, each row has a field of that name')
      :format(name), 'EARG', 'sweep')
  end
end

local function as_list(name, values)
  if type(values) == 'table' then return check_list(name, values) end
  check_value(name, values)
  return { values }
end

--- Check a space and put it in a fixed order.
---@param space table name to a list, one value, or ridge.when
---@return table axes each name, values, condition; those without a condition first, by name
function M.axes(space)
  if type(space) ~= 'table' or next(space) == nil then
    blame.raise('sweep: space has no parameters', 'EARG', 'sweep')
  end
  local axes, lower = {}, {}
  for name, values in pairs(space) do
    check_name(name)
    if lower[name:lower()] then
      blame.raise(('sweep: %s and %s differ only in case, which a database cannot tell apart')
        :format(lower[name:lower()], name), 'EARG', 'sweep')
    end
    lower[name:lower()] = name
    local when = getmetatable(values) == When and values
    axes[#axes + 1] = { name = name, condition = when and when.condition or nil,
      values = as_list(name, when and when.values or values) }
  end
  table.sort(axes, function(a, b)
    if (a.condition == nil) ~= (b.condition == nil) then return a.condition == nil end
    return a.name < b.name
  end)
  return axes
end

-- Expansion ----------------------------------------------------------------------------------

local function copy(t)
  local out = {}
  for key, value in pairs(t) do out[key] = value end
  return out
end

-- Every combination of the axes, as tables of parameters.
local function combinations(axes)
  local points = { {} }
  for _, axis in ipairs(axes) do
    local grown = {}
    for _, point in ipairs(points) do
      if axis.condition and not axis.condition(copy(point)) then
        grown[#grown + 1] = point
      else
        for _, value in ipairs(axis.values) do
          local longer = copy(point)
          longer[axis.name] = value
          grown[#grown + 1] = longer
        end
      end
    end
    points = grown
    if #points > MOST then
      blame.raise(('sweep: more than %d combinations (at parameter %s)'):format(MOST, axis.name),
        'EARG', 'sweep')
    end
  end
  return points
end

local function by_key(a, b) return a.key < b.key end

local function anchor_of(axes, anchor)
  local known = {}
  for _, axis in ipairs(axes) do known[axis.name] = axis end
  for name, value in pairs(anchor) do
    if not known[name] then
      blame.raise(('sweep: the anchor has a parameter %s that the space has not'):format(
        tostring(name)), 'EARG', 'sweep')
    end
    check_value(name, value)
  end
  for _, axis in ipairs(axes) do
    if not axis.condition and anchor[axis.name] == nil then
      blame.raise(('sweep: the anchor says nothing of the parameter %s'):format(axis.name), 'EARG',
        'sweep')
    end
  end
  return anchor
end

--- Expand a space into trials.
---@param space table
---@param where function|nil keeps a point when it returns true
---@param seed integer orders the points
---@param anchor table|nil a point measured again after every 20 others
---@return table plan trials (each params, role, rep, ord), n_rejected, and `text`: the canonical
---  description that is part of what the sweep is
function M.expand(space, where, seed, anchor)
  local axes = M.axes(space)
  local points, rejected = {}, 0
  for _, params in ipairs(combinations(axes)) do
    if where and not where(copy(params)) then
      rejected = rejected + 1
    else
      local json = canonical.encode(params)
      points[#points + 1] = { params = params, json = json,
        key = sha256.digest(('%s\n%s'):format(canonical.number(seed), json)) }
    end
  end
  if #points == 0 then
    blame.raise(('sweep: none of %d combinations is left by where'):format(rejected), 'EARG',
      'sweep')
  end
  -- the set of points, in an order that does not depend on the seed
  table.sort(points, function(a, b) return a.json < b.json end)
  local all = {}
  for i, point in ipairs(points) do all[i] = point.json end
  table.sort(points, by_key)

  local trials = {}
  local function add(params, role, rep)
    trials[#trials + 1] = { params = params, role = role, rep = rep, ord = #trials + 1 }
  end
  anchor = anchor and anchor_of(axes, anchor)
  for i, point in ipairs(points) do
    if anchor and (i - 1) % M.ANCHOR_EVERY == 0 then
      add(anchor, 'anchor', (i - 1) / M.ANCHOR_EVERY)
    end
    add(point.params, 'point', 0)
  end
  if anchor then add(anchor, 'anchor', math.ceil(#points / M.ANCHOR_EVERY)) end

  local params, conditional = {}, canonical.list {}
  for _, axis in ipairs(axes) do
    params[axis.name] = canonical.list(copy(axis.values))
    if axis.condition then conditional[#conditional + 1] = axis.name end
  end
  local text = canonical.encode { params = params, conditional = conditional, points = #points,
    anchor = anchor, digest = sha256.hex(canonical.address(table.concat(all, '\n'))) }
  return { trials = trials, n_rejected = rejected, text = text, n_points = #points }
end

--- A short text for a point: "batch=128 k=8".
---@param params table
---@return string text
function M.label(params)
  local names, out = {}, {}
  for name in pairs(params) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do
    local value = params[name]
    out[i] = name .. '=' .. (type(value) == 'number' and canonical.number(value) or tostring(value))
  end
  return table.concat(out, ' ')
end

return M

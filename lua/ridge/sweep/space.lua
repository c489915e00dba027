-- SPDX-License-Identifier: MIT
--- The space of a sweep: which values each parameter takes, which combinations count, what order.
--
-- A grid is expanded before anything is measured, so that resuming, progress and the size of the
-- whole are plain facts. Coarse points come first (ridge.sweep.coarse), so that a sweep stopped at
-- any moment has seen the whole space; among equally coarse ones the order is random, by a hash of
-- the seed and the point: a drift of the machine over an hour then does not look like an effect of
-- a parameter.

local blame = require 'ridge.blame'
local canonical = require 'ridge.store.canonical'
local schema = require 'ridge.store.schema'
local coarse = require 'ridge.sweep.coarse'
local sample = require 'ridge.sweep.sample'
local sha256 = require 'ridge.store.sha256'
local values_of = require 'ridge.sweep.values'

local M = { range = values_of.range, geom = values_of.geom, between = values_of.between,
  logs = values_of.logs, probe = values_of.probe, random = values_of.random }

-- Combinations beyond which a grid is a mistake of the recipe rather than a plan.
local MOST = values_of.MOST

-- An anchor is measured again after this many points (docs/why/storage.md, section 2).
M.ANCHOR_EVERY = 20

-- Values -------------------------------------------------------------------------------------

local function check_value(name, value)
  local kind = type(value)
  if kind == 'number' and (value ~= value or math.abs(value) == math.huge)
      or kind ~= 'number' and kind ~= 'string' and kind ~= 'boolean' then
    blame.raise(('sweep: parameter %s has the value %s (%s); numbers, text and booleans can be '
      .. 'swept'):format(name, blame.show(value), kind), 'EARG', 'sweep')
  end
end

local function check_list(name, list)
  local n, seen = 0, {}
  for key, value in pairs(list) do
    if type(key) ~= 'number' then
      blame.raise(('sweep: parameter %s is a table with the key %s; expected a list of values')
        :format(name, blame.show(key)), 'EARG', 'sweep')
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
  if values_of.is_random(values) then return values end
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
  local axes, lower, names = {}, {}, {}
  for name in pairs(space) do names[#names + 1] = name end
  -- of several that are wrong the same one is told each time
  table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
  for _, name in ipairs(names) do
    local values = space[name]
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

local function by_turn(a, b)
  if a.rung ~= b.rung then return a.rung < b.rung end
  return a.key < b.key
end

local function check_samples(axes, samples)
  for _, axis in ipairs(axes) do
    if not samples and values_of.is_random(axis.values) then
      blame.raise(('sweep: parameter %s is drawn at random (%s); samples says how many points')
        :format(axis.name, tostring(axis.values)), 'EARG', 'sweep')
    end
  end
end

-- The points of a space that `where` keeps, each with its key, and how many it removed.
local function points_of(axes, where, seed, samples)
  local points, rejected = {}, 0
  local function add(params)
    if where and not where(copy(params)) then
      rejected = rejected + 1
      return
    end
    local json = canonical.encode(params)
    points[#points + 1] = { params = params, json = json,
      key = sha256.digest(('%s\n%s'):format(canonical.number(seed), json)) }
  end
  if samples and sample.is_continuous(axes) then
    rejected = sample.draw(axes, where, seed, samples, add)
  else
    for _, params in ipairs(combinations(axes)) do add(params) end
  end
  if #points == 0 then
    blame.raise(('sweep: none of %d combinations is left by where'):format(rejected), 'EARG',
      'sweep')
  end
  table.sort(points, function(a, b) return a.key < b.key end)
  if samples then -- of a grid: a part of it, by the same random order
    for i = #points, samples + 1, -1 do points[i] = nil end
  end
  return points, rejected
end

local function anchor_of(axes, anchor)
  local known = {}
  for _, axis in ipairs(axes) do known[axis.name] = axis end
  for name, value in pairs(anchor) do
    if not known[name] then
      blame.raise(('sweep: the anchor has a parameter %s that the space has not'):format(
        blame.show(name)), 'EARG', 'sweep')
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
---@param samples integer|nil so many random points instead of the grid
---@return table plan trials (each params, role, rep, ord), n_rejected, and `text`: the canonical
---  description that is part of what the sweep is
function M.expand(space, where, seed, anchor, samples)
  local axes = M.axes(space)
  check_samples(axes, samples)
  local points, rejected = points_of(axes, where, seed, samples)
  -- the set of points, in an order that does not depend on the seed
  table.sort(points, function(a, b) return a.json < b.json end)
  local all = {}
  for i, point in ipairs(points) do all[i] = point.json end
  coarse.rank(axes, points)
  table.sort(points, by_turn)

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
    params[axis.name] = values_of.is_random(axis.values) and tostring(axis.values)
      or canonical.list(copy(axis.values))
    if axis.condition then conditional[#conditional + 1] = axis.name end
  end
  local text = canonical.encode { params = params, conditional = conditional, points = #points,
    anchor = anchor, samples = samples,
    digest = sha256.hex(canonical.address(table.concat(all, '\n'))) }
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

-- SPDX-License-Identifier: MIT
--- What a command line changes of the sweep that a recipe declares: values, a condition, the level,
--- how it runs. It is set before the recipe is, in worker and fresh processes too, and is then part
--- of what the sweep is.

local blame = require 'ridge.blame'
local expression = require 'ridge.store.expression'

local M = {}

--- space (name to values), where (text), samples, level, typed (the same as words of a command
--- line); nil: nothing is changed.
M.given = nil

--- Options of `sw:run` that stand above the recipe's own; nil: none.
M.run = nil

--- Called with a sweep and its options instead of running it; nil: it is run.
M.instead = nil

--- Called with a sweep and its options instead of comparing its points; nil: they are compared.
M.instead_ab = nil

--- Called with a sweep that is asked for what is stored of it; nil: it is read.
M.reads = nil

--- Called with the summary of each sweep that was run; nil: nobody asks.
M.ended = nil

local function copy(t)
  local out = {}
  for key, value in pairs(t) do out[key] = value end
  return out
end

local function names_of(space)
  local names = {}
  for name in pairs(space) do names[#names + 1] = name end
  table.sort(names)
  return names
end

--- A condition as a function, from a text in the language of filters.
---@param text string 'batch * width <= 2^20'
---@param space table whose parameters it may name
---@return function where
function M.condition(text, space)
  local tree = expression.parse(text)
  expression.check(tree, space, 'the space of the sweep')
  local kinds = {}
  for name, values in pairs(space) do
    local seen = {}
    for _, value in ipairs(type(values) == 'table' and values or {}) do seen[type(value)] = true end
    kinds[name] = expression.kind(seen)
  end
  expression.check_kinds(tree, kinds, true)
  return function(p) return expression.holds(tree, p) end
end

-- A word where the recipe has numbers is a slip of the fingers, not a point to be measured.
local function check_types(name, own, values)
  if type(own) ~= 'table' or own[1] == nil or type(values) ~= 'table' then return end
  local known = {}
  for _, value in ipairs(own) do known[type(value)] = true end
  for _, value in ipairs(values) do
    if not known[type(value)] then
      blame.raise(("-P %s: %s is a %s; the recipe's values are %ss, as %s"):format(name,
        tostring(value), type(value), type(own[1]), tostring(own[1])), 'EARG', 'sweep')
    end
  end
end

--- A sweep's declaration with the changes in it.
---@param spec table what the recipe declares: space, where, protocol, samples
---@return table spec
function M.apply(spec)
  if type(spec.where) == 'string' then
    spec = copy(spec)
    spec.where = M.condition(spec.where, spec.space)
  end
  local given = M.given
  if not given then return spec end
  spec = copy(spec)
  spec.space = copy(spec.space)
  for name, values in pairs(given.space or {}) do
    if spec.space[name] == nil then
      local near = blame.near(name, names_of(spec.space))
      blame.raise(('-P %s: the sweep has no parameter of that name%s'):format(name,
        near and (" (did you mean '%s'?)"):format(near)
        or '; it has ' .. table.concat(names_of(spec.space), ', ')), 'EARG', 'sweep')
    end
    check_types(name, spec.space[name], values)
    spec.space[name] = values
  end
  if given.where then
    local own, more = spec.where, M.condition(given.where, spec.space)
    spec.where = function(p) return (not own or own(copy(p))) and more(p) end
  end
  spec.samples = given.samples or spec.samples
  if given.level then
    local protocol = type(spec.protocol) == 'table' and copy(spec.protocol) or {}
    protocol.level = given.level
    spec.protocol = protocol
  end
  return spec
end

return M

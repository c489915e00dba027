-- SPDX-License-Identifier: MIT
--- Everything that can be called: the functions and classes of ridge's public tables, found by
--- walking them, and the methods of a value, found through its type.

local ridge = require 'ridge'
local types = require 'ridge.types'

local M = {}

--- What is not called, and why.
M.NOT = {
  ['ridge.watch'] = 'draws until it is ended',
  ['ridge.types.register'] = 'changes what every later call is judged by',
  ['ridge.backend.probe'] = 'measures for some seconds',
  ['ridge.calibrate'] = 'measures for a minute', ['ridge.measure.calibrate'] = 'likewise',
  ['ridge.doctor'] = 'measures for seconds', ['ridge.measure.doctor'] = 'likewise',
  ['ridge.measure.fresh'] = 'starts processes that measure',
  ['ridge.measure.external'] = 'starts any program',
  ['ridge.memory.lines'] = 'lasts, and Lua runs uncompiled meanwhile',
  ['ridge.backend.set_priority'] = 'cannot be taken back',
}

--- What measures, which takes seconds: one call in a hundred.
M.SLOW = { ['ridge.measure.point'] = true, ['ridge.measure.block'] = true,
  ['ridge.measure.ab'] = true, ['ridge.bench.model'] = true, ['ridge.bench.sweep'] = true,
  ['ridge.bench.batch_size'] = true, ['ridge.bench.compare'] = true, ['a sweep:run'] = true,
  ['a sweep:ab'] = true, ['a module:analyze'] = true, ['ridge.replay'] = true,
  ['ridge.retry'] = true, ['ridge.advise'] = true }

--- What need not succeed, and why. Every other public function and method of a tensor has to.
M.NEVER = {
  ['ridge.advise'] = 'slow',
  ['ridge.bench.batch_size'] = 'slow', ['ridge.bench.compare'] = 'slow',
  ['ridge.bench.model'] = 'slow', ['ridge.bench.sweep'] = 'slow', ['ridge.measure.ab'] = 'slow',
  ['ridge.measure.block'] = 'slow', ['ridge.measure.point'] = 'slow', ['ridge.replay'] = 'slow',
  ['ridge.retry'] = 'slow', ['ridge.bench.report'] = 'of a sweep of benchmarks, which are slow',
  ['ridge.optim.Optimizer'] = 'for classes made from it', ['tensor:pin'] = 'needs a GPU',
  ['ridge.graph.own'] = 'takes a pointer of the core',
}

local function sorted(t)
  local keys = {}
  for key in next, t do
    if type(key) == 'string' then keys[#keys + 1] = key end
  end
  table.sort(keys)
  return keys
end

local function walk(list, seen, t, name)
  if seen[t] then return end
  seen[t] = true
  local meta = getmetatable(t)
  for _, key in ipairs(meta and rawget(meta, 'late') and sorted(meta.late) or {}) do
    local _ = t[key] -- it is loaded now
  end
  for _, key in ipairs(sorted(t)) do
    local value, full = rawget(t, key), name .. '.' .. key
    local kind = key:sub(1, 1) ~= '_' and not M.NOT[full] and type(value)
    if kind == 'table' then
      local its = getmetatable(value)
      if its and its.__call then
        list[#list + 1] = { name = full, f = value, class = rawget(value, '__name') ~= nil }
        if not rawget(value, '__name') then walk(list, seen, value, full) end
      else
        walk(list, seen, value, full)
      end
    elseif kind == 'function' then
      list[#list + 1] = { name = full, f = value }
    end
  end
end

--- Functions and classes, in the order of their names: {name =, f =} each.
---@return table
function M.functions()
  local list = {}
  walk(list, {}, ridge, 'ridge')
  return list
end

--- The names of a value's methods, sorted.
---@param value any
---@return table
function M.methods(value)
  local names, entry = {}, types.of(value)
  for name in pairs(entry and entry.methods or {}) do names[name] = true end
  local class = type(value) == 'table' and getmetatable(value) or nil
  while type(class) == 'table' do
    local index = rawget(class, '__index')
    for key, f in pairs(type(index) == 'table' and index or {}) do
      if type(key) == 'string' and key:sub(1, 2) ~= '__' and type(f) == 'function' then
        names[key] = true
      end
    end
    class = type(index) == 'table' and (rawget(index, '__parent')) or nil
  end
  return sorted(names)
end

--- What a value may be asked by an operator.
M.operators = {
  { '+', function(a, b) return a + b end }, { '-', function(a, b) return a - b end },
  { '*', function(a, b) return a * b end }, { '/', function(a, b) return a / b end },
  { '^', function(a, b) return a ^ b end }, { '%', function(a, b) return a % b end },
  { 'unary -', function(a) return -a end }, { '#', function(a) return #a end },
  { '..', function(a, b) return a .. b end }, { '==', function(a, b) return a == b end },
  { '<', function(a, b) return a < b end }, { '<=', function(a, b) return a <= b end },
  { '()', function(a, ...) return a(...) end }, { '[]', function(a, b) return a[b] end },
  { '[] =', function(a, b, c) a[b] = c end }, { 'tostring', function(a) return tostring(a) end },
}

return M

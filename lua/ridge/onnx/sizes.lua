-- SPDX-License-Identifier: MIT
--- Sizes that may change: the net is recorded at several sizes of each dynamic axis, and a number
--- that is a * size + b in all of them follows that axis. Through two points any line fits, so
--- there are always more.

local blame = require 'ridge.blame'

local M = {}

--- Sizes that a dynamic axis is recorded at, beside that of the example; never 1, which broadcasts.
M.TRIED = { 2, 3, 7 }

local Sizes = {}
Sizes.__index = Sizes

--- Arguments that may follow an axis; any other that differs is an error.
local FOLLOWS = { shape = true, start = true, length = true, index = true }

local function refuse(node, text, ...)
  blame.raise(('onnx.export: %s%s'):format(node and ('%s%s: '):format(node.op,
    node.line and ' (' .. node.line .. ')' or '') or '', text:format(...)), 'EARG', 'onnx.export')
end

-- -- Graphs of other sizes, beside the first one -------------------------------------------------

-- Does an argument differ that nothing could follow?
local function compare_args(self, node, other, variant)
  local a, b = node.args, other.args
  for key, value in pairs(a) do
    if type(value) ~= 'table' and not FOLLOWS[key] and value ~= b[key]
      and value == value then
      refuse(node, '%s is %s where %s is %d, and %s where it is %d', key, tostring(value),
        variant.name, self.base[variant.name], tostring(b[key]), variant.size)
    end
  end
end

local function pair_values(variant, a, b)
  for i, value in ipairs(a) do
    if value and b[i] then variant.values[value.id] = b[i] end
  end
end

local function pair(self, variant)
  local mine, other = self.graph:nodes(), variant.graph:nodes()
  local i, j = 1, 1
  while mine[i] do
    local a, b = mine[i], other[j]
    if not b or a.op ~= b.op or #a.inputs ~= #b.inputs then
      refuse(a, 'where %s is %d the net computes something else (%s)', variant.name, variant.size,
        b and b.op or 'nothing')
    end
    variant.nodes[a.id] = b
    pair_values(variant, a.inputs, b.inputs)
    pair_values(variant, a.outputs, b.outputs)
    local n, m = #a.body, #b.body
    if n ~= m then -- as a recurrent layer of another length: it is written as a whole, or not
      self.whole[a.id] = variant
      i, j = i + n, j + m
    else
      compare_args(self, a, b, variant)
    end
    i, j = i + 1, j + 1
  end
  if other[j] then
    refuse(other[j], 'where %s is %d there is more than where it is %d', variant.name, variant.size,
      self.base[variant.name])
  end
end

-- -- Numbers --------------------------------------------------------------------------------------

-- A number from what it is at the base and in each variant; { mixed = why } where it follows two
-- axes, or one on no line, as the size of what a stride leaves does: whoever has to write it
-- refuses, and most never have to.
local function fit(self, base, of)
  local found
  for _, axis in ipairs(self.axes) do
    local points = { { self.base[axis.name], base } }
    local differs = false
    for _, v in ipairs(axis.variants) do
      local y = of(v)
      points[#points + 1] = { v.size, y }
      differs = differs or y ~= base
    end
    if differs then
      if found then return { mixed = 'a size follows two dynamic axes at once' } end
      local p, q = points[2], points[3]
      local a = (q[2] - p[2]) / (q[1] - p[1])
      local b = p[2] - a * p[1]
      for _, point in ipairs(points) do
        if a * point[1] + b ~= point[2] then
          local list = {}
          for k, at in ipairs(points) do list[k] = ('%g at %d'):format(at[2], at[1]) end
          return { mixed = ('a size follows %s on no line: %s'):format(axis.name,
            table.concat(list, ', ')) }
        end
      end
      found = { a = a, b = b, name = axis.name }
    end
  end
  return found or base
end

--- Sizes of a value: numbers, or { a =, b =, name = } for a * size + b; { mixed = why } where it is
--- neither.
---@param value table of the graph
---@return table
function Sizes:shape(value)
  local out = {}
  for i, size in ipairs(value.shape) do
    out[i] = fit(self, size, function(v)
      local other = v.values[value.id]
      return other and other.shape[i] or size
    end)
  end
  return out
end

--- An argument of a node that is a number, or the i-th of a list.
---@param node table
---@param key string
---@param i number|nil
---@return number|table
function Sizes:arg(node, key, i)
  local function get(n)
    local value = n.args[key]
    return i and value[i] or value
  end
  return fit(self, get(node), function(v)
    return v.nodes[node.id] and get(v.nodes[node.id]) or get(node)
  end)
end

--- Sizes of a value as a file has them: numbers, names, false where it says nothing.
---@param value table
---@return table
function Sizes:names(value)
  local out = self:shape(value)
  for i, size in ipairs(out) do
    if type(size) == 'table' then
      if size.mixed then
        out[i] = false
      else
        local text = size.a ~= 1 and ('%g*%s'):format(size.a, size.name) or size.name
        out[i] = size.b ~= 0 and ('%s%+g'):format(text, size.b) or text
      end
    end
  end
  return out
end

--- Are two sizes the same for every size of the dynamic axes?
---@param x number|table
---@param y number|table
---@return boolean
function M.same(x, y)
  if type(x) ~= 'table' or type(y) ~= 'table' then return x == y end
  return not x.mixed and not y.mixed and x.a == y.a and x.b == y.b and x.name == y.name
end

--- Where an axis of a name is: input and axis of it.
---@param name string
---@return table { input = number, axis = number }
function Sizes:place(name)
  return self.places[name]
end

--- The names of the axes of an input that nothing reads.
---@param input number
---@return table names by axis
function Sizes:open(input)
  local names = {}
  for name, list in pairs(self.all) do
    for _, place in ipairs(list) do
      if place.input == input then names[place.axis] = name end
    end
  end
  return names
end

--- Sizes of a graph and of the same net at other sizes.
---@param graph table
---@param axes table[] { name =, variants = { { size =, graph = } } }
---@param base table size in the graph by name
---@param places table { input =, axis = } by name
---@param all table lists of such places by name
---@return table
function M.new(graph, axes, base, places, all)
  local self = setmetatable({ graph = graph, axes = axes, base = base, whole = {},
    places = places, all = all }, Sizes)
  for _, axis in ipairs(axes) do
    for _, variant in ipairs(axis.variants) do
      variant.name, variant.nodes, variant.values = axis.name, {}, {}
      local inputs = variant.graph:inputs()
      pair_values(variant, graph:inputs(), inputs)
      pair(self, variant)
    end
  end
  return self
end

return M

-- SPDX-License-Identifier: MIT
--- Inputs for an ONNX file when nobody has any: drawn numbers in the shapes that it names.

local blame = require 'ridge.blame'
local dtype = require 'ridge.tensor.dtype'
local near = require 'ridge.near'

local M = {}

--- Sizes as the command line has them.
---@param list string[] 'N=8'
---@return table<string, integer> sizes by name
function M.sizes(list)
  local sizes = {}
  for _, text in ipairs(list) do
    local name, value = text:match '^(.+)=(%d+)$'
    if not name then blame.raise(("--size is NAME=NUMBER, got '%s'"):format(text), 'EARG') end
    if sizes[name] then
      blame.raise(('--size: %s is %d, and %s'):format(blame.show(name), sizes[name], value), 'EARG')
    end
    sizes[name] = tonumber(value)
    if sizes[name] >= 2 ^ 53 then
      blame.raise(('--size: %s is a larger number than can be counted with'):format(value), 'EARG')
    end
  end
  return sizes
end

--- The names of the sizes that a loaded file leaves open, in the order of its inputs.
---@param m table of ridge.onnx.load
---@return string[] names
function M.open(m)
  local names, seen = {}, {}
  for _, input in ipairs(m.inputs) do
    for _, size in ipairs(input.shape or {}) do
      if type(size) == 'string' and not seen[size] then
        names[#names + 1], seen[size] = size, true
      end
    end
  end
  return names
end

--- Raise where a size is named that the file does not leave open.
---@param m table of ridge.onnx.load
---@param sizes table<string, integer>
function M.check(m, sizes)
  local names = M.open(m)
  local known = {}
  for _, name in ipairs(names) do known[name] = true end
  for name in pairs(sizes) do
    if not known[name] then
      blame.raise(('%s leaves no size %s open%s; it leaves %s'):format(m.what,
        blame.show(name), near.hint(name, names),
        #names > 0 and table.concat(names, ', '):gsub('%c', ' ') or 'none'), 'EARG')
    end
  end
end

--- Inputs in the order of the file: numbers of a standard normal distribution, zeros where the type
--- is whole. A size that nobody names is 1.
---@param m table of ridge.onnx.load
---@param sizes table<string, integer>|nil sizes that the file leaves open, by name
---@param seed integer|nil
---@return table[] tensors
function M.inputs(m, sizes, seed)
  local ridge = require 'ridge'
  local generator, list = ridge.generator(seed or 0), {}
  M.check(m, sizes or {})
  for i, input in ipairs(m.inputs) do
    local shape = {}
    for axis, size in ipairs(input.shape or {}) do
      shape[axis] = type(size) == 'number' and size or sizes and sizes[size] or 1
    end
    if dtype.kind[input.type] == 'float' then
      list[i] = ridge.randn(shape, { generator = generator })
        :to(m.float_type or input.type)
    else
      list[i] = ridge.zeros(shape, { dtype = input.type })
    end
  end
  return list
end

return M

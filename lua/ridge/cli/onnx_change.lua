-- SPDX-License-Identifier: MIT
--- What `ridge onnx` does with files beside looking at them: optimize one, hold two against each
--- other, sweep over batch and threads.

local blame = require 'ridge.blame'
local draw = require 'ridge.onnx.draw'
local plain = require 'ridge.plain'

local M = {}

local function load(path) return require('ridge').onnx.load(path) end

local function count_of(m)
  local counts = {}
  for _, n in ipairs(m.nodes) do
    local name = n.domain ~= '' and n.domain ~= 'ai.onnx' and n.domain .. ':' .. n.op or n.op
    counts[name] = (counts[name] or 0) + 1
  end
  return counts
end

local function names_of(list)
  local names = {}
  for i, value in ipairs(list) do names[i] = value.name end
  return names
end

-- Sizes that the file leaves open, as ridge.onnx.export takes them.
local function dynamic_of(m)
  local dynamic = {}
  for _, input in ipairs(m.inputs) do
    local axes, any = {}, false
    for axis, size in ipairs(input.shape or {}) do
      axes[axis] = type(size) == 'string' and size or false
      any = any or axes[axis] ~= false
    end
    if any then dynamic[input.name] = axes end
  end
  return dynamic
end

-- An axis that stays open is recorded at sizes above 1, where a size of 1 would be broadcast.
local function sizes_for(m, sizes)
  local out = {}
  for _, name in ipairs(draw.open(m)) do out[name] = sizes[name] or 2 end
  return out
end

--- Write what the passes of ridge.onnx.export leave of a file.
---@param path string
---@param opt table o (the new file), opset, seed
---@param sizes table sizes that stand in for open ones
---@return integer status 1 where the new file is not valid, or computes something else
function M.optimize(path, opt, sizes)
  if opt.o == '' then
    blame.raise('onnx optimize: where to? -o OUT.onnx', 'EARG')
  end
  local m = load(path)
  local inputs = draw.inputs(m, sizes_for(m, sizes), opt.seed)
  if #inputs == 0 then blame.raise('onnx optimize: a file without inputs is a constant', 'EARG') end
  local result = require('ridge').onnx.export(m, opt.o, { x = inputs, inputs = names_of(m.inputs),
    outputs = names_of(m.outputs), dynamic = dynamic_of(m), opset = opt.opset })
  plain.print(tostring(result), '\n', ('before       %s\n'):format(plain.count(#m.nodes, 'node')))
  return result.validation_passed and result.inference_test_passed and 0 or 1
end

-- -- Two files --------------------------------------------------------------------------------

-- Operators whose numbers differ.
local function print_operators(a, b)
  local names, counts = {}, { count_of(a), count_of(b) }
  for _, list in ipairs(counts) do
    for name in pairs(list) do
      if counts[1][name] ~= counts[2][name] then names[name] = true end
    end
  end
  local sorted = {}
  for name in pairs(names) do sorted[#sorted + 1] = name end
  table.sort(sorted)
  for _, name in ipairs(sorted) do
    plain.print(('%6d -> %-6d %s\n'):format(counts[1][name] or 0, counts[2][name] or 0, name))
  end
end

-- Type and rank: open sizes may have other names.
local function shape_of(input)
  local parts = {}
  for i, size in ipairs(input.shape or {}) do parts[i] = type(size) == 'number' and size or '?' end
  return ('%s[%s]'):format(input.type, table.concat(parts, ','))
end

--- How far b lies from a: the largest difference of the largest value, and where it is; infinities
--- and nan that are in both are no difference.
---@param a Tensor
---@param b Tensor of the same type and shape
---@return number
---@return number|nil
function M.distance(a, b)
  if a.count == 0 then return 0 end
  local x, y = a:to 'f64':contiguous():view(-1), b:to 'f64':contiguous():view(-1)
  local both = x:eq(y):to 'f64':maximum(x:ne(x):to 'f64' * y:ne(y):to 'f64') -- nan in both
  local off = ((x - y):abs() * (both * -1 + 1)):tolist()
  local list, top, worst, at = x:tolist(), 0, 0, 1
  for i, v in ipairs(list) do
    if v == v and math.abs(v) < math.huge then top = math.max(top, math.abs(v)) end
    local d = off[i] == off[i] and off[i] or both:get(i) == 1 and 0 or math.huge
    if d > worst then worst, at = d, i end
  end
  if worst == 0 then return 0 end
  return top > 0 and worst / top or math.huge, at
end

--- Run two files on the same drawn inputs and say what differs, nodes and results.
---@param a_path string
---@param b_path string
---@param opt table seed, tolerance
---@param sizes table
---@return integer status 1 where shapes differ, or results by more than the tolerance
function M.diff(a_path, b_path, opt, sizes)
  local a, b = load(a_path), load(b_path)
  plain.print(('%s: %s; %s: %s\n'):format(a_path, plain.count(#a.nodes, 'node'), b_path,
    plain.count(#b.nodes, 'node')))
  print_operators(a, b)
  if #a.inputs ~= #b.inputs or #a.outputs ~= #b.outputs then
    plain.print(('%d inputs and %d outputs, against %d and %d\n'):format(#a.inputs, #a.outputs,
      #b.inputs, #b.outputs))
    return 1
  end
  for i, input in ipairs(a.inputs) do
    local shape, other = shape_of(input), shape_of(b.inputs[i])
    if shape ~= other then
      plain.print(('%s: %s against %s\n'):format(input.name, shape, other))
      return 1
    end
  end
  local inputs = draw.inputs(a, sizes, opt.seed)
  local of_a, of_b = { a(unpack(inputs)) }, { b(unpack(inputs)) }
  local status = 0
  for i, y in ipairs(of_a) do
    local name, z = a.outputs[i].name, of_b[i]
    if y:describe() ~= z:describe() then
      plain.print(('%s: %s against %s\n'):format(name, y:describe(), z:describe()))
      status = 1
    else
      local far, at = M.distance(y, z)
      plain.print(('%s: %s, %s\n'):format(name, y:describe(), far == 0 and 'the same bits'
        or ('largest difference %.3g of the largest value, at element %d'):format(far, at)))
      if not (far <= opt.tolerance) then status = 1 end
    end
  end
  return status
end

-- -- A sweep ------------------------------------------------------------------------------------

--- Sweep over batch and threads: the recipe `onnx`, with its own options.
---@param path string
---@param words string[] options of the recipe
---@return integer status
function M.bench(path, words)
  local recipe = require 'ridge.cli.recipe'
  local found, reason = recipe.find 'onnx'
  if not found then blame.raise('onnx bench: ' .. reason, 'ESYS') end
  require('ridge.onnx.file').read(path, 'onnx bench') -- what is wrong with it is said here
  local argv = { '--file', path }
  for _, word in ipairs(words) do argv[#argv + 1] = word end
  return recipe.run(found, argv)
end

return M

-- SPDX-License-Identifier: MIT
--- `ridge onnx`: what is in an ONNX file, whether it runs, how long it takes.

local stored = require 'ridge.cli.stored'
local plain = require 'ridge.plain'

local M = {}

M.summary = 'what is in an ONNX file, and whether it runs: ridge onnx show net.onnx'
M.usage = 'ridge onnx show|check|run FILE [--size N=2] [--times 10]'

local SPEC = {
  about = [[
show      what wrote it, its inputs, outputs, weights, and its operators with counts
check     read it, load it, call it with drawn inputs and run it as a plan: do both give the same?
          Status 1 where something is wrong
run       what it makes of drawn inputs, and how long its plan takes

Inputs that are real numbers are normal draws, others are 0. A size that the file leaves open is 1
unless --size names it.

    ridge onnx show net.onnx
    ridge onnx run net.onnx --size batch=8 --times 50]],
  rest = 'show|check|run FILE', most = 2,
  { 'size', {}, 'sizes that the file leaves open: batch=8', each = true },
  { 'seed', 0, 'of the inputs', integer = true, min = 0 },
  { 'times', 10, 'so many runs are timed', integer = true, min = 1, max = 1e6 },
}

-- -- What is in it ------------------------------------------------------------------------------

local function shape_text(shape)
  if not shape then return '[any shape]' end
  local list = {}
  for i, size in ipairs(shape) do list[i] = size and tostring(size) or '?' end
  return '[' .. table.concat(list, ',') .. ']'
end

local function value_line(kind, value)
  plain.print(('%-8s %s  %s%s\n'):format(kind, value.name, value.type or 'any type',
    shape_text(value.shape)))
end

-- Operators with counts, the most frequent first.
local function operators(nodes)
  local counts, names, most = {}, {}, 0
  for _, n in ipairs(nodes) do
    local name = n.domain ~= '' and n.domain .. ':' .. n.op or n.op
    if not counts[name] then names[#names + 1] = name end
    counts[name] = (counts[name] or 0) + 1
    most = math.max(most, #name)
  end
  table.sort(names, function(a, b)
    return counts[a] > counts[b] or counts[a] == counts[b] and a < b
  end)
  return names, counts, most
end

local function show(path)
  local model = require('ridge.onnx.file').read(path, 'onnx show')
  local graph, initialized, bytes = model.graph, {}, 0
  for _, t in ipairs(graph.initializers) do
    initialized[t.name] = true
    bytes = bytes + (t.bytes or 0)
  end
  local domains = {}
  for domain, version in pairs(model.opset) do
    domains[#domains + 1] = ('%s %d'):format(domain == '' and 'opset' or domain, version)
  end
  table.sort(domains)
  plain.print(('%s: IR %d, %s%s\n'):format(path, model.ir_version or 0,
    table.concat(domains, ', '),
    model.producer and model.producer ~= '' and (', written by %s %s'):format(model.producer,
      model.producer_version or '') or ''))
  for _, value in ipairs(graph.inputs) do
    if not initialized[value.name] then value_line('input', value) end
  end
  for _, value in ipairs(graph.outputs) do value_line('output', value) end
  plain.print(('%-8s %s, %.1f MB\n'):format('weights', plain.count(#graph.initializers, 'tensor'),
    bytes / 2 ^ 20))
  local names, counts, width = operators(graph.nodes)
  local ops = require 'ridge.onnx.ops'
  plain.print(plain.count(#graph.nodes, 'node'), '\n')
  for _, name in ipairs(names) do
    local known = ops[name] or name == 'If'
    for _, f in ipairs(model.functions) do
      known = known or name == f.name or name == f.domain .. ':' .. f.name
    end
    plain.print((('%%6d  %%-%ds%%s'):format(width):format(counts[name], name,
      known and '' or '  (ridge has not)'):gsub(' +$', '')), '\n')
  end
end

-- -- Does it run --------------------------------------------------------------------------------

local function sizes_of(opt)
  local sizes = {}
  for _, text in ipairs(opt.size) do
    local name, value = text:match '^(.+)=(%d+)$'
    if not name then
      require('ridge.blame').raise(("--size is NAME=NUMBER, got '%s'"):format(text), 'EARG')
    end
    sizes[name] = tonumber(value)
  end
  return sizes
end

-- Drawn inputs of the shapes in the file.
local function inputs_of(m, opt)
  local ridge = require 'ridge'
  local sizes, list = sizes_of(opt), {}
  ridge.seed(opt.seed)
  for i, input in ipairs(m.inputs) do
    local shape = {}
    for axis, size in ipairs(input.shape or {}) do
      shape[axis] = type(size) == 'number' and size or sizes[size] or 1
    end
    if require('ridge.tensor.dtype').kind[input.type] == 'float' then
      list[i] = ridge.randn(shape):to(input.type)
    else
      list[i] = ridge.zeros(shape, { dtype = input.type })
    end
  end
  return list
end

local function plan_of(m, inputs)
  return require('ridge').graph(m, unpack(inputs)):plan()
end

local function check(path, opt)
  local m = require('ridge').onnx.load(path)
  local inputs = inputs_of(m, opt)
  local called = { m(unpack(inputs)) }
  local planned = { plan_of(m, inputs)() }
  local far = 0
  for i, y in ipairs(called) do
    local same = y:describe() == planned[i]:describe()
    if same and y.count > 0 then
      local a, b = y:to 'f64', planned[i]:to 'f64'
      local off = (a - b):abs():mul(a:eq(b):eq(0):to 'f64')
      far = math.max(far, off:max():item())
    elseif not same then
      plain.print(('%s: output %d is %s when it is called, and %s as a plan\n'):format(path, i,
        y:describe(), planned[i]:describe()))
      return 1
    end
  end
  plain.print(('%s: ok: %s; %s\n'):format(path, plain.count(#m.nodes, 'node'),
    far == 0 and 'called and as a plan it gives the same'
      or ('called and as a plan it differs by %.3g'):format(far)))
  return 0
end

local function run(path, opt)
  local ridge = require 'ridge'
  local m = ridge.onnx.load(path)
  local inputs = inputs_of(m, opt)
  local plan = plan_of(m, inputs)
  local outputs = { plan() }
  for i, y in ipairs(outputs) do
    local text = ''
    if y.count > 0 and y.dtype ~= 'bool' then
      local z = y:to 'f64'
      text = (', from %.6g to %.6g, mean %.6g'):format(z:min():item(), z:max():item(),
        z:mean():item())
    end
    plain.print(('%s: %s%s\n'):format(m.outputs[i].name, y:describe(), text))
  end
  local times = {}
  for i = 1, opt.times do
    local before = ridge.clock()
    plan()
    times[i] = ridge.clock() - before
  end
  table.sort(times)
  plain.print(('%d runs: median %.3f ms, fastest %.3f ms, %s\n'):format(opt.times,
    times[math.floor((opt.times + 1) / 2)] * 1e3, times[1] * 1e3,
    plain.count(ridge.num_threads(), 'thread')))
end

--- Do what the first word says.
---@param argv string[]
---@return integer status
function M.main(argv)
  return stored.run('onnx', SPEC, argv, nil, function(opt, rest)
    local what, path = rest[1], rest[2]
    if what ~= 'show' and what ~= 'check' and what ~= 'run' then
      return stored.fail('onnx', what and ("there is no '%s'; known: show, check, run"):format(what)
        or 'which of show, check, run?')
    end
    if not path then return stored.fail('onnx', 'which file?') end
    if what == 'show' then return show(path) end
    return (what == 'check' and check or run)(path, opt)
  end)
end

return M

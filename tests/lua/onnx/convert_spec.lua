-- SPDX-License-Identifier: MIT
-- A loaded file in another element type, and inputs that are given once: what is of real numbers in
-- the file is of the net's type then, what says a size stays as it is.
local C = require 'ridge.ffi.lib'
local ridge = require 'ridge'
local nn = ridge.nn
local draw = require 'ridge.onnx.draw'
local file = require 'ridge.onnx.file'

local PATH = os.tmpname()

local function refused(pattern, f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  assert.matches(pattern, err.message)
end

local function int(name, list)
  return { name = name, value = ridge.tensor(list, { dtype = 'i64' }) }
end

local function write(nodes, initializers, inputs, outputs)
  file.write(PATH, { ir_version = 8, opset = { [''] = 17 }, functions = {}, graph = { name = 'g',
    nodes = nodes, inputs = inputs or { { name = 'x', type = 'f32', shape = { 'n', 3 } } },
    outputs = outputs or { { name = 'y' } }, values = {}, initializers = initializers or {} } })
end

local function node(op, inputs, outputs, attributes)
  return { op = op, domain = '', inputs = inputs, outputs = outputs, attributes = attributes or {} }
end

describe('a loaded file in another type', function()
  before_each(function() ridge.seed(1) end)
  teardown(function() os.remove(PATH) end)

  it('takes inputs of that type and computes in it', function()
    local net = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm(3), nn.GELU(), nn.Flatten(),
      nn.Linear(27, 4)):eval()
    local x = ridge.randn(2, 2, 5, 5)
    ridge.onnx.export(net, PATH, { x = x, dynamic = { input = { 'n' } } })
    local want = net(x)
    for kind, bound in pairs { bf16 = 0.05, f16 = 0.01, f64 = 1e-5 } do
      local m = ridge.onnx.load(PATH):to(kind)
      local y = m(x:to(kind))
      assert.equal(kind, y.dtype)
      assert.is_true((y:to 'f64' - want:to 'f64'):abs():max():item() < bound, kind)
      refused("input 1, 'input': it is " .. kind, m, ridge.randn(2, 2, 5, 5):to 'f32')
      assert.equal(kind, draw.inputs(m, { n = 3 })[1].dtype)
      assert.equal(kind, m:graph { n = 3 }:outputs()[1].value.dtype)
      assert.equal('f32', m:to('f32')(x).dtype)
    end
    -- drawn the same each time, from seed 0 where none is given
    local m = ridge.onnx.load(PATH)
    local function first(seed) return draw.inputs(m, { n = 3 }, seed)[1] end
    assert.equal(0, (first() - first(0)):abs():max():item())
    assert.is_true((first() - first(1)):abs():max():item() > 0)
  end)

  it('casts to it what it makes of whole numbers, and no size', function()
    write({ node('Cast', { 'i' }, { 'f' }, { to = { type = 'int', value = 1 } }),
      node('Shape', { 'i' }, { 's' }), node('Cast', { 's' }, { 'sf' },
      { to = { type = 'int', value = 1 } }), node('Cast', { 'sf' }, { 'si' },
      { to = { type = 'int', value = 7 } }), node('Expand', { 'one', 'si' }, { 'e' }),
      node('Add', { 'f', 'e' }, { 'y' }) },
      { { name = 'one', value = ridge.ones(1) } },
      { { name = 'i', type = 'i64', shape = { 'n' } } })
    local y = ridge.onnx.load(PATH):to('bf16')(ridge.ones(1001, { dtype = 'i64' }))
    assert.equal('bf16[1001]', y:describe())
    assert.equal(2, y:tolist()[1001])
  end)

  it('keeps numbers that say how', function()
    write({ node('Resize', { 'x', '', 'scales' }, { 'y' }) },
      { { name = 'scales', value = ridge.tensor { 1, 1.67 } } },
      { { name = 'x', type = 'f32', shape = { 1, 1000 } } })
    local m = ridge.onnx.load(PATH)
    local wanted = m(ridge.ones(1, 1000)):size(2)
    assert.equal(wanted, m:to('bf16')(ridge.ones(1, 1000):to 'bf16'):size(2))
  end)

  it('holds given inputs against what the file says of them', function()
    write({ node('Reshape', { 'x', 's' }, { 'y' }) }, {}, { { name = 'x', type = 'f32',
      shape = { 'n', 3 } }, { name = 's', type = 'i64', shape = { 2 } } })
    local function load(s) return ridge.onnx.load(PATH, { values = { s = s } }) end
    assert.equal('f32[3,2]', load(int('s', { 3, 2 }).value)(ridge.ones(2, 3)):describe())
    refused("onnx.load: values%.s: it is i64%[2%], got i64%[3%]", load, int('s', { 3, 2, 1 }).value)
    refused("onnx.load: values%.s: it is i64, got f32%[2%]", load, ridge.ones(2))
  end)

  it('names the file and a size that it does not leave open', function()
    write { node('Relu', { 'x' }, { 'y' }) }
    local m = ridge.onnx.load(PATH)
    local name = PATH:match '[^/]*$':gsub('%p', '%%%0')
    refused(name .. " leaves no size 'm' open", m.graph, m, { n = 2, m = 3 })
    refused(name .. " leaves no size 'm' open", draw.inputs, m, { m = 3 })
  end)
end)

describe('a file as a module', function()
  teardown(function() os.remove(PATH) end)

  it('keeps its constants when somebody writes into a result', function()
    write({ node('Relu', { 'x' }, { 'y' }), node('Add', { 'c', 'c' }, { 'z' }) },
      { int('c', { 1, 2 }) }, nil, { { name = 'y' }, { name = 'c' }, { name = 'z' } })
    local m = ridge.onnx.load(PATH)
    for _ = 1, 2 do
      local _, c, z = m(ridge.ones(1, 3))
      assert.same({ 1, 2 }, c:tolist())
      assert.same({ 2, 4 }, z:tolist())
      c:add_(5)
      z:add_(5)
    end
  end)

  it('trains in the branch of a condition, too', function()
    local function branch(op)
      return { type = 'graph', value = { name = 'b', nodes = { node(op, { 'x' }, { 'b' }) },
        inputs = {}, outputs = { { name = 'b' } }, values = {}, initializers = {} } }
    end
    write({ node('If', { 'c' }, { 'y' }, { then_branch = branch 'Dropout',
      else_branch = branch 'Neg' }) }, {}, { { name = 'x', type = 'f32' },
      { name = 'c', type = 'bool', shape = {} } })
    local m = ridge.onnx.load(PATH)
    local yes = ridge.ones(1, { dtype = 'bool' }):reshape {}
    assert.equal(1, m(ridge.ones(100), yes):min():item())
    assert.equal(0, m:train()(ridge.ones(100), yes):min():item())
    assert.equal(1, m:eval()(ridge.ones(100), yes):min():item())
    assert.equal('bf16', m:to('bf16')(ridge.ones(3):to 'bf16', yes).dtype)
  end)

  it('is not read to its end after Ctrl-C', function()
    write({ node('Relu', { 'x' }, { 'y' }) }, { { name = 'w', value = ridge.ones(3) } })
    local model = file.read(PATH)
    C.rg_interrupt_set() -- between the weights
    local ok, err = pcall(require('ridge.onnx.load').of, model, 'w')
    C.rg_interrupt_clear()
    assert.is_false(ok)
    assert.equal('EINTR', err.code)
    assert.matches('onnx.load: interrupted', err.message)
  end)

  it('has running statistics as buffers, which nobody trains', function()
    local function four(name) return { name = name, value = ridge.ones(3) } end
    write({ node('BatchNormalization', { 'x', 'a', 'b', 'm', 'v' }, { 'y' }) },
      { four 'a', four 'b', four 'm', four 'v' })
    local m = ridge.onnx.load(PATH)
    m:train()(ridge.randn(4, 3)):square():sum():backward()
    assert.is_not_nil(m.a.grad)
    assert.is_not_nil(m.b.grad)
    assert.is_nil(m.m.grad)
    assert.is_nil(m.v.grad)
  end)

  it('draws anew at each replay of a plan', function()
    write({ node('RandomNormal', {}, { 'r' }, { shape = { type = 'ints', value = { 3 } } }),
      node('Add', { 'x', 'r' }, { 'y' }) })
    local m = ridge.onnx.load(PATH)
    local plan = ridge.graph(m, ridge.zeros(1, 3)):plan()
    assert.not_equal(m(ridge.zeros(1, 3)):sum():item(), m(ridge.zeros(1, 3)):sum():item())
    assert.not_equal(plan():sum():item(), plan():sum():item())
  end)

  it('says which node has too few inputs or too many', function()
    for _, row in ipairs { { 'Relu', {}, 'has no input 1; it takes 1 input' },
      { 'Conv', { 'x' }, 'has no input 2; it takes at least 2 inputs' },
      { 'Where', { 'x', '', 'x' }, 'has no input 2; it takes 3 inputs' },
      { 'Relu', { 'x', 'x' }, 'has 2 inputs; it takes 1 input' },
      { 'Conv', { 'x', 'x', 'x', 'x' }, 'has 4 inputs; it takes at most 3 inputs' } } do
      write { node(row[1], row[2], { 'y' }) }
      refused(row[1] .. ' .*' .. row[3], ridge.onnx.load, PATH)
    end
  end)
end)

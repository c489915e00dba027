-- SPDX-License-Identifier: MIT
-- Quantized nets as ONNX files: which operators, which integers, and the results of the file.
local ridge = require 'ridge'
local file = require 'ridge.onnx.file'
local nn = ridge.nn

local path = os.tmpname()

local function loader(x) return ridge.data.Loader({ x }, { batch = 8 }) end

local function rows(...)
  local sizes = { ... }
  sizes[#sizes + 1] = { generator = ridge.generator(3) }
  return ridge.randn(unpack(sizes))
end

-- What export says, and the operators of the file.
local function exported(net, x, opset)
  local r = ridge.onnx.export(net, path, { x = x, opset = opset or 13 })
  assert.is_nil(r.validation_error)
  local ops, model = {}, file.read(path)
  for _, node in ipairs(model.graph.nodes) do ops[node.op] = (ops[node.op] or 0) + 1 end
  return r, ops, model.graph
end

local function mlp()
  return nn.Sequential(nn.Linear(32, 32, { activation = 'gelu', seed = 1 }),
    nn.Linear(32, 32, { bias = false, seed = 2 }), nn.Linear(32, 8, { seed = 3 })):eval()
end

local function static(net, x, more)
  local opts = { calibrate = loader(x), rows = false }
  for name, value in pairs(more or {}) do opts[name] = value end
  return ridge.quant.static(net, opts)
end

describe('a quantized net as a file', function()
  teardown(function() os.remove(path) end)

  it('has its integers, scales and zero points around each product', function()
    local net = nn.Sequential(nn.Conv2d(2, 4, 3, { padding = 1, activation = 'relu', seed = 1 }),
      nn.MaxPool2d(2), nn.Conv2d(4, 4, 3, { groups = 2, seed = 2 }), nn.Flatten(),
      nn.Linear(16, 3, { seed = 3 })):eval()
    local x = rows(8, 2, 8, 8) + 0.3
    for _, dtype in ipairs { 'u8', 'i8' } do
      local q = static(net, x, { activations = dtype })
      local r, ops, graph = exported(q, x)
      assert.is_true(r.max_difference < 1e-5)
      -- bytes at the entry and behind each product but the last one; x, w and bias of each
      assert.same({ 3, 9, 2, 1, 1 }, { ops.QuantizeLinear, ops.DequantizeLinear, ops.Conv, ops.Gemm,
        ops.MaxPool })
      local found = {}
      for _, t in ipairs(graph.initializers) do found[t.name] = file.tensor(t) end
      for _, at in ipairs { 1, 3, 5 } do
        local weight, bias = found[at .. '.weight'], found[at .. '.bias']
        assert.same({ 'i8', 'i32' }, { weight.dtype, bias.dtype })
        assert.same(q[at].weight:tolist(), weight:tolist())
        assert.same(q[at].bias:tolist(), bias:tolist())
        assert.same(q[at].weight_scale:tolist(), found[at .. '.weight_scale']:tolist())
      end
      -- a result of bytes: the file's are the same
      local behind = exported(function(v) return q[3](q[2](q[1](v))) end, x)
      assert.equal(dtype, behind.outputs[1].type)
      assert.is_true(behind.max_difference <= 1 / 127)
    end
  end)

  it('takes channels last, one scale for a weight, and rows in more axes', function()
    local net = nn.Sequential(nn.Conv2d(3, 4, 3, { layout = 'nhwc', seed = 1 }),
      nn.Conv2d(4, 2, 3, { layout = 'nhwc', seed = 2, bias = false })):eval()
    local x = rows(8, 7, 7, 3)
    local r, ops = exported(static(net, x, { backend = 'qnnpack' }), x)
    assert.is_true(r.max_difference < 1e-5)
    assert.same({ 2, 5 }, { ops.QuantizeLinear, ops.DequantizeLinear })
    x = rows(8, 3, 32)
    r, ops = exported(static(mlp(), x), x)
    assert.is_true(r.max_difference < 1e-5)
    assert.equal(3, ops.MatMul)
  end)

  it('rounds rows as they come in a dynamic net, and adds up whole numbers', function()
    for _, x in ipairs { rows(8, 32), rows(8, 3, 32) } do
      local r, ops = exported(ridge.quant.dynamic(mlp(), { rows = false }), x)
      assert.is_true(r.max_difference < 1e-5)
      assert.same({ 3, 3 }, { ops.MatMulInteger, ops.ReduceMax })
    end
    local r = exported(ridge.quant.dynamic(mlp(), { rows = false }), ridge.zeros(2, 32))
    assert.is_true(r.max_difference < 1e-5)
  end)

  it('keeps weights of a few bits as codes', function()
    local x = rows(8, 32)
    for _, case in ipairs { { bits = 8 }, { bits = 3 }, { bits = 4, minimum = true } } do
      case.rows = false
      local r, ops, graph = exported(ridge.quant.weights(mlp(), case), x)
      assert.is_true(r.max_difference < 1e-5)
      assert.equal(3, ops.DequantizeLinear)
      for _, t in ipairs(graph.initializers) do
        if t.name:find '%.codes$' then
          assert.equal('u8', file.tensor(t).dtype)
          assert.is_true(file.tensor(t):to('f32'):max():item() < 2 ^ case.bits)
        end
      end
    end
  end)

  it('sums and averages bytes', function()
    local bytes = ridge.randint(0, 256, { 2, 3, 4, 4 }):to 'u8'
    local function f(x)
      local a = ridge.quantize(x, 0.25, 7, { type = 'u8' })
      local b = ridge.scaled_pool2d(a, 2, { average = true, x_zero = 7, stride = 1, padding = 1 })
      b = ridge.scaled_pool2d(b, 2, { stride = 1 })
      return ridge.scaled_add(a, b, 0.25, 0.5, { activation = 'relu', dtype = 'i8', y_scale = 0.3,
        a_zero = 7, b_zero = 1, y_zero = -3 }),
        ridge.scaled_add(b, nil, 0.5, nil, { dtype = 'u8', y_scale = 0.7, a_zero = 3, y_zero = 9 }),
        ridge.dequantize(a, 0.5, 3)
    end
    local r, ops = exported(f, bytes:to 'f32' / 3)
    assert.is_true(r.max_difference <= 1 / 100)
    assert.same({ 1, 4 }, { ops.AveragePool, ops.QuantizeLinear })
  end)

  it('has scales along an axis, and of groups from version 21 on', function()
    local x, scale = rows(3, 64), rows(3):abs() + 0.1
    local groups = rows(3, 2):abs() + 0.1
    local function channels(v)
      return ridge.dequantize(ridge.quantize(v, scale, nil, { axis = 1, type = 'i8' }), scale, nil,
        { axis = 1 })
    end
    assert.is_true(exported(channels, x).max_difference < 1e-5)
    local function grouped(v)
      return ridge.quantize(v, groups, nil, { axis = 2, group = 32, type = 'i8' })
    end
    assert.is_true(exported(grouped, x, 21).max_difference < 1e-5)
    local ok, e = pcall(exported, grouped, x)
    assert.is_false(ok)
    assert.matches('quantized_spec.lua:%d+: .*scales of groups need operators of version 21',
      tostring(e))
  end)
end)

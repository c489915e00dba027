-- SPDX-License-Identifier: MIT
-- Element types: an operator of ONNX takes those that its version takes; what else ridge computes
-- with is converted around it, and whole numbers end where ridge's end.
local ridge = require 'ridge'
local nn = ridge.nn
local file = require 'ridge.onnx.file'
local types = require 'ridge.onnx.types'
local validate = require 'ridge.onnx.validate'

local PATH = os.tmpname()

-- The file of a net, valid, with the net's bits.
local function written(net, x, opset)
  local r = ridge.onnx.export(net, PATH, { x = x, opset = opset })
  assert.is_nil(r.validation_error)
  assert.is_true(r.inference_test_passed, tostring(r.max_difference))
  local ops = {}
  for i, node in ipairs(file.read(PATH).graph.nodes) do ops[i] = node.op end
  return table.concat(ops, ' ')
end

describe('the types of ONNX operators', function()
  teardown(function() os.remove(PATH) end)

  it('are those of the version', function()
    assert.is_false(types.takes('Add', 'u8', 13))
    assert.is_true(types.takes('Add', 'u8', 14))
    assert.is_false(types.takes('Conv', 'bf16', 21))
    assert.is_false(types.takes('ReduceMax', 'bool', 18))
    assert.is_true(types.takes('ReduceMax', 'bool', 20))
    assert.equal('i32', types.instead('Mul', 'bool', 21))
    assert.equal('f64', types.instead('Relu', 'i8', 13))
    assert.is_nil(types.instead('Relu', 'i64', 13))
    assert.is_nil(types.instead('Cast', 'f8e4m3', 18))
  end)

  it('are converted to around what does not take them', function()
    local bytes = ridge.tensor({ 0, 1, 200 }):to 'u8'
    local flags = ridge.tensor({ 0, 1, 1 }):to 'bool'
    assert.equal('Cast Neg Cast', written(function(x) return -x end, bytes, 17))
    assert.equal('Cast Cast Sub Cast', written(function(x) return 1 - x end, bytes, 13))
    assert.equal('Sub', written(function(x) return 1 - x end, bytes, 14))
    assert.equal('Cast Cast Add Cast', written(function(x) return x + x end, flags, 17))
    assert.equal('Cast ArgMax', written(function(x) return x:argmax(1) end, flags, 17))
    assert.equal('Cast Cast Greater', written(function(x) return x:gt(0) end, flags, 17))
    local halves = ridge.tensor({ 0.5, 1.5, -2.25 }):to 'bf16'
    assert.equal('Cast Round Cast', written(function(x) return x:round() end, halves, 17))
    assert.equal('Floor', written(function(x) return x:floor() end, halves, 17))
    assert.equal('Cast TopK Cast', written(function(x) return (x:sort(1)) end, halves, 17))
    assert.matches('Cast Cast Where Cast', written(function(x)
      return ridge.where(x:gt(0), x, x * 2)
    end, halves, 13))
  end)

  it('are converted around layers, too', function()
    ridge.seed(1)
    local net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4, 5))
    local x = ridge.randn(2, 3, 5, 5):to 'bf16'
    for _, opset in ipairs { 13, 17, 21 } do
      assert.matches('Cast Cast Cast Conv Cast Cast MaxPool Cast', written(net:to('bf16'):eval(), x,
        opset))
    end
    written(nn.LSTM(3, 4):to('bf16'):eval(), ridge.randn(2, 5, 3):to 'bf16', 17)
  end)

  it('are refused where nothing wider is there', function()
    local x = ridge.tensor({ 1, -2 }, { dtype = 'i64' })
    local ok, err = pcall(ridge.onnx.export, function(t) return t:relu() end, PATH,
      { x = x, opset = 13 })
    assert.is_false(ok)
    assert.matches('ONNX has no Relu of i64 in operators of version 13', err.message)
    assert.equal('Relu', written(function(t) return t:relu() end, x, 14))
  end)

  it('are looked at by the check of what was written', function()
    local function fault(pattern, x, f, change)
      ridge.onnx.export(f, PATH, { x = x, opset = 17 })
      assert.is_nil(validate.fault(PATH))
      local model = file.read(PATH)
      change(model.graph)
      file.write(PATH, model)
      assert.matches(pattern, validate.fault(PATH) or 'nothing')
    end
    local x = ridge.ones(3)
    local function twice(t) return t + t:relu() end
    fault('node 2 %(Or%) takes no f32 in version 17', x, twice, function(g)
      g.nodes[2].op = 'Or'
    end)
    fault('node 2 %(Add%) is of f32 and i64 at once', x, twice, function(g)
      g.nodes[1].op, g.nodes[1].attributes = 'Cast', { to = { type = 'int', value = 7 } }
    end)
    fault("output 'output' is of i32, and made as f32", x, twice, function(g)
      g.outputs[1].type = 'i32'
    end)
  end)

  it('end where they end in ridge', function()
    local x = ridge.tensor({ -300, -1, 0, 127, 128, 256, 300 }, { dtype = 'i64' })
    assert.equal('Max Min Cast Max Min Cast', written(function(t)
      return t:to 'u8', t:to 'i8'
    end, x, 17))
    assert.equal('Min Cast', written(function(t) return t:to 'i8' end, x:to 'u8', 17))
    assert.equal('Cast', written(function(t) return t:to 'i32' end, x:to 'i8', 17))
    assert.equal('Max Min Cast', written(function(t) return t:to 'i32' end, x * 2 ^ 40, 17))
    assert.equal('Cast', written(function(t) return t:to 'i32' end, x:to 'f32', 17))
  end)

  it('keep the lowest bits in a file', function()
    local function cast(x, to)
      file.write(PATH, { ir_version = 8, opset = { [''] = 17 }, functions = {}, graph = {
        name = 'g', inputs = { { name = 'x', type = x.dtype, shape = { 'n' } } }, values = {},
        outputs = { { name = 'y' } }, initializers = {}, nodes = { { op = 'Cast', domain = '',
          inputs = { 'x' }, outputs = { 'y' }, attributes = { to = { type = 'int',
            value = to } } } } } })
      return ridge.onnx.load(PATH)(x):tolist()
    end
    local x = ridge.tensor({ -300, -1, 0, 127, 128, 256, 300 }, { dtype = 'i64' })
    assert.same({ 212, 255, 0, 127, 128, 0, 44 }, cast(x, 2))
    assert.same({ 212, 255, 0, 127, 128, 0, 44 }, cast(x:to 'i32', 2))
    assert.same({ -44, -1, 0, 127, -128, 0, 44 }, cast(x, 3))
    assert.same({ 5, -1, 0 }, cast(ridge.tensor({ 2 ^ 40 + 5, 2 ^ 32 - 1, 2 ^ 32 },
      { dtype = 'i64' }), 6))
    assert.same({ -3, -1 }, cast(ridge.tensor { -3.5, -1 }, 3))
  end)
end)

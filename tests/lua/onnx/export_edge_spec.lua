-- SPDX-License-Identifier: MIT
-- What ridge.onnx.export makes of nets and options at their edges: the same tensor twice, inputs
-- that nothing reads, sizes 0, sizes that follow an axis on no line, numbers that are not finite.
local ridge = require 'ridge'
local nn = ridge.nn
local file = require 'ridge.onnx.file'

local PATH = os.tmpname()

local function export(net, x, opts)
  if type(net) == 'table' and net.eval then net:eval() end
  opts = opts or {}
  opts.x = x
  return ridge.onnx.export(net, PATH, opts), file.read(PATH)
end

-- Exports, and holds the file against the net at the example and at other inputs.
local function held(net, xs, opts, others)
  local r, model = export(net, xs, opts)
  assert.is_true(r.validation_passed, r.validation_error)
  assert.is_true(r.inference_test_passed, tostring(r.max_difference))
  local m = ridge.onnx.load(PATH)
  for _, list in ipairs { xs, unpack(others or {}) } do
    local wanted = ridge.no_grad(function() return { net(unpack(list)) } end)
    local got = { m(unpack(list)) }
    assert.equal(#wanted, #got)
    for i, y in ipairs(wanted) do
      assert.equal(y:describe(), got[i]:describe())
      if y.count > 0 then
        assert.is_true((y:to 'f64' - got[i]:to 'f64'):abs():max():item() <= 1e-5)
      end
    end
  end
  return model
end

local function refused(pattern, net, x, opts)
  local ok, err = pcall(export, net, x, opts)
  assert.is_false(ok, 'exported, and should be refused: ' .. pattern)
  assert.matches(pattern, err.message)
end

describe('ridge.onnx.export at its edges', function()
  before_each(function() ridge.seed(1) end)
  teardown(function() os.remove(PATH) end)

  it('floors quotients as ridge does: rounded ones, of infinities, by 0', function()
    local path, inf = os.tmpname(), math.huge
    local a = ridge.tensor { 0.9, -0.3, inf, -inf, 1, -1, 3, 5, -5, 5, 1, -1, 1, 0 / 0, 0 }
    local b = ridge.tensor { 0.1, 0.1, 2, 2, inf, inf, -inf, 3, 3, -3, 0, 0, -0.0, 1, 0 }
    for _, kind in ipairs { 'f32', 'f64', 'f16', 'bf16' } do
      local x, y = a:to(kind), b:to(kind)
      ridge.onnx.export(function(p, q) return p:floor_divide(q) end, path, { x = { x, y } })
      local wanted, got = x:floor_divide(y):to 'f64', ridge.onnx.load(path)(x, y):to 'f64'
      for k = 1, a.count do
        local u, v = wanted:get(k), got:get(k)
        assert.is_true(u == v or u ~= u and v ~= v, ('%s, %d: %g, %g'):format(kind, k, u, v))
      end
    end
    assert.equal(8, ridge.onnx.load(path)(a:to 'bf16', b:to 'bf16'):to('f32'):get(1))
    os.remove(path)
  end)

  it('writes shifts of u8 as BitShift, and refuses those of signed numbers', function()
    local path = os.tmpname()
    local a = ridge.tensor({ 1, 2, 127, 255, 100, 255, 255 }, { dtype = 'u8' })
    local b = ridge.tensor({ 1, 2, 1, 0, 3, 8, 40 }, { dtype = 'u8' })
    local function both(x, y)
      return x:bitwise_left_shift(y), x:bitwise_right_shift(y), x:bitwise_left_shift(3)
    end
    ridge.onnx.export(both, path, { x = { a, b } })
    local m, wanted = ridge.onnx.load(path), { both(a, b) }
    for i, y in ipairs { m(a, b) } do assert.same(wanted[i]:tolist(), y:tolist(), i) end
    local directions = {}
    for _, node in ipairs(m.nodes) do
      if node.op == 'BitShift' then directions[#directions + 1] = node:string 'direction' end
    end
    assert.same({ 'LEFT', 'RIGHT', 'LEFT' }, directions)
    for _, kind in ipairs { 'i8', 'i32', 'i64' } do
      local ok, err = pcall(ridge.onnx.export, both, path, { x = { a:to(kind), b:to(kind) } })
      assert.is_false(ok)
      assert.matches('ONNX has no operator for it', tostring(err), 1, true)
    end
    os.remove(path)
  end)

  it('tells the number 0 from the list of it', function()
    held(function(x) return x:unsqueeze(1):select(1, 1), x:to('i64') * 0 end, { ridge.randn(4, 3) },
      { dynamic = { input = { 'n' } } }, { { ridge.randn(2, 3) } })
  end)

  it('refuses a net that writes to one tensor, or to two', function()
    local a, b = ridge.zeros(3), ridge.zeros(3)
    refused('onnx.export: the net writes to .+, which a file cannot say', function(x)
      a:add_(x)
      return x + a
    end, ridge.randn(3))
    refused('onnx.export: the net writes to .+, which a file cannot say', function(x)
      a:add_(x)
      b:add_(a)
      return x + b
    end, ridge.randn(3))
  end)

  it('takes the same tensor for two inputs', function()
    local x = ridge.randn(4, 3)
    held(function(a, b) return a * b, a - b end, { x, x }, { dynamic = { input_1 = { 'n' },
      input_2 = { 'n' } } }, { { ridge.randn(2, 3), ridge.randn(2, 3) } })
  end)

  it('leaves the axes open of an input that nothing reads', function()
    local model = held(function(a) return a:relu() end, { ridge.randn(4, 3), ridge.randn(5) },
      { dynamic = { input_2 = { 'n' } } }, { { ridge.randn(4, 3), ridge.randn(9) } })
    assert.same({ 'n' }, model.graph.inputs[2].shape)
  end)

  it('wants a name for one value, and for each axis', function()
    local x = ridge.randn(4, 3)
    refused("'x' names input 1 and output 1", nn.Linear(3, 2), x, { inputs = { 'x' },
      outputs = { 'x' } })
    refused("dynamic.input: '' is no name for an axis", nn.Linear(3, 2), x,
      { dynamic = { input = { '' } } })
    for _, name in ipairs { '\255\254', 'a\0b' } do -- which protobuf takes for no text
      refused('is no name for input 1', nn.Linear(3, 2), x, { inputs = { name } })
      refused('is no name for output 1', nn.Linear(3, 2), x, { outputs = { name } })
      refused('is no name for an axis', nn.Linear(3, 2), x, { dynamic = { input = { name } } })
    end
    local r = export(nn.Linear(3, 2), x, { inputs = { 'ü "\27[31m\n' }, outputs = { "'" } })
    assert.is_true(r.inference_test_passed)
    assert.is_nil(tostring(r):find '\27')
    assert.equal('ü "\27[31m\n', file.read(PATH).graph.inputs[1].name)
    refused('input has no axis 1.5', nn.Linear(3, 2), x, { dynamic = { input = { [1.5] = 'n' } } })
    refused('dynamic: c cannot be another size than 3: linear: x is', nn.Linear(3, 2), x,
      { dynamic = { input = { 'n', 'c' } } })
    refused('dynamic: n is 0 in the example', nn.Linear(3, 2), ridge.ones(0, 3),
      { dynamic = { input = { 'n' } } })
    refused('external is %-1; it lies', nn.Linear(3, 2), x, { external = -1 })
  end)

  it('leaves sizes open that follow an axis on no line, where nobody has to write them', function()
    local net = nn.Sequential(nn.Conv2d(4, 4, 3, { padding = 1, stride = 2 }), nn.GroupNorm(2, 4),
      nn.ReLU())
    local model = held(net, { ridge.randn(2, 4, 9, 6) }, { dynamic = { input = { 'n', false, 'h',
      'w' } } }, { { ridge.randn(1, 4, 33, 25) }, { ridge.randn(3, 4, 2, 2) } })
    assert.same({ 'n', 4, false, false }, model.graph.outputs[1].shape)
    refused('a size follows h on no line: 4 at 9, 1 at 2', function(x)
      local y = x:max_pool(2)
      return ridge.ones(y:size(3)) * x:sum()
    end, ridge.randn(1, 1, 9, 2), { dynamic = { input = { false, false, 'h' } } })
  end)

  it('records at larger sizes where the small ones are too small', function()
    local net = nn.Sequential(nn.Conv2d(2, 3, 5), nn.MaxPool2d(2))
    local r = export(net, ridge.randn(1, 2, 10, 8), { dynamic = { input = { false, false, 'h' } } })
    assert.is_true(r.inference_test_passed)
    assert.equal(4, r.sizes_tested)
    held(net, { ridge.randn(1, 2, 10, 8) }, { dynamic = { input = { false, false, 'h' } } },
      { { ridge.randn(1, 2, 31, 8) } })
    refused('a kernel that reaches over 5 rows', nn.Conv2d(2, 3, 5), ridge.randn(1, 2, 4, 8))
  end)

  it('refuses what follows two axes', function()
    local x, both = ridge.randn(4, 3), { dynamic = { input = { 'a', 'b' } } }
    refused('a size follows two dynamic axes at once', function(a)
      local y = a:reshape(-1)
      return y:narrow(1, 2, y:size(1) - 2)
    end, x, both)
    refused('a size follows two dynamic axes at once', function(a)
      local y = a:reshape(-1)
      return y:select(1, y:size(1))
    end, x, both)
  end)

  it('runs of nothing', function()
    held(nn.GroupNorm(2, 4), { ridge.randn(4, 4, 3, 3) }, { dynamic = { input = { 'n' } } },
      { { ridge.randn(0, 4, 3, 3) } })
    held(function(x) return x:reshape(5, 0), x:reshape(0, 5), x:reshape(3, 5, 0) end,
      { ridge.randn(0, 5) })
    held(function(x) return x:reshape(x:size(1), 0, 3) end, { ridge.randn(4, 3, 0) },
      { dynamic = { input = { 'n' } } }, { { ridge.randn(2, 3, 0) } })
  end)

  it('compares numbers that are not finite', function()
    held(function(x) return x:pad({ { 1, 1 } }, { value = -3 }), x * 2 end, { ridge.randn(2, 3) })
    local r = export(function(x) return x * math.huge, x:log(), x + 1 end, ridge.randn(4, 3))
    assert.equal(0, r.max_difference)
    -- a number beside an infinity is compared all the same
    local calls = 0
    r = export(function(x)
      calls = calls + 1
      return ridge.concat({ x / 0, x + (calls > 1 and 1 or 0) }, 1)
    end, ridge.ones(2, 3))
    assert.is_false(r.inference_test_passed)
  end)

  it('casts to floats of 8 bits as the net does, beyond their largest number too', function()
    local x = ridge.tensor { -1e9, -500, -448, 0.3, 448, 464, 465, 500, 6e4, 1e6, math.huge, 0 / 0 }
    for _, name in ipairs { 'f8e4m3', 'f8e5m2' } do
      local r = export(function(a) return a:to(name):to 'f32' end, x, { opset = 21 })
      assert.equal(0, r.max_difference)
      refused('ONNX has no Cast of f8%w+ in operators of version 18', function(a)
        return a:to(name):to 'f32'
      end, x, { opset = 18 })
    end
  end)

  it('turns truth values around, and divides the smallest i8', function()
    local x = ridge.tensor({ -128, -127, -7, 0, 7, 127 }, { dtype = 'i8' })
    for _, opset in ipairs { 13, 21 } do
      local r = export(function(a) return a:gt(0):bitwise_not(), a:floor_divide(3) end, x,
        { opset = opset })
      assert.equal(0, r.max_difference)
    end
  end)

  it('says why weights are beside the model', function()
    local net = nn.Linear(30, 40)
    local r = export(net, ridge.randn(2, 30), { external = 100 })
    assert.matches('weights +[^\n]+%.data, [%d.]+ MB: more than 100 bytes, as external says',
      tostring(r))
    os.remove(PATH .. '.data')
    r = export(net, ridge.randn(2, 30), { external = 1e6 })
    assert.is_nil(tostring(r):find 'as external')
  end)

  it('gives remainders of large quotients their bits', function()
    local r = export(function(x) return x:remainder(0.3), x:remainder(-0.3) end,
      ridge.randn(4, 7) * 1000)
    assert.equal(0, r.max_difference)
  end)

  it('puts each of several weights in its place beside the model', function()
    local net = nn.Sequential(nn.Linear(20, 30), nn.Linear(30, 40), nn.Linear(40, 20))
    held(net, { ridge.randn(2, 20) }, { external = 0 })
    local bytes = assert(io.open(PATH .. '.data', 'rb')):seek 'end'
    assert.equal(3 * 4096 + 40 * 20 * 4, bytes) -- each at a page; the second takes two
    os.remove(PATH .. '.data')
  end)

  it('averages over edges as the net does', function()
    for _, skip in ipairs { true, false } do
      held(function(x)
        return x:avg_pool2d(3, { padding = 1, skip_padding = skip })
      end, { ridge.randn(2, 3, 5, 5) })
    end
  end)

  it('writes a recurrent layer of a file as one node again', function()
    for _, kind in ipairs { 'LSTM', 'GRU' } do
      export(nn[kind](3, 4), ridge.randn(2, 5, 3), { dynamic = { input = { 'n' } } })
      local other = os.tmpname()
      local r = ridge.onnx.export(ridge.onnx.load(PATH), other, { x = ridge.randn(2, 5, 3),
        dynamic = { input = { 'n' } } })
      assert.is_true(r.inference_test_passed)
      local count = 0
      for _, node in ipairs(file.read(other).graph.nodes) do
        count = count + (node.op == kind and 1 or 0)
      end
      assert.equal(1, count)
      os.remove(other)
    end
  end)

  it('says how many values that it compared are nan', function()
    local r = export(function(x) return x * (0 / 0), x:exp() end, ridge.ones(2, 4))
    assert.is_true(r.inference_test_passed)
    assert.equal(8, r.nan_values)
    assert.matches('at 1 size, of which 8 values are nan in both', tostring(r), 1, true)
    r = export(function(x) return x:exp() end, ridge.ones(2, 4))
    assert.equal(0, r.nan_values)
    assert.is_nil(tostring(r):find('nan', 1, true))
  end)

  it('refuses names of axes of outputs where no input has one', function()
    local opts = { outputs = { 'y' }, dynamic = { y = { 'N' } } }
    local ok, err = pcall(export, function(x) return x:exp() end, ridge.ones(2, 4), opts)
    assert.is_false(ok)
    assert.matches('dynamic.y: sizes of outputs follow those of inputs', tostring(err), 1, true)
    opts.dynamic.input = { 'N' }
    local _, model = export(function(x) return x:exp() end, ridge.ones(2, 4), opts)
    assert.same({ 'N', 4 }, model.graph.outputs[1].shape)
  end)

  it('fails its test where the net gives nan and the file a number', function()
    local calls, spoiled = 0, nil
    local function f(x)
      calls = calls + 1
      return x * (calls == spoiled and 0 / 0 or 1) + 1
    end
    export(f, ridge.ones(2, 4))
    calls, spoiled = 0, calls -- the last call is that of the test
    assert.is_false((export(f, ridge.ones(2, 4))).inference_test_passed)
    assert.equal(spoiled, calls)
  end)

  it('computes what is made of weights alone as the net does', function()
    local Own = nn.class 'Own'
    function Own:init() self:param('weight', ridge.randn(2, 8)) end
    function Own:forward(x)
      local w = self.weight
      return x * (2 - w), x + w:narrow(2, 2, 3, 2):exp():pad { { 0, 0 }, { 0, 5 } }, x - 3 / w
    end
    held(Own(), { ridge.randn(2, 8) })
  end)
end)

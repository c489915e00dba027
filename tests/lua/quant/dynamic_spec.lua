-- SPDX-License-Identifier: MIT
-- Dynamic quantization: the whole numbers that weights and rows become, which layers are taken, and
-- what stays as it was.
local ridge = require 'ridge'
local faster = require 'ridge.quant.faster'
local nn = ridge.nn

local function failure(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok, 'an error is expected')
  return tostring(e)
end

local function near_even(v)
  local low = math.floor(v)
  if v - low ~= 0.5 then return math.floor(v + 0.5) end
  return low % 2 == 0 and low or low + 1
end

-- Rows of numbers as whole numbers of 8 bits, in doubles, with their scales.
local function reference(rows)
  local out, scales = {}, {}
  for i, row in ipairs(rows) do
    local most = 0
    for _, v in ipairs(row) do most = math.max(most, math.abs(v)) end
    scales[i], out[i] = most > 0 and most / 127 or 1, {}
    for j, v in ipairs(row) do out[i][j] = near_even(v / scales[i]) end
  end
  return out, scales
end

local function net_of()
  return nn.Sequential(nn.Linear(12, 9, { seed = 1, activation = 'relu' }),
    nn.Linear(9, 5, { seed = 2 })):eval()
end

local function bits(net)
  local list = {}
  for _, p in ipairs(net:parameters()) do
    list[#list + 1] = { p.name, p.tensor.dtype, p.tensor:detach():tolist(), p.trainable,
      p.tensor.requires_grad }
  end
  return list
end

describe('quant.dynamic', function()
  it('rounds weights to the nearest, ties to even, without -128', function()
    local layer = nn.Linear(4, 3, { bias = false }):eval()
    layer.weight = ridge.tensor { { 127, 2.5, -0.5, -3.5 }, { -127, 127, 1.5, 0 }, { 0, 0, 0, 0 } }
    local q = ridge.quant.dynamic(layer, { rows = false })
    assert.same({ { 127, 2, 0, -4 }, { -127, 127, 2, 0 }, { 0, 0, 0, 0 } }, q.weight:tolist())
    assert.same({ 1, 1 }, q.weight_scale:narrow(1, 1, 2):tolist())
    assert.is_true(q.weight_scale:min():item() > 0)
    assert.equal(0, q(ridge.ones(1, 4)):tolist()[1][3])
  end)

  it('has a scale for each output, or one for all', function()
    local layer = nn.Linear(40, 6, { seed = 3 }):eval()
    ridge.no_grad(function() layer.weight:narrow(1, 1, 1):mul_(100) end)
    local q = ridge.quant.dynamic(layer, { rows = false })
    local codes, scales = reference(layer.weight:tolist())
    assert.same(codes, q.weight:tolist())
    for i, s in ipairs(q.weight_scale:tolist()) do assert.near(scales[i], s, 1e-7 * scales[i]) end
    local whole = ridge.quant.dynamic(layer, { rows = false, per = 'tensor' })
    assert.same({ 1 }, whole.weight_scale:size())
    assert.is_true(whole.weight:narrow(1, 2, 5):to('i32'):abs():max():item() <= 2)
  end)

  it('computes what rows of whole numbers give', function()
    local layer, x = nn.Linear(12, 7, { seed = 4, activation = 'relu' }):eval(), ridge.randn(5, 12)
    x:narrow(1, 3, 1):fill_(0)
    local y = ridge.quant.dynamic(layer, { rows = false })(x):tolist()
    local w, ws = reference(layer.weight:tolist())
    local r, rs = reference(x:tolist())
    local bias = layer.bias:tolist()
    for i = 1, 5 do
      for o = 1, 7 do
        local sum = 0
        for k = 1, 12 do sum = sum + r[i][k] * w[o][k] end
        assert.near(math.max(0, sum * rs[i] * ws[o] + bias[o]), y[i][o], 1e-5)
      end
    end
  end)

  it('leaves the net as it was, and gives a copy in evaluation mode without gradients', function()
    local net = net_of()
    local before = bits(net)
    local q = ridge.quant.dynamic(net, { rows = false, skip = { '2' } })
    assert.same(before, bits(net))
    assert.equal('nn.Linear', getmetatable(net[1]).__name)
    assert.equal('quant.Linear', getmetatable(q[1]).__name)
    assert.equal('nn.Linear', getmetatable(q[2]).__name)
    assert.is_false(q.training or q[1].training or q[2].training)
    assert.is_false(q(ridge.ones(1, 12)).requires_grad)
    q[2].weight:fill_(0)
    assert.same(before, bits(net))
    assert.matches('trained', failure(q.train, q))
    assert.matches('dynamic_spec.lua:%d+: quant.Linear: no gradient',
      failure(q, ridge.ones(1, 12):requires_grad_()))
    assert.same({ 1, 5 }, ridge.inference(q, ridge.ones(1, 12):requires_grad_()):size())
    assert.same(q(ridge.ones(1, 12)):tolist(), q:clone()(ridge.ones(1, 12)):tolist())
  end)

  it('exchanges layers wherever a module keeps them', function()
    local Two = nn.class 'Two'
    function Two:init()
      self.a = self:child('a', nn.Linear(6, 6, { seed = 1 }))
      self.list = { self:child('b', nn.Linear(6, 6, { seed = 2 })) }
    end
    function Two:forward(x) return self.list[1](self.a(x)) end
    local net = Two():eval()
    local q = ridge.quant.dynamic(net, { rows = false })
    assert.equal('quant.Linear', getmetatable(q.a).__name)
    assert.equal(q.children[2].module, q.list[1])
    local x = ridge.randn(2, 6)
    assert.is_true((q(x) - net(x)):abs():max():item() > 0)
    assert.is_true((q(x) - net(x)):abs():max():item() < 0.05)
  end)

  it('multiplies what comes into an LSTM in i8, and keeps its state in f32', function()
    local net, x = nn.LSTM(6, 5, { seed = 1 }):eval(), ridge.randn(2, 40, 6)
    local q = ridge.quant.dynamic(net, { rows = false })
    local report = ridge.quant.report(q)
    assert.same({ '1.input', 'i8', '1.recurrent', 'f32' }, { report.layers[1].name,
      report.layers[1].kind, report.layers[2].name, report.layers[2].kind })
    assert.matches('state of an LSTM', report.layers[2].why)
    local gru = ridge.quant.report(ridge.quant.dynamic(nn.GRU(6, 5):eval(), { rows = false }))
    assert.matches('state of a GRU', gru.layers[2].why)
    local apart = (q(x) - net(x)):abs():max():item()
    assert.is_true(apart > 0 and apart < 0.02)
  end)

  it('takes a layer only where it is shown to be no slower', function()
    local small, large = nn.Linear(4, 4):eval(), nn.Linear(512, 512):eval()
    local function compare(a, b)
      return faster.asked():compare('k', a, b, ridge.ones(4, a.n_in))
    end
    local Wide = nn.class 'Wide'
    function Wide:init() self.n_in, self.large = 4, large end
    function Wide:forward(x) return self.large(ridge.ones(64, 512)) + x:sum() end
    local slow = Wide():eval()
    assert.is_false(compare(small, slow).keep)
    assert.is_true(compare(slow, small).keep)
    local q = ridge.quant.dynamic(nn.Linear(2, 2):eval())
    local row = ridge.quant.report(q).layers[1]
    if row.kind == 'f32' then assert.matches('of its time in f32 at 1 row', row.why) end
  end)

  it('names what does not fit, at the line of the call', function()
    local net = net_of()
    assert.matches('dynamic_spec.lua:%d+: quant.dynamic: the net is in training mode',
      failure(ridge.quant.dynamic, net_of():train()))
    assert.matches('quantized already %(by quant.dynamic%)', failure(ridge.quant.dynamic,
      ridge.quant.dynamic(net, { rows = false })))
    local named = nn.Sequential(nn.Residual(net)):eval()
    local part = named.children[1].module.children[1].name
    assert.matches("did you mean '1." .. part, failure(ridge.quant.dynamic, named,
      { skip = { '1.' .. part .. 'x' } }))
    ridge.no_grad(function() net[2].weight:narrow(1, 1, 1):fill_(0 / 0) end)
    assert.matches('dynamic: 2: its weight has nan', failure(ridge.quant.dynamic, net))
    assert.matches('skip is a list of names', failure(ridge.quant.dynamic, net_of(),
      { skip = { head = true } }))
    assert.matches('a net', failure(ridge.quant.dynamic, 3))
    assert.matches('no layer with weights', failure(ridge.quant.dynamic, nn.ReLU():eval()))
    assert.matches('rows is a whole number', failure(ridge.quant.dynamic, net, { rows = 0 }))
    local q = ridge.quant.dynamic(nn.Linear(4, 4):eval(), { rows = false })
    assert.matches('last axis is to have 4', failure(q, ridge.ones(2, 3)))
  end)
end)

describe('quant.half', function()
  -- beyond 256 bf16 has not every whole number
  it('takes whole numbers as they are', function()
    local net = nn.Sequential(nn.Embedding(400, 4, { seed = 1 }), nn.Linear(4, 2, { seed = 2 }))
      :eval()
    local ids = ridge.arange(300, 399, 1, { dtype = 'i64' })
    for _, dtype in ipairs { 'bf16', 'f16' } do
      local y = ridge.quant.half(net, dtype)(ids)
      assert.equal(dtype, y.dtype)
      assert.is_true((y:to 'f32' - net(ids)):abs():max():item() < 0.05)
    end
  end)

  it('keeps half of the bytes in a copy', function()
    local net, x = net_of(), ridge.randn(3, 12)
    for _, dtype in ipairs { 'bf16', 'f16' } do
      local q = ridge.quant.half(net, dtype)
      assert.equal(net:num_bytes() / 2, q:num_bytes())
      assert.equal('f32', net[1].weight.dtype)
      assert.is_true((q(x) - net(x)):abs():max():item() < 0.02)
      assert.equal(dtype, ridge.quant.report(q).layers[1].kind)
    end
    assert.equal('bf16', ridge.quant.half(net)[1].weight.dtype)
    assert.matches('one of bf16, f16', failure(ridge.quant.half, net, 'i8'))
    ridge.no_grad(function() net[1].weight:narrow(1, 1, 1):fill_(1e5) end)
    assert.matches('dynamic_spec.lua:%d+: quant.half: 1.weight has numbers that become infinite '
      .. 'in f16, whose largest is 65504', failure(ridge.quant.half, net, 'f16'))
    assert.is_true(ridge.quant.half(net, 'bf16')(x):isfinite():all():item() == 1)
    ridge.no_grad(function() net[1].weight:fill_(math.huge) end)
    assert.equal('f16', ridge.quant.half(net, 'f16')[1].weight.dtype)
  end)
end)

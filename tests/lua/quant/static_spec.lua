-- SPDX-License-Identifier: MIT
-- Static quantization: what is folded first, whole numbers beside plain sums, bytes from layer to
-- layer, and data that is refused.
local ridge = require 'ridge'
local fold = require 'ridge.quant.fold'
local nets = require 'ridge.quant.nets'
local nn = ridge.nn

local function failure(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok, 'an error is expected')
  return tostring(e)
end

local function loader(x, labels, batch)
  batch = math.min(batch or 8, x:size(1))
  return ridge.data.Loader({ x, labels }, { batch = batch, shuffle = false })
end

local function apart(a, b) return (a - b):abs():max():item() end

local function convolutions()
  local net = nn.Sequential(nn.Conv2d(3, 6, 3, { padding = 1, bias = false, seed = 1 }),
    nn.BatchNorm(6), nn.ReLU(), nn.Conv2d(6, 6, 3, { stride = 2, groups = 6, seed = 2 }),
    nn.ReLU({ inplace = true }), nn.Flatten(), nn.Dropout(0.5), nn.Linear(54, 8, { seed = 3 }),
    nn.BatchNorm(8, { affine = false }), nn.Tanh(), nn.Linear(8, 4, { seed = 4 }))
  local x = ridge.randn(16, 3, 7, 7, { generator = ridge.generator(2) }) * 2 + 0.5
  ridge.no_grad(function() net(x) end)
  return net:eval(), x
end

describe('folding', function()
  it('changes nothing but rounding, and keeps names', function()
    local net, x = convolutions()
    local made = nets.copy(net)
    assert.same({}, fold.fold(made))
    assert.is_true(apart(made(x), net(x)) < 1e-5)
    assert.equal('relu', made[1].activation)
    assert.equal('tanh', made[8].activation)
    assert.equal('quant.Folded', getmetatable(made[2]).__name)
    assert.equal(#net.children, #made.children)
    assert.equal('none', net[1].activation)
    assert.is_nil(net[1].bias)
  end)

  it('folds variances that are small beside eps', function()
    local net = nn.Sequential(nn.Linear(4, 3, { seed = 1 }), nn.BatchNorm(3, { eps = 1e-2 })):eval()
    ridge.no_grad(function() net[2].running_var:copy_(ridge.tensor { 0, 1e-3, 1 }) end)
    local made, x = nets.copy(net), ridge.randn(5, 4)
    fold.fold(made)
    assert.equal('quant.Folded', getmetatable(made[2]).__name)
    assert.is_true(apart(made(x), net(x)) < 1e-4)
  end)

  it('leaves what does not belong together, and says so', function()
    local shared = nn.Linear(4, 4, { seed = 1 })
    local net = nn.Sequential(nn.ReLU(), nn.BatchNorm(4), shared, nn.ReLU(), shared,
      nn.Linear(4, 4, { activation = 'gelu' }), nn.BatchNorm(4)):eval()
    local x = ridge.randn(3, 4)
    local made = nets.copy(net)
    local notes = fold.fold(made)
    assert.is_true(apart(made(x), net(x)) < 1e-6)
    assert.equal(2, #notes)
    assert.matches('^2 %(nn.BatchNorm%) stays f32', notes[1])
    assert.equal('none', made[3].activation)
  end)
end)

describe('normalisation behind dense layers', function()
  it('is folded where its channels are what the layer makes', function()
    for _, case in ipairs { { 'nchw', { 16, 8, 4 }, false }, { 'nhwc', { 16, 8, 4 }, true },
      { 'nchw', { 16, 4 }, true } } do
      local net = nn.Sequential(nn.Linear(4, 8, { seed = 1 }), nn.BatchNorm(8,
        { layout = case[1] }), nn.Linear(8, 8, { seed = 2 }))
      local x = ridge.randn(unpack(case[2])) * 2
      if x.ndim == 3 then x = x * ridge.arange(1, 8):reshape(8, 1) end
      ridge.no_grad(function() for _ = 1, 20 do net(x) end end)
      net:eval()
      local q = ridge.quant.static(net, { calibrate = loader(x), rows = false })
      assert.is_true(apart(q(x), net(x)) < 0.1)
      assert.equal(case[3], getmetatable(q[2]).__name == 'quant.Folded')
      assert.equal(not case[3], tostring(ridge.quant.report(q)):find('BatchNorm) stays', 1, true)
        ~= nil)
    end
  end)
end)

describe('normalisation behind dense layers in calls of several shapes', function()
  it('stays where any of them has channels along another axis', function()
    local Both = nn.class 'Both'
    function Both:init()
      self.part = self:child('part', nn.Sequential(nn.Linear(4, 8, { seed = 1 }),
        nn.BatchNorm(8, { layout = 'nchw' })))
    end
    for _, first in ipairs { 3, 2 } do
      function Both:forward(x)
        local flat = x:narrow(2, 1, 1):reshape(-1, 4)
        local a = self.part(first == 3 and x or flat)
        local b = self.part(first == 3 and flat or x)
        return a:reshape(16, -1):mean(2) + b:reshape(16, -1):mean(2)
      end
      local net, x = Both():eval(), ridge.randn(16, 8, 4, { generator = ridge.generator(3) })
      ridge.no_grad(function() net.part[2].running_mean:copy_(ridge.arange(1, 8)) end)
      local q = ridge.quant.static(net, { calibrate = loader(x, nil, 16), rows = false })
      assert.equal('nn.BatchNorm', getmetatable(q.part[2]).__name)
      assert.is_true(apart(q(x), net(x)) < 0.1)
    end
  end)
end)

describe('normalisation behind convolutions', function()
  -- images as wide as there are channels, so that either axis could be normalised
  it('is folded where both have channels along the same axis', function()
    for _, layouts in ipairs { { 'nchw', 'nchw', true }, { 'nhwc', 'nhwc', true },
      { 'nchw', 'nhwc', false }, { 'nhwc', 'nchw', false } } do
      local net = nn.Sequential(nn.Conv2d(4, 4, 1, { layout = layouts[1], seed = 1 }),
        nn.BatchNorm(4, { layout = layouts[2] }))
      local x = ridge.randn(8, 4, 4, 4, { generator = ridge.generator(2) })
      for axis = 2, 4 do
        local shape = { 1, 1, 1, 1 }
        shape[axis] = 4
        x = x * ridge.arange(1, 4):reshape(shape)
      end
      ridge.no_grad(function() for _ = 1, 20 do net(x) end end)
      local made = nets.copy(net:eval())
      local _, axes = require('ridge.quant.apart').of(made, x)
      fold.fold(made, nil, axes)
      assert.is_true(apart(made(x), net(x)) < 1e-4, layouts[1] .. ' ' .. layouts[2])
      assert.equal(layouts[3], getmetatable(made[2]).__name == 'quant.Folded')
    end
  end)
end)

describe('quant.static', function()
  it('computes what whole numbers give, with zeros around images', function()
    for _, dtype in ipairs { 'u8', 'i8' } do
      local layer = nn.Conv2d(2, 3, 3, { padding = { 1, 2 }, seed = 5 }):eval()
      local x = ridge.randn(4, 2, 5, 6, { generator = ridge.generator(1) }) + 0.7
      local q = ridge.quant.static(layer, { calibrate = loader(x), rows = false,
        activations = dtype })
      assert.equal(dtype == 'u8', q.x_zero > 0)
      local scale = q.x_scale:item()
      local low, high = x:min():item(), x:max():item()
      assert.near(dtype == 'u8' and (high - low) / 255 or math.max(-low, high) / 127, scale, 1e-8)
      local codes = (x:to 'f64' / scale):round()
      local w = q.weight:to 'f64' * q.weight_scale:to('f64'):reshape(3, 1, 1, 1)
      local want = (codes * scale):conv2d(w, { padding = { 1, 2 },
        bias = q.bias:to 'f64' * q.weight_scale:to 'f64' * scale })
      assert.is_true(apart(want, q(x):to 'f64') < 2e-5)
      assert.is_true(apart(layer(x), q(x)) < 0.05)
      assert.equal('i32', q.bias.dtype)
    end
  end)

  it('hands bytes from layer to layer, and is near to the net', function()
    local net, x = convolutions()
    local before = net(x):tolist()
    local q = ridge.quant.static(net, { calibrate = loader(x), rows = false })
    assert.is_true(apart(q(x), net(x)) < 0.05)
    assert.same(before, net(x):tolist())
    assert.equal('u8', q[1](x).dtype)
    assert.equal(0, q[4].x_zero) -- what is behind a ReLU has nothing below 0
    assert.equal('u8', q[4](q[1](x)).dtype) -- flatten and dropout hand bytes on
    assert.same({ 1, 0, 0, 1 }, { q[1]:conversions(), q[4]:conversions(), q[8]:conversions(),
      q[11]:conversions() })
    local alone = q:clone()
    for _, at in ipairs { 1, 4, 8 } do alone[at].out = nil end
    assert.equal('f32', alone[1](x).dtype)
    assert.is_true(apart(q(x), alone(x)) < 0.02)
  end)

  it('folds and links nothing between modules that are called one by one', function()
    local Parts = nn.class 'Parts'
    function Parts:init()
      self.s = self:child('s', nn.Sequential(nn.Linear(8, 8, { seed = 1 }), nn.BatchNorm(8),
        nn.ReLU(), nn.Linear(8, 8, { seed = 2 }), nn.Linear(8, 8, { seed = 3 })))
      self.t = self:child('t', nn.Sequential(nn.Linear(8, 8, { seed = 4 }), nn.ReLU(),
        nn.Linear(8, 4, { seed = 5 })))
    end
    function Parts:forward(x)
      local h = self.s[1](x)
      return self.t(self.s[5](self.s[4](self.s[3](self.s[2](h)))) + h)
    end
    local net, x = Parts(), ridge.randn(32, 8, { generator = ridge.generator(3) })
    ridge.no_grad(function() net(x) end)
    net:eval()
    local made = ridge.quant.static(net, { calibrate = loader(x), rows = false })
    assert.is_true(apart(made(x), net(x)) < 0.1)
    assert.is_nil(made.s[4].out)
    assert.equal('u8', made.t[1](x).dtype)
    assert.matches('s %(nn.Sequential%) is taken apart', tostring(ridge.quant.report(made)))
    local labels = net(x):argmax(2)
    local found, search = ridge.quant.search(net, { validate = loader(x, labels), max_drop = 0.5,
      calibrate = loader(x + 1), kinds = { 'i8' } })
    assert.is_true(#search.points > 0)
    assert.is_true(apart(found(x), net(x)) < 0.5)
  end)

  it('calibrates with the batches that the loader would have given', function()
    local x = ridge.randn(64, 4) * ridge.arange(1, 64):reshape(64, 1)
    local function shuffled()
      return ridge.data.Loader({ x }, { batch = 8, shuffle = true, seed = 5 })
    end
    local seen = shuffled():each()()
    local q = ridge.quant.static(nn.Linear(4, 4, { seed = 1 }):eval(), { calibrate = shuffled(),
      batches = 1, rows = false })
    assert.near((math.max(seen:max():item(), 0) - math.min(seen:min():item(), 0)) / 255,
      q.x_scale:item(), 1e-6)
  end)

  it('keeps layers in which a channel died, or nearly so', function()
    local x = ridge.randn(32, 8, { generator = ridge.generator(3) })
    for _, backend in ipairs { 'fbgemm', 'qnnpack' } do
      local net = nn.Sequential(nn.Linear(8, 4, { seed = 1 })):eval()
      local before = ridge.quant.static(net, { calibrate = loader(x), rows = false,
        backend = backend })[1]
      ridge.no_grad(function()
        net[1].weight:narrow(1, 2, 1):fill_(0)
        net[1].weight:narrow(1, 3, 1):mul_(1e-12)
        net[1].bias:copy_(ridge.tensor { 0.5, -0.7, 0.3, 0 })
      end)
      local q = ridge.quant.static(net, { calibrate = loader(x), rows = false, backend = backend })
      assert.equal('i8', ridge.quant.report(q).layers[1].kind)
      assert.is_true(apart(q(x), net(x)) < 0.02)
      local own = q(x):narrow(2, 2, 2)
      assert.is_true(apart(own, ridge.tensor { -0.7, 0.3 }) < 1e-6 or backend == 'qnnpack')
      -- the other rows are rounded as they were
      if backend == 'fbgemm' then
        assert.same(before.weight[1]:tolist(), q[1].weight[1]:tolist())
        assert.same(before.weight[4]:tolist(), q[1].weight[4]:tolist())
      end
    end
    local dead = nn.Linear(8, 4, { seed = 1 }):eval()
    ridge.no_grad(function() dead.weight:fill_(0) end)
    local q = ridge.quant.static(dead, { calibrate = loader(x), rows = false,
      backend = 'qnnpack' })
    assert.is_true(apart(q(x), dead(x)) < 1e-6)
  end)

  it('takes a bias where the product takes it, and no other', function()
    local layer, x = nn.Linear(60000, 2, { seed = 1 }):eval(), ridge.randn(8, 60000)
    local function made(value)
      ridge.no_grad(function() layer.bias:fill_(value) end)
      local q = ridge.quant.static(nn.Sequential(layer):eval(), { calibrate = loader(x),
        rows = false })
      return q, ridge.quant.report(q).layers[1]
    end
    local q = made(0)
    local step = q[1].weight_scale:min():item() * q[1].x_scale:item()
    for _, most in ipairs { 127, 128 } do -- weights reach 127; the product counts with 128
      local room = 2 ^ 31 - 1 - 255 * most * 60000
      for _, part in ipairs { 0.9, 0.999, 1.1 } do
        local found, line = made(room * part * step)
        if most == 128 and part < 1 then assert.equal('i8', line.kind) end
        if line.kind == 'f32' then assert.matches('sums in i32 have room', line.why) end
        assert.is_true(apart(found(x), layer(x)) < 0.1 * room * step)
      end
    end
  end)

  it('answers in the type of the net', function()
    local x = ridge.randn(16, 4):to 'bf16'
    local net = nn.Sequential(nn.Linear(4, 4, { seed = 1 }), nn.ReLU(),
      nn.Linear(4, 3, { seed = 2 })):eval():to 'bf16'
    local q = ridge.quant.static(net, { calibrate = loader(x), rows = false })
    assert.same({ 'u8', 'bf16' }, { q[1](x).dtype, q(x).dtype })
    assert.is_true(apart(q(x):to 'f32', net(x):to 'f32') < 0.1)
  end)

  it('takes bytes from the layer before alone', function()
    local x = ridge.randn(16, 4)
    local net = nn.Sequential(nn.Linear(4, 4, { seed = 1 }), nn.Linear(4, 4, { seed = 2 })):eval()
    local q = ridge.quant.static(net, { calibrate = loader(x), rows = false })
    local bytes = ridge.full(7, 2, 4, { dtype = 'u8' })
    assert.matches('static_spec.lua:%d+: .*x is u8.2,4., wanted a float type', failure(q, bytes))
    assert.equal('f32', q[2](bytes).dtype)
    net = nn.Sequential(nn.Conv2d(1, 1, 1)):eval()
    q = ridge.quant.static(net, { calibrate = loader(ridge.randn(4, 1, 2, 2)), rows = false })
    assert.matches('wanted a float type', failure(q, ridge.full(7, 1, 1, 2, 2, { dtype = 'u8' })))
  end)

  it('pools bytes between layers, and gives what pooling numbers gives', function()
    for _, layout in ipairs { 'nchw', 'nhwc' } do
      local function pooled(padding)
        local net = nn.Sequential(
          nn.Conv2d(3, 5, 3, { padding = 1, seed = 1, layout = layout, activation = 'relu' }),
          nn.MaxPool2d({ 2, 3 }, { stride = { 1, 2 }, padding = padding, layout = layout }),
          nn.Conv2d(5, 4, 2, { seed = 2, layout = layout })):eval()
        local x = layout == 'nchw' and ridge.randn(8, 3, 8, 7) or ridge.randn(8, 8, 7, 3)
        return net, x, ridge.quant.static(net, { calibrate = loader(x), rows = false })
      end
      local net, x, q = pooled(0)
      assert.equal('quant.MaxPool2d', getmetatable(q[2]).__name)
      assert.same({ 'u8', 'u8' }, { q[1](x).dtype, q[2](q[1](x)).dtype })
      assert.same({ 1, 1 }, { q[1]:conversions(), q[3]:conversions() })
      local alone = q:clone()
      alone[1].out = nil
      assert.equal(0, apart(q(x), alone(x)))
      assert.is_true(apart(q(x), net(x)) < 0.1)
      local _, _, padded = pooled(1)
      assert.equal('nn.MaxPool2d', getmetatable(padded[2]).__name)
      assert.is_nil(padded[1].out)
    end
  end)

  it('hands no bytes to what computes with numbers', function()
    local net = nn.Sequential(nn.Linear(4, 4, { seed = 1 }), nn.LayerNorm(4),
      nn.Linear(4, 4, { seed = 2 })):eval()
    local x = ridge.randn(16, 4)
    local q = ridge.quant.static(net, { calibrate = loader(x), rows = false })
    assert.same({ 2, 2 }, { q[1]:conversions(), q[3]:conversions() })
    assert.is_true(apart(q(x), net(x)) < 0.1)
  end)

  it('names schemes by their backends: a scale for each output, or one', function()
    local net, x = convolutions()
    local function made(backend)
      return ridge.quant.static(net, { calibrate = loader(x), rows = false, backend = backend })
    end
    local a, b = made 'fbgemm', made 'qnnpack'
    assert.same({ 6, 6, 8 }, { a[1].weight_scale.count, a[4].weight_scale.count,
      a[8].weight_scale.count })
    -- one scale for a depthwise convolution would cost most of the accuracy
    assert.same({ 1, 6, 1 }, { b[1].weight_scale.count, b[4].weight_scale.count,
      b[8].weight_scale.count })
    assert.matches('4: depthwise: a scale for each channel', tostring(ridge.quant.report(b)))
    -- depthwise is that each output has one input, and not that there are as many of both
    local net2 = nn.Sequential(nn.Conv2d(2, 4, 3, { groups = 2, seed = 1 }),
      nn.Conv2d(4, 4, 3, { seed = 2 }), nn.Conv2d(4, 4, 3, { groups = 2, seed = 3 })):eval()
    local c = ridge.quant.static(net2, { rows = false, backend = 'qnnpack',
      calibrate = loader(ridge.randn(8, 2, 9, 9)) })
    assert.same({ 4, 1, 1 }, { c[1].weight_scale.count, c[2].weight_scale.count,
      c[3].weight_scale.count })
    assert.matches('qnnpack chooses the scheme, one scale for each weight, and no library',
      tostring(ridge.quant.report(b)))
  end)

  it('has one range for what a concat joins', function()
    local Two = nn.class 'Two'
    function Two:init()
      self.a = self:child('a', nn.Linear(4, 4, { seed = 1 }))
      self.b = self:child('b', nn.Linear(4, 4, { seed = 2 }))
      self.c = self:child('c', nn.Linear(8, 2, { seed = 3 }))
    end
    function Two:forward(x) return self.c(ridge.concat({ self.a(x), self.b(x) * 10 }, 2)) end
    local net, x = Two():eval(), ridge.randn(32, 4)
    local q = ridge.quant.static(net, { calibrate = loader(x), rows = false })
    local joined = ridge.concat({ net.a(x), net.b(x) * 10 }, 2)
    assert.near((joined:max():item() - joined:min():item()) / 255, q.c.x_scale:item(), 1e-7)
    assert.is_nil(q.a.out)
    assert.is_true(apart(q(x), net(x)) < 0.2)
  end)

  it('observes without training, and says how many batches there were', function()
    local net, x = convolutions()
    local mean = net[2].running_mean:tolist()
    local q = ridge.quant.static(net, { calibrate = loader(x), rows = false, batches = 5 })
    assert.same(mean, net[2].running_mean:tolist())
    assert.matches('calibrated with 2 batches; 5 were asked for', tostring(ridge.quant.report(q)))
    local few = ridge.quant.static(net,
      { calibrate = loader(x, nil, 4), rows = false, batches = 1 })
    assert.near((x:narrow(1, 1, 4):max():item() - x:narrow(1, 1, 4):min():item()) / 255,
      few[1].x_scale:item(), 1e-7)
    assert.matches('calibrated with 1 batch$', ridge.quant.report(few).notes[2])
    assert.matches('in training mode', failure(ridge.quant.static, net:train(),
      { calibrate = loader(x) }))
  end)

  it('refuses to test on what it was calibrated with', function()
    local net, x = convolutions()
    local labels = ridge.randint(0, 4, 16)
    local q = ridge.quant.static(net, { calibrate = loader(x), rows = false })
    -- the same rows in another order and another tensor
    local again = ridge.data.Loader({ x:flip(1):clone(), labels }, { batch = 3 })
    assert.matches('16 of the 16 rows of test are rows of the calibration data',
      failure(ridge.quant.compare, net, q,
        { shape = { 1, 3, 7, 7 }, test = again, iterations = 1 }))
    assert.matches('rows of validate are rows of', failure(ridge.quant.static, net,
      { calibrate = loader(x), rows = false, validate = loader(x, labels) }))
  end)

  it('tells accuracy after 1, 10 and all batches', function()
    local net, x = convolutions()
    local other = ridge.randn(40, 3, 7, 7, { generator = ridge.generator(9) })
    local q = ridge.quant.static(net, { calibrate = loader(ridge.concat({ x, x * 2 }, 1), nil, 2),
      rows = false, validate = loader(other, net(other):argmax(2)) })
    local n = {}
    for i, point in ipairs(q._quant.curve) do n[i] = point.batches end
    assert.same({ 1, 10, 16 }, n)
    assert.is_true(q._quant.curve[3].share > 0.9)
    assert.matches('after 1 batch: accuracy %d', tostring(ridge.quant.report(q)))
  end)

  it('takes a layer only where it is measured to be no slower', function()
    local net, x = convolutions()
    for _, row in ipairs(ridge.quant.report(ridge.quant.static(net, { calibrate = loader(x) }))
      .layers) do
      if row.kind == 'f32' then assert.matches('of its time in f32 at 1 row', row.why) end
    end
  end)

  it('is a preset by name', function()
    local net, x = convolutions()
    local opts = ridge.quant.int8 { calibrate = loader(x), rows = false }
    assert.same({ 'minmax', 'u8', 'fbgemm', 100 }, { opts.observer, opts.activations, opts.backend,
      opts.batches })
    assert.equal('i8', ridge.quant.report(ridge.quant.static(net, opts)).layers[1].kind)
    assert.matches("did you mean 'observer'", failure(ridge.quant.int8, { observe = 'mse' }))
  end)

  it('names the layer that cannot be', function()
    local net, x = convolutions()
    local function refused(pattern, opts, of)
      opts.rows = false
      assert.matches(pattern, failure(ridge.quant.static, of or net, opts))
    end
    refused('option calibrate is missing', {})
    refused('has no batch', { calibrate = { each = function() return function() end end } })
    refused('static_spec.lua:%d+: quant.static: 1: what comes in has nan or inf',
      { calibrate = loader(x * (1 / 0)) })
    refused('1: everything that came in is 0: a constant', { calibrate = loader(x * 0) })
    local Idle = nn.class 'Idle'
    function Idle:init()
      self.used = self:child('used', nn.Linear(3, 3))
      self.idle = self:child('idle', nn.Linear(3, 3))
    end
    function Idle:forward(y) return self.used(y) end
    refused('quant.static: idle: it never ran', { calibrate = loader(ridge.randn(4, 3)) },
      Idle():eval())
    refused("did you mean", { calibrate = loader(x), skip = { 'nn.Sequential1' } })
    local large = nn.Linear(3, 3):eval()
    ridge.no_grad(function() large.bias:fill_(1e9) end)
    local q = ridge.quant.static(large, { calibrate = loader(ridge.randn(8, 3)), rows = false })
    assert.matches('steps of the scales', ridge.quant.report(q).layers[1].why)
    assert.equal('f32', ridge.quant.report(q).layers[1].kind)
  end)
end)

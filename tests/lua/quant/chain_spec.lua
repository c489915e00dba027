-- SPDX-License-Identifier: MIT
-- Bytes that stay bytes where values meet: sums around modules, branches side by side.
local ridge = require 'ridge'
local nn = ridge.nn

local path = os.tmpname()

local function static(net, x, more)
  local opts = { calibrate = ridge.data.Loader({ x }, { batch = 16 }), rows = false }
  for name, value in pairs(more or {}) do opts[name] = value end
  return ridge.quant.static(net, opts)
end

local function apart(a, b) return (a:to 'f32' - b:to 'f32'):abs():max():item() end

local function conv(c_in, c_out, kernel, seed, stride)
  return nn.Conv2d(c_in, c_out, kernel, { padding = (kernel - 1) / 2, seed = seed, bias = false,
    stride = stride or 1 })
end

local function inner(c_in, c_out, seed, stride)
  return nn.Sequential(conv(c_in, c_out, 3, seed, stride), nn.BatchNorm(c_out), nn.ReLU(),
    conv(c_out, c_out, 3, seed + 1), nn.BatchNorm(c_out))
end

local x = ridge.randn(32, 3, 12, 12, { generator = ridge.generator(1) })

local function settled(net)
  ridge.no_grad(function() for _ = 1, 3 do net(x) end end)
  return net:eval()
end

-- A small ResNet: pooling before the first sum, and one with a layer on the way around.
local function resnet()
  return settled(nn.Sequential(conv(3, 8, 3, 1), nn.BatchNorm(8), nn.ReLU(), nn.MaxPool2d(2),
    nn.Residual(inner(8, 8, 2)), nn.ReLU(), nn.Residual(inner(8, 12, 4, 2), { around =
    nn.Sequential(conv(8, 12, 1, 6, 2), nn.BatchNorm(12)) }), nn.ReLU(), nn.AvgPool2d(3),
    nn.Flatten(), nn.Linear(12, 5, { seed = 7 })))
end

-- A layer alone with what it is told: the numbers that its bytes stand for.
local function numbers(bytes, kind)
  return (bytes:to 'f32' - kind.zero) * kind.scale
end

describe('sums of bytes', function()
  teardown(function() os.remove(path) end)

  it('are what the parts stand for, rounded once', function()
    local net = resnet()
    for _, dtype in ipairs { 'u8', 'i8' } do
      local q = static(net, x, { activations = dtype })
      assert.is_true(apart(q(x), net(x)) < 0.02)
      assert.same({ 'quant.Residual', 'quant.Folded', 'quant.Residual', 'quant.Folded' },
        { getmetatable(q[5]).__name, getmetatable(q[6]).__name, getmetatable(q[7]).__name,
          getmetatable(q[8]).__name })
      local before = q[4](q[1](x))
      local through = q[5].inner(before)
      assert.same({ dtype, dtype, dtype, 'f32' }, { before.dtype, through.dtype,
        q[5](before).dtype, q[7](q[5](before)).dtype })
      local a = numbers(before, { zero = q[5].a_zero, scale = q[5].a_scale:item() })
      local b = numbers(through, { zero = q[5].b_zero, scale = q[5].b_scale:item() })
      local y = numbers(q[5](before), { zero = q[5].out.zero, scale = q[5].y_scale:item() })
      assert.is_true(apart((a + b):relu(), y) <= 0.501 * q[5].y_scale:item())
      -- everybody who reads a value has one scale for it
      assert.equal(q[5].inner[1].x_scale:item(), q[5].a_scale:item())
      assert.equal(q[1].y_scale:item(), q[5].a_scale:item())
      assert.equal(q[7].inner[1].x_scale:item(), q[5].y_scale:item())
      assert.equal(q[7].around[1].x_scale:item(), q[5].y_scale:item())
      assert.equal(4, ridge.quant.compare(net, q, { input = x, iterations = 1 })
        .coverage.conversions)
      q:save(path)
      assert.equal(0, apart(nn.load(path)(x), q(x)))
      assert.equal(0, apart(q:clone()(x), q(x)))
    end
  end)

  it('take the range of a part that no layer reads from the data', function()
    local net = nn.Sequential(nn.Linear(4, 4, { seed = 1 }), nn.Residual(nn.Linear(4, 4,
      { seed = 2 })), nn.Linear(4, 2, { seed = 3 })):eval()
    local rows = ridge.randn(64, 4, { generator = ridge.generator(2) })
    local q = static(net, rows)
    local part = net[2].inner(net[1](rows))
    local range = math.max(part:max():item(), 0) - math.min(part:min():item(), 0)
    assert.near(range / 255, q[2].b_scale:item(), 1e-6)
    assert.is_true(apart(q(rows), net(rows)) < 0.05)
    assert.matches('values meet in bytes at 1 place', tostring(ridge.quant.report(q)))
  end)

  it('are of numbers where a part is always the same', function()
    local net = nn.Sequential(nn.Linear(4, 4, { seed = 1 }), nn.Residual(nn.Linear(4, 4,
      { seed = 2 })), nn.Linear(4, 2, { seed = 3 })):eval()
    ridge.no_grad(function()
      net[2].inner.weight:zero_()
      net[2].inner.bias:fill_(0.5)
    end)
    local rows = ridge.randn(64, 4, { generator = ridge.generator(2) })
    local q = static(net, rows)
    assert.equal('nn.Residual', getmetatable(q[2]).__name)
    assert.is_true(apart(q(rows), net(rows)) < 0.05)
  end)

  it('are of numbers where a part is none of bytes, or nothing is known of it', function()
    local cases = {
      nn.Sequential(nn.Residual(nn.Linear(4, 4, { seed = 4 })), nn.Linear(4, 2, { seed = 5 })),
      nn.Sequential(nn.Linear(4, 4, { seed = 6 }), nn.Residual(nn.Sequential(nn.Linear(4, 4,
        { seed = 7 }), nn.Tanh(), nn.LayerNorm(4))), nn.Linear(4, 2, { seed = 8 })),
    }
    local rows = ridge.randn(64, 4, { generator = ridge.generator(2) })
    for _, net in ipairs(cases) do
      net:eval()
      local q = static(net, rows)
      assert.is_true(apart(q(rows), net(rows)) < 0.05)
      for _, c in ipairs(q.children) do
        assert.is_not.equal('quant.Residual', getmetatable(c.module).__name)
        assert.is_nil(c.module.out)
      end
    end
  end)

  it('keep what another reads: an activation inside is no part of the sum before', function()
    -- the second sum goes around with what comes before the activation
    local net = settled(nn.Sequential(conv(3, 8, 3, 1), nn.Residual(inner(8, 8, 2)),
      nn.Residual(nn.Sequential(nn.ReLU(), conv(8, 8, 3, 4), nn.ReLU(), conv(8, 8, 3, 5))),
      nn.ReLU(), conv(8, 4, 1, 6)))
    local q = static(net, x)
    assert.is_true(apart(q(x), net(x)) < 0.05)
    assert.equal('nn.ReLU', getmetatable(q[3].inner[1]).__name)
  end)

  it('are left where somebody calls what is in them', function()
    local Reach = nn.class 'Reach'
    function Reach:init()
      self.s = self:child('s', nn.Sequential(nn.Linear(4, 4, { seed = 1 }),
        nn.Residual(nn.Linear(4, 4, { seed = 2 })), nn.Linear(4, 4, { seed = 3 })))
    end
    function Reach:forward(v) return self.s(v) + self.s[2].inner(v) end
    local rows = ridge.randn(64, 4, { generator = ridge.generator(2) })
    local net = Reach():eval()
    local q = static(net, rows)
    assert.is_true(apart(q(rows), net(rows)) < 0.05)
    assert.equal('nn.Residual', getmetatable(q.s[2]).__name)
    assert.matches('s.2 %(nn.Residual%) is taken apart', tostring(ridge.quant.report(q)))
  end)

  it('are taken where they are measured to be no slower', function()
    local faster, net = require 'ridge.quant.faster', resnet()
    local asked, answer = faster.asked, nil
    finally(function() faster.asked = asked end)
    faster.asked = function()
      return { compare = function(_, key, before, after, v)
        if key == 'joins' then
          assert.same({ 1, 'nn.Residual', 'quant.Residual' }, { v:size(1),
            getmetatable(before[5]).__name, getmetatable(after[5]).__name })
          return answer
        end
        return { keep = true }
      end }
    end
    answer = { keep = false, ratio = 1.2, lo = 1.1, hi = 1.3 }
    local q = static(net, x, { rows = 1 })
    assert.equal('nn.Residual', getmetatable(q[5]).__name)
    assert.matches('values meet in f32 at 2 places %(sums, concats%): bytes there take 1.20 '
      .. '%[1.10 .. 1.30%] of the time, at 1 row', tostring(ridge.quant.report(q)))
    answer = { keep = true }
    q = static(net, x, { rows = 1 })
    assert.equal('quant.Residual', getmetatable(q[5]).__name)
    assert.matches('values meet in bytes at 2 places', tostring(ridge.quant.report(q)))
  end)
end)

describe('branches of bytes', function()
  local function fire(c_in, c_out, seed)
    return nn.Concat(2, nn.Conv2d(c_in, c_out, 1, { activation = 'relu', seed = seed }),
      nn.Conv2d(c_in, c_out, 3, { padding = 1, seed = seed + 1 }))
  end

  it('have the scale of who reads all of them', function()
    local net = nn.Sequential(nn.Conv2d(3, 4, 3, { activation = 'relu', seed = 1 }), fire(4, 3, 2),
      nn.MaxPool2d(2), nn.Conv2d(6, 2, 1, { seed = 4 })):eval()
    local q = static(net, x)
    assert.is_true(apart(q(x), net(x)) < 0.02)
    assert.same({ 'quant.Concat', 'quant.MaxPool2d' }, { getmetatable(q[2]).__name,
      getmetatable(q[3]).__name })
    local scale = q[4].x_scale:item()
    for i = 1, 2 do
      assert.equal(scale, q[2].children[i].module.y_scale:item())
      assert.equal(q[4].x_zero, q[2].children[i].module.out.zero)
    end
    assert.same({}, q[2].again)
    assert.equal('u8', q[2](q[1](x)).dtype)
    q:save(path)
    assert.equal(0, apart(nn.load(path)(x), q(x)))
    local r = ridge.onnx.export(q, path, { x = x })
    assert.is_nil(r.validation_error)
    -- an f32 sum beside an exact one may round to the next byte
    assert.is_true(r.max_difference <= 1 / 128)
  end)

  it('are of numbers before two poolings of the same', function()
    local function branch(kernel, seed)
      return nn.Sequential(nn.MaxPool2d(kernel, { stride = 2 }),
        nn.Conv2d(4, 3, 1, { seed = seed }))
    end
    local net = nn.Sequential(nn.Conv2d(3, 4, 3, { activation = 'relu', seed = 1 }),
      nn.Concat(2, branch(2, 2), branch(2, 3)), nn.Conv2d(6, 2, 1, { seed = 4 })):eval()
    local q = static(net, x)
    assert.is_true(apart(q(x), net(x)) < 0.05)
    assert.equal('f32', q[1](x).dtype)
    for i = 1, 2 do
      assert.equal('nn.MaxPool2d', getmetatable(q[2].children[i].module[1]).__name)
      assert.is_nil(q[2].children[i].module[2].fed)
    end
  end)

  it('round a part once more that others read with a scale of their own', function()
    local net = nn.Sequential(nn.Conv2d(3, 4, 3, { seed = 1 }), nn.Concat(2, nn.Dropout(0.5),
      nn.Conv2d(4, 2, 1, { seed = 2, bias = false })), nn.Conv2d(6, 2, 1, { seed = 3 })):eval()
    ridge.no_grad(function() net[2].children[2].module.weight:mul_(20) end)
    local q = static(net, x)
    assert.is_true(apart(q(x), net(x)) < 0.3)
    assert.equal('quant.Concat', getmetatable(q[2]).__name)
    assert.same({ q[2].children[2].module.x_zero }, { q[2].again['1'].zero })
    assert.is_true(q[2].scale_1:item() < q[2].y_scale:item())
    local bytes = q[1](x)
    local part = numbers(q[2](bytes):narrow(2, 1, 4), { zero = q[2].out.zero,
      scale = q[2].y_scale:item() })
    local was = numbers(bytes, { zero = q[1].out.zero, scale = q[1].y_scale:item() })
    assert.is_true(apart(part, was) <= 0.501 * q[2].y_scale:item())
  end)

  it('are of numbers where bytes are measured to be slower, and nothing else is', function()
    local faster, told = require 'ridge.quant.faster', {}
    local net = nn.Sequential(nn.Conv2d(3, 4, 3, { activation = 'relu', seed = 1 }), fire(4, 3, 2),
      nn.MaxPool2d(2), nn.Conv2d(6, 2, 1, { seed = 4 })):eval()
    local asked = faster.asked
    finally(function() faster.asked = asked end)
    faster.asked = function()
      return { compare = function(_, key, before, after)
        if key ~= 'joins' then return { keep = true } end
        told[1] = { getmetatable(before[2]).__name, getmetatable(after[2]).__name }
        return { keep = false, ratio = 1.2, lo = 1.1, hi = 1.3 }
      end }
    end
    local q = static(net, x, { rows = 1 })
    assert.same({ { 'nn.Concat', 'quant.Concat' } }, told)
    assert.same({ 'nn.Concat', 'quant.Conv2d' }, { getmetatable(q[2]).__name,
      getmetatable(q[4]).__name })
    assert.is_true(apart(q(x), net(x)) < 0.02)
  end)

  it('are of numbers where who reads them takes no bytes', function()
    local net = nn.Sequential(nn.Conv2d(3, 4, 3, { seed = 1 }), fire(4, 3, 2), nn.Tanh()):eval()
    local q = static(net, x)
    assert.same({ 'nn.Concat', 'f32' }, { getmetatable(q[2]).__name, q(x).dtype })
    assert.is_true(apart(q(x), net(x)) < 0.05)
  end)
end)

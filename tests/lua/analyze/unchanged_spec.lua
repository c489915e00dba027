-- SPDX-License-Identifier: MIT
-- What net:analyze leaves behind: nothing, also where the net raises.

local ridge = require 'ridge'
local bits = dofile 'tests/lua/bits.lua'
local nn = ridge.nn
local ranges = require 'ridge.ranges'

local QUICK = { rounds = 2, roof = false }

-- Every tensor of a net as bits.
local function state_of(net)
  local list = {}
  for _, p in ipairs(net:parameters()) do list[#list + 1] = p.name .. bits.of(p.tensor) end
  return table.concat(list)
end

local function net_of()
  return nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm(3), nn.ReLU(), nn.Dropout(0.5),
    nn.Flatten(), nn.Linear(3 * 4 * 4, 2))
end

describe('analysing a net', function()
  it('leaves parameters, running statistics, modes and random numbers', function()
    local net, x = net_of(), ridge.randn(4, 2, 6, 6)
    net[2]:eval()
    local before, seen = state_of(net), bits.of(x)
    ridge.seed(7)
    local wanted = bits.of(ridge.randn(3))
    ridge.seed(7)
    net:analyze(x, QUICK)
    assert.equal(wanted, bits.of(ridge.randn(3)))
    assert.equal(before, state_of(net))
    assert.equal(seen, bits.of(x))
    assert.same({ true, false, true }, { net.training, net[2].training, net[3].training })
    net:train()
    net:analyze(x, QUICK) -- now running statistics are written to, and put back
    assert.equal(before, state_of(net))
    net(x)
    assert.not_equal(before, state_of(net)) -- as a call of it does change them
    assert.is_false(net:eval():analyze(x, QUICK).backward)
    assert.is_false(net.training)
  end)

  it('leaves other streams of random numbers', function()
    local generator = ridge.generator(3)
    local Noisy = nn.class 'Noisy'
    function Noisy:init() self.layer = self:child('layer', nn.Linear(4, 4)) end
    function Noisy:forward(x)
      return self.layer(x + ridge.randn(2, 4, { generator = generator }))
    end
    Noisy():analyze(ridge.randn(2, 4), QUICK)
    assert.same({ seed = 3, offset = 0 }, generator:state())
    local random = require 'ridge.random'
    assert.is_nil(random.drawn)
  end)

  it('leaves gradients, those there are and those there are not, and calls no hook', function()
    local net, x = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2)), ridge.randn(4, 3)
    net[1](x):sum():backward()
    local told = 0
    local handle = net[1].weight:on_gradient(function() told = told + 1 end)
    local before = bits.of(net[1].weight.grad)
    for _, segments in ipairs { false, 2 } do -- parts that are computed again add to gradients
      net:recompute(segments)
      net:analyze(x, QUICK)
      assert.equal(before, bits.of(net[1].weight.grad))
      assert.is_nil(net[2].weight.grad)
      assert.equal(0, told)
    end
    net(x):sum():backward()
    assert.equal(1, told) -- it is called again where it should be
    handle:remove()
  end)

  it('goes through parts that a forward computes again', function()
    local Again = nn.class 'Again'
    function Again:init() self.layer = self:child('layer', nn.Linear(6, 6)) end
    function Again:forward(x) return ridge.recompute(self.layer, x) end
    local net = Again()
    local a = net:analyze(ridge.randn(4, 6), QUICK)
    assert.equal(2 * 4 * 36, a.flops)
    assert.equal(2 * 2 * 4 * 36, a.backward_flops) -- forward again, and the gradient of the weight
    assert.is_nil(net.layer.weight.grad)
  end)

  it('leaves an input that forward writes to, and what forward counts in the net', function()
    local Writes = nn.class 'Writes'
    function Writes:init() self.count = 0 end
    function Writes:forward(x)
      self.count, self.seen = self.count + 1, true
      x:mul_(2)
      return x + 0
    end
    local net, x = Writes(), ridge.randn(3)
    local before = bits.of(x)
    net:analyze(x, { rounds = 2, roof = false, backward = false })
    assert.equal(before, bits.of(x))
    assert.same({ 0 }, { net.count, net.seen })
  end)

  it('says where forward writes to what is trained', function()
    local Clips = nn.class 'Clips'
    function Clips:init() self:param('weight', ridge.ones(3)) end
    function Clips:forward(x)
      ridge.no_grad(function() self.weight:mul_(0.5) end)
      return x * self.weight
    end
    local a = Clips():analyze(ridge.randn(3), { rounds = 0, roof = false })
    assert.matches('forward writes to the parameter weight', a.notes[1])
  end)

  it('that raises leaves all of it too, and says what the net says', function()
    local Fails = nn.class 'Fails'
    function Fails:forward(x)
      self.calls = (self.calls or 0) + 1
      x:exp()
      error 'on purpose'
    end
    local net, x = nn.Sequential(nn.BatchNorm(2), nn.Dropout(0.5), Fails()), ridge.randn(4, 2)
    local before, default = state_of(net), require('ridge.random').default():state()
    local ok, err = pcall(net.analyze, net, x, QUICK)
    assert.is_false(ok)
    assert.matches('on purpose', tostring(err))
    assert.equal(before, state_of(net))
    assert.same(default, require('ridge.random').default():state())
    assert.is_nil(net[3].calls)
    assert.is_false(ranges.on)
    assert.is_nil(ranges.heard)
    assert.is_true(net.training)
    local reader = require('ridge.ring').open('op', 10) -- the ring is as it was
    reader:close()
    assert.is_true(nn.Linear(2, 2):analyze(x, QUICK).step_ms > 0)
  end)

  it('releases what it made', function()
    local net, x = net_of(), ridge.randn(4, 2, 6, 6)
    local function live()
      collectgarbage()
      collectgarbage()
      return ridge.memory.stats().live
    end
    net:analyze(x, QUICK)
    local before = live()
    for _ = 1, 3 do net:analyze(x, QUICK) end
    assert.is_true(live() <= before)
  end)
end)

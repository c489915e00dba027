-- SPDX-License-Identifier: MIT
-- quant.smooth: what the net computes stays, ranges of columns become alike, and what cannot be
-- moved through is left.
local ridge = require 'ridge'
local nn = ridge.nn

local function failure(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok, 'an error is expected')
  return tostring(e)
end

local function loader(x) return ridge.data.Loader({ x }, { batch = 8, shuffle = false }) end
local function apart(a, b) return (a - b):abs():max():item() end

-- Columns of very different sizes come into the second layer.
local function uneven(between)
  local net = nn.Sequential(nn.Linear(6, 16, { seed = 1 }), between, nn.Linear(16, 4, { seed = 2 }))
  ridge.no_grad(function() net[1].weight:mul_((ridge.rand(16, 1) * 6):exp()) end)
  return net:eval(), ridge.randn(64, 6)
end

describe('quant.smooth', function()
  it('moves range and leaves what is computed', function()
    local net, x = uneven(nn.ReLU())
    local before, weight = net(x), net[3].weight
    local moved = ridge.quant.smooth(net, { calibrate = loader(x), alpha = 0.5 })
    assert.same({ 1, '3', '1' }, { #moved, moved[1].layer, moved[1].from })
    assert.matches('changed the net itself', tostring(moved))
    assert.matches('^<quant.Moved: its fields were changed: ', tostring(setmetatable({ 1 },
      getmetatable(moved)))) -- what somebody wrote into it
    assert.equal(weight._t, net[3].weight._t)
    assert.is_true(apart(before, net(x)) < 1e-4 * before:abs():max():item())
    -- with alpha 1/2 the largest of a column of x is that of the column of the weight
    local columns = net[2](net[1](x)):abs():max(1)
    assert.is_true(apart(columns / net[3].weight:abs():max(1), ridge.ones(16)) < 1e-3)
  end)

  it('makes one scale for x lose less', function()
    local net, x = uneven(nn.Dropout(0.5))
    local function loss()
      local q = ridge.quant.static(net, { calibrate = loader(x), rows = false, skip = { '1' } })
      return (q(x) - net(x)):square():mean():item()
    end
    local before = loss()
    ridge.quant.smooth(net, { calibrate = loader(x) })
    assert.is_true(loss() < 0.5 * before)
  end)

  it('goes through norms, and nothing that bends', function()
    local net = nn.Sequential(nn.LayerNorm(5), nn.Linear(5, 5, { seed = 1, activation = 'gelu' }),
      nn.Linear(5, 5, { seed = 2 }), nn.Tanh(), nn.Linear(5, 3, { seed = 3 })):eval()
    local x = ridge.randn(16, 5) * ridge.tensor { 1, 10, 100, 1, 1 }
    local before = net(x)
    local moved = ridge.quant.smooth(net, { calibrate = loader(x), alpha = 0.7 })
    assert.equal(1, #moved)
    assert.equal('2', moved[1].layer)
    assert.is_true(apart(before, net(x)) < 1e-5)
    assert.is_true(apart(net[1].weight, ridge.ones(5)) > 0.01)
  end)

  it('leaves weights that another module reads as well', function()
    local x = ridge.randn(16, 6)
    local function tied(first, second)
      local net = nn.Sequential(nn.Linear(6, 6, { seed = 1 }), nn.Linear(6, 6, { seed = 2 }),
        nn.GELU(), nn.Linear(6, 6, { seed = 3 }), nn.Linear(6, 6, { seed = 4 })):eval()
      net[first].weight = net[second].weight
      local before = net(x)
      local moved = ridge.quant.smooth(net, { calibrate = loader(x) })
      assert.is_true(apart(before, net(x)) < 1e-5)
      return moved
    end
    for _, pair in ipairs { { 1, 2 }, { 1, 4 }, { 2, 4 } } do
      local ok, moved = pcall(tied, pair[1], pair[2])
      if pair[2] == 2 then
        assert.same({ 1, '5' }, { #moved, moved[1].layer })
      else
        assert.is_false(ok)
        assert.matches('with weights of their own', tostring(moved))
      end
    end
  end)

  it('moves nothing between modules that are called one by one', function()
    local Parts = nn.class 'Parts'
    function Parts:init()
      self.s = self:child('s', nn.Sequential(nn.Linear(6, 6, { seed = 1 }),
        nn.Linear(6, 6, { seed = 2 })))
      self.t = self:child('t', nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 6, { seed = 3 })))
    end
    function Parts:forward(x)
      local h = self.s[1](x)
      return self.t(self.s[2](h) + h)
    end
    local net, x = Parts():eval(), ridge.randn(16, 6)
    local before = net(x)
    local moved = ridge.quant.smooth(net, { calibrate = loader(x) })
    assert.same({ 1, 't.2' }, { #moved, moved[1].layer })
    assert.is_true(apart(before, net(x)) < 1e-5)
  end)

  it('moves as much as alpha says, in numbers worked out by hand', function()
    for _, alpha in ipairs { 0, 0.25, 1 } do
      local first = nn.Linear(2, 2, { bias = false })
      local net = nn.Sequential(first, nn.Linear(2, 2, { bias = false })):eval()
      ridge.no_grad(function()
        first.weight:copy_(ridge.tensor { { 1, 0 }, { 0, 1 } })
        net[2].weight:copy_(ridge.tensor { { 2, -0.5 }, { 1, 0.25 } })
      end)
      -- columns of what comes in reach to 16 and 4, those of the weight to 2 and 0.5
      local x = ridge.tensor({ { 16, 1 }, { -3, -4 } }):tile(4, 1)
      ridge.quant.smooth(net, { calibrate = loader(x), alpha = alpha })
      local s1 = 16 ^ alpha / 2 ^ (1 - alpha)
      local s2 = 4 ^ alpha / 0.5 ^ (1 - alpha)
      local second, before = net[2].weight, first.weight
      for _, each in ipairs { { 2 * s1, second:get(1, 1) }, { -0.5 * s2, second:get(1, 2) },
        { s1, second:get(2, 1) }, { 0.25 * s2, second:get(2, 2) }, { 1 / s1, before:get(1, 1) },
        { 1 / s2, before:get(2, 2) } } do
        assert.near(each[1], each[2], 1e-6 * math.abs(each[1]))
      end
    end
  end)

  it('keeps masks, and leaves weights that something else computes', function()
    local net, x = uneven(nn.ReLU())
    local m = ridge.prune.magnitude(net, { sparsity = 0.5, scope = 'layer' })
    local masks, before = { m[1].weight_mask:clone(), m[3].weight_mask:clone() }, m(x)
    ridge.quant.smooth(m, { calibrate = loader(x) })
    for i, at in ipairs { 1, 3 } do
      assert.is_true(m[at].weight_mask:eq(masks[i]):all():item() == 1)
      assert.equal(0, m[at].weight:ne(0):logical_and(masks[i]:logical_not()):any():item())
    end
    assert.is_true(apart(before, m(x)) < 1e-4 * before:abs():max():item())
    assert.is_true(apart(net[3].weight * masks[2]:to 'f32', m[3].weight) > 1e-3, 'range moved')
    local rows = ridge.prune.magnitude(net, { sparsity = 0.5, pattern = 'row', scope = 'layer' })
    ridge.quant.smooth(rows, { calibrate = loader(x) })
    assert.truthy(rows[1].bias_mask)

    local rounding = ridge.quant.prepare(nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 4)),
      { bits = 4 }):eval()
    assert.matches('no dense layer follows', failure(ridge.quant.smooth, rounding,
      { calibrate = loader(ridge.randn(16, 32)) }))
  end)

  it('leaves layers that are skipped, and what stands before them', function()
    local net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)):eval()
    local kept, first = net[3].weight:tolist(), net[1].weight:tolist()
    local moved = ridge.quant.smooth(net, { calibrate = loader(ridge.randn(16, 4)),
      skip = { '3' } })
    assert.same({ 1, '2' }, { #moved, moved[1].layer })
    assert.same(kept, net[3].weight:tolist())
    assert.is_false(pcall(assert.same, first, net[1].weight:tolist()))
  end)

  it('refuses what it cannot move', function()
    local net, x = uneven(nn.Tanh())
    assert.matches('smooth_spec.lua:%d+: quant.smooth: no dense layer follows',
      failure(ridge.quant.smooth, net, { calibrate = loader(x) }))
    net = uneven(nn.ReLU())
    local before = net[3].weight:tolist()
    assert.matches('3: what comes in has nan', failure(ridge.quant.smooth, net,
      { calibrate = loader(x * (0 / 0)) }))
    assert.same(before, net[3].weight:tolist())
    assert.equal('nn.Linear', getmetatable(net[3]).__name)
    assert.matches('in training mode', failure(ridge.quant.smooth, net:train(),
      { calibrate = loader(x) }))
  end)
end)

-- SPDX-License-Identifier: MIT
-- What outputs are worth: each way beside its formula.
local ridge = require 'ridge'
local nn = ridge.nn

local function failure(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok, 'an error is expected')
  return tostring(e)
end

local function near(expected, found)
  assert.equal(#expected, #found)
  for i, v in ipairs(expected) do
    assert.is_true(math.abs(v - found[i]) <= 1e-5 * (1 + math.abs(v)), ('%g beside %g'):format(v,
      found[i]))
  end
end

local function mlp()
  ridge.seed(7)
  local net = nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 2)):eval()
  net[1].weight = ridge.tensor { { 3, -3, 3 }, { 5, 0, 0 } }
  return net
end

local x = ridge.randn(12, 3, { generator = ridge.generator(1) })
local labels = x:narrow(2, 1, 1):gt(0):to('i64'):reshape(12)
local function loader(...) return ridge.data.Loader({ ... }, { batch = 4, shuffle = false }) end

describe('prune.importance', function()
  it('by l1 and l2 is of the weights', function()
    near({ 3, 5 / 3 }, ridge.prune.importance(mlp()):of '1')
    near({ 3, 5 / math.sqrt(3) }, ridge.prune.importance(mlp(), { by = 'l2' }):of '1')
    local a = ridge.prune.importance(mlp(), { by = 'random', seed = 3 })
    assert.same(a:of '1', ridge.prune.importance(mlp(), { by = 'random', seed = 3 }):of '1')
    assert.are_not.same(a:of '1', ridge.prune.importance(mlp(), { by = 'random' }):of '1')
  end)

  it('by activation is the mean magnitude on data, in evaluation mode', function()
    local net = mlp()
    local i = ridge.prune.importance(net, { by = 'activation', calibrate = loader(x) })
    near(ridge.inference(net[1], x):abs():mean({ 1 }):tolist(), i:of '1')
    near(ridge.inference(net, x):abs():mean({ 1 }):tolist(), i:of '3')
    assert.equal(3, i.batches)
    assert.equal(1, ridge.prune.importance(net, { by = 'activation', calibrate = loader(x),
      batches = 1 }).batches)
    local conv = nn.Sequential(nn.Conv2d(1, 3, 1), nn.Dropout(0.5))
    local images = ridge.randn(4, 1, 5, 5)
    near(ridge.inference(conv[1], images):abs():mean({ 1, 3, 4 }):tolist(),
      ridge.prune.importance(conv, { by = 'activation', calibrate = loader(images) }):of '1')
    local last = nn.Sequential(nn.Conv2d(2, 3, 1, { layout = 'nhwc' }))
    local rows = ridge.randn(4, 5, 6, 2)
    near(ridge.inference(last[1], rows):abs():mean({ 1, 2, 3 }):tolist(),
      ridge.prune.importance(last, { by = 'activation', calibrate = loader(rows) }):of '1')
    assert.is_true(conv.training)
    assert.is_nil(rawget(conv[1], 'forward'))
  end)

  it('by taylor is the squared change of the loss to first order, batch by batch', function()
    local net = mlp()
    local i = ridge.prune.importance(net, { by = 'taylor', calibrate = loader(x, labels) })
    local expected = { 0, 0 }
    for at = 1, 9, 4 do
      local function loss(factor, row)
        local c = net:clone():eval()
        ridge.inference(function()
          c[1].weight:narrow(1, row, 1):mul_(factor)
          c[1].bias:narrow(1, row, 1):mul_(factor)
        end)
        return ridge.inference(function()
          return nn.cross_entropy(c(x:narrow(1, at, 4)), labels:narrow(1, at, 4)):item()
        end)
      end
      for row = 1, 2 do -- the derivative along the row itself
        expected[row] = expected[row] + ((loss(1.01, row) - loss(0.99, row)) / 0.02) ^ 2
      end
    end
    local found = i:of '1'
    for row = 1, 2 do
      assert.is_true(math.abs(found[row] - expected[row]) < 0.02 * expected[row] + 1e-6,
        ('%g beside %g'):format(found[row], expected[row]))
    end
    assert.is_nil(net[1].weight.grad)
    -- what is not trained at the moment is worth as much
    local frozen = net:clone()
    frozen[1]:freeze()
    near(found, ridge.prune.importance(frozen, { by = 'taylor',
      calibrate = loader(x, labels) }):of '1')
    local own = ridge.prune.importance(net, { by = 'taylor', calibrate = loader(x),
      loss = function(y) return y:square():mean() end })
    assert.equal(2, #own:of '3')
  end)

  it('chooses what shrink takes', function()
    local net = mlp()
    local small = ridge.prune.shrink(net, x, { share = 0.5, time = false })
    assert.same({ { 3, -3, 3 } }, small[1].weight:tolist())
    small = ridge.prune.shrink(net, x * ridge.tensor { 1, 1, 0 }, { share = 0.5, time = false,
      importance = ridge.prune.importance(net, { by = 'activation',
        calibrate = loader(x * ridge.tensor { 1, 0, 0 }) }) })
    assert.same({ { 5, 0, 0 } }, small[1].weight:tolist())
  end)

  it('is not tested on what it was found with', function()
    local data = loader(x, labels)
    local i = ridge.prune.importance(mlp(), { by = 'taylor', calibrate = data })
    assert.truthy(failure(ridge.prune.shrink, mlp(), x, { share = 0.5, importance = i,
      test = data }):find('what was chosen on data is not tested on it', 1, true))
  end)

  it('refuses what it cannot read', function()
    local function refused(opts, net) return failure(ridge.prune.importance, net or mlp(), opts) end
    assert.truthy(refused { by = 'taylor' }:find('option calibrate is missing', 1, true))
    assert.truthy(refused { by = 'taylor', calibrate = loader(x) }:find('reads labels', 1, true))
    assert.truthy(refused { by = 'activation', calibrate = { each = function()
      return function() end
    end } }:find('calibrate has no batch', 1, true))
    assert.truthy(refused { by = 'activation', calibrate = 3 }:find('calibrate', 1, true))
    local class = require('ridge.class').class
    local Idle = class('Idle', nn.Module)
    function Idle:init()
      nn.Module.init(self)
      self:child('used', nn.Linear(3, 2))
      self:child('idle', nn.Linear(3, 2))
    end
    function Idle:forward(v) return self.children[1].module(v) end
    assert.truthy(refused({ by = 'activation', calibrate = loader(x) }, Idle())
      :find('idle never ran', 1, true))
    assert.truthy(refused({ by = 'taylor', calibrate = loader(x, labels) }, Idle())
      :find('no gradient of the loss comes to idle', 1, true))
    local net = mlp()
    net[1].weight:detach():fill_(0 / 0)
    assert.truthy(refused({}, net):find('nan or infinite', 1, true))
  end)
end)

-- SPDX-License-Identifier: MIT
-- Convolutions of few channels and their gradients for x, by tiles: small whole numbers, whose sums
-- are exact, against the plain loops of f64 on every instruction set.

local ridge = require 'ridge'

local random = 20261123
local function draw(low, high)
  random = random * 16807 % 2147483647
  return low + random % (high - low + 1)
end

local function whole(...)
  return (ridge.rand(...) * 9):floor() - 4
end

-- A convolution that is done by tiles, drawn: x, w, b, options.
local function drawn()
  local groups = draw(1, 4) == 1 and draw(2, 3) or 1
  local c, o = draw(1, groups > 1 and 4 or 16), draw(groups > 1 and 2 or 1, groups > 1 and 4 or 12)
  local k = { draw(1, 5), draw(1, 5) }
  local d = { draw(1, 2), draw(1, 2) }
  local pad = { draw(0, (k[1] - 1) * d[1]), draw(0, (k[2] - 1) * d[2]) }
  local h, w = (k[1] - 1) * d[1] + draw(1, 40), (k[2] - 1) * d[2] + draw(1, 70)
  return whole(draw(1, 3), c * groups, h, w), whole(o * groups, c, k[1], k[2]), whole(o * groups),
    { padding = pad, dilation = d, groups = groups }
end

local function paths(f)
  local found = {}
  local profile = ridge.profile(f)
  for _, row in ipairs(profile.operations) do found[row.op .. ' ' .. row.path] = true end
  return found
end

-- y and the gradient for x in a type, of whole numbers.
local function both(x, w, b, o, dtype)
  x, w, b = x:detach():clone():to(dtype):requires_grad_(), w:to(dtype), b:to(dtype)
  local options = { bias = b, padding = o.padding, dilation = o.dilation, groups = o.groups }
  local y = x:conv2d(w, options)
  local dy = ridge.scope(function() return (y:detach() + 1) - (y:detach() * 0.5):floor() * 2 end)
  y:backward(dy)
  return y:detach():to 'f64', x.grad:to 'f64'
end

describe('a convolution of few channels', function()
  local isa = ridge.backend.now().isa
  after_each(function() ridge.backend.set_isa(isa) ridge.backend.set_threads(2) end)

  for _, level in ipairs { 'base', 'avx2', 'avx512' } do
    it('is exact with whole numbers, and so is its gradient: ' .. level, function()
      if not pcall(ridge.backend.set_isa, level) then return pending('no ' .. level) end
      ridge.seed(1)
      random = 20261123
      local tiled = { conv2d = 0, conv2d_back_data = 0 }
      for round = 1, 60 do
        local x, w, b, o = drawn()
        local what = ('%d: %s %s, padding %d %d, dilation %d %d, %d groups'):format(round,
          table.concat(x.shape, 'x'), table.concat(w.shape, 'x'), o.padding[1], o.padding[2],
          o.dilation[1], o.dilation[2], o.groups)
        ridge.backend.set_threads(round % 3 + 1)
        local y, dx
        local found = paths(function() y, dx = both(x, w, b, o, 'f32') end)
        for name in pairs(tiled) do
          if found[name .. ' tiles'] then tiled[name] = tiled[name] + 1 end
        end
        local want, slope = both(x, w, b, o, 'f64')
        assert.is_true(y:equal(want), what)
        assert.is_true(dx:equal(slope), what)
      end
      assert.is_true(tiled.conv2d > 30, 'forward: ' .. tiled.conv2d)
      assert.is_true(tiled.conv2d_back_data > 10, 'gradients: ' .. tiled.conv2d_back_data)
    end)
  end

  it('has the same bits with any number of threads, eager and in a plan', function()
    ridge.seed(2)
    local net = ridge.nn.Sequential(ridge.nn.Conv2d(3, 6, 5, { padding = 2, activation = 'gelu' }),
      ridge.nn.Conv2d(6, 5, 3)):eval()
    local x = ridge.randn(3, 3, 61, 47)
    ridge.backend.set_threads(1)
    local want = ridge.inference(net, x)
    ridge.backend.set_threads(3)
    assert.is_true(ridge.inference(net, x):equal(want))
    local plan = ridge.inference(ridge.capture, function() return net(x) end)
    for _, threads in ipairs { 3, 1, 4, 2 } do -- more than there was room for, too
      ridge.backend.set_threads(threads)
      assert.is_true(plan():equal(want))
    end
    x:mul_(2)
    assert.is_true(plan():equal(ridge.inference(net, x)))
  end)

  it('does not multiply weights that are not finite by its padding', function()
    local x, w = ridge.ones(1, 1, 3, 3), ridge.ones(1, 1, 3, 3)
    local o = { padding = 1 }
    for _, odd in ipairs { 1 / 0, -1 / 0 } do
      w:fill_(1)
      w:narrow(3, 1, 1):narrow(4, 1, 1):fill_(odd) -- reads the row above, the column on the left
      local y = x:conv2d(w, o):reshape(9):tolist()
      assert.same({ 4, 6, 4, 6, odd, odd, 4, odd, odd }, y)
      local plan = ridge.capture(function() return x:conv2d(w, o) end)
      assert.same(y, plan():reshape(9):tolist())
    end
    local q = x:clone():requires_grad_()
    q:conv2d(w, o):sum():backward()
    assert.same({ -1 / 0, -1 / 0, 4, -1 / 0, -1 / 0, 6, 4, 6, 4 },
      q.grad:reshape(9):tolist())
  end)

  it('shows a nan of x in the windows that see it and in no other', function()
    local x = ridge.zeros(2, 1, 6, 7)
    x:narrow(1, 1, 1):narrow(3, 6, 1):narrow(4, 7, 1):fill_(0 / 0) -- the last element of an image
    local y = x:conv2d(ridge.ones(2, 1, 3, 3), { padding = 1 })
    local list = y:reshape(-1):tolist()
    for i, v in ipairs(list) do
      local at = i - 1
      local n, r, c = math.floor(at / 84), math.floor(at / 7) % 6, at % 7
      assert.equal(n == 0 and r >= 4 and c >= 5, v ~= v, at)
    end
  end)
end)

-- SPDX-License-Identifier: MIT
-- Calls that draw random numbers, get no memory and are made again: they draw what they would have
-- drawn, so that seeds go on to mean the same and computing a part again finds its numbers.
local ridge = require 'ridge'
local C = require 'ridge.ffi.lib'
local bits = require 'tests.lua.bits'
local nn = ridge.nn

local stream = require('ridge.random').default()

local LAYERS = {
  ['a product with dropout'] = function()
    return nn.Linear(16, 16, { dropout = 0.5, seed = 1 })
  end,
  ['attention, a body of several calls'] = function()
    return nn.MultiHeadAttention(16, { heads = 2, dropout = 0.5, seed = 1 })
  end,
}

-- What f gives where its n-th allocation fails; nil and what it says: an error.
local function short(n, f, ...)
  C.rg_alloc_fail_at(n)
  local ok, value = pcall(f, ...)
  C.rg_alloc_fail_at(0)
  return ok and value or nil, not ok and tostring(value) or nil
end

for name, make in pairs(LAYERS) do
  describe('where memory is short, ' .. name, function()
    local layer, x

    before_each(function()
      layer = make():to('f64'):train()
      x = ridge.randn(2, 3, 16, { generator = ridge.generator(1) }):to 'f64':requires_grad_()
    end)

    local function part(v) return (layer(v:dropout(0.3) * 2)) end

    it('draws what it would have drawn', function()
      ridge.seed(5)
      local want, offset = bits.of(part(x)), stream:offset()
      for n = 1, 150 do
        ridge.seed(5)
        local y = short(n, part, x)
        if y then
          assert.is_true(bits.of(y) == want, n)
          assert.equal(offset, stream:offset())
        end
      end
    end)

    it('goes back through the mask of its first run', function()
      ridge.seed(5)
      part(x):square():sum():backward()
      local want = bits.of(x.grad)
      for n = 1, 150 do
        x:zero_grad()
        ridge.seed(5)
        local y = short(n, ridge.recompute, part, x)
        if y then
          y:square():sum():backward()
          assert.is_true(bits.of(x.grad) == want, n)
        end
      end
    end)

    -- A replay's gradient along a direction, against differences of its losses.
    local function check(plan, direction, n)
      local function loss(by)
        ridge.no_grad(function() x:add_(direction * by) end)
        ridge.seed(2)
        local value = plan:run():item()
        ridge.no_grad(function() x:add_(direction * -by) end)
        return value
      end
      loss(0)
      local slope = (x.grad * direction):sum():item()
      assert.near((loss(1e-5) - loss(-1e-5)) / 2e-5, slope, 1e-5 * (1 + math.abs(slope)), n)
    end

    it('does so in replays of a plan that was captured then', function()
      local direction = ridge.randn(2, 3, 16, { generator = ridge.generator(3) }):to 'f64'
      local function step()
        x:zero_grad()
        local loss = ridge.recompute(part, x):square():sum()
        loss:backward()
        return loss
      end
      check(ridge.capture(step), direction, 0)
      for n = 20, 380 do
        local plan, said = short(n, ridge.capture, step)
        if plan and n <= 220 then check(plan, direction, n) end
        if name:match 'attention' then -- both runs of a part are made again from where they began
          assert.is_nil(said and said:match 'recompute: .*', n)
        end
      end
    end)
  end)
end

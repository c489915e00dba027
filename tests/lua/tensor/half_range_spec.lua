-- SPDX-License-Identifier: MIT
--- Functions of half types and their gradients, where parts of them are too large or too coarse for
--- the type and the result is not.

local ridge = require 'ridge'

-- Gradients of x and y of f(x, y) in a type.
local function gradients(f, x, y, dtype)
  local a = ridge.tensor(x):to('f16'):to(dtype):requires_grad_()
  local b = ridge.tensor(y):to('f16'):to(dtype):requires_grad_()
  f(a, b):sum():backward()
  return a.grad:to('f16'):tolist(), b.grad and b.grad:to('f16'):tolist()
end

describe('gradients of f16', function()
  local x = { 300, -300, 2000, -60000, 0.5, 3 }
  local above = { 300, 256, 2000, 60000, 2, 3 }
  local y = { 300, 0.25, -2000, 1, 60000, 0.25 }
  local functions = {
    atan = { x, function(a) return a:atan() end },
    asinh = { x, function(a) return a:asinh() end },
    acosh = { above, function(a) return a:acosh() end },
    atan2 = { x, function(a, b) return a:atan2(b) end },
    ['atan2 of a number'] = { x, function(a) return a:atan2(300) end },
    celu = { x, function(a, b) return a:celu(b:abs()) end },
  }
  for name, case in pairs(functions) do
    it('are those of f32, where squares and quotients are too large: ' .. name, function()
      local dx, dy = gradients(case[2], case[1], y, 'f16')
      local wanted, of_y = gradients(case[2], case[1], y, 'f32')
      local function close(a, b)
        for i = 1, #b do
          local off = math.abs(a[i] - b[i])
          assert.is_true(off <= 2 ^ -9 * math.abs(b[i]) + 2 ^ -22, ('%d: %g, %g'):format(i, a[i],
            b[i]))
        end
      end
      close(dx, wanted)
      if of_y then close(dy, of_y) end
    end)
  end
end)

describe('functions of half types', function()
  local function half(list, ...) return ridge.tensor(list):to('f16'):reshape(...) end
  local function near(wanted, x)
    assert.is_true(math.abs(x:item() - wanted) <= 2 ^ -8 * math.abs(wanted), tostring(x:item()))
  end

  it('sum and square beyond what f16 holds', function()
    near(math.log(70000), ridge.zeros(70000):to('f16'):logsumexp())
    local x = half({ 300, 300, 300 }, 1, 3, 1)
    near(300 / (1 + 0.5 * 90000) ^ 0.75, x:lrn(3, { alpha = 0.5 })[{ 1, 2, 1 }])
    assert.equal('f16', x:lrn(3).dtype)
    for dilation = 1, 2 do
      local y = half({ 300, 400, 300, 400 }, 1, 1, 4):lp_pool(2, { dilation = dilation,
        stride = 3 })
      near(dilation == 1 and 500 or 300 * math.sqrt(2), y[{ 1, 1, 1 }])
      assert.equal('f16', y.dtype)
    end
    near(60000, half({ 60000, 0, 60000 }, 1, 1, 3):avg_pool(2, { dilation = 2 }))
  end)

  it('count further than bf16 does', function()
    local x = ridge.arange(0, 1200):ge(600):to('bf16'):reshape(1, 1, 1201)
    near(301 / 601, x:avg_pool(601, { dilation = 2, count_padding = false }):to 'f64')
    near(301 / 601, x:avg_pool(601, { dilation = 2 }):to 'f64')
  end)
end)

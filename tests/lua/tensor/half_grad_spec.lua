-- SPDX-License-Identifier: MIT
--- Gradients of f16 where their parts are not numbers of f16, though they are.

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

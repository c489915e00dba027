-- SPDX-License-Identifier: MIT
-- Parameters of modules that have many, found by name in one step.
local ridge = require 'ridge'
local nn = ridge.nn

describe('a parameter of many', function()
  -- Lines of Lua that a function takes.
  local function lines(f)
    local count, hook, mask, every = 0, debug.gethook()
    local compiles = jit.status()
    jit.off()
    jit.flush()
    debug.sethook(function() count = count + 1 end, 'l')
    f()
    debug.sethook(hook, mask, every)
    if compiles then jit.on() end
    return count
  end

  it('is found in as many steps, whether there are 100 or 3,000', function()
    local one = ridge.ones(1)
    local function added(n)
      local m = nn.class 'Many'()
      return lines(function()
        for i = 1, n do m:param('p' .. i, one) end
      end)
    end
    assert.is_true(added(3000) < 33 * added(100))
  end)

  it('is found behind parametrisations that come and go before it', function()
    local m = nn.class 'Turns'()
    for i = 1, 4 do m:param('p' .. i, ridge.ones(2) * i) end
    local function values()
      local list = {}
      for i = 1, 4 do list[i] = m['p' .. i]:get(1) end
      return list
    end
    local halves = { forward = function(a, b) return a + b end,
      right_inverse = function(w) return w / 2, w / 2 end }
    for _, name in ipairs { 'p4', 'p1', 'p2' } do
      m:parametrize(name, halves)
      assert.same({ 1, 2, 3, 4 }, values())
      m.p3 = ridge.ones(2) * 3
      m:param('p5', ridge.ones(2) * 5)
      m[name] = ridge.ones(2) * tonumber(name:sub(2))
      assert.equal(6, #m.params)
      m:remove_parametrization(name)
      assert.same({ 1, 2, 3, 4 }, values())
      assert.equal(5, #m.params)
    end
    m:parametrize('p2', { forward = function(w, held) return w * held.mask end,
      buffers = { mask = ridge.ones(2) } })
    m:param('p6', ridge.ones(2))
    m:remove_parametrization 'p2'
    m:param('p2_mask', ridge.ones(2) * 7)
    assert.equal(7, #m.params)
    assert.equal(7, m.p2_mask:get(1))
    assert.same({ 1, 2, 3, 4 }, values())
  end)
end)

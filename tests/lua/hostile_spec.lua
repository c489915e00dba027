-- SPDX-License-Identifier: MIT
--- Whatever is typed gets an answer or an error with a sentence; the process lives on.  Calls are
-- made in a fixed pseudo-random order, so that a crash can be found again.

local ridge = require 'ridge'
local types = require 'ridge.types'

local state = 12345
local function pick(n)
  state = (state * 1103515245 + 12345) % 2147483648
  return math.floor(state / 65536) % n + 1
end

local function values()
  local released = ridge.ones(2)
  released:release()
  local dropped
  ridge.scope(function() dropped = ridge.ones(3) + 1 end)
  return {
    function() return nil end, function() return 0 end, function() return 1 end,
    function() return -1 end, function() return 3 end, function() return 1.5 end,
    function() return 0 / 0 end, function() return math.huge end, function() return -2 ^ 53 end,
    function() return 2 ^ 62 end, function() return '' end, function() return 'f32' end,
    function() return {} end, function() return { 1, 2 } end, function() return { -1, 0 } end,
    function() return true end, function() return tostring end,
    function() return ridge.ones(2, 3) end, function() return ridge.zeros(0) end,
    function() return ridge.zeros(2, 0, 3) end, function() return ridge.tensor(5) end,
    function() return ridge.ones(3, { dtype = 'i8' }) end,
    function() return ridge.ones(3, { dtype = 'bool' }) end,
    function() return ridge.ones(3, 2, { dtype = 'bf16' }) end,
    function() return ridge.ones(3, 1):expand(3, 4) end,
    function() return ridge.randn(4, 3):t() end,
    function() return released end, function() return dropped end,
    function() return ridge.generator(1) end,
  }
end

local function survives(name, f, n_calls, make)
  for _ = 1, n_calls do
    local a, b, c, d = make[pick(#make)](), make[pick(#make)](), make[pick(#make)](),
      make[pick(#make)]()
    local ok, e = pcall(f, a, b, c, d)
    if not ok then
      assert.is_true(#tostring(e) > 5, name .. ': an error without a sentence')
    elseif ridge.is_tensor(e) then
      assert.is_string(tostring(e))
    end
  end
end

describe('hostile input', function()
  before_each(function() ridge.memory.set_limit(2 ^ 30) end)
  after_each(function() ridge.memory.set_limit(0) end)

  it('to every tensor method ends in a result or an error', function()
    local make = values()
    for name in pairs(types.of(ridge.ones(1)).methods) do
      survives(name, ridge.ones(1)[name], 120, make)
    end
  end)

  it('to every function of the namespace', function()
    local make = values()
    for _, name in ipairs { 'tensor', 'empty', 'zeros', 'ones', 'full', 'arange', 'rand', 'randn',
                            'randint', 'concat', 'seed', 'generator', 'capture', 'scope', 'keep',
                            'autocast' } do
      survives(name, ridge[name], 150, make)
    end
    for _, name in ipairs { 'set_limit', 'stats', 'reset_peak' } do
      survives('memory.' .. name, ridge.memory[name], 40, make)
      ridge.memory.set_limit(2 ^ 30)
    end
  end)

  it('to layers and their methods', function()
    local make = values()
    local nn = ridge.nn
    for _, name in ipairs { 'Linear', 'LowRankLinear', 'SKLinear', 'Sequential', 'Dropout',
                            'break_even', 'round_for_tensor_cores' } do
      survives('nn.' .. name, nn[name], 100, make)
    end
    local layer = nn.Linear(3, 2, { seed = 1 })
    survives('Linear forward', function(x) return layer(x) end, 100, make)
    survives('SKLinear.from', nn.SKLinear.from, 60, make)
    survives('LowRankLinear.from', nn.LowRankLinear.from, 60, make)
  end)

  it('to operators and indexing', function()
    local make = values()
    survives('+', function(a, b) return a + b end, 200, make)
    survives('*', function(a, b) return a * b end, 200, make)
    survives('^', function(a, b) return a ^ b end, 200, make)
    survives('-', function(a) return -a end, 100, make)
    survives('[]', function(a, b) return a[b] end, 300, make)
    survives('[]=', function(a, b, c) a[b] = c end, 300, make)
    survives('#', function(a) return #a end, 100, make)
    survives('..', function(a, b) return tostring(a .. b) end, 100, make)
  end)

  it('leaves everything working', function()
    assert.equal(6, ridge.ones(2, 3):sum():item())
    assert.is_true(ridge.capture(function() return ridge.ones(2) + 1 end)() ~= nil)
  end)
end)

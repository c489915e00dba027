-- SPDX-License-Identifier: MIT
--- One size of a compiled function: what its recording says of what it draws, keeps and writes, and
--- how far its plan may be from what it computed.

local ridge = require 'ridge'
local entry = require 'ridge.compile.entry'
local nn = ridge.nn

local function recorded(f, ...) return entry.record(f, { n = select('#', ...), ... }) end

describe('a recording', function()
  local x = ridge.ones(4)

  it('draws where a stream of random numbers has moved on, the default one or another', function()
    assert.is_false(recorded(function(a) return a * 2 end, x).draws)
    assert.is_true(recorded(function(a) return a:dropout(0.5) end, x).draws)
    assert.is_true(recorded(function(a) return a + ridge.rand(4) end, x).draws)
    local own = ridge.generator(7)
    local r = recorded(function(a) return a + ridge.rand(4, { generator = own }) end, x)
    assert.is_true(r.draws)
    assert.equal(1, #r.streams)
    -- both: the default one is not among those that were met
    r = recorded(function(a)
      return a + ridge.rand(4, { generator = own }) + ridge.rand(4)
    end, x)
    assert.is_true(r.draws)
    assert.equal(1, #r.streams)
    assert.is_true(rawequal(own, r.streams[1]))
    assert.same({}, recorded(function(a) return a:dropout(0.5) end, x).streams)
  end)

  it('leaves streams where they stood when it fails', function()
    local own = ridge.generator(7)
    ridge.seed(3)
    local at, default = own:offset(), ridge.rand(2):tolist()
    ridge.seed(3)
    local r, why = recorded(function(a)
      local y = a + ridge.rand(4, { generator = own }) + ridge.rand(4)
      error('from inside ' .. #y.shape)
    end, x)
    assert.is_nil(r)
    assert.matches('from inside 1', tostring(why.message or why), 1, true)
    assert.equal(at, own:offset())
    assert.same(default, ridge.rand(2):tolist())
  end)

  it('is stateful where it writes to what was there, or makes gradients', function()
    local held = ridge.zeros(4)
    assert.is_false(recorded(function(a) return a * 2 end, x).stateful)
    assert.is_true(recorded(function(a) held:add_(a) return a * 2 end, x).stateful)
    local net = nn.Linear(4, 1)
    assert.is_true(recorded(function(a) net(a):sum():backward() end, ridge.ones(2, 4)).stateful)
    -- what writes nothing and gives nothing has no plan
    assert.equal('it computes nothing that is seen outside', recorded(function(a)
      a:exp()
    end, x).refused)
    assert.is_nil(recorded(function(a) held:add_(a) end, x).refused)
    assert.is_nil(recorded(function(a) return a * 2 end, x).refused)
    assert.matches('^it writes to its argument 2, and a plan to a copy$', recorded(function(a, b)
      b:add_(a)
    end, x, ridge.zeros(4)).refused)
  end)

  it('knows the modes of modules that it called, but for what only infers', function()
    local net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)):train()
    local r = recorded(function(a) return net(a) end, ridge.ones(2, 4))
    assert.is_false(r.infers)
    local n = 0
    for _, each in ipairs(r.modules) do
      assert.is_true(each.training)
      n = n + 1
    end
    assert.is_true(n > 0)
    r = ridge.inference(function() return recorded(function(a) return net(a) end,
      ridge.ones(2, 4)) end)
    assert.same({ true, {} }, { r.infers, r.modules })
  end)
end)

describe('how far a plan may be', function()
  it('is nothing where every bit stays, what was given, else by the coarsest type', function()
    local f64, f32, bf16 = ridge.ones(1, { dtype = 'f64' }), ridge.ones(1),
      ridge.ones(1, { dtype = 'bf16' })
    local f16, i32 = ridge.ones(1, { dtype = 'f16' }), ridge.ones(1, { dtype = 'i32' })
    assert.equal(0, entry.limit({ f32 }, true))
    assert.equal(0.5, entry.limit({ f32 }, true, 0.5))
    assert.equal(0.5, entry.limit({ f32 }, false, 0.5))
    assert.equal(0, entry.limit({ f32 }, false, 0))
    assert.equal(1e-9, entry.limit({ f64 }, false))
    assert.equal(1e-4, entry.limit({ f64, f32 }, false))
    assert.equal(1e-4, entry.limit({ f32, i32 }, false))
    assert.equal(3e-2, entry.limit({ f16, f32 }, false))
    assert.equal(6e-2, entry.limit({ f16, bf16, f32 }, false))
    assert.equal(0, entry.limit({ i32 }, false))
    assert.equal(0, entry.limit({}, false))
  end)

  -- A recording of a * 2 whose wanted result is off by a part of the largest number.
  local function off(by, names, tolerance)
    local x = ridge.tensor { 1, 2, 4, 8 }
    local r = recorded(function(a) return a * 2 end, x)
    entry.make(r, {}).plan:release()
    r.wanted[1] = r.wanted[1] + ridge.tensor { 0, 0, 0, 16 * by }
    local ok, made = pcall(entry.make, r, names, tolerance)
    if not ok then return made.message end
    made.plan:release()
    assert.is_false(made.same)
    assert.near(by, made.difference, by * 0.1)
    return 'taken'
  end

  it('is said where it is passed', function()
    local loose = { 'fold_affine' } -- may change rounding
    assert.equal('taken', off(9e-5, loose))
    assert.equal('its plan computes something else: off by 0.00012 of the largest number, where '
      .. '0.0001 would be rounding', off(1.2e-4, loose))
    assert.equal('its plan computes something else: off by 9e-05 of the largest number, where '
      .. 'the bits should be the same', off(9e-5, {}))
    assert.equal('taken', off(9e-5, {}, 1e-3))
    assert.equal('its plan computes something else: off by 0.012 of the largest number, where '
      .. '0.01 would be rounding', off(0.012, {}, 0.01))
  end)
end)

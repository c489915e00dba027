-- SPDX-License-Identifier: MIT
-- What cannot be a parameter, or what one is computed from: refused before anything changes.
local ridge = require 'ridge'
local nn, optim = ridge.nn, ridge.optim

local function message_of(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok, 'an error is expected')
  return type(e) == 'table' and e.message or tostring(e)
end

local function has(text, part) assert.truthy(text:find(part, 1, true), text) end

describe('a tensor that repeats its elements', function()
  it('is no parameter or buffer, which are written to', function()
    local layer = nn.Linear(4, 3, { seed = 1 })
    local before, rows = layer.weight, ridge.zeros(1, 4):expand(3, 4)
    has(message_of(function() layer.weight = rows end), 'nn.Linear: weight: f32[3,4] repeats')
    assert.is_true(layer.weight == before)
    layer.weight = rows:contiguous()
    layer.weight = ridge.zeros(3, 1):expand(3, 1):narrow(1, 1, 3):matmul(ridge.zeros(1, 4))
    local own = nn.class 'Own'
    function own:init(kind)
      nn.Module.init(self)
      self[kind](self, 'rows', rows)
    end
    own.forward = function(_, x) return x end
    has(message_of(own, 'param'), 'repeats')
    has(message_of(own, 'buffer'), 'repeats')
    layer:parametrize('weight', { forward = function(w) return w end,
      right_inverse = function(w) return w end })
    has(message_of(function() layer.weight = rows end), 'repeats')
    has(message_of(function()
      layer:parametrize('bias', { forward = function(b) return b * 1 end,
        right_inverse = function() return ridge.zeros(1):expand(3) end })
    end), 'repeats')
    assert.equal(2, #layer:parameters())
  end)

  it('is not stepped by an optimizer', function()
    local C = require 'ridge.ffi.lib'
    local ffi = require 'ffi'
    local rows, gradient = ridge.zeros(1, 4):expand(3, 4), ridge.ones(3, 4)
    local rate, count = ridge.ones(1), ridge.zeros(1, { dtype = 'f64' })
    local function list(t)
      local out = ffi.new 'rg_tensor *[1]'
      out[0] = t._t
      return out
    end
    local function sgd(p, momentum)
      local held = { list(p), list(gradient), list(momentum) }
      local inputs = ffi.new('rg_step_inputs', { n = 1, param = held[1],
        grad = ffi.cast('const rg_tensor *const *', held[2]),
        rate = rate._t, count = count._t })
      inputs.state[0] = held[3]
      return C.rg_sgd_step(inputs, ffi.new('rg_sgd_options', { momentum = 0.9 }))
    end
    local zeros = ridge.zeros(3, 4)
    assert.equal(C.RG_EARG, sgd(rows, zeros))
    has(ffi.string(C.rg_error_message()), 'repeats its elements')
    assert.equal(C.RG_EARG, sgd(zeros, rows))
    assert.equal(0, sgd(zeros, ridge.zeros(3, 4)))
  end)
end)

describe('a forward of a parametrisation that fails', function()
  it('leaves no value of that pass behind', function()
    local layer, fails = nn.Linear(4, 3, { seed = 1 }), false
    layer:parametrize('weight', { forward = function(w) return w * 2 end })
    layer:parametrize('bias', { forward = function(b)
      if fails then error 'no bias now' end
      return b + 1
    end })
    local x = ridge.ones(1, 4)
    fails = true
    for _ = 1, 3 do has(message_of(layer, x), 'no bias now') end
    has(message_of(layer, ridge.ones(1, 5)), 'no bias now')
    fails = false
    has(message_of(layer, ridge.ones(1, 5)), '5')
    for _, value in pairs(layer:state()) do value:detach():zero_() end
    assert.equal(0, layer.weight:detach():abs():max():item())
    assert.equal(3, layer(x):sum():item(), 'the bias alone, 1 for each output')
  end)
end)

describe('one of several that fails', function()
  it('leaves nothing behind that others gave', function()
    for _, bad in ipairs { 'weight', 'bias' } do -- one of the two is computed first
      local layer, fails = nn.Linear(4, 3, { seed = 1 }), false
      for _, name in ipairs { 'weight', 'bias' } do
        layer:parametrize(name, { forward = function(t)
          if fails and name == bad then error 'not now' end
          return t * 2
        end })
      end
      fails = true
      has(message_of(layer, ridge.ones(1, 4)), 'not now')
      fails = false
      for _, value in pairs(layer:state()) do value:detach():zero_() end
      assert.equal(0, layer.weight:detach():abs():max():item())
      assert.equal(0, layer.bias:detach():abs():max():item())
    end
  end)
end)

describe('right_inverse', function()
  local function low_rank(given)
    local layer = nn.Linear(4, 3, { seed = 1 })
    return layer, function()
      layer:parametrize('weight', { forward = function(a, b) return b and a + b or a end,
        right_inverse = given })
    end
  end

  -- the module is as it was
  local function is_whole(layer)
    assert.equal(2, #layer:parameters())
    assert.is_false(layer._wrapped)
    assert.same({ 1, 3 }, layer(ridge.ones(1, 4)).shape)
    optim.SGD(layer, { lr = 1 })
  end

  it('gives tensors without holes', function()
    local layer, parametrize = low_rank(function(w) return nil, w end)
    has(message_of(parametrize), 'a tensor is expected, got nil')
    is_whole(layer)
    layer, parametrize = low_rank(function(w) return w, nil end)
    has(message_of(parametrize), 'a tensor is expected, got nil')
    is_whole(layer)
    layer, parametrize = low_rank(function() end)
    has(message_of(parametrize), 'right_inverse gives nothing')
    is_whole(layer)
  end)

  it('gives what is trained in a type that is', function()
    local layer, parametrize = low_rank(function(w) return w, w:to 'i64' end)
    has(message_of(parametrize), 'right_inverse gives i64[3,4]')
    is_whole(layer)
  end)

  it('gives originals that are frozen where the parameter was, and thawed with it', function()
    local layer, parametrize = low_rank(function(w) return w, w * 0 end)
    layer:freeze()
    parametrize()
    for _, p in ipairs(layer:parameters()) do
      assert.is_false(p.trainable or p.tensor.requires_grad, p.name)
    end
    layer:freeze(false)
    for _, p in ipairs(layer:parameters()) do
      assert.is_true(p.trainable and p.tensor.requires_grad, p.name)
    end
  end)

  it('gives as many for each tensor that is assigned', function()
    local more
    local layer, parametrize = low_rank(function(w)
      if more then return w, w * 0, w end
      return w, w * 0
    end)
    parametrize()
    local before = layer.weight:detach():clone()
    more = true
    has(message_of(function() layer.weight = ridge.ones(3, 4) end),
      'right_inverse gave 2 tensors for weight, and now 3')
    assert.is_true(layer.weight:equal(before))
  end)

  it('does not take names that the module has', function()
    local Clash = nn.class 'Clash'
    function Clash:init(field)
      nn.Module.init(self)
      self:param('weight', ridge.ones(2))
      if field == 'param' then self:param('weight_1', ridge.ones(3)) end
      if field == 'field' then self.weight_2 = 'mine' end
    end
    function Clash:forward(x) return x * self.weight end
    function Clash:weight_3() return self end
    local function parametrize(layer, n)
      layer:parametrize('weight', { forward = function(w) return w * 1 end,
        right_inverse = function(w) return unpack({ w, w:clone(), w:clone() }, 1, n) end })
    end
    for field, n in pairs { param = 2, field = 2, method = 3 } do
      local layer = Clash(field)
      has(message_of(parametrize, layer, n), 'Clash has such a field')
      assert.same({ 2 }, layer.weight.shape)
      if n == 2 then parametrize(layer, 1) else parametrize(layer, 2) end
    end
  end)
end)

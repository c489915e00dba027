-- SPDX-License-Identifier: MIT
-- Results and gradients beside PyTorch's on the same numbers (scripts/peers/fixtures.py), in f64
-- and in f32.
local ridge = require 'ridge'
local nn = ridge.nn

local fixtures, notes = ridge.load 'tests/fixtures/gradients.safetensors'
local labels = ridge.tensor({ 2, 0, 4, 2 }, { dtype = 'i64' })
local index = ridge.tensor({ { 1, 4 }, { 0, 1 } }, { dtype = 'i64' })

-- A module that takes its parameters from the inputs behind x.
local function with(make, names)
  return function(x, ...)
    local module = make():to(x.dtype)
    local list = { ... }
    for i, name in ipairs(names) do module[name] = list[i] end
    return module(x)
  end
end

local function layer_norm(rms)
  return function(x, w, b)
    local C, ref = require 'ridge.ffi.lib', require 'ridge.ffi.ref'
    require('ridge.ffi.call').check(C.rg_layer_norm(x._t, w._t, b and b._t, 1e-5, rms and 1 or 0,
      ref.slot))
    return ref.wrap(ref.slot[0])
  end
end

local function recurrent(class)
  return function(x, ...)
    local m = class(3, 4, { layers = 2, bidirectional = true }):to(x.dtype)
    local list, at = { ... }, 0
    for _, cell in ipairs(m.cells) do
      -- PyTorch's order: weights from the input and from before, then both biases
      local w, u, b, c = unpack(list, at + 1, at + 4)
      at = at + 4
      cell.input = function(z) return z:matmul(w:t()) + b end
      cell.recurrent = { weight = u, bias = c }
    end
    return (m(x))
  end
end

local CASES = {
  add = function(a, b) return a + b end, mul = function(a, b) return a * b end,
  div = function(a, b) return a / b end, pow = function(a, b) return a ^ b end,
  softmax = function(x) return x:softmax(2) end,
  matmul = function(a, b) return a:matmul(b) end,
  linear = function(x, w, b) return x:matmul(w:t()) + b end,
  sum = function(x) return x:sum({ 1, 3 }, true) end, mean = function(x) return x:mean(2) end,
  max = function(x) return x:max(3) end, norm = function(x) return x:norm(2, 2) end,
  layer_norm = layer_norm(), rms_norm = layer_norm(true),
  group_norm = with(function() return nn.GroupNorm(2, 4) end, { 'weight', 'bias' }),
  batch_norm = with(function() return nn.BatchNorm(3):train() end, { 'weight', 'bias' }),
  conv2d = function(x, w, b) return x:conv2d(w, { bias = b, stride = 2, padding = { 1, 2 } }) end,
  conv2d_groups = function(x, w) return x:conv2d(w, { dilation = 2, groups = 2 }) end,
  max_pool2d = function(x) return x:max_pool2d(3, { stride = 2, padding = 1 }) end,
  avg_pool2d = function(x) return x:avg_pool2d(2) end,
  cross_entropy = function(x) return nn.cross_entropy(x, labels) end,
  cross_entropy_options = function(x, w)
    return nn.cross_entropy(x, labels, { weight = w, smoothing = 0.1, ignore = 0 })
  end,
  mse_loss = nn.mse_loss, l1_loss = nn.l1_loss, huber_loss = nn.huber_loss,
  bce_with_logits = nn.bce_with_logits,
  embedding = function(w) return w:take(index) end,
  attention = nn.attention,
  attention_causal = function(q, k, v) return nn.attention(q, k, v, { causal = true }) end,
  lstm = recurrent(nn.LSTM), gru = recurrent(nn.GRU),
}
for _, name in ipairs { 'exp', 'tanh', 'sigmoid', 'sin', 'cos', 'erf', 'square', 'abs', 'log',
                        'sqrt', 'rsqrt', 'reciprocal', 'relu', 'gelu', 'silu', 'softplus' } do
  CASES[name] = function(x) return x[name](x) end
end

local function inputs_of(name, dtype)
  local list, wanted = {}, {}
  while fixtures[('%s.in%d'):format(name, #list + 1)] do
    local i = #list + 1
    list[i] = fixtures[('%s.in%d'):format(name, i)]:to(dtype):clone()
    wanted[i] = fixtures[('%s.g%d'):format(name, i)]
    if wanted[i] then list[i]:requires_grad_() end
  end
  return list, wanted
end

local function distance(x, y)
  local size = y:norm():item()
  return (x:detach():to 'f64' - y):norm():item() / (size > 0 and size or 1)
end

describe('beside PyTorch', function()
  it('the numbers are from it', function() assert.matches('^PyTorch %d', notes.by) end)

  it('every case of the file is tried', function()
    for name in pairs(fixtures) do
      local case = name:match '^(.*)%.y$'
      assert.is_true(not case or CASES[case] ~= nil, case)
    end
  end)

  for name, f in pairs(CASES) do
    for dtype, most in pairs { f64 = 1e-6, f32 = 1e-4 } do
      it(('%s and its gradients agree in %s'):format(name, dtype), function()
        local list, wanted = inputs_of(name, dtype)
        local y = f(unpack(list))
        assert.is_true(distance(y, fixtures[name .. '.y']) < most, 'the result')
        y:backward(fixtures[name .. '.dy']:to(dtype))
        for i in pairs(wanted) do
          local d = distance(list[i].grad, wanted[i])
          assert.is_true(d < most, ('gradient %d: %g'):format(i, d))
        end
      end)
    end
  end
end)

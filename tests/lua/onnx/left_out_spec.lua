-- SPDX-License-Identifier: MIT
--- What an attribute of an ONNX operator stands for where it is left out: the result is that with
--- the default of ONNX's text, written here by hand, and another one with another value.

local ridge = require 'ridge'

local TRAINING = 'ai.onnx.preview.training'

local function f(list, dtype) return ridge.tensor(list, { dtype = dtype or 'f32' }) end
local function i64(list) return f(list, 'i64') end
-- Numbers without a pattern.
local function some(...)
  local n = 1
  for _, size in ipairs { ... } do n = n * size end
  local list = {}
  for i = 1, n do list[i] = (i * i * 7 + i * 3) % 11 / 4 - 1.2 end
  return f(list):reshape { ... }
end

-- {f = 1} is a float, a number a whole one.
local function attributes(...)
  local out = {}
  for _, list in ipairs { ... } do
    for name, value in pairs(list) do
      local kind = type(value)
      out[name] = kind == 'number' and { type = 'int', value = value }
        or kind == 'string' and { type = 'string', value = value }
        or value.f and { type = 'float', value = value.f } or { type = 'ints', value = value }
    end
  end
  return out
end

local function text(x)
  local list = { x:describe() }
  for _, value in ipairs(x:reshape(-1):to('f64'):tolist()) do
    list[#list + 1] = ('%.5g'):format(value)
  end
  return table.concat(list, ' ')
end

-- The results of one node as a text; where it is refused, that.
local function result(case, ...)
  local graph = { name = 'g', nodes = {}, inputs = {}, outputs = {}, values = {},
    initializers = {} }
  local names, made, args = {}, {}, {}
  for i = 1, case.n or #case[4] do
    local x = case[4][i]
    names[i] = x and 'i' .. i or ''
    if x then
      table.insert(graph.inputs, { name = names[i], type = x.dtype })
      args[#args + 1] = x
    end
  end
  for i = 1, case.outputs or 1 do
    made[i] = 'o' .. i
    graph.outputs[i] = { name = made[i] }
  end
  graph.nodes[1] = { op = case[1], domain = case.domain or '', name = 'n', inputs = names,
    outputs = made, attributes = attributes(case[3], ...) }
  local model = { opset = { [''] = case[2], [TRAINING] = 1 }, graph = graph, functions = {},
    metadata = {} }
  ridge.seed(5) -- of those that draw
  local list = { pcall(function(...)
    local net = require('ridge.onnx.load').of(model, 'g')
    if case.training then net:train() end
    return net(...)
  end, unpack(args)) }
  if not list[1] then return nil, tostring(list[2]) end
  for i = 2, #list do list[i] = text(list[i]) end
  return table.concat(list, '; ', 2)
end

local grid = f { { { { -0.6, -0.9 }, { 0.3, 0.7 } } } }
local step = { f(0.5), i64(2), f { 1, 2 }, f { 0.5, -1 }, f { 0.25, 0.5 } }
local adam = { f(0.5), i64(2), f { 1, 2 }, f { 0.5, -1 }, f { 0.25, 0.5 }, f { 0.125, 1 } }
-- As small as an epsilon, which shows in no digit beside numbers near 1.
local function faint(...) return some(...) * 1e-3 end
local tiny = { f(0.5), i64(2), f { 1, 2 }, f { 1e-6, -2e-6 }, f { 1e-12, 2e-12 } }
local tiny_adam = { tiny[1], tiny[2], tiny[3], tiny[4], tiny[4], tiny[5] }
local EPS = { { f = 1e-5 }, { f = 1.1e-5 } }
local query = { some(1, 1, 2, 4), some(1, 1, 3, 4), some(1, 1, 3, 4) }
local masked = { query[1], query[2], query[3], f { { 0, -1, 0.5 }, { 0.25, 0, 0 } } }
local gru = { some(2, 1, 1), some(1, 3, 1), some(1, 3, 1), some(1, 6) }

-- operator, version, attributes that are there, inputs; by name: the default, and another value
local CASES = {
  { 'Elu', 7, {}, { some(4) }, alpha = { { f = 1 }, { f = 2 } } },
  { 'Celu', 12, {}, { some(4) }, alpha = { { f = 1 }, { f = 2 } } },
  { 'ThresholdedRelu', 10, {}, { f { 0.5, 1.5, 3 } }, alpha = { { f = 1 }, { f = 2 } } },
  { 'Swish', 24, {}, { some(4) }, alpha = { { f = 1 }, { f = 2 } } },
  { 'CastLike', 19, {}, { f { 1e4, 1 }, f(0):to 'f8e4m3' }, saturate = { 1, 0 },
    gives = 'f8e4m3[2] 448 1' },
  { 'Gemm', 13, {}, { some(2, 2), some(2, 2), some(2) }, alpha = { { f = 1 }, { f = 2 } },
    beta = { { f = 1 }, { f = 2 } }, transA = { 0, 1 }, transB = { 0, 1 } },
  { 'Gemm', 13, { transB = 1 }, { some(2, 2), some(2, 2), some(2) },
    alpha = { { f = 1 }, { f = 2 } }, beta = { { f = 1 }, { f = 2 } }, transA = { 0, 1 } },
  { 'LpNormalization', 7, {}, { some(2, 3) }, axis = { -1, 0 }, p = { 2, 1 } },
  { 'LayerNormalization', 17, {}, { some(3, 3), some(3) }, axis = { -1, 0 },
    epsilon = { { f = 1e-5 }, { f = 0.5 } } },
  { 'RMSNormalization', 23, {}, { some(3, 3), some(3) }, axis = { -1, 0 },
    epsilon = { { f = 1e-5 }, { f = 0.5 } } },
  { 'LRN', 13, { size = 3, alpha = { f = 1 } }, { some(1, 4, 1, 1) },
    beta = { { f = 0.75 }, { f = 1 } }, bias = { { f = 1 }, { f = 2 } } },
  { 'LRN', 13, { size = 3 }, { some(1, 4, 1, 1) * 50 }, alpha = { { f = 1e-4 }, { f = 1e-3 } } },
  { 'BatchNormalization', 15, {}, { some(3, 2), some(2), some(2), some(2), some(2):abs() },
    training_mode = { 0, 1 }, epsilon = { { f = 1e-5 }, { f = 0.5 } } },
  { 'BatchNormalization', 15, { training_mode = 1 }, { some(3, 2), some(2), some(2), some(2),
    some(2):abs() }, outputs = 3, momentum = { { f = 0.9 }, { f = 0.5 } } },
  { 'BatchNormalization', 15, {}, { faint(3, 2), some(2), some(2), faint(2), f { 1e-6, 2e-6 } },
    epsilon = EPS },
  { 'BatchNormalization', 15, { training_mode = 1 }, { faint(3, 2), some(2), some(2), some(2),
    some(2):abs() }, outputs = 3, epsilon = EPS },
  { 'LayerNormalization', 17, {}, { faint(3, 3), some(3) }, epsilon = EPS },
  { 'LayerNormalization', 17, { axis = 0 }, { faint(3, 3), some(3, 3) }, epsilon = EPS },
  { 'RMSNormalization', 23, {}, { faint(3, 3), some(3) }, epsilon = EPS },
  { 'RMSNormalization', 23, { axis = 0 }, { faint(3, 3), some(3, 3) }, epsilon = EPS },
  { 'InstanceNormalization', 7, {}, { faint(1, 2, 3), some(2), some(2) }, epsilon = EPS },
  { 'GroupNormalization', 18, { num_groups = 2 }, { faint(1, 4, 2), some(2), some(2) },
    epsilon = EPS },
  { 'GroupNormalization', 21, { num_groups = 2 }, { faint(1, 4, 2), some(4), some(4) },
    epsilon = EPS },
  -- before version 14 it trains where a second result is wanted
  { 'BatchNormalization', 13, {}, { some(3, 2), some(2), some(2), some(2), some(2):abs() },
    outputs = 2, momentum = { { f = 0.9 }, { f = 0.5 } } },
  { 'QuantizeLinear', 13, {}, { some(2, 2), f { 0.5, 0.1 }, f({ 3, 100 }, 'u8') },
    axis = { 1, 0 } },
  { 'Cast', 19, { to = 17 }, { f { 1e4, 1 } }, saturate = { 1, 0 } },
  { 'QuantizeLinear', 19, {}, { f { 1e4, 1 }, f(1), f(0):to 'f8e4m3' }, saturate = { 1, 0 } },
  { 'RandomNormal', 7, { shape = { 4 } }, {}, scale = { { f = 1 }, { f = 2 } },
    mean = { { f = 0 }, { f = 2 } } },
  { 'RandomUniform', 7, { shape = { 4 } }, {}, low = { { f = 0 }, { f = 0.5 } },
    high = { { f = 1 }, { f = 2 } } },
  { 'Pad', 7, { pads = { 1, 1 } }, { f { 1, 2 } }, value = { { f = 0 }, { f = 1 } } },
  { 'Attention', 23, {}, query, is_causal = { 0, 1 }, scale = { { f = 0.5 }, { f = 1 } },
    softcap = { { f = 0 }, { f = 1 } } },
  { 'Attention', 23, {}, masked, is_causal = { 0, 1 }, scale = { { f = 0.5 }, { f = 1 } },
    softcap = { { f = 0 }, { f = 1 } } },
  { 'Attention', 23, {}, { masked[1], masked[2], masked[3], masked[4], n = 4 }, outputs = 4,
    qk_matmul_output_mode = { 0, 3 } },
  { 'RotaryEmbedding', 23, {}, { some(1, 1, 2, 4), some(2, 2), some(2, 2), i64 { { 0, 1 } } },
    interleaved = { 0, 1 } },
  { 'GRU', 14, { hidden_size = 1 }, gru, linear_before_reset = { 0, 1 } },
  { 'GRU', 14, { hidden_size = 1 }, { some(2, 2, 1), gru[2], gru[3], gru[4] }, layout = { 0, 1 } },
  { 'LSTM', 14, { hidden_size = 1 }, { some(2, 1, 1), some(1, 4, 1), some(1, 4, 1) },
    input_forget = { 0, 1 } },
  -- with a bound it goes step by step
  { 'LSTM', 14, { hidden_size = 1, clip = { f = 8 } }, { some(2, 1, 1), some(1, 4, 1),
    some(1, 4, 1) }, input_forget = { 0, 1 } },
  { 'QuantizeLinear', 21, {}, { f { -1, 300 }, f(1) }, output_dtype = { 2, 3 },
    gives = 'u8[2] 0 255' },
  { 'Dropout', 10, {}, { some(8) }, training = true, ratio = { { f = 0.5 }, { f = 0.25 } } },
  { 'Resize', 13, { mode = 'cubic' }, { some(1, 1, 1, 4), false, f { 1, 1, 1, 2 } },
    cubic_coeff_a = { { f = -0.75 }, { f = -0.5 } }, exclude_outside = { 0, 1 } },
  { 'Resize', 18, { mode = 'linear' }, { some(1, 1, 1, 8), false, f { 1, 1, 1, 0.5 } },
    antialias = { 0, 1 } },
  { 'Resize', 13, { mode = 'linear', coordinate_transformation_mode = 'tf_crop_and_resize' },
    { some(1, 1, 1, 4), f { 0, 0, 0, -1, 1, 1, 1, 2 }, f { 1, 1, 1, 2 } },
    extrapolation_value = { { f = 0 }, { f = 9 } } },
  { 'GridSample', 16, {}, { some(1, 1, 2, 2), grid }, align_corners = { 0, 1 } },
  { 'AffineGrid', 20, {}, { some(1, 2, 3), i64 { 1, 1, 2, 2 } }, align_corners = { 0, 1 } },
  { 'DeformConv', 19, {}, { some(1, 2, 2, 2), some(2, 2, 1, 1), some(1, 2, 2, 2) },
    group = { 1, 2 }, offset_group = { 1, 2 } },
  { 'TopK', 11, {}, { f { { 1, 4 }, { 2, 3 } }, i64 { 1 } }, axis = { -1, 0 }, largest = { 1, 0 } },
  { 'Adagrad', 20, {}, step, domain = TRAINING, outputs = 2,
    norm_coefficient = { { f = 0 }, { f = 0.5 } }, decay_factor = { { f = 0 }, { f = 0.5 } },
    epsilon = { { f = 1e-6 }, { f = 0.5 } } },
  { 'Adagrad', 20, {}, tiny, domain = TRAINING, outputs = 2,
    epsilon = { { f = 1e-6 }, { f = 1.1e-6 } } },
  { 'Adam', 20, {}, tiny_adam, domain = TRAINING, outputs = 3,
    epsilon = { { f = 1e-6 }, { f = 1.1e-6 } } },
  { 'Adam', 20, {}, adam, domain = TRAINING, outputs = 3, alpha = { { f = 0.9 }, { f = 0.5 } },
    beta = { { f = 0.999 }, { f = 0.5 } }, norm_coefficient = { { f = 0 }, { f = 0.5 } },
    norm_coefficient_post = { { f = 0 }, { f = 0.5 } }, epsilon = { { f = 1e-6 }, { f = 0.5 } } },
}

local KEYS = { n = true, training = true, outputs = true, domain = true, gives = true }

describe('an attribute that is left out of', function()
  for k, case in ipairs(CASES) do
    it(('%s, case %d, is its default'):format(case[1], k), function()
      local bare, why = result(case)
      assert.truthy(bare, why)
      assert.equal(case.gives or bare, bare)
      for name, values in pairs(case) do
        if type(name) == 'string' and not KEYS[name] then
          assert.equal(bare, result(case, { [name] = values[1] }), name)
          assert.are_not.equal(bare, (result(case, { [name] = values[2] })), name)
        end
      end
    end)
  end
end)

-- By ONNX's text: G + norm X is the slope, and beta counts from the second step on.
describe('Momentum', function()
  for _, mode in ipairs { 'standard', 'nesterov' } do
    for t = 0, 1 do
      it(('is that of ONNX: %s, step %d'):format(mode, t), function()
        local r, alpha, beta, norm = 0.5, 0.75, 0.5, 0.25
        local x, g, v = { 1, 2 }, { 0.5, -1 }, { 0.25, 0.5 }
        local new_x, new_v = {}, {}
        for i = 1, 2 do
          local slope = g[i] + norm * x[i]
          new_v[i] = alpha * v[i] + (t == 0 and 1 or beta) * slope
          new_x[i] = x[i] - r * (mode == 'standard' and new_v[i] or slope + alpha * new_v[i])
        end
        assert.equal(text(f(new_x)) .. '; ' .. text(f(new_v)), (result({ 'Momentum', 20,
          { alpha = { f = alpha }, beta = { f = beta }, norm_coefficient = { f = norm },
            mode = mode }, { f(r), i64(t), f(x), f(g), f(v) }, domain = TRAINING, outputs = 2 })))
      end)
    end
  end
end)

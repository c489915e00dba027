-- SPDX-License-Identifier: MIT
--- Nets of every kind as ONNX files in four versions of the operators, with inputs and results at
--- four batch sizes, for `export_check.py`; prints what export said of each.
---
---   ./ridge scripts/onnx/export_nets.lua FOLDER

local ridge = require 'ridge'
local nn = ridge.nn

local FOLDER = assert(arg[1], 'a folder')
local OPSETS = { 13, 14, 17, 21 }
local BATCHES = { 0, 1, 4, 9 }
-- ONNX Runtime's kernels of the first two end the process where the batch is 0, of a lone node too;
-- 'views' reads its last row.
local NEVER_EMPTY = { LSTM = true, GRU = true, views = true }

local function lenet()
  return nn.Sequential(nn.Conv2d(1, 6, 5, { padding = 2 }), nn.BatchNorm(6), nn.ReLU(),
    nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.BatchNorm(16), nn.ReLU(), nn.AvgPool2d(2),
    nn.Flatten(), nn.Linear(400, 120), nn.Tanh(), nn.Dropout(0.5), nn.Linear(120, 84),
    nn.SiLU(), nn.Linear(84, 10))
end

local function residual()
  local function part()
    return nn.Residual(nn.Sequential(nn.Conv2d(8, 8, 3, { padding = 1, bias = false }),
      nn.BatchNorm(8), nn.ReLU(), nn.Conv2d(8, 8, 3, { padding = 1 }), nn.GroupNorm(2, 8)))
  end
  return nn.Sequential(nn.Conv2d(3, 8, 3, { padding = 1, stride = 2 }), part(), nn.GELU(), part(),
    nn.Flatten(), nn.Linear(8 * 64, 10))
end

local function images(c, h) return function(n) return ridge.randn(n, c, h, h) end end
local function rows(width) return function(n) return ridge.randn(n, width) end end
local function sequences(t, width) return function(n) return ridge.randn(n, t, width) end end

local function sketch(form)
  return nn.SKLinear(64, 48, { num_terms = 2, low_rank = 4, form = form, activation = 'gelu' })
end

local NETS = {
  { 'MLP', nn.Sequential(nn.Linear(64, 128, { activation = 'relu' }), nn.Linear(128, 64),
    nn.GELU(), nn.Linear(64, 10)), rows(64) },
  { 'LeNet with BatchNorm', lenet(), images(1, 28) },
  { 'residual net', residual(), images(3, 16) },
  { 'transformer block', nn.TransformerBlock(32, { heads = 4 }), sequences(11, 32) },
  { 'transformer block, causal', nn.TransformerBlock(32, { heads = 4, causal = true }),
    sequences(11, 32) },
  { 'LSTM', nn.LSTM(12, 16), sequences(9, 12) },
  { 'GRU', nn.GRU(12, 16), sequences(9, 12) },
  { 'sketched, stored', sketch 'stored', rows(64) },
  { 'sketched, bits', sketch 'bits', rows(64) },
  { 'sketched, seed', sketch 'seed', rows(64) },
  { 'sketched convolution', nn.SKConv2d(8, 16, 3, { num_terms = 2, low_rank = 2 }), images(8, 9) },
  { 'low rank', nn.LowRankLinear(64, 48, { rank = 8 }), sequences(3, 64) },
  { 'embedding', nn.Sequential(nn.Embedding(50, 16), nn.LayerNorm(16), nn.Linear(16, 8)),
    function(n) return ridge.randint(0, 49, { n, 5 }) end },
  { 'elementwise functions', function(x)
    return (1 - x:abs():add(0.5):rsqrt()) / x:exp():log1p(), x:gt(0.2):to 'f32',
      x:square():sqrt():maximum(0.3):softplus(), x:erf():minimum(x:sin() * x:cos()),
      x:gelu() + x:silu(), (x:sign():to 'i32' + 2):to 'f32'
  end, rows(12) },
  { 'more elementwise functions', function(x)
    local y, n = x:abs() + 0.5, (x * 9):to 'i32'
    return x:tanh():tan() + x:atan() + x:sinh():asinh() + y:cosh():acosh(),
      x:tanh():asin() + x:tanh():acos(), x:trunc() + x:exp2() + x:expm1() + y:log2(),
      x:selu() + x:mish() + x:softsign() + x:hardsigmoid() + x:hardswish(),
      x:elu(0.5) + x:celu(0.7) + x:prelu(0.1) + x:threshold(0.2), x:fmod(y), x:remainder(y),
      x:floor_divide(y) + x:trunc_divide(y), (n:remainder(4) + n:floor_divide(4) * 8):to 'f32',
      (n:trunc_divide(4) + n:fmod(4) * 8):to 'f32'
  end, rows(6) },
  { 'reductions', function(x)
    return x:sum(2), x:mean { 2, 3 }, x:max(3, true), x:norm(2, 2), x:norm(1, -1),
      x:argmax(2):to 'f32', x:softmax(2), x:min(2), x:prod(3)
  end, sequences(3, 5) },
  { 'order and edges', function(x)
    local best, where = x:topk(2)
    local small, at = x:sort(2)
    return best, where:to 'f32', small, at:to 'f32', x:cumsum(3), x:pad { { 1, 2 }, { 0, 1 } },
      x:pad({ { 2, 1 } }, { mode = 'reflect' }), x:roll(1, 2), x:flip(2), x:gather(2,
      x:argmax(2, true)), ridge.where(x:gt(0), x, x * 2)
  end, sequences(3, 5) },
  { 'images of another size', function(x)
    return x:resize { 9, 7 }, x:resize({ 3, 10 }, { mode = 'linear' }),
      x:resize({ 9, 7 }, { mode = 'linear', coordinates = 'align_corners' }),
      x:resize({ 8, 8 }, { mode = 'cubic' }),
      x:resize({ 10, 10 }, { coordinates = 'asymmetric', rounding = 'floor' })
  end, images(2, 5) },
  { 'transposed convolution', nn.Sequential(nn.ConvTranspose2d(3, 5, 3, { stride = 2,
    padding = 1 }), nn.ReLU()), images(3, 7) },
  { 'views', function(x)
    local n = x:size(1)
    return x:reshape(n * 3, 4), x:reshape(-1), x:transpose(2, 3):contiguous(), x:narrow(2, 2, 2),
      x:narrow(1, 1, n):relu(), x:select(2, 3), x:select(1, n), x:unsqueeze(2),
      x:permute(3, 1, 2):contiguous(), ridge.concat({ x, x }, 1),
      x:mean(2, true):expand(n, 3, 4):contiguous()
  end, sequences(3, 4) },
}

-- Running statistics that are no zeros and ones, as after training.
local function shake(net)
  for _, p in ipairs(net:parameters()) do
    if p.name:find 'running_var' then p.tensor:fill_(0.7) end
  end
end

local function results(net, x)
  local out = {}
  for _, value in ipairs { net(x) } do
    if ridge.is_tensor(value) then
      out[#out + 1] = value
    else
      for _, inner in ipairs(value) do out[#out + 1] = inner end
    end
  end
  return out
end

ridge.seed(1)
for number, row in ipairs(NETS) do
  local name, net, draw = unpack(row)
  if type(net) == 'table' then
    ridge.no_grad(function() -- statistics of batches that were seen
      for _ = 1, 3 do net(draw(8)) end
      shake(net)
    end)
    net:eval()
  end
  local base = ('%s/%d'):format(FOLDER, number)
  local n_outputs
  for _, n in ipairs(BATCHES) do
    if n > 0 or not NEVER_EMPTY[name] then
      local x = draw(n)
      ridge.save(('%s.in.%d.npy'):format(base, n), x)
      local out = ridge.no_grad(results, net, x)
      n_outputs = #out
      for i, y in ipairs(out) do
        ridge.save(('%s.out.%d.%d.npy'):format(base, n, i), y:detach():contiguous())
      end
    end
  end
  for _, opset in ipairs(OPSETS) do
    for _, optimize in ipairs { true, false } do
      local path = ('%s.%d%s.onnx'):format(base, opset, optimize and '' or '.plain')
      local r = ridge.onnx.export(net, path, { x = draw(4), opset = opset, optimize = optimize,
        dynamic = { input = { 'batch_size' } } })
      print(table.concat({ number, name, opset, optimize and 'standard' or 'none', path, n_outputs,
        r.nodes, r.num_parameters, tostring(r.validation_passed),
        tostring(r.inference_test_passed), ('%.3g'):format(r.max_difference) }, '\t'))
    end
  end
end

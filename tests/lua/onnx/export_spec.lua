-- SPDX-License-Identifier: MIT
-- ridge.onnx.export: what it writes computes what the net computes, at every batch size, in every
-- version of the operators, and what it cannot write it refuses with a sentence.  ONNX Runtime's
-- results are beside these in results/onnx_export.md.
local ridge = require 'ridge'
local nn = ridge.nn
local file = require 'ridge.onnx.file'
local validate = require 'ridge.onnx.validate'

local PATH = os.tmpname()
local BATCH = { input = { 'batch_size' } }

local function export(net, x, opts)
  if type(net) == 'table' and net.eval then net:eval() end
  opts = opts or {}
  opts.x, opts.dynamic = x, opts.dynamic or BATCH
  local result = ridge.onnx.export(net, PATH, opts)
  return result, file.read(PATH)
end

local function ops_of(model)
  local list = {}
  for i, node in ipairs(model.graph.nodes) do list[i] = node.op end
  return table.concat(list, ' ')
end

local function refused(pattern, net, x, opts)
  local ok, err = pcall(export, net, x, opts)
  assert.is_false(ok, 'exported, and should be refused: ' .. pattern)
  assert.is_table(err, tostring(err))
  assert.matches(pattern, err.message)
  assert.is_nil(err.cause)
end

describe('ridge.onnx.export', function()
  before_each(function() ridge.seed(1) end)
  teardown(function()
    os.remove(PATH)
    os.remove(PATH .. '.data')
  end)

  local NETS = {
    { 'products and activations', function()
      return nn.Sequential(nn.Linear(6, 8, { activation = 'silu' }), nn.GELU(), nn.Linear(8, 4),
        nn.Sigmoid()), ridge.randn(4, 6)
    end },
    { 'an image net', function()
      local net = nn.Sequential(nn.Conv2d(2, 4, 3, { padding = 1, stride = 2 }), nn.BatchNorm(4),
        nn.ReLU(), nn.MaxPool2d(2), nn.Residual(nn.Sequential(nn.Conv2d(4, 4, 3, { padding = 1 }),
        nn.GroupNorm(2, 4))), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(16, 3))
      ridge.no_grad(function() net(ridge.randn(8, 2, 16, 16)) end)
      return net, ridge.randn(4, 2, 16, 16)
    end },
    { 'a transformer block', function()
      return nn.TransformerBlock(8, { heads = 2 }), ridge.randn(4, 5, 8)
    end },
    { 'a causal block', function()
      return nn.TransformerBlock(8, { heads = 2, causal = true }), ridge.randn(4, 5, 8)
    end },
    { 'an LSTM', function() return nn.LSTM(3, 4), ridge.randn(4, 5, 3) end, 'LSTM' },
    { 'a GRU', function() return nn.GRU(3, 4), ridge.randn(4, 5, 3) end, 'GRU' },
    { 'a sketch', function()
      return nn.SKLinear(16, 12, { num_terms = 1, low_rank = 2, form = 'stored' }),
        ridge.randn(4, 16)
    end },
    { 'a sketch of bits', function()
      return nn.SKLinear(16, 12, { num_terms = 2, low_rank = 1, form = 'bits', warn = false }),
        ridge.randn(4, 16)
    end },
    { 'a sketch of a seed', function()
      return nn.SKLinear(16, 12, { num_terms = 2, low_rank = 1, form = 'seed', warn = false }),
        ridge.randn(4, 3, 16)
    end },
    { 'a low rank', function()
      return nn.LowRankLinear(16, 12, { rank = 2 }), ridge.randn(4, 16)
    end },
    { 'an embedding', function()
      return nn.Sequential(nn.Embedding(9, 4), nn.LayerNorm(4)), ridge.randint(0, 8, { 4, 3 })
    end },
    { 'elementwise functions', function()
      return function(x)
        return (1 - x:abs():add(0.5):rsqrt()) / x:exp():log1p(), x:gt(0.2), x:ne(x:floor()),
          x:square():sqrt():maximum(0.3):softplus(), x:erf():minimum(x:sin() * x:cos()),
          x:isfinite(), x:sign():to 'i32' + 2
      end, ridge.randn(4, 6)
    end },
    { 'more of them', function()
      return function(x)
        local y, n = x:abs() + 0.5, (x * 9):to 'i32'
        return x:tan() + x:atan() + x:sinh():asinh() + y:cosh():acosh() + x:tanh():atanh(),
          x:tanh():asin() + x:tanh():acos(), x:trunc() + x:exp2() + x:expm1() + y:log2(),
          x:selu() + x:mish() + x:softsign() + x:hardsigmoid() + x:hardswish(),
          (x * 4):relu6() + (x * 4):to('bf16'):relu6():to 'f32', n:relu6(),
          x:elu(0.5) + x:celu(0.7) + x:prelu(0.1) + x:threshold(0.2), x:fmod(y) + x:remainder(y),
          x:floor_divide(y) + x:trunc_divide(y), n:remainder(4) + n:floor_divide(4) * 8,
          n:trunc_divide(4), n:fmod(4), n:floor() + n:trunc()
      end, ridge.randn(4, 6)
    end },
    { 'reductions', function()
      return function(x)
        return x:sum(2), x:mean { 2, 3 }, x:max(3, true), x:norm(2, 2), x:norm(1, -1), x:argmax(2),
          x:softmax(2), x:min(2), x:prod(3)
      end, ridge.randn(4, 3, 5)
    end },
    { 'order and edges', function()
      return function(x)
        local best, where = x:topk(2)
        local small, at = x:sort(2)
        return best, where, small, at, x:cumsum(3), x:pad { { 1, 2 }, { 0, 1 } }, x:roll(1, 2),
          x:pad({ { 2, 1 } }, { mode = 'reflect' }), x:flip(2),
          x + ridge.arange(1, 9, 2), ridge.where(x:gt(0), x, x * 2),
          x:gather(2, x:argmax(2, true))
      end, ridge.randn(4, 3, 5)
    end },
    { 'images of another size', function()
      return function(x)
        return x:resize { 9, 7 }, x:resize({ 3, 10 }, { mode = 'linear' }),
          x:resize({ 9, 7 }, { mode = 'linear', coordinates = 'align_corners' }),
          x:resize({ 8, 8 }, { mode = 'cubic' }),
          x:resize({ 10, 10 }, { coordinates = 'asymmetric', rounding = 'floor' }),
          x:resize({ 10, 15 }, { mode = 'linear', scales = { 2, 3 } })
      end, ridge.randn(4, 2, 5, 5)
    end },
    { 'transposed convolutions', function()
      return nn.Sequential(nn.ConvTranspose2d(3, 5, 3, { stride = 2, padding = 1 }), nn.ReLU()),
        ridge.randn(4, 3, 5, 5)
    end },
    { 'views', function()
      return function(x)
        local n = x:size(1)
        return x:reshape(n * 3, 4), x:reshape(-1), x:transpose(2, 3):contiguous(),
          x:narrow(2, 2, 2), x:narrow(1, 2, n - 1), x:select(2, 3), x:select(1, n),
          x:unsqueeze(2), x:permute(3, 1, 2):contiguous(), ridge.concat({ x, x }, 1),
          x:mean(2, true):expand(n, 3, 4):contiguous()
      end, ridge.randn(4, 3, 4)
    end },
  }

  for _, row in ipairs(NETS) do
    local name, make, one = unpack(row)
    for _, opset in ipairs { 13, 14, 17, 18, 20, 21 } do
      it(('writes %s in operators of version %d'):format(name, opset), function()
        local net, x = make()
        local r, model = export(net, x, { opset = opset, optimize = opset ~= 14 })
        assert.is_nil(r.validation_error)
        assert.is_true(r.validation_passed)
        assert.is_true(r.inference_test_passed, tostring(r.max_difference))
        assert.equal(4, r.sizes_tested) -- the example's, 2, 3 and 7
        assert.equal('batch_size', model.graph.inputs[1].shape[1])
        assert.equal(opset, model.opset[''])
        if one then
          local n = select(2, ops_of(model):gsub('%f[%a]' .. one .. '%f[%A]', ''))
          assert.equal(1, n, ops_of(model))
          assert.is_true(#model.graph.nodes <= 4, ops_of(model))
        end
      end)
    end
  end

  it('gives the bits of the net where every node has an operator', function()
    local net = nn.Sequential(nn.Linear(6, 8, { activation = 'relu' }), nn.Linear(8, 4), nn.Tanh())
    local r, model = export(net, ridge.randn(4, 6), { optimize = false })
    assert.equal('Gemm Relu Gemm Tanh', ops_of(model))
    assert.equal(0, r.max_difference)
  end)

  it('writes ReLU6 as a Clip, which is read as one', function()
    local net = nn.Sequential(nn.Linear(6, 8, { activation = 'relu6', seed = 1 }), nn.ReLU6())
    local x = ridge.randn(4, 6) * 20
    for _, opset in ipairs { 13, 21 } do
      local r, model = export(net, x, { optimize = false, opset = opset })
      assert.equal('Gemm Clip Clip', ops_of(model))
      assert.equal(0, r.max_difference)
      local again = ridge.onnx.load(PATH)
      assert.equal(2, #again:parameters()) -- bounds are none
      local list = {}
      for i, node in ipairs(ridge.graph(again, x):nodes()) do list[i] = node.op end
      assert.equal('linear relu6 relu6', table.concat(list, ' '))
      assert.equal(0, (again(x) - net(x)):abs():max():item())
    end
  end)

  it('writes half types, and f64', function()
    for _, kind in ipairs { 'f64', 'f16', 'bf16' } do
      local net = nn.Sequential(nn.Linear(6, 8, { activation = 'gelu' }), nn.LayerNorm(8)):to(kind)
      local r, model = export(net, ridge.randn(4, 6):to(kind), { opset = 17 })
      assert.equal(kind, model.graph.outputs[1].type)
      assert.is_true(r.inference_test_passed, kind .. ' ' .. tostring(r.max_difference))
      assert.equal(kind == 'f64' and 1e-5 or kind == 'f16' and 2 ^ -8 or 2 ^ -5, r.tolerance)
    end
  end)

  it('multiplies what is no weight', function()
    local r, model = export(function(x) return x:matmul(x:transpose(2, 3)) end,
      ridge.randn(4, 3, 6))
    assert.equal('Transpose MatMul', ops_of(model))
    assert.is_true(r.inference_test_passed)
  end)

  it('says all of it', function()
    local r = export(nn.Linear(3, 2), ridge.randn(4, 3), { opset = 15, outputs = { 'y' } })
    assert.equal(PATH, r.onnx_path)
    assert.equal(15, r.opset_version)
    assert.equal(8, r.ir_version)
    assert.equal(8, r.num_parameters)
    assert.same({ { 'batch_size', 3 } }, r.input_shapes)
    assert.same({ { 'batch_size', 2 } }, r.output_shapes)
    local text = tostring(r)
    for _, word in ipairs { 'version 15 %(IR 8%)', 'input f32%[batch_size, 3%]',
      'y f32%[batch_size, 2%]', 'parameters   8', 'validation   passed', 'inference    passed',
      'at 4 sizes' } do
      assert.matches(word, text)
    end
    r = export(nn.Linear(3, 2), ridge.randn(4, 3), { validate = false, test = false, dynamic = {} })
    assert.is_nil(r.validation_passed)
    assert.matches('validation   not asked for', tostring(r))
    assert.same({ { 4, 3 } }, r.input_shapes)
  end)

  it('takes several inputs, and several axes', function()
    local r, model = export(function(x, y) return x + y, x:mean(2) end,
      { ridge.randn(4, 5), ridge.randn(4, 5) }, { inputs = { 'a', 'b' }, outputs = { 's', 'm' },
      dynamic = { a = { 'N', 'T' }, b = { [1] = 'N', [2] = 'T' } } })
    assert.same({ { 'N', 'T' }, { 'N', 'T' } }, r.input_shapes)
    assert.same({ 'N', 'T' }, model.graph.outputs[1].shape)
    assert.same({ 'N' }, model.graph.outputs[2].shape)
    assert.is_true(r.inference_test_passed)
  end)

  it('writes a weight once, and constants as weights', function()
    local kept = ridge.randn(3)
    local w = nn.Linear(3, 3)
    w:eval()
    local _, model = export(function(x) return w(w(x)) * kept * (kept * 2):exp() end,
      ridge.randn(4, 3))
    local n = 0
    for _, t in ipairs(model.graph.initializers) do n = n + (#t.shape == 2 and 1 or 0) end
    assert.equal(1, n)
    assert.equal('Gemm Gemm Mul Mul', ops_of(model)) -- the exp is computed
  end)

  it('lets a weight follow a dynamic axis', function()
    local kept = ridge.randn(1, 3)
    local r, model = export(function(x) return kept:expand(x:size(1), 3) * 2 end,
      ridge.randn(4, 5))
    assert.same({ { 'batch_size', 3 } }, r.output_shapes)
    assert.equal('Shape Gather Concat Expand Mul', ops_of(model))
    assert.is_true(r.inference_test_passed)
  end)

  it('puts large weights beside the model', function()
    local r = export(nn.Linear(64, 64), ridge.randn(4, 64), { external = 1000 })
    assert.equal(PATH:match '[^/]*$' .. '.data', r.external)
    assert.is_true(r.inference_test_passed)
    assert.matches('more than', tostring(r))
  end)

  it('returns what comes in, and the same twice', function()
    local r, model = export(function(x) return x, x + 1, x * 1 end, ridge.randn(4, 2))
    assert.is_true(r.validation_passed)
    assert.is_true(r.inference_test_passed)
    assert.equal(3, #model.graph.outputs)
  end)

  it('refuses what a file cannot hold', function()
    local net = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
    local function training(x) return net(x) end
    net:train()
    local ok, err = pcall(ridge.onnx.export, net, PATH, { x = ridge.randn(4, 3) })
    assert.is_false(ok)
    assert.matches('in training mode', err.message)
    refused('in training mode', training, ridge.randn(4, 3))
    refused('writes into a part of a tensor', function(x)
      local y = x * 2
      y:narrow(2, 1, 2):add_(1)
      return y
    end, ridge.randn(4, 3))
    refused('dropout.*draws random numbers', function(x) return x:dropout(0.5) end,
      ridge.randn(4, 3))
    refused('svd.*ONNX has no operator for it', function(x) return (select(2, x:svd())) end,
      ridge.randn(4, 3), { dynamic = {} })
    local state = ridge.zeros(3)
    refused('writes to', function(x)
      state:add_(1)
      return x + state
    end, ridge.randn(4, 3))
    refused('Trilu needs opset = 14', function(x) return x:tril() end, ridge.randn(4, 3),
      { opset = 13, dynamic = {} })
  end)

  -- The whole sentence of what has no form in a file, with the operation and its line.
  it('names what it refuses', function()
    local image = ridge.randn(4, 2, 5, 5)
    local function sentence(op, words, f, x, opts)
      refused('^onnx%.export: ' .. op .. ' %(tests/lua/onnx/export_spec%.lua:%d+%): ' .. words
        .. '$', f, x, opts)
    end
    local function resized(sizes, opts)
      return function(x) return x:resize(sizes, opts) end
    end
    sentence('svd', 'ONNX has no operator for it', function(x) return (select(2, x:svd())) end,
      ridge.randn(4, 3), { dynamic = {} })
    local other = 'a crop, or a scale that is not the ratio of the sizes'
    sentence('resample', other, resized({ 10, 10 }, { mode = 'linear', scales = { 2.1, 2.1 } }),
      image)
    sentence('resample', other, resized({ 10, 10 }, { coordinates = 'tf_crop_and_resize',
      crop = { { 0.1, 0.9 }, { 0, 1 } } }), image)
    sentence('resample', 'Resize so needs opset = 19',
      resized({ 7, 7 }, { mode = 'linear', coordinates = 'half_pixel_symmetric' }), image)
    sentence('resample', 'Resize so needs opset = 18',
      resized({ 3, 3 }, { mode = 'linear', antialias = true }), image)
    sentence('dropout', 'it draws random numbers: a file is for evaluation',
      function(x) return x:dropout(0.5) end, image)
    sentence('norm', 'ONNX has no norm of p = 3', function(x) return x:norm(3, 2) end, image)
  end)

  it('writes an operator for what has one', function()
    local vector = ridge.tensor { 0.1, 0.2, 0.3 }
    local x = ridge.randn(4, 3)
    for op, f in pairs {
      LeakyRelu = function(y) return y:leaky_relu(0.2) end,
      Elu = function(y) return y:elu(0.5) end,
      PRelu = function(y) return y:prelu(vector) end,
    } do
      local _, model = export(f, x)
      assert.equal(op, ops_of(model))
    end
  end)

  it('refuses a branch on the data', function()
    refused('captured', function(x) return x:sum():item() > 0 and x or -x end, ridge.randn(4, 3))
  end)

  it('refuses sizes that follow an axis on no line', function()
    refused('follows batch_size on no line: 4 at 4, 4 at 2', function(x)
      return ridge.ones(math.max(4, x:size(1)), 1) * x:sum()
    end, ridge.randn(4, 3))
    refused('value is 0%.25 where batch_size is 4', function(x) return x * (1 / x:size(1)) end,
      ridge.randn(4, 3))
    refused('the net computes something else', function(x)
      return x:size(1) > 2 and x:relu() or x:exp()
    end, ridge.randn(4, 3))
  end)

  it('names a wrong option', function()
    local x = ridge.randn(4, 3)
    refused("there is no input 'imput' %(did you mean 'input'%?%)", nn.Linear(3, 2), x,
      { dynamic = { imput = { 'n' } } })
    refused('input has no axis 3', nn.Linear(3, 2), x, { dynamic = { input = { [3] = 'n' } } })
    refused('2 names for 1 input', nn.Linear(3, 2), x, { inputs = { 'a', 'b' } })
    refused('opset', nn.Linear(3, 2), x, { opset = 12 })
    refused('unknown option', nn.Linear(3, 2), x, { opsets = 13 })
    refused('a tensor, or a list of tensors', nn.Linear(3, 2), {})
  end)

  it('is told by its own check what another file gets wrong', function()
    local _, model = export(nn.Linear(3, 2), ridge.randn(4, 3))
    assert.is_nil(validate.fault(PATH))
    local function fault(pattern, change)
      local back = file.read(PATH)
      local path = os.tmpname()
      change(back.graph)
      file.write(path, back)
      assert.matches(pattern, validate.fault(path) or 'nothing')
      os.remove(path)
    end
    fault('of no operator', function(g) g.nodes[1].op = 'Gemn' end)
    fault('has 0 outputs', function(g)
      g.nodes[2] = { op = 'Relu', domain = '', name = '', inputs = { 'input' }, outputs = {},
        attributes = {} }
    end)
    fault('has 2 outputs', function(g) g.nodes[1].outputs[2] = 'more' end)
    fault('is there since version 20', function(g) g.nodes[1].op = 'Gelu' end)
    fault('has 1 inputs', function(g) g.nodes[1].inputs = { g.nodes[1].inputs[1] } end)
    fault('attribute transB of type float', function(g)
      g.nodes[1].attributes.transB = { type = 'float', value = 1 }
    end)
    fault('has no shape', function(g) g.outputs[1].shape = nil end)
    fault('which nothing makes', function(g) g.initializers = {} end)
    assert.equal('Gemm', model.graph.nodes[1].op)
  end)
end)

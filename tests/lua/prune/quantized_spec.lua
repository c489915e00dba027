-- SPDX-License-Identifier: MIT
-- Pruned nets in fewer bits: prune, distill, quantize; what is 0 stays 0 in every kind.
local ridge = require 'ridge'
local nn, quant, prune = ridge.nn, ridge.quant, ridge.prune

local function failure(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok, 'an error is expected')
  return tostring(e)
end

local function count(flag) return flag:to('i64'):sum():item() end

-- 40 inputs do not fall into groups of 32: zeros are put behind them.
local function net_of()
  return nn.Sequential(nn.Linear(40, 32, { seed = 1 }), nn.ReLU(), nn.Linear(32, 4, { seed = 2 }))
    :eval()
end

local x = ridge.randn(96, 40, { generator = ridge.generator(3) })
local calibrate = ridge.data.Loader({ x }, { batch = 32, shuffle = false })

-- What a layer multiplies by, without its bias: a column for each input alone.
local function matrix(layer, n_in)
  local at_zero = ridge.inference(layer, ridge.zeros(1, n_in))
  return (ridge.inference(layer, ridge.eye(n_in)) - at_zero):transpose(1, 2):contiguous()
end

-- How many of the pruned weights of both layers are not 0 in a quantized net.
local function moved(m, q)
  local n = 0
  for _, i in ipairs { 1, 3 } do
    local pruned = m[i].weight:eq(0)
    assert.is_true(count(pruned) > 20)
    n = n + count(matrix(q[i], pruned:size(2)):ne(0):logical_and(pruned))
  end
  return n
end

describe('a pruned net', function()
  local m = prune.magnitude(net_of(), { sparsity = 0.7, scope = 'layer' })
  local fixed = prune.compact(m, { format = 'dense' })

  it('keeps its zeros in every kind, with masks and when they are fixed', function()
    for _, base in ipairs { m, fixed } do
      for _, method in ipairs { 'rtn', 'mse', 'awq', 'gptq' } do
        for _, bits in ipairs { 8, 4, 2 } do
          local q = quant.weights(base, { bits = bits, pad = true, rows = false, method = method,
            calibrate = (method == 'awq' or method == 'gptq') and calibrate or nil })
          assert.equal(0, moved(m, q), ('%s %d'):format(method, bits))
        end
      end
      assert.equal(0, moved(m, quant.dynamic(base, { rows = false })))
      local state = quant.static(base, { calibrate = calibrate, rows = false }):state()
      for _, i in ipairs { 1, 3 } do
        local codes = state[i .. '.weight']
        assert.equal('i8', codes.dtype)
        assert.equal(0, count(codes:ne(0):logical_and(m[i].weight:eq(0))))
      end
    end
  end)

  it('lets gptq make up for them: not worse than plain rounding of the same zeros', function()
    local y = ridge.inference(m, x)
    local function off(q) return (ridge.inference(q, x) - y):square():sum():item() end
    assert.is_true(off(quant.weights(m, { bits = 3, pad = true, rows = false, method = 'gptq',
      calibrate = calibrate })) < off(quant.weights(m, { bits = 3, pad = true, rows = false })))
  end)

  it('keeps zeros of convolutions with a batch normalisation folded in', function()
    local conv = nn.Sequential(nn.Conv2d(2, 8, 3, { seed = 4 }), nn.BatchNorm(8), nn.ReLU())
    conv(ridge.randn(8, 2, 6, 6, { generator = ridge.generator(5) }) + 1)
    local pruned = prune.magnitude(conv:eval(), { sparsity = 0.5 })
    local images = ridge.randn(16, 2, 6, 6, { generator = ridge.generator(6) })
    local q = quant.static(pruned, { rows = false,
      calibrate = ridge.data.Loader({ images }, { batch = 16 }) })
    local codes = q:state()['1.weight']
    assert.equal(0, count(codes:ne(0):logical_and(pruned[1].weight:eq(0))))
    assert.is_true(count(codes:ne(0)) > 60)
  end)

  it('is distilled and trained with rounding, and its zeros stay', function()
    local teacher = net_of()
    local said = ridge.inference(teacher, x)
    local labels = said:argmax(2)
    for _, base in ipairs { m, (prune.magnitude(m, { sparsity = 0.8, scope = 'layer' })) } do
      local t = quant.prepare(base, { bits = 4, pad = true })
      assert.is_true(prune.analyze(t).layers[1].masked)
      local optimizer = ridge.optim.AdamW(t, { lr = 0.01, weight_decay = 0.1 })
      local first, last
      for step = 1, 12 do
        optimizer:zero_grad()
        local loss = nn.distillation_loss(t(x), said, labels, { temperature = 2, alpha = 0.7 })
        loss:backward()
        optimizer:step()
        first, last = first or loss:item(), loss:item()
        if step % 6 == 0 then
          for _, i in ipairs { 1, 3 } do
            assert.equal(0, count(t[i].weight:ne(0):logical_and(base[i].weight:eq(0))))
          end
        end
      end
      assert.is_true(last < first)
      -- old moments of an optimizer, or an average, may move what stands behind the mask
      ridge.no_grad(function()
        for _, i in ipairs { 1, 3 } do
          t:state()[i .. '.weight']:add_(base[i].weight:eq(0):to 'f32')
        end
      end)
      local q = quant.convert(t)
      assert.equal(0, moved(base, q))
      local apart = (ridge.inference(q, x) - ridge.inference(t:eval(), x)):abs():max():item()
      assert.is_true(apart < 1e-4)
    end
  end)

  it('keeps what is tied tied: prepared, with one of both skipped, fixed', function()
    local tied = nn.Sequential(nn.Linear(32, 32, { seed = 7 }), nn.ReLU(),
      nn.Linear(32, 32, { seed = 8 }))
    tied[3].weight = tied[1].weight
    local made = prune.magnitude(tied, { sparsity = 0.6 })
    local pruned, n = made[1].weight:eq(0), tied:num_parameters()
    for _, skip in ipairs { {}, { '3' } } do
      local t = quant.prepare(made, { skip = skip })
      assert.equal(n, t:num_parameters())
      t(ridge.ones(2, 32)):square():sum():backward()
      ridge.optim.SGD(t, { lr = 0.1 }):step()
      local state = t:state()
      assert.is_nil(state['3.weight']) -- it is there once
      assert.is_true(count(state['1.weight']:ne(made[1].weight)) > 100)
      for _, i in ipairs { 1, 3 } do
        assert.equal(0, count(t[i].weight:ne(0):logical_and(pruned)))
      end
    end
    -- what an optimizer wrote below the mask does not come back
    ridge.no_grad(function() made:state()['1.weight']:add_(pruned:to 'f32') end)
    local c = prune.compact(made, { format = 'dense' })
    assert.equal(tied:num_bytes(), c:num_bytes())
    assert.equal(count(pruned), count(c[3].weight:eq(0)))
  end)

  it('is refused with a minimum, where 0 is no code', function()
    local opts = { bits = 4, pad = true, minimum = true }
    local all = { bits = 4, pad = true, minimum = true, rows = false }
    assert.matches('quantized_spec.lua:%d+: quant.prepare: 1 is pruned, and with a minimum',
      failure(quant.prepare, m, opts))
    for _, row in ipairs(quant.report(quant.weights(m, all)).layers) do
      assert.equal('f32', row.kind)
      assert.matches('what is pruned would not stay 0', row.why)
    end
    assert.equal('w4', quant.report(quant.weights(net_of(), all)).layers[1].kind)
    -- a mask that takes nothing is in nobody's way
    local two = nn.Sequential(nn.Linear(32, 8, { seed = 1 }), nn.Linear(8, 32, { seed = 2 }),
      nn.Linear(32, 4, { seed = 3 }))
    ridge.no_grad(function() two[3].weight:add_(10) end)
    local rows = quant.report(quant.weights(ridge.prune.magnitude(two, { sparsity = 0.3 }):eval(),
      all)).layers
    assert.same({ 'f32', 'w4' }, { rows[1].kind, rows[3].kind })
  end)

  it('is no place for the tensors of one that is not, and the other way round', function()
    local plain = net_of()
    assert.matches('quantized_spec.lua:%d+: nn.Sequential:load_state: 1.weight_mask is missing: '
      .. '1.weight is pruned here.*prune that', failure(m.load_state, m, plain:state()))
    assert.matches('there is no %d.weight_mask here: %d.weight is pruned in the net that the '
      .. 'tensors are of', failure(plain.load_state, plain, m:state()))
    local state = plain:state()
    state['1.attn_mask'] = ridge.ones(1)
    assert.matches('1.attn_mask here: the tensors are of another model', failure(plain.load_state,
      plain, state))
    -- what the sentences say to do
    local again = prune.magnitude(nn.Sequential(nn.Linear(40, 32), nn.ReLU(), nn.Linear(32, 4))
      :load_state(plain:state()), { sparsity = 0.5, scope = 'layer' })
    again:load_state(m:state())
    assert.same(m[3].weight:tolist(), again[3].weight:tolist())
  end)

  it('is not prepared where something else computes a weight', function()
    local own = net_of()
    own[1]:parametrize('weight', { forward = function(w) return w * 2 end })
    assert.matches('quant.prepare: the weight of 1 is parametrised already: remove_param',
      failure(quant.prepare, own, { pad = true }))
  end)
end)

describe('sparse layers and fewer bits', function()
  local m = prune.magnitude(net_of(), { sparsity = 0.5, pattern = '2:4' })
  local how = { dynamic = { rows = false }, weights = { bits = 8, pad = true, rows = false },
    static = { calibrate = calibrate, rows = false } }
  local NOTE = 'zeros of pattern 2:4 stay 0, and are stored and multiplied like other numbers'

  it('do not go together: the layer stays, with the reason, and its results', function()
    for format, words in pairs { ['n:m'] = 'kept in 2:4, for which there are products in f32 and '
      .. 'bf16 and none in fewer bits', rows = 'kept in rows, for which there are products in f32 '
      .. 'and none in fewer bits' } do
      local c = prune.compact(m, { format = format, skip = { '3' } })
      for method, opts in pairs(how) do
        local q = quant[method](c, opts)
        local rows = quant.report(q).layers
        assert.same({ '1', 'prune.SparseLinear', 'f32' }, { rows[1].name, rows[1].class,
          rows[1].kind })
        assert.truthy(rows[1].why:find(words, 1, true))
        assert.equal(method == 'weights' and 'w8' or 'i8', rows[2].kind)
        assert.equal(0, (q[1](x) - c[1](x)):abs():max():item())
      end
    end
  end)

  it('are numbers of few bits where masks were fixed, which the report says', function()
    for _, base in ipairs { m, (prune.compact(m, { format = 'dense' })) } do
      for method, opts in pairs(how) do
        local q = quant[method](base, opts)
        assert.truthy(tostring(quant.report(q)):find(NOTE, 1, true))
        assert.is_nil(tostring(quant.report(quant.half(base))):find(NOTE, 1, true))
      end
    end
    local rows = prune.magnitude(net_of(), { sparsity = 0.5, pattern = 'row', skip = { '3' } })
    assert.is_nil(tostring(quant.report(quant.dynamic(rows, { rows = false }))):find('zeros of', 1,
      true))
  end)

  it('leave what they are in out of training as a whole', function()
    for _, q in ipairs { quant.dynamic(net_of(), { rows = false }), quant.half(net_of()) } do
      local more = nn.Sequential(nn.Linear(40, 40), q):eval()
      assert.truthy(failure(more.train, more):find('a quantized net is not trained', 1, true))
      assert.same({ false, false }, { more.training, more[1].training })
      assert.is_false(more:train(false).training)
    end
  end)

  it('are in bf16 where prune.compact was given such a net', function()
    local c = prune.compact(m, { format = 'n:m', skip = { '3' } })
    local rows = quant.report(quant.half(c, 'bf16')).layers
    assert.same({ 'f32', 'bf16' }, { rows[1].kind, rows[2].kind })
    assert.truthy(rows[1].why:find("net:to 'bf16' has them in bf16", 1, true))
    c = prune.compact(m:clone():to 'bf16', { format = 'n:m' })
    rows = quant.report(quant.half(c, 'bf16')).layers
    assert.same({ 'bf16', nil }, { rows[1].kind, rows[1].why })
  end)
end)

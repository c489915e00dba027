-- SPDX-License-Identifier: MIT
-- Weights of a few bits: codes beside loops, methods that look at inputs, training with rounding.
local ridge = require 'ridge'
local awq = require 'ridge.quant.awq'
local gptq = require 'ridge.quant.gptq'
local groups = require 'ridge.quant.groups'
local held = require 'ridge.quant.held'
local second_moment = require 'ridge.quant.second_moment'
local nn = ridge.nn

local function failure(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok, 'an error is expected')
  return tostring(e)
end

local function apart(a, b) return (a - b):abs():max():item() end
local function loader(x) return ridge.data.Loader({ x }, { batch = 16, shuffle = false }) end

local function half(x) return ridge.tensor({ x }):to('f16'):item() end

local function near_even(v)
  local low = math.floor(v)
  if v - low ~= 0.5 then return math.floor(v + 0.5) end
  return low % 2 == 0 and low or low + 1
end

-- One group by the definition.
local function by_hand(w, bits, with_min)
  local lo, hi = math.huge, -math.huge
  for _, v in ipairs(w) do lo, hi = math.min(lo, v), math.max(hi, v) end
  local zero, top, out = 2 ^ (bits - 1), 2 ^ bits - 1, {}
  local scale, min
  if with_min then
    min = half(lo)
    scale = half((hi - min) / top)
  elseif bits == 8 then
    scale = half(math.max(hi, -lo) / 127)
  else
    scale = half((hi > -lo and hi or lo) / -zero)
  end
  for i, v in ipairs(w) do
    local inverse = scale == 0 and 0 or 1 / scale
    local code = with_min and near_even((v - min) * inverse) or near_even(v * inverse) + zero
    code = math.max(not with_min and bits == 8 and 1 or 0, math.min(top, code))
    out[i] = with_min and code * scale + min or (code - zero) * scale
  end
  return out
end

-- Inputs that move together, some much more than others.
local function inputs(n, features)
  local g = ridge.generator(5)
  local mix = ridge.randn(n, 8, { generator = g }):matmul(ridge.randn(8, features,
    { generator = g }))
  return (mix + ridge.randn(n, features, { generator = g }) * 0.3)
    * (ridge.rand(features, { generator = g }) * 4):exp()
end

describe('groups', function()
  it('are what the definition says, in every width', function()
    local w = ridge.randn(3, 64, { generator = ridge.generator(1) })
    w:narrow(1, 2, 1):mul_(0) -- zeros stay zeros
    local rows = w:tolist()
    for _, bits in ipairs { 2, 3, 4, 6, 8 } do
      for _, with_min in ipairs { false, true } do
        local found = groups.round(w, { bits = bits, group = 32, minimum = with_min })
        local values = found.value:tolist()
        for i = 1, 3 do
          for g = 0, 1 do
            local part = { unpack(rows[i], g * 32 + 1, g * 32 + 32) }
            for j, v in ipairs(by_hand(part, bits, with_min)) do
              assert.near(v, values[i][g * 32 + j], 1e-5)
            end
          end
        end
        assert.is_true(found.code:max():item() <= 2 ^ bits - 1 and found.code:min():item() >= 0)
        assert.equal('f16', found.scale.dtype)
      end
    end
  end)

  it('with the least error are never worse, and better in few bits', function()
    local w = ridge.randn(40, 128, { generator = ridge.generator(2) })
    for _, bits in ipairs { 2, 3, 4, 6, 8 } do
      local function loss(search)
        return (groups.round(w, { bits = bits, group = 64, search = search }).value - w):square()
          :sum():item()
      end
      assert.is_true(loss(true) <= loss(false))
      if bits <= 4 then assert.is_true(loss(true) < 0.97 * loss(false)) end
    end
  end)
end)

describe('rounding for inputs', function()
  local x, w = inputs(300, 64), ridge.randn(24, 64, { generator = ridge.generator(3) })
  local moments = second_moment.new(64)
  moments:add(x:narrow(1, 1, 100):reshape(4, 25, 64))
  moments:add(x:narrow(1, 101, 200))

  it('knows the error of the output', function()
    local off = ridge.randn(24, 64) * 0.01
    local want = x:to('f64'):matmul(off:to('f64'):t()):square():sum():item() / 300
    assert.near(want, moments:loss(off), 1e-6 * want)
  end)

  it('gptq is plain rounding where inputs have nothing to do with each other', function()
    local apart_ones = second_moment.new(64)
    apart_ones:add(ridge.eye(64))
    local how = { bits = 3, group = 32 }
    assert.is_true(apart(gptq.round(w, apart_ones, how).value, groups.round(w, how).value) < 1e-6)
  end)

  it('gptq and awq lose less in the output, and give codes', function()
    for _, bits in ipairs { 4, 3, 2 } do
      for _, with_min in ipairs { false, true } do
        local how = { bits = bits, group = 32, minimum = with_min }
        local plain = moments:loss(groups.round(w, how).value - w)
        local g, a = gptq.round(w, moments, how), awq.round(w, moments, how)
        assert.is_true(moments:loss(g.value - w) < 0.5 * plain)
        assert.is_true(moments:loss(a.value / a.factor - w) < plain)
        local code = g.code:reshape(24, 2, 32)
        local scale = g.scale:to('f32'):reshape(24, 2, 1)
        local back = with_min and code * scale + g.min:to('f32'):reshape(24, 2, 1)
          or (code - 2 ^ (bits - 1)) * scale
        assert.is_true(apart(back:reshape(24, 64), g.value) < 1e-5)
        assert.equal(0, (g.code - g.code:round()):abs():max():item())
      end
    end
  end)

  it('awq takes the best of twenty exponents of the magnitudes', function()
    local how = { bits = 3, group = 32 }
    local magnitude = moments:magnitudes()
    local least, best = moments:loss(groups.round(w, how).value - w), nil
    for i = 1, 20 do
      local s = (magnitude / magnitude:max()):maximum(1e-4) ^ (i / 20)
      s = (s / (s:max() * s:min()):sqrt()):to 'f32'
      local loss = moments:loss(groups.round(w * s, how).value / s - w)
      if loss < least then least, best = loss, s end
    end
    local found = awq.round(w, moments, how)
    assert.equal(0, apart(found.factor, best))
    assert.equal(0, apart(found.value, groups.round(w * best, how).value))
  end)

  it('gptq takes features that never come', function()
    local still = second_moment.new(64)
    still:add(x * ridge.concat({ ridge.zeros(8), ridge.ones(56) }, 1))
    local found = gptq.round(w, still, { bits = 4, group = 32 })
    assert.equal(0, found.value:narrow(2, 1, 8):abs():max():item())
    local none = second_moment.new(64)
    none:add(ridge.zeros(4, 64))
    assert.equal(0, gptq.round(w, none, { bits = 4, group = 32 }).value:abs():max():item())
    assert.is_true(still:loss(found.value - w) < still:loss(groups.round(w,
      { bits = 4, group = 32 }).value - w))
  end)
end)

-- The inverse of a symmetric matrix (Gauss and Jordan), in place, as rows.
local function invert(a)
  for k = 1, #a do
    local p = a[k][k]
    a[k][k] = 1
    for j = 1, #a do a[k][j] = a[k][j] / p end
    for i = 1, #a do
      local f = a[i][k]
      if i ~= k then
        a[i][k] = 0
        for j = 1, #a do a[i][j] = a[i][j] - f * a[k][j] end
      end
    end
  end
end

-- Optimal brain quantization in the order of the columns: the inverse itself loses a row and a
-- column with each weight that is rounded.
local function by_the_book(w, x, opts)
  local n, rows, h, mean = w:size(2), w:tolist(), (x:t():matmul(x) / x:size(1)):tolist(), 0
  for i = 1, n do mean = mean + h[i][i] / n end
  for i = 1, n do h[i][i] = h[i][i] + 0.01 * mean end
  invert(h)
  local scale
  for j = 1, n do
    if (j - 1) % opts.group == 0 then
      scale = groups.scales(ridge.tensor(rows, { dtype = 'f64' }):to('f32'):narrow(2, j,
        opts.group), opts):tolist()
    end
    for r, row in ipairs(rows) do
      local _, value = groups.coded(ridge.tensor({ row[j] }, { dtype = 'f64' }),
        ridge.tensor(scale[r], { dtype = 'f64' }), nil, opts.bits)
      local off = (row[j] - value:item()) / h[j][j]
      row[j] = value:item()
      for k = j + 1, n do row[k] = row[k] - off * h[j][k] end
    end
    for a = j + 1, n do
      local f = h[a][j] / h[j][j]
      for b = j + 1, n do h[a][b] = h[a][b] - f * h[j][b] end
    end
  end
  return ridge.tensor(rows, { dtype = 'f64' })
end

describe('codes', function()
  it('end where their bits do, and those of 8 bits are symmetric', function()
    for bits, ends in pairs { [8] = { 1, 255 }, [4] = { 0, 15 }, [2] = { 0, 3 } } do
      local code = groups.coded(ridge.tensor { -300, 300 }, ridge.ones(1), nil, bits)
      assert.same(ends, code:tolist())
    end
    assert.same({ 0, 255 }, groups.coded(ridge.tensor { -300, 300 }, ridge.ones(1),
      ridge.zeros(1), 8):tolist())
  end)
end)

describe('gptq', function()
  it('is what optimal brain quantization gives in that order', function()
    local g = ridge.generator(6)
    local x = ridge.randn(96, 64, { generator = g, dtype = 'f64' })
      * ridge.rand(1, 64, { generator = g }):to 'f64'
    local w, moments = ridge.randn(2, 64, { generator = g }), second_moment.new(64)
    moments:add(x:narrow(1, 1, 40))
    moments:add(x:narrow(1, 41, 56))
    local opts = { bits = 4, group = 32 }
    local found = gptq.round(w, moments, opts)
    assert.is_true(apart(by_the_book(w:to 'f64', x, opts), found.value:to 'f64') < 1e-5)
  end)
end)

describe('quant.weights', function()
  -- with all layers, however fast
  local function weights(net, opts)
    local all = { rows = false }
    for name, value in pairs(opts or {}) do all[name] = value end
    return ridge.quant.weights(net, all)
  end

  it('leaves weights of which f16 keeps no scale, and says so', function()
    local x = ridge.randn(16, 32)
    local function made(factor, opts, rows)
      local net = nn.Sequential(nn.Linear(32, 8, { seed = 1, bias = false })):eval()
      ridge.no_grad(function() net[1].weight:narrow(1, 1, rows or 8):mul_(factor) end)
      local q = weights(net, opts)
      return q, net, ridge.quant.report(q).layers[1]
    end
    local data = ridge.data.Loader({ x }, { batch = 16 })
    for _, opts in ipairs { {}, { method = 'mse' }, { minimum = true }, { bits = 8 },
      { method = 'gptq', calibrate = data }, { method = 'awq', calibrate = data } } do
      local q, net, line = made(1e-8, opts)
      assert.equal('f32', line.kind)
      assert.matches('in f16 nothing is left', line.why)
      assert.same(net(x):tolist(), q(x):tolist())
    end
    -- of a row that died nothing has to be left
    local q, net, line = made(1e-8, {}, 1)
    assert.equal('w4', line.kind)
    assert.is_true((q(x) - net(x)):abs():max():item() < 0.3)
    assert.equal(0, q(x):narrow(2, 1, 1):abs():max():item())
    assert.matches('above 65504', (select(3, made(1e7, {}))).why)
    local t = ridge.quant.prepare(nn.Sequential(nn.Linear(32, 4, { seed = 1 })), { bits = 4 })
    for _, p in ipairs(t:parameters()) do
      if p.tensor.ndim == 2 then ridge.no_grad(function() p.tensor:mul_(1e-8) end) end
    end
    assert.matches('weights_spec.lua:%d+: quant.convert: 1: a scale', failure(ridge.quant.convert,
      t))
  end)

  local function net_of()
    return nn.Sequential(nn.Linear(64, 32, { seed = 1, activation = 'relu' }),
      nn.Linear(32, 5, { seed = 2, bias = false })):eval()
  end

  it('computes with what the codes stand for, and leaves the net as it was', function()
    local net, x = net_of(), ridge.randn(7, 64)
    local before = net[1].weight:tolist()
    for _, how in ipairs { { bits = 4 }, { bits = 3, minimum = true }, { bits = 8, method = 'mse' },
      { bits = 4, method = 'gptq', calibrate = loader(inputs(64, 64)) },
      { bits = 4, method = 'awq', calibrate = loader(inputs(64, 64)) } } do
      local q = weights(net, how)
      local y = x:matmul(q[1]:effective_weight():t()) + net[1].bias
      assert.is_true(apart(q[1](x), y:relu()) < 2e-3)
      assert.is_true(apart(q[1]:effective_weight(), net[1].weight)
        < (how.method == 'gptq' and 0.25 or 0.03))
      assert.equal('w' .. how.bits, ridge.quant.report(q).layers[1].kind)
      assert.is_true(apart(q(x), net(x)) < 0.3)
      assert.same(before, net[1].weight:tolist())
      assert.is_false(q.training)
    end
  end)

  it('says that speed was not looked at, and how few batches there were', function()
    local net = nn.Sequential(nn.Linear(64, 8, { seed = 1 })):eval()
    local function notes(more)
      local list = ridge.quant.report(weights(net, more)).notes
      return table.concat(list, '; ', 2)
    end
    local unseen = 'layers were taken whether that is faster or not (rows = false); '
      .. 'quant.compare measures the net'
    local few = 'calibrated with 2 batches; 100 were asked for, and the loader has no more'
    local calibrate = loader(ridge.randn(32, 64))
    assert.equal(unseen, notes {})
    assert.equal('', notes { rows = 1 })
    assert.equal('', notes { skip = { '1' } })
    assert.equal(unseen .. '; ' .. few, notes { method = 'gptq', calibrate = calibrate })
    assert.equal(unseen, notes { method = 'gptq', calibrate = calibrate, batches = 2 })
  end)

  it('pads where it is told to', function()
    local net, x = nn.Linear(70, 6, { seed = 1 }):eval(), ridge.randn(3, 70)
    assert.matches('weights_spec.lua:%d+: quant.weights: nn.Linear has 70 inputs, which do not '
      .. 'fall into groups of 32: pad = true adds 26', failure(ridge.quant.weights, net))
    local q = weights(net, { pad = true, bits = 8 })
    assert.is_true(apart(q(x), net(x)) < 0.02)
    assert.same({ 6, 70 }, q:effective_weight():size())
    local g = weights(net, { pad = true, method = 'gptq',
      calibrate = loader(inputs(32, 70)) })
    assert.is_true(apart(g(x), net(x)) < 0.6)
  end)

  it('says what it cannot', function()
    local net = net_of()
    local function refused(pattern, opts)
      assert.matches(pattern, failure(ridge.quant.weights, net, opts))
    end
    refused('one of 2, 3, 4, 6, 8', { bits = 5 })
    refused('one of 32, 64, 128', { group = 48 })
    refused('calibrate is a loader', { method = 'gptq' })
    refused('looks at weights alone', { method = 'rtn', calibrate = loader(inputs(16, 64)) })
    refused('nan or inf in it', { method = 'awq', calibrate = loader(inputs(16, 64) * (0 / 0)) })
    ridge.no_grad(function() net[1].weight:mul_(1e8) end)
    local q = weights(net)
    assert.matches('largest number of f16', ridge.quant.report(q).layers[1].why)
    assert.equal('nn.Linear', getmetatable(q[1]).__name)
    local few = weights(net_of(),
      { method = 'gptq', calibrate = loader(inputs(32, 64)) })
    assert.matches('2 batches; 100 were asked for', tostring(ridge.quant.report(few)))
    assert.matches('4.5 bits a weight', tostring(ridge.quant.report(few)))
  end)
end)

describe('training with rounding', function()
  it('computes rounded weights, and gradients as if they were not', function()
    local net, x = nn.Sequential(nn.Linear(32, 4, { seed = 1 })), ridge.randn(8, 32)
    local t = ridge.quant.prepare(net, { bits = 3 })
    assert.is_true(t.training)
    local want = groups.round(net[1].weight, { bits = 3, group = 32 }).value
    assert.is_true(apart(t[1].weight, want) < 1e-6)
    t(x):square():sum():backward()
    local g = t:parameters()[1].tensor.grad
    local plain = want:detach():clone():requires_grad_()
    local y = x:matmul(plain:t()) + net[1].bias:detach()
    y:square():sum():backward()
    assert.is_true(apart(g, plain.grad) < 1e-4)
    assert.is_nil(net[1].weight.grad)
  end)

  it('converts to what it computed, and gains on rounding afterwards', function()
    local g = ridge.generator(5)
    local x = ridge.randn(256, 8, { generator = g }):matmul(ridge.randn(8, 64, { generator = g }))
    local teacher = nn.Linear(64, 4, { seed = 9 }):eval()
    local y = teacher(x):detach()
    local net = nn.Sequential(nn.Linear(64, 4, { seed = 9 }))
    local t = ridge.quant.prepare(net, { bits = 2 })
    local optimizer = ridge.optim.Adam(t, { lr = 1e-3 })
    for _ = 1, 100 do
      optimizer:zero_grad()
      nn.mse_loss(t(x), y):backward()
      optimizer:step()
    end
    local q = ridge.quant.convert(t)
    assert.is_true(t.training)
    assert.is_true(apart(q(x), ridge.inference(t, x)) < 1e-3 * y:abs():max():item())
    assert.equal('quant.PackedLinear', getmetatable(q[1]).__name)
    assert.equal('quant.convert: 1 of 1 layers with weights\nlayer  class      type\n'
      .. '1      nn.Linear  w2\ntrained with rounding to 2 bits in groups of 32',
      tostring(ridge.quant.report(q)))
    local function loss(made) return (made(x) - y):square():mean():item() end
    assert.is_true(loss(q) < 0.5 * loss(ridge.quant.weights(net:eval(),
      { bits = 2, rows = false })))
  end)

  it('refuses what was not prepared, or is already', function()
    local net = nn.Sequential(nn.Linear(32, 4))
    assert.matches('none of these layers was prepared', failure(ridge.quant.convert, net))
    local t = ridge.quant.prepare(net)
    assert.matches('1 is prepared already', failure(ridge.quant.prepare, t))
    -- what training ended in is told as such, and not as numbers that are too large
    for _, v in ipairs { 0 / 0, math.huge, -math.huge } do
      local lost = ridge.quant.prepare(net)
      ridge.no_grad(function() lost:parameters()[1].tensor:narrow(2, 1, 1):fill_(v) end)
      assert.matches('weights_spec.lua:%d+: quant.convert: 1: its weight has nan or inf in it',
        failure(ridge.quant.convert, lost))
    end
    assert.matches('no dense layer is left', failure(ridge.quant.prepare, net, { skip = { '1' } }))
  end)
end)

describe('bytes of weights', function()
  it('count scales', function()
    local net = nn.Linear(128, 64, { bias = false, seed = 1 }):eval()
    local q = ridge.quant.weights(net, { bits = 4, rows = false })
    assert.equal(4.5, groups.bits_of { bits = 4, group = 32 })
    assert.equal(128 * 64 * 4.5 / 8, held.bytes(q).stored)
    local with_min = ridge.quant.weights(net, { bits = 3, group = 64, minimum = true,
      rows = false })
    assert.equal(128 * 64 * 3.5 / 8, held.bytes(with_min).stored)
  end)

  it('is not disturbed by a product of who watches memory', function()
    local function layer(n)
      return ridge.quant.weights(nn.Linear(n, 8):eval(), { bits = 4, rows = false })
    end
    local large, small, x, seen = layer(512), layer(64), ridge.randn(8192, 512), 0
    local small_x = ridge.ones(2, 64)
    local wanted = large(x):tolist()
    require('ridge.ffi.call').watch(function()
      seen = seen + 1
      small(small_x)
    end)
    local copies, same = {}, true
    for i = 1, 20 do
      copies[i] = x:clone() -- 16 MB of debt, which the product pays
      local ok, y = pcall(large, copies[i])
      same = same and ok and pcall(assert.same, wanted, y:tolist())
      copies[i] = nil
    end
    require('ridge.ffi.call').watch(nil)
    assert.is_true(seen > 0)
    assert.is_true(same)
  end)
end)

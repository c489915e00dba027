-- SPDX-License-Identifier: MIT
-- FLOPs of net:analyze against brute force: loops that compute what the layer computes, count what
-- they do, and get the layer's numbers.

local ridge = require 'ridge'
local nn = ridge.nn

local COUNTED = { rounds = 0, backward = false, roof = false }

local function analyzed(net, x, opts) return net:eval():analyze(x, opts or COUNTED) end

-- The multiply-adds that were done, and a function that does one.
local function counter()
  local c = { n = 0, other = 0 }
  function c.fma(sum, a, b)
    c.n = c.n + 1
    return sum + a * b
  end
  function c.also(n, value)
    c.other = c.other + n
    return value
  end
  return c
end

local function flat(x)
  local list = x:contiguous():reshape(-1):tolist()
  return function(...) -- the element at 0-based places of these sizes: at(i, n) or at(i, n, j, m)
    local at = 0
    for k = 1, select('#', ...), 2 do
      local i, n = select(k, ...)
      at = at * n + i
    end
    return list[at + 1]
  end
end

local function is_near(list, y)
  local got = y:contiguous():reshape(-1):tolist()
  assert.equal(#list, #got)
  for i, value in ipairs(list) do assert.near(value, got[i], 1e-4) end
end

local function multiply_adds(c, a)
  assert.equal(c.n, a.multiply_adds)
  assert.equal(2 * c.n, a.flops)
end

describe('FLOPs of one forward pass', function()
  it('of a dense layer', function()
    local layer, x, c = nn.Linear(5, 3), ridge.randn(4, 5), counter()
    local w, b, at, out = flat(layer.weight), flat(layer.bias), flat(x), {}
    for i = 0, 3 do
      for o = 0, 2 do
        local sum = b(o, 3)
        for k = 0, 4 do sum = c.fma(sum, at(i, 4, k, 5), w(o, 3, k, 5)) end
        out[#out + 1] = sum
      end
    end
    is_near(out, ridge.inference(layer, x))
    multiply_adds(c, analyzed(layer, x))
  end)

  -- The taps of padding are counted, as published figures do.
  local function convolve(layer, x, o)
    local c, out = counter(), {}
    local n, ci, h, wd = unpack(x:size())
    local co, cg, kh, kw = unpack(layer.weight:size())
    local hout = math.floor((h + 2 * o.padding - o.dilation * (kh - 1) - 1) / o.stride) + 1
    local wout = math.floor((wd + 2 * o.padding - o.dilation * (kw - 1) - 1) / o.stride) + 1
    local at, w = flat(x), flat(layer.weight)
    for i = 0, n - 1 do for oc = 0, co - 1 do for y = 0, hout - 1 do for z = 0, wout - 1 do
      local sum = layer.bias and flat(layer.bias)(oc, co) or 0
      for ic = 0, cg - 1 do for p = 0, kh - 1 do for q = 0, kw - 1 do
        local r = y * o.stride - o.padding + p * o.dilation
        local s = z * o.stride - o.padding + q * o.dilation
        local inside = r >= 0 and r < h and s >= 0 and s < wd
        local from = math.floor(oc / (co / o.groups)) * cg + ic
        sum = c.fma(sum, inside and at(i, n, from, ci, r, h, s, wd) or 0,
          w(oc, co, ic, cg, p, kh, q, kw))
      end end end
      out[#out + 1] = sum
    end end end end
    is_near(out, ridge.inference(layer, x))
    return c
  end

  it('of convolutions with stride, padding, groups and dilation, and of one for each channel',
    function()
    for _, case in ipairs {
      { 3, 4, 3, stride = 1, padding = 0, dilation = 1, groups = 1 },
      { 3, 4, 3, stride = 2, padding = 1, dilation = 1, groups = 1 },
      { 4, 6, 3, stride = 1, padding = 2, dilation = 2, groups = 2 },
      { 4, 6, 2, stride = 3, padding = 1, dilation = 1, groups = 1 },
      { 4, 4, 3, stride = 1, padding = 1, dilation = 1, groups = 4 },
      { 4, 8, 1, stride = 1, padding = 0, dilation = 1, groups = 1, bias = false },
    } do
      local layer = nn.Conv2d(case[1], case[2], case[3], { stride = case.stride,
        padding = case.padding, dilation = case.dilation, groups = case.groups, bias = case.bias })
      local x = ridge.randn(2, case[1], 7, 6)
      local c = convolve(layer, x, case)
      multiply_adds(c, analyzed(layer, x))
    end
  end)

  it('of attention, causal and not: the softmax stands apart', function()
    local Attend = nn.class 'Attend'
    function Attend:init(causal) self.causal = causal end
    function Attend:forward(q, k, v) return nn.attention(q, k, v, { causal = self.causal }) end
    local heads, n, d, e = 2, 5, 4, 3
    for _, causal in ipairs { false, true } do
      local q, k, v = ridge.randn(heads, n, d), ridge.randn(heads, n, d), ridge.randn(heads, n, e)
      local Q, K, V, c, out = flat(q), flat(k), flat(v), counter(), {}
      for h = 0, heads - 1 do for i = 0, n - 1 do
        local weights, total, last = {}, 0, causal and i or n - 1
        for j = 0, last do
          local score = 0
          for l = 0, d - 1 do
            score = c.fma(score, Q(h, heads, i, n, l, d), K(h, heads, j, n, l, d))
          end
          weights[j] = math.exp(score / math.sqrt(d))
          total = total + weights[j]
        end
        for l = 0, e - 1 do
          local sum = 0
          for j = 0, last do sum = c.fma(sum, weights[j] / total, V(h, heads, j, n, l, e)) end
          out[#out + 1] = sum
        end
      end end
      local net = Attend(causal):eval()
      is_near(out, ridge.inference(net, q, k, v))
      local a = net:analyze(q, { more = { k, v }, rounds = 0, backward = false, roof = false })
      multiply_adds(c, a)
      assert.is_true(a.other_flops > 0)
    end
  end)

  it('of attention with a mask of blocks are those of all blocks, which is said', function()
    local Attend = nn.class 'Attend'
    function Attend.forward(_, q, k, v, mask)
      return nn.attention(q, k, v, { mask = mask, block = 2 })
    end
    local q, mask = ridge.randn(2, 6, 4), ridge.zeros(3, 3):to 'bool'
    mask:narrow(2, 1, 1):fill_(1)
    local function told(more)
      return Attend():analyze(q, { more = more, rounds = 0, backward = false, roof = false })
    end
    local masked, whole = told { q, q, mask }, told { q, q }
    assert.equal(2 * 2 * 6 * 6 * (4 + 4), masked.flops)
    assert.equal(whole.flops, masked.flops)
    assert.matches('a mask of blocks is counted as without it', table.concat(masked.notes, '\n'))
    assert.not_matches('mask', table.concat(whole.notes, '\n'))
  end)

  it('of layer normalisation: none of products, eight operations an element', function()
    local layer, x, c, out = nn.LayerNorm(6), ridge.randn(3, 6), counter(), {}
    local at, eps = flat(x), 1e-5
    for i = 0, 2 do
      local mean, var = 0, 0
      for k = 0, 5 do mean = c.also(1, mean + at(i, 3, k, 6)) end
      mean = mean / 6
      for k = 0, 5 do var = c.also(3, var + (at(i, 3, k, 6) - mean) ^ 2) end
      local scale = 1 / math.sqrt(var / 6 + eps)
      -- minus the mean, times the scale, times a weight, plus a bias
      for k = 0, 5 do out[#out + 1] = c.also(4, (at(i, 3, k, 6) - mean) * scale * 1 + 0) end
    end
    is_near(out, ridge.inference(layer, x))
    local a = analyzed(layer, x)
    assert.equal(0, a.flops)
    assert.equal(c.other, a.other_flops)
  end)

  it('of the other norms: without a mean three fewer, without weight and bias one fewer each',
    function()
    local x, c, out = ridge.randn(3, 6), counter(), {}
    local at = flat(x)
    for i = 0, 2 do
      local sum = 0
      for k = 0, 5 do sum = c.also(2, sum + at(i, 3, k, 6) ^ 2) end
      local scale = 1 / math.sqrt(sum / 6 + 1e-5)
      for k = 0, 5 do out[#out + 1] = c.also(2, at(i, 3, k, 6) * scale * 1) end -- and the weight
    end
    local rms = nn.RMSNorm(6)
    is_near(out, ridge.inference(rms, x))
    assert.equal(c.other, analyzed(rms, x).other_flops)
    assert.equal(c.other - 18, analyzed(nn.RMSNorm(6, { affine = false }), x).other_flops)
    assert.equal(6 * 18, analyzed(nn.LayerNorm(6, { affine = false }), x).other_flops)
    assert.equal(7 * 18, analyzed(nn.LayerNorm(6, { bias = false }), x).other_flops)
    -- those of groups are rows of a layer norm, then a weight and a bias for each channel
    assert.equal(8 * 48, analyzed(nn.GroupNorm(2, 4), ridge.randn(2, 4, 3, 2)).other_flops)
    -- back, of each element: with a mean 12 and the weight; without 9
    local back = { rounds = 0, roof = false, backward = true }
    assert.equal(13 * 18, nn.LayerNorm(6):analyze(x, back).backward_other_flops)
    assert.equal(10 * 18, nn.RMSNorm(6):analyze(x, back).backward_other_flops)
  end)

  it('of transposed convolutions: each element goes through all taps, and back two products',
    function()
    for _, case in ipairs { { 3, 4, 3 }, { 3, 4, 3, stride = 2 },
      { 4, 6, 3, stride = 2, padding = 1, groups = 2 } } do
      local layer = nn.ConvTranspose2d(case[1], case[2], case[3], { stride = case.stride,
        padding = case.padding, groups = case.groups })
      local n = 2 * 5 * 6 * case[1] * (case[2] / (case.groups or 1)) * case[3] ^ 2
      local x = ridge.randn(2, case[1], 5, 6):requires_grad_()
      local a = layer:analyze(x, { rounds = 0, roof = false })
      assert.same({ n, 4 * n }, { a.multiply_adds, a.backward_flops })
    end
  end)

  it('of a GRU: three gates, and back what its states and weights need', function()
    local B, T, I, H = 2, 3, 4, 5
    local layer = nn.GRU(I, H)
    local a = layer:analyze(ridge.randn(B, T, I), { rounds = 0, roof = false })
    local of_x, of_h = B * T * 3 * H * I, B * T * 3 * H * H
    assert.equal(of_x + of_h, a.multiply_adds)
    -- the weights of both, and each state but the first, which nobody asks for
    assert.equal(2 * (of_x + of_h + of_h * (T - 1) / T), a.backward_flops)
  end)

  it('of an LSTM: two products a step', function()
    local B, T, I, H = 2, 3, 4, 5
    local layer, x, c = nn.LSTM(I, H), ridge.randn(B, T, I), counter()
    for _ = 1, B * T do -- by the definition (Hochreiter and Schmidhuber): four gates of x and h
      for _ = 1, 4 * H do
        for _ = 1, I do c.fma(0, 1, 1) end
        for _ = 1, H do c.fma(0, 1, 1) end
      end
    end
    local a = analyzed(layer, x)
    multiply_adds(c, a)
    -- at least: three sigmoids, two tanh, three products and a sum for each place
    assert.is_true(a.other_flops >= B * T * H * 9)
  end)

  it('of a sketched layer, with its signs stored and made, and of one of low rank', function()
    local B, I, O, T, R = 3, 8, 6, 2, 4
    for _, form in ipairs { 'stored', 'bits', 'seed' } do
      local c = counter()
      for _ = 1, B * T * R do -- x to T sketches of R numbers, and from them to the outputs, twice
        for _ = 1, 2 do
          for _ = 1, I do c.fma(0, 1, 1) end
          for _ = 1, O do c.fma(0, 1, 1) end
        end
      end
      local layer = nn.SKLinear(I, O, { num_terms = T, low_rank = R, form = form, warn = false })
      local a = analyzed(layer, ridge.randn(B, I))
      assert.same({ form, c.n }, { form, a.multiply_adds })
    end
    local c = counter()
    for _ = 1, B * R do
      for _ = 1, I + O do c.fma(0, 1, 1) end
    end
    multiply_adds(c, analyzed(nn.LowRankLinear(I, O, { rank = R }), ridge.randn(B, I)))
  end)

  it('of a weight of which most is 0: what is kept of it, for each row', function()
    local w, B = ridge.zeros(32, 24), 5
    for i = 1, 7 do w:narrow(1, i, 1):narrow(2, 3 * i, 1):fill_(i) end
    for _, block in ipairs { 1, 16 } do
      local kept, c = ridge.sparse(w, { block = block }), counter()
      local Sparse = nn.class 'Sparse'
      function Sparse.forward(_, x) return ridge.sparse_linear(x, kept) end
      for _ = 1, B do
        for _ = 1, kept.values.count do c.fma(0, 1, 1) end
      end
      assert.equal(B * (block == 1 and 7 or 7 * 16), c.n)
      multiply_adds(c, Sparse():analyze(ridge.randn(B, 24), COUNTED))
    end
  end)

  it('of 8-bit products: the scales stand apart', function()
    local Scaled = nn.class 'Scaled'
    function Scaled.forward(_, x, w) return ridge.scaled_linear(x, w, 1, 1) end
    local x, w = ridge.zeros(3, 5, { dtype = 'i8' }), ridge.zeros(7, 5, { dtype = 'i8' })
    local a = Scaled():analyze(x, { more = { w }, rounds = 0, backward = false, roof = false })
    assert.same({ 3 * 7 * 5, 2 * 3 * 7 }, { a.multiply_adds, a.other_flops })
    local packed = nn.class 'Packed'
    function packed.forward(_, y, v)
      return ridge.packed_linear(y, v, ridge.ones(7, 1, { dtype = 'f16' }), { bits = 4 })
    end
    a = packed():analyze(ridge.zeros(3, 32), { more = { ridge.zeros(7, 16, { dtype = 'u8' }) },
      rounds = 0, backward = false, roof = false })
    assert.same({ 3 * 7 * 32, 0 }, { a.multiply_adds, a.other_flops })
    local Conv = nn.class 'Conv'
    function Conv.forward(_, y, v) return ridge.scaled_conv2d(y, v, 1, 1, { groups = 2 }) end
    x, w = ridge.zeros(2, 4, 5, 6, { dtype = 'u8' }), ridge.zeros(6, 2, 3, 2, { dtype = 'i8' })
    a = Conv():analyze(x, { more = { w }, rounds = 0, backward = false, roof = false })
    local results = 2 * 6 * 3 * 5
    assert.same({ results * 12, 2 * results }, { a.multiply_adds, a.other_flops })
  end)
end)

describe('FLOPs of the backward pass', function()
  local back = { rounds = 0, roof = false, backward = true }

  it('of a dense layer are a product for the weights, and one for x where it requires one',
    function()
    local layer = nn.Linear(5, 3)
    assert.equal(2 * 4 * 5 * 3, layer:analyze(ridge.randn(4, 5), back).backward_flops)
    local x = ridge.randn(4, 5):requires_grad_()
    assert.equal(2 * 2 * 4 * 5 * 3, layer:analyze(x, back).backward_flops)
    local two = nn.Sequential(nn.Linear(5, 3), nn.Linear(3, 2))
    assert.equal(2 * 4 * (5 * 3 + 2 * 3 * 2), two:analyze(ridge.randn(4, 5), back).backward_flops)
  end)

  it('of a convolution are two products as large as forward, one where x requires none',
    function()
    for _, case in ipairs { { 3, 4, 3, stride = 2, padding = 1 }, { 4, 8, 3, groups = 4 },
      { 4, 4, 3, groups = 4, dilation = 2 }, { 4, 8, 1, bias = false } } do
      local layer = nn.Conv2d(case[1], case[2], case[3], { stride = case.stride,
        padding = case.padding, dilation = case.dilation, groups = case.groups, bias = case.bias })
      local x = ridge.randn(2, case[1], 9, 8)
      local a = layer:analyze(x, back)
      assert.is_true(a.flops > 0)
      assert.equal(a.flops, a.backward_flops)
      assert.equal(2 * a.flops, layer:analyze(x:requires_grad_(), back).backward_flops)
    end
  end)

  it('of attention are five products of the weights that there are', function()
    local Attend = nn.class 'Attend'
    function Attend.forward(_, q, k, v) return nn.attention(q, k, v) end
    local function leaf(...) return ridge.randn(...):requires_grad_() end
    local H, N, D, E = 2, 5, 4, 3
    local a = Attend():analyze(leaf(H, N, D), { more = { leaf(H, N, D), leaf(H, N, E) }, rounds = 0,
      roof = false, backward = true })
    -- weights again (d), dy v' (e), w' dy (e), ds k and ds' q (d each)
    assert.equal(2 * H * N * N * (3 * D + 2 * E), a.backward_flops)
  end)
end)

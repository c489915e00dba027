-- SPDX-License-Identifier: MIT
--- What operations cost against brute force: their formulas on numbers that count what is done to
--- them, which give the operation's results. What is the same for all elements are plain numbers.

local ridge = require 'ridge'
local nn, optim = ridge.nn, ridge.optim

-- -- Numbers that count ---------------------------------------------------------------------------

local n = 0 -- operations

local Number = {}

local function value(x) return type(x) == 'table' and x.value or x end

local function number(x) return setmetatable({ value = x }, Number) end

local function did(x, count)
  n = n + (count or 1)
  return number(x)
end

function Number.__add(a, b) return did(value(a) + value(b)) end
function Number.__sub(a, b) return did(value(a) - value(b)) end
function Number.__mul(a, b) return did(value(a) * value(b)) end
function Number.__div(a, b) return did(value(a) / value(b)) end

local function sqrt(x) return did(math.sqrt(value(x))) end
local function largest(a, b) return did(math.max(value(a), value(b))) end
local function smallest(a, b) return did(math.min(value(a), value(b))) end
local function sign(x) return did(value(x) > 0 and 1 or value(x) < 0 and -1 or 0) end
local function size(x) return did(math.abs(value(x))) end
local function round(x) -- ties to even
  local v = value(x)
  local whole = math.floor(v + 0.5)
  return did(v + 0.5 == whole and whole % 2 ~= 0 and whole - 1 or whole)
end
local function exp(x) return did(math.exp(value(x)), 10) end -- as op/unary.c counts it
local function erf(x) return did(ridge.tensor({ value(x) }, { dtype = 'f64' }):erf():item(), 10) end

-- The elements of a tensor as such numbers.
local function numbers(x)
  local list = x:detach():contiguous():reshape(-1):tolist()
  for i = 1, #list do list[i] = number(list[i]) end
  return list
end

-- What f does: its results are those of a tensor, and its operations those of a call.
local function holds(list, y, flops, what)
  local got = y:detach():contiguous():reshape(-1):tolist()
  assert.equal(#list, #got, what)
  for i = 1, #list do assert.near(value(list[i]), got[i], 1e-5, what) end
  assert.equal(n, flops, what)
end

-- Flops of all calls of an operation in f.
local function flops_of(op, f)
  local p = ridge.profile(f, { roof = 'none' })
  for _, each in ipairs(p.operations) do
    if each.op == op then return each.flops end
  end
  error(op .. ' was not called')
end

-- -- Optimizers -----------------------------------------------------------------------------------

local RULES = {}

function RULES.SGD(o, s, p, g)
  if o.weight_decay > 0 then g = g + p * o.weight_decay end
  if o.momentum > 0 then
    local taken = o.dampening > 0 and g * (1 - o.dampening) or g
    s.b = s.b * o.momentum + taken
    g = o.nesterov and g + s.b * o.momentum or s.b
  end
  return p - g * o.lr
end

local function adam(o, s, p, g)
  s.m = s.m + (g - s.m) * (1 - o.betas[1])
  s.v = s.v * o.betas[2] + g * g * (1 - o.betas[2])
  local v = s.v
  if o.amsgrad then
    s.most = largest(s.most, v)
    v = s.most
  end
  local root = sqrt(v) * (1 / math.sqrt(1 - o.betas[2] ^ s.t)) + o.eps
  return p - s.m / root * (o.lr / (1 - o.betas[1] ^ s.t))
end

function RULES.Adam(o, s, p, g)
  return adam(o, s, p, o.weight_decay > 0 and g + p * o.weight_decay or g)
end

function RULES.AdamW(o, s, p, g)
  return adam(o, s, o.weight_decay > 0 and p * (1 - o.lr * o.weight_decay) or p, g)
end

function RULES.Lion(o, s, p, g)
  local rest = g - s.b
  local way = s.b + rest * (1 - o.betas[1])
  s.b = s.b + rest * (1 - o.betas[2])
  return (o.weight_decay > 0 and p * (1 - o.lr * o.weight_decay) or p) - sign(way) * o.lr
end

local OPS = { SGD = 'sgd_step', Adam = 'adam_step', AdamW = 'adam_step', Lion = 'lion_step' }

-- Two steps, of which the second is counted: the first begins momentum with the gradient.
local function steps(class, o, scale)
  local what = ('%s scale %s'):format(class, tostring(scale))
  for _, name in ipairs { 'momentum', 'dampening', 'weight_decay', 'nesterov', 'amsgrad' } do
    what = what .. (' %s %s'):format(name, tostring(o[name]))
  end
  local a, b = ridge.randn(3, 5):requires_grad_(), ridge.randn(7):requires_grad_()
  local ga, gb = ridge.randn(3, 5), ridge.randn(7)
  local opt = optim[class]({ a, b }, o)
  local states = {}
  local params = numbers(a)
  for _, x in ipairs(numbers(b)) do params[#params + 1] = x end
  local grads = numbers(ga)
  for _, x in ipairs(numbers(gb)) do grads[#grads + 1] = x end
  local function given() return scale and { scale = ridge.tensor { scale } } or nil end
  local flops
  for t = 1, 2 do
    opt:zero_grad();
    (a * ga):sum():backward();
    (b * gb):sum():backward()
    flops = flops_of(OPS[class], function() opt:step(given()) end)
    n = 0
    for i, p in ipairs(params) do
      local s = states[i] or { m = number(0), v = number(0), most = number(0), b = number(0) }
      states[i], s.t = s, t
      local g = scale and grads[i] * scale or grads[i]
      if t == 1 and class == 'SGD' and (o.momentum or 0) > 0 then
        local first = {}
        for k, v in pairs(o) do first[k] = v end
        first.dampening, s.b = 0, number(0)
        params[i] = RULES.SGD(first, s, p, g)
      else
        params[i] = RULES[class](o, s, p, g)
      end
    end
  end
  holds(params, ridge.concat({ a:detach():reshape(-1), b:detach() }, 1), flops, what)
end

describe('the cost of a step', function()
  it('of gradient descent is what its options ask for', function()
    for _, decay in ipairs { 0, 0.1 } do
      for _, more in ipairs { { momentum = 0, dampening = 0 }, { momentum = 0.9, dampening = 0 },
        { momentum = 0.9, dampening = 0.25 },
        { momentum = 0.9, dampening = 0, nesterov = true } } do
        more.lr, more.weight_decay = 0.05, decay
        steps('SGD', more)
        steps('SGD', more, 0.5)
      end
    end
  end)

  it('of Adam too, with its decay beside the gradient or in it', function()
    for _, class in ipairs { 'Adam', 'AdamW' } do
      for _, decay in ipairs { 0, 0.1 } do
        for _, amsgrad in ipairs { false, true } do
          local o = { lr = 0.01, betas = { 0.9, 0.99 }, eps = 1e-3, weight_decay = decay,
            amsgrad = amsgrad }
          steps(class, o)
          steps(class, o, 0.5)
        end
      end
    end
  end)

  it('of Lion too', function()
    for _, decay in ipairs { 0, 0.1 } do
      steps('Lion', { lr = 0.01, betas = { 0.9, 0.99 }, weight_decay = decay })
      steps('Lion', { lr = 0.01, betas = { 0.9, 0.99 }, weight_decay = decay }, 0.5)
    end
  end)
end)

-- -- Slopes, losses, attention, bytes -------------------------------------------------------------

local function sigmoid(x) return 1 / (exp(number(-value(x))) + 1) end

-- Of the result, or for silu and gelu of what went in.
local SLOPES = {
  relu = function(y) return did(value(y) > 0 and 1 or 0) end,
  relu6 = function(y) return did(value(y) > 0 and value(y) < 6 and 1 or 0, 2) end,
  tanh = function(y) return 1 - y * y end,
  sigmoid = function(y) return y * (1 - y) end,
  silu = function(x)
    local s = sigmoid(x)
    return s * (x * (1 - s) + 1)
  end,
  gelu = function(x)
    return (erf(x * math.sqrt(0.5)) + 1) * 0.5 + x * (exp(x * -0.5 * x) / math.sqrt(2 * math.pi))
  end,
}

describe('the cost of a gradient', function()
  it('of an activation is that of its slope, times the incoming gradient', function()
    for name, slope in pairs(SLOPES) do
      local x, dy = (ridge.randn(3, 5) * 4):requires_grad_(), ridge.randn(3, 5)
      local y = x[name](x)
      local flops = flops_of('act_back', function() y:backward(dy) end)
      n = 0
      local of, d, out = numbers((name == 'silu' or name == 'gelu') and x or y), numbers(dy), {}
      for i = 1, #of do out[i] = slope(of[i]) * d[i] end
      holds(out, x.grad, flops, name)
    end
  end)

  it('of a cross entropy, smoothed and weighed, is less one operation a row', function()
    local B, C = 3, 5
    local labels = { 0, 4, 2 }
    for _, smoothing in ipairs { 0, 0.2 } do
      for _, weighed in ipairs { false, true } do
        local x = ridge.randn(B, C):requires_grad_()
        local weight = weighed and ridge.rand(C) + 0.5 or nil
        local w = weighed and weight:tolist() or { 1, 1, 1, 1, 1 }
        local sum_w, total = 0, 0
        for c = 1, C do sum_w = sum_w + w[c] end
        for i = 1, B do total = total + w[labels[i] + 1] end
        local loss
        local forward = flops_of('cross_entropy', function()
          loss = nn.cross_entropy(x, ridge.tensor(labels, { dtype = 'i64' }),
            { smoothing = smoothing, weight = weight })
        end)
        local back = flops_of('cross_entropy_back', function() loss:backward() end)
        local at = numbers(x)
        local losses, dx, told, lses = 0, {}, smoothing .. ' ' .. tostring(weighed), {}
        n = 0
        for i = 0, B - 1 do
          local most, sum, even = -math.huge, 0, 0
          for c = 1, C do most = largest(most, at[i * C + c]) end
          for c = 1, C do sum = sum + exp(at[i * C + c] - most) end
          if smoothing > 0 then
            for c = 1, C do even = even + (weighed and at[i * C + c] * w[c] or at[i * C + c]) end
          end
          local lse, own = value(most) + math.log(value(sum)), w[labels[i + 1] + 1]
          lses[i] = lse
          losses = losses + (1 - smoothing) * own * (lse - value(at[i * C + labels[i + 1] + 1]))
            + smoothing / C * (sum_w * lse - value(even))
        end
        assert.near(losses / total, loss:item(), 1e-5, told)
        assert.equal(n, forward, told)
        n = 0
        for i = 0, B - 1 do
          local own = w[labels[i + 1] + 1]
          local share = own * (1 - smoothing) + sum_w * smoothing / C
          for c = 1, C do
            local d = exp(at[i * C + c] - lses[i]) * (share / total)
            if smoothing > 0 then
              local even = smoothing / C / total
              d = d - (weighed and number(w[c]) * even or even)
            end
            if c == labels[i + 1] + 1 then d = number(value(d) - own * (1 - smoothing) / total) end
            dx[#dx + 1] = d
          end
        end
        holds(dx, x.grad, back, told)
      end
    end
  end)

  it('of a softmax is four operations an element', function()
    local B, C = 3, 5
    local x, dy = ridge.randn(B, C):requires_grad_(), ridge.randn(B, C)
    local y = x:softmax(2)
    local flops = flops_of('softmax_back', function() y:backward(dy) end)
    local at, d, out = numbers(y), numbers(dy), {}
    n = 0
    for i = 0, B - 1 do
      local sum = 0
      for c = 1, C do sum = at[i * C + c] * d[i * C + c] + sum end
      for c = 1, C do out[#out + 1] = at[i * C + c] * (d[i * C + c] - sum) end
    end
    holds(out, x.grad, flops)
  end)

  it('of a layer norm is by what its result is made of', function()
    local B, C = 3, 6
    for _, rms in ipairs { false, true } do
      for _, affine in ipairs { false, true } do
        local layer = (rms and nn.RMSNorm or nn.LayerNorm)(C, { affine = affine })
        local x, dy = ridge.randn(B, C):requires_grad_(), ridge.randn(B, C)
        local y = layer(x)
        local flops = flops_of('layer_norm_back', function() y:backward(dy) end)
        local at, d, out = numbers(x), numbers(dy), {}
        local w = affine and numbers(layer.weight) or nil
        local dw, db = {}, {}
        for c = 1, C do dw[c], db[c] = 0, 0 end
        n = 0
        for i = 0, B - 1 do
          local mean, var = 0, 0 -- which the forward pass has kept
          for c = 1, C do mean = mean + value(at[i * C + c]) / C end
          if rms then mean = 0 end
          for c = 1, C do var = var + (value(at[i * C + c]) - mean) ^ 2 / C end
          local scale, z, g, a, b = 1 / math.sqrt(var + 1e-5), {}, {}, 0, 0
          for c = 1, C do
            local v = at[i * C + c]
            z[c] = (rms and v or v - mean) * scale
            g[c] = w and d[i * C + c] * w[c] or d[i * C + c]
            dw[c] = d[i * C + c] * z[c] + dw[c]
            db[c] = d[i * C + c] + db[c]
            if not rms then a = g[c] + a end
            b = g[c] * z[c] + b
          end
          local pa, pb = value(a) / C, value(b) / C
          for c = 1, C do
            local v = rms and g[c] or g[c] - pa
            out[#out + 1] = (v - z[c] * pb) * scale
          end
        end
        holds(out, x.grad, flops, ('%s %s'):format(tostring(rms), tostring(affine)))
        if affine then holds(dw, layer.weight.grad, flops) end
        if affine and not rms then holds(db, layer.bias.grad, flops) end
      end
    end
  end)

  it('of attention is of each weight, causal too, and of each number of the result', function()
    local H, Q, M, D, E = 2, 3, 5, 4, 6
    for _, causal in ipairs { false, true } do
      local q, k, v = ridge.randn(H, Q, D):requires_grad_(), ridge.randn(H, M, D):requires_grad_(),
        ridge.randn(H, M, E):requires_grad_()
      local dy, y = ridge.randn(H, Q, E), nil
      local forward = flops_of('attention', function()
        y = nn.attention(q, k, v, { causal = causal })
      end)
      local back = flops_of('attention_back', function() y:backward(dy) end)
      local nq, nk, nv, nd = numbers(q), numbers(k), numbers(v), numbers(dy)
      local scale = 1 / math.sqrt(D)
      local out, P, lses = {}, {}, {}
      n = 0
      for h = 0, H - 1 do for i = 0, Q - 1 do
        local last = causal and i or M - 1
        local s, most, sum = {}, -math.huge, 0
        for j = 0, last do
          local dot = 0
          for l = 1, D do dot = nq[(h * Q + i) * D + l] * nk[(h * M + j) * D + l] + dot end
          s[j] = dot * scale
          most = largest(most, s[j])
        end
        for j = 0, last do
          P[j] = exp(s[j] - most)
          sum = P[j] + sum
        end
        for l = 1, E do
          local o = 0
          for j = 0, last do o = P[j] * nv[(h * M + j) * E + l] + o end
          out[#out + 1] = o / sum
        end
        lses[h * Q + i] = value(most) + math.log(value(sum))
      end end
      holds(out, y, forward, 'forward ' .. tostring(causal))
      local dq, dk, dv = {}, {}, {}
      for i = 1, H * Q * D do dq[i] = 0 end
      for i = 1, H * M * D do dk[i] = 0 end
      for i = 1, H * M * E do dv[i] = 0 end
      n = 0
      for h = 0, H - 1 do for i = 0, Q - 1 do
        local of_d = 0
        for l = 1, E do of_d = nd[(h * Q + i) * E + l] * out[(h * Q + i) * E + l] + of_d end
        for j = 0, causal and i or M - 1 do
          local dot, dp = 0, 0
          for l = 1, D do dot = nq[(h * Q + i) * D + l] * nk[(h * M + j) * D + l] + dot end
          local p = exp(dot * scale - lses[h * Q + i])
          for l = 1, E do
            local at = (h * M + j) * E + l
            dp = nd[(h * Q + i) * E + l] * nv[at] + dp
            dv[at] = p * nd[(h * Q + i) * E + l] + dv[at]
          end
          local ds = p * (dp - of_d) * scale
          for l = 1, D do
            local a, b = (h * Q + i) * D + l, (h * M + j) * D + l
            dq[a] = ds * nk[b] + dq[a]
            dk[b] = ds * nq[a] + dk[b]
          end
        end
      end end
      holds(dq, q.grad, back, 'back ' .. tostring(causal))
      holds(dk, k.grad, back)
      holds(dv, v.grad, back)
    end
  end)
end)

describe('the cost of bytes', function()
  local function cut(v, low, high) return smallest(largest(v, low), high) end

  it('is one more operation where there is a zero point', function()
    for _, zero in ipairs { false, 3 } do
      local x = ridge.randn(3, 5)
      local q, back
      local to = flops_of('quantize', function()
        q = ridge.quantize(x, 0.05, zero or nil)
      end)
      local from = flops_of('dequantize', function()
        back = ridge.dequantize(q, 0.05, zero or nil)
      end)
      local out, list = {}, numbers(x)
      n = 0
      for i, v in ipairs(list) do
        local r = round(cut(v / 0.05, -128 - (zero or 0), 127 - (zero or 0)))
        out[i] = zero and r + zero or r
      end
      holds(out, q:to 'f32', to, 'to bytes')
      n = 0
      for i, v in ipairs(out) do
        out[i] = (zero and number(value(v)) - zero or number(value(v))) * 0.05
      end
      holds(out, back, from, 'from bytes')
    end
  end)

  it('of rows is without one, and with the largest of each', function()
    local x, q = ridge.randn(3, 5), nil
    local flops = flops_of('quantize_rows', function() q = ridge.quantize_rows(x) end)
    local at, out = numbers(x), {}
    n = 0
    for i = 0, 2 do
      local most = 0
      for c = 1, 5 do most = largest(size(at[i * 5 + c]), most) end
      for c = 1, 5 do
        out[#out + 1] = round(cut(at[i * 5 + c] / (value(most) / 127), -127, 127))
      end
    end
    holds(out, q:to 'f32', flops)
  end)
end)

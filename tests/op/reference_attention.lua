-- SPDX-License-Identifier: MIT
-- reference_attention: what attention means, with the whole matrix of weights, in plain loops over
-- Lua numbers.  See reference.lua for what a tensor is here.

return function(M) -- M: the rest of the reference
  local function sizes(q, v)
    local n = #q.shape
    local heads = 1
    for i = 1, n - 2 do heads = heads * q.shape[i] end
    return heads, q.shape[n - 1], v.shape[n - 1], q.shape[n], v.shape[n]
  end

  local function sees(a, m, i, j) -- from 0
    if a.causal and j > i then return false end
    if not a.mask then return true end
    local side = a.block or 64
    local cols = math.ceil(m / side)
    return a.mask[math.floor(i / side) * cols + math.floor(j / side) + 1] == 1
  end

  local function scale_of(a, d)
    return a.scale and a.scale ~= 0 and a.scale or d > 0 and 1 / math.sqrt(d) or 1
  end

  -- Weights of query i of a head, and the sum of the absolute products behind the largest score,
  -- whose rounding the exponential magnifies.
  local function weights(q, k, a, head, i, n, m, d)
    local scale = scale_of(a, d)
    local x, most, size = {}, -math.huge, 0
    for j = 0, m - 1 do
      local s, t = 0, 0
      for l = 1, d do
        local p = q[(head * n + i) * d + l] * k[(head * m + j) * d + l]
        s, t = s + p, t + math.abs(p)
      end
      x[j] = sees(a, m, i, j) and s * scale or -math.huge
      most, size = math.max(most, x[j]), math.max(size, t * math.abs(scale))
    end
    local sum = 0
    for j = 0, m - 1 do
      x[j] = most > -math.huge and math.exp(x[j] - most) or 0
      sum = sum + x[j]
    end
    for j = 0, m - 1 do x[j] = sum > 0 and x[j] / sum or 0 end
    return x, size + 1, sum > 0 and most + math.log(sum) or math.huge
  end

  local function zeros(shape, dtype)
    local y = M.new(shape, dtype)
    y.magnitude = {}
    for i = 1, M.count(shape) do y[i], y.magnitude[i] = 0, 0 end
    return y
  end

  local function widest(list)
    local kind = list[1].dtype
    for i = 2, 3 do kind = M.promote(kind, list[i].dtype) end
    return kind
  end

  --- softmax(scale q k') v with a.scale, a.causal, a.mask (a list), a.block; a.p: with dropout.
  local function kept(a, head, i, j, n, m)
    if not a.p or a.p == 0 then return 1 end
    local number = M.philox(a.seed, a.offset + (head * n + i) * m + j)
    return number >= math.floor(a.p * 2 ^ 32) and 1 / (1 - a.p) or 0
  end

  --- softmax(scale q k') v with a.scale, a.causal, a.mask (a list) and a.block; a.p: with dropout.
  function M.attention(inputs, a)
    local q, k, v = inputs[1], inputs[2], inputs[3]
    local heads, n, m, d, e = sizes(q, v)
    local shape = { unpack(q.shape) }
    shape[#shape] = e
    local y = zeros(shape, widest(inputs))
    for head = 0, heads - 1 do
      for i = 0, n - 1 do
        local w, size = weights(q, k, a, head, i, n, m, d)
        for l = 1, e do
          local at = (head * n + i) * e + l
          for j = 0, m - 1 do
            local p = w[j] * kept(a, head, i, j, n, m) * v[(head * m + j) * e + l]
            y[at], y.magnitude[at] = y[at] + p, y.magnitude[at] + math.abs(p) * size
          end
        end
      end
    end
    return { y }
  end

  --- log(sum(exp(scale q k'))) of each query, a plain list; inf where it sees no key.
  function M.lse(inputs, a)
    local heads, n, m, d = sizes(inputs[1], inputs[3])
    local all = {}
    for head = 0, heads - 1 do
      for i = 0, n - 1 do
        all[#all + 1] = select(3, weights(inputs[1], inputs[2], a, head, i, n, m, d))
      end
    end
    return all
  end

  --- Its gradients, of q, k, v, y, the log of each query's sum, and dy; with any numbers for y and
  --- lse the weights are exp(scale q k' - lse).
  function M.attention_back(inputs, a)
    local q, k, v, y, lse, dy = unpack(inputs, 1, 6)
    local heads, n, m, d, e = sizes(q, v)
    local scale = scale_of(a, d)
    local kind = widest(inputs)
    local dq, dk, dv = zeros(q.shape, kind), zeros(k.shape, kind), zeros(v.shape, kind)
    -- gradients of scores that tensor cores multiply in f16 are rounded to multiples of 2^-24: by
    -- 2^-25, which eight units of the last place of this are
    local least = kind == 'f16' and 2 ^ -18 or 0
    local function add(x, at, value, size)
      x[at] = x[at] + value
      x.magnitude[at] = x.magnitude[at] + size
    end
    local function pair(head, i, j, whole, grown)
      local s, size, t, of = 0, 1, 0, 0
      for l = 1, d do
        local p = scale * q[(head * n + i) * d + l] * k[(head * m + j) * d + l]
        s, size = s + p, size + math.abs(p)
      end
      for l = 1, e do
        local p = dy[(head * n + i) * e + l] * v[(head * m + j) * e + l]
        t, of = t + p, of + math.abs(p)
      end
      local keep = kept(a, head, i, j, n, m)
      t, of = t * keep, of * keep
      local w = math.exp(s - lse[head * n + i + 1])
      size = size + math.abs(lse[head * n + i + 1])
      for l = 1, e do
        local p = w * keep * dy[(head * n + i) * e + l]
        add(dv, (head * m + j) * e + l, p, math.abs(p) * size)
      end
      local z, zs = scale * w * (t - whole), math.abs(scale) * w * (of + grown) * size + least
      for l = 1, d do
        local kl, ql = k[(head * m + j) * d + l], q[(head * n + i) * d + l]
        add(dq, (head * n + i) * d + l, z * kl, zs * math.abs(kl))
        add(dk, (head * m + j) * d + l, z * ql, zs * math.abs(ql))
      end
    end
    for head = 0, heads - 1 do
      for i = 0, n - 1 do
        local whole, grown = 0, 0
        for l = 1, e do
          local p = dy[(head * n + i) * e + l] * y[(head * n + i) * e + l]
          whole, grown = whole + p, grown + math.abs(p)
        end
        for j = 0, m - 1 do
          if sees(a, m, i, j) then pair(head, i, j, whole, grown) end
        end
      end
    end
    return { dq, dk, dv }
  end
end

-- SPDX-License-Identifier: MIT
-- reference_product: what the products mean, in plain loops over Lua numbers.  See reference.lua
-- for
-- what a tensor is here.  Results carry the magnitude of what was added up.

return function(M) -- M: the rest of the reference
  -- -- Matrices ---------------------------------------------------------------------------------

  --- The product of two flat row-major matrices [m x k] and [k x n], and of their absolute values.
  local function multiply(a, b, m, k, n)
    local c, magnitude = {}, {}
    for i = 0, m - 1 do
      for j = 0, n - 1 do
        local s, t = 0, 0
        for l = 0, k - 1 do
          local p = a[i * k + l + 1] * b[l * n + j + 1]
          s, t = s + p, t + math.abs(p)
        end
        c[i * n + j + 1], magnitude[i * n + j + 1] = s, t
      end
    end
    return c, magnitude
  end

  local function absolute(list)
    local t = {}
    for i, v in ipairs(list) do t[i] = math.abs(v) end
    return t
  end

  local function dtype_of(inputs, skip)
    local dtype
    for i, x in ipairs(inputs) do
      if x and not (skip and skip[i]) then
        dtype = dtype and M.promote(dtype, x.dtype) or x.dtype
      end
    end
    return dtype
  end

  --- Batched matrix product; the batch axes broadcast, a vector is a row (left) or a column
  -- (right).
  function M.matmul(inputs)
    local x, y = inputs[1], inputs[2]
    local xs, ys = { unpack(x.shape) }, { unpack(y.shape) }
    local x_vector, y_vector = #xs == 1, #ys == 1
    if x_vector then table.insert(xs, 1, 1) end
    if y_vector then table.insert(ys, 1) end
    local m, k, n = xs[#xs - 1], xs[#xs], ys[#ys]
    local n_batch = math.max(#xs, #ys) - 2
    local batch, total = {}, 1
    for i = 1, n_batch do
      local p, q = xs[i - n_batch + #xs - 2] or 1, ys[i - n_batch + #ys - 2] or 1
      batch[i] = p == 1 and q or p
      total = total * batch[i]
    end
    -- where matrix number b of the result lies in an input with these sizes
    local function start(sizes, b)
      local offset, step = 0, sizes[#sizes - 1] * sizes[#sizes]
      for i = n_batch, 1, -1 do
        local size = sizes[i - n_batch + #sizes - 2] or 1
        if size > 1 then offset = offset + b % batch[i] * step end
        step, b = step * size, math.floor(b / batch[i])
      end
      return offset
    end
    local z = M.new({ unpack(batch) }, dtype_of(inputs))
    z.magnitude = {}
    if not x_vector then z.shape[#z.shape + 1] = m end
    if not y_vector then z.shape[#z.shape + 1] = n end
    for b = 0, total - 1 do
      local p, q = start(xs, b), start(ys, b)
      local c, magnitude = multiply({ unpack(x, p + 1, p + m * k) },
        { unpack(y, q + 1, q + k * n) }, m, k, n)
      for i = 1, m * n do
        z[#z + 1], z.magnitude[#z + 1] = c[i], magnitude[i]
      end
    end
    return { z }
  end

  -- -- Layers -----------------------------------------------------------------------------------

  local ACTIVATIONS = { [0] = function(v) return v end, M.unary.relu, M.unary.gelu, M.unary.silu,
    M.unary.tanh, M.unary.sigmoid, M.unary.relu6 }

  -- act(c + bias) over rows of n.
  local function finish(c, magnitude, shape, n, dtype, bias, args)
    local y = M.new(shape, dtype)
    y.magnitude = {}
    for i = 1, #c do
      local b = bias and bias[(i - 1) % n + 1] or 0
      y[i] = ACTIVATIONS[args.act or 0](c[i] + b)
      y.magnitude[i] = magnitude[i] + math.abs(b)
    end
    return { y }
  end

  -- The rows of x, their number, and the shape with the last size replaced.
  local function rows_of(x, n)
    local shape = { unpack(x.shape) }
    local k = shape[#shape]
    shape[#shape] = n
    return k == 0 and 0 or M.count(x.shape) / k, k, shape
  end

  --- y = act(x W' + b).
  function M.linear(inputs, args)
    local x, w = inputs[1], inputs[2]
    local n = w.shape[1]
    local m, k, shape = rows_of(x, n)
    local transposed = {}
    for i = 0, k - 1 do
      for j = 0, n - 1 do transposed[i * n + j + 1] = w[j * k + i + 1] end
    end
    local c, magnitude = multiply(x, transposed, m, k, n)
    return finish(c, magnitude, shape, n, dtype_of(inputs), inputs[3], args)
  end

  -- Bytes of what is there.
  local function bytes_of(y, scale, zero, dtype)
    return M.quantize({ y, { scale, shape = {}, dtype = 'f32' }, { zero, shape = {},
      dtype = dtype } }, { dtype = dtype })[1]
  end

  --- y = act(((x - x_zero) W') x_scale w_scale + b): scales of one number or of one for each row; a
  --- bias of i32 is in units of both; x of floats without a scale is quantized by rows.
  function M.scaled_linear(inputs, args)
    local x, w, x_scale, w_scale, bias, y_scale = unpack(inputs, 1, 6)
    local n, k = unpack(w.shape)
    local shape, m = { unpack(x.shape) }, 1
    for i = 1, #shape - 1 do m = m * shape[i] end
    shape[#shape] = n
    if not x_scale then x, x_scale = unpack(M.quantize_rows { x }) end
    local transposed, plain = {}, {}
    for i = 0, k - 1 do
      for j = 0, n - 1 do transposed[i * n + j + 1] = w[j * k + i + 1] end
    end
    for i = 1, m * k do plain[i] = x[i] - (args.x_zero or 0) end
    local c, magnitude = multiply(plain, transposed, m, k, n)
    local whole = bias and bias.dtype == 'i32'
    for i = 1, m * n do
      local s = x_scale[M.count(x_scale.shape) == 1 and 1 or math.floor((i - 1) / n) + 1] *
        w_scale[M.count(w_scale.shape) == 1 and 1 or (i - 1) % n + 1]
      if whole then c[i] = c[i] + bias[(i - 1) % n + 1] end
      -- whole numbers are added up without an error
      magnitude[i] = math.abs(s * (w.dtype == 'i8' and c[i] or magnitude[i]))
      c[i] = c[i] * s
    end
    local y = finish(c, magnitude, shape, n, y_scale and 'f32' or args.dtype or 'f32',
      not whole and bias, args)
    return { y_scale and bytes_of(y[1], y_scale[1], args.y_zero or 0, args.dtype) or y[1] }
  end

  -- (x A) B / scale with the magnitude of everything that was added up.
  local function chain(x, a, b, m, k, r, n, scale)
    local z = multiply(x, a, m, k, r)
    local c = multiply(z, b, m, r, n)
    local large = multiply(absolute(x), absolute(a), m, k, r)
    local magnitude = multiply(large, absolute(b), m, r, n)
    for i = 1, m * n do
      c[i], magnitude[i] = c[i] / scale, magnitude[i] / scale
    end
    return c, magnitude
  end

  --- y = act((x A) B + b).
  function M.lowrank_linear(inputs, args)
    local x, a, b = inputs[1], inputs[2], inputs[3]
    local r, n = a.shape[2], b.shape[2]
    local m, k, shape = rows_of(x, n)
    local c, magnitude = chain(x, a, b, m, k, r, n, 1)
    return finish(c, magnitude, shape, n, dtype_of(inputs), inputs[4], args)
  end

  -- Dropout of results that are known: by the rule of M.dropout.
  local function drop(outputs, args)
    if (args.p or 0) > 0 then
      local magnitude = outputs[1].magnitude
      outputs = M.dropout(outputs, args)
      outputs[1].magnitude = magnitude
    end
    return outputs
  end

  --- Linear, then dropout.
  function M.linear_dropout(inputs, args)
    return drop(M.linear(inputs, args), args)
  end

  --- y = dropout(act(1 / (2T) sum_t (x S1_t U1_t + x U2_t S2_t) + bias)), the terms side by side in
  --- left = [S1|U2] and one below the other in right = [U1;S2].
  function M.sketched_linear(inputs, args)
    local x, left, right = inputs[1], inputs[2], inputs[3]
    local r, n = left.shape[2], right.shape[2]
    local m, k, shape = rows_of(x, n)
    local c, magnitude = chain(x, left, right, m, k, r, n, 2 * args.n_terms)
    return drop(finish(c, magnitude, shape, n, dtype_of(inputs), inputs[4], args), args)
  end

  -- The signs of a [rows x n] matrix kept as bits, the first column lowest.
  local function expand(bits, n, value)
    local signs, bytes = {}, bits.shape[2]
    for i = 0, bits.shape[1] - 1 do
      for j = 0, n - 1 do
        local byte = bits[i * bytes + math.floor(j / 8) + 1]
        local set = math.floor(byte / 2 ^ (j % 8)) % 2 == 1
        signs[i * n + j + 1] = set and value or -value
      end
    end
    return signs
  end

  --- +sign where a bit is set, -sign elsewhere.
  function M.expand_signs(inputs, args)
    local y = expand(inputs[1], args.cols, args.sign)
    y.shape, y.dtype = { inputs[1].shape[1], args.cols }, args.dtype or 'f32'
    return { y }
  end

  -- Sign j of row i of matrix 1 (U1) or 2 (U2) of a seed: bit j % 128 of the block with the
  -- counter (j / 128, i, matrix, 0).
  local function is_plus(seed, matrix, i, j)
    local number = M.philox(seed, (i * 2 ^ 32 + math.floor(j / 128)) * 4
      + math.floor(j / 32) % 4, matrix)
    return M.is_set(number, j)
  end

  --- The bits of rows of signs, the first column lowest.
  function M.sign_bits(inputs, args)
    local bytes = math.ceil(args.cols / 8)
    local y = M.new({ args.rows, bytes }, 'u8')
    for i = 0, args.rows - 1 do
      for b = 0, bytes - 1 do
        local byte = 0
        for j = 8 * b, math.min(8 * b + 7, args.cols - 1) do
          byte = byte + (is_plus(inputs[1][1], args.matrix, i, j) and 2 ^ (j % 8) or 0)
        end
        y[#y + 1] = byte
      end
    end
    return { y }
  end

  -- By u1 and u2 as numbers, s2 being input `at` with the bias behind it.
  local function by_signs(inputs, args, at, u1, u2)
    local x, s1, s2 = inputs[1], inputs[2], inputs[at]
    local half, n = s1.shape[2], s2.shape[2]
    local m, k, shape = rows_of(x, n)
    local a, a_size = chain(x, s1, u1, m, k, half, n, 2 * args.n_terms)
    local b, b_size = chain(x, u2, s2, m, k, half, n, 2 * args.n_terms)
    for i = 1, m * n do
      a[i], a_size[i] = a[i] + b[i], a_size[i] + b_size[i]
    end
    local skip = {}
    for i = 3, at - 1 do skip[i] = true end
    local dtype = dtype_of(inputs, skip)
    return drop(finish(a, a_size, shape, n, dtype, inputs[at + 1], args), args)
  end

  --- The same with U1 and U2 as bits: 1 is +1 / sqrt(rank), 0 is -1 / sqrt(rank).
  function M.sketched_linear_bits(inputs, args)
    local half, n = inputs[2].shape[2], inputs[5].shape[2]
    local value = 1 / math.sqrt(half / args.n_terms)
    return by_signs(inputs, args, 5, expand(inputs[3], n, value), expand(inputs[4], half, value))
  end

  --- The same with U1 and U2 from a seed.
  function M.sketched_linear_seed(inputs, args)
    local half, n = inputs[2].shape[2], inputs[4].shape[2]
    local value = 1 / math.sqrt(half / args.n_terms)
    local u = {}
    for matrix, size in ipairs { { half, n }, { inputs[2].shape[1], half } } do
      u[matrix] = {}
      for i = 0, size[1] - 1 do
        for j = 0, size[2] - 1 do
          local plus = is_plus(inputs[3][1], matrix, i, j)
          u[matrix][i * size[2] + j + 1] = plus and value or -value
        end
      end
    end
    return by_signs(inputs, args, 4, u[1], u[2])
  end

  -- -- Singular values --------------------------------------------------------------------------

  --- The sizes of u, s, v'; their elements are known by their properties (see check_svd).
  function M.svd(inputs)
    local x = inputs[1]
    local m, n = x.shape[1], x.shape[2]
    local k = math.min(m, n)
    return { M.new({ m, k }, x.dtype), M.new({ k }, x.dtype), M.new({ k, n }, x.dtype) }
  end

  -- The largest difference between A'A (or AA') and the identity.
  local function unlike_identity(a, rows, columns, by_rows)
    local n, worst = by_rows and rows or columns, 0
    for i = 0, n - 1 do
      for j = 0, n - 1 do
        local s = 0
        for l = 0, (by_rows and columns or rows) - 1 do
          s = s + (by_rows and a[i * columns + l + 1] * a[j * columns + l + 1] or
            a[l * columns + i + 1] * a[l * columns + j + 1])
        end
        worst = math.max(worst, math.abs(s - (i == j and 1 or 0)))
      end
    end
    return worst
  end

  --- What makes u, s, v' the decomposition of x: how far each property is from being true.
  function M.check_svd(inputs, outputs)
    local x, u, s, vt = inputs[1], outputs[1], outputs[2], outputs[3]
    local m, n, k = x.shape[1], x.shape[2], #s
    local scaled, order, product = {}, 0, 0
    for i = 0, m - 1 do
      for j = 0, k - 1 do scaled[i * k + j + 1] = u[i * k + j + 1] * s[j + 1] end
    end
    local back = multiply(scaled, vt, m, k, n)
    for i = 1, m * n do product = math.max(product, math.abs(back[i] - x[i])) end
    for i = 1, k do
      order = math.max(order, -s[i], i > 1 and s[i] - s[i - 1] or 0)
    end
    return {
      ['u s v\' is x'] = product / math.max(s[1] or 0, 1e-300),
      ['the columns of u are orthonormal'] = unlike_identity(u, m, k, false),
      ['the rows of v\' are orthonormal'] = unlike_identity(vt, k, n, true),
      ['s falls and is not negative'] = order,
    }
  end
end

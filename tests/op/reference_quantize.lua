-- SPDX-License-Identifier: MIT
-- reference_quantize: what bytes with scales and zero points mean, in loops over Lua numbers, as
-- ONNX defines QuantizeLinear and DequantizeLinear.  See reference.lua for what a tensor is here.

return function(M) -- M: the rest of the reference
  local LEAST, MOST = { i8 = -128, u8 = 0 }, { i8 = 127, u8 = 255 }

  local function even(v)
    if v ~= v or math.abs(v) == math.huge then return v end
    local low = math.floor(v)
    local rest = v - low
    return (rest > 0.5 or rest == 0.5 and low % 2 == 1) and low + 1 or low
  end

  local function to_byte(x, scale, zero, dtype, least)
    local v = M.convert(M.convert(x, 'f32') / scale, 'f32')
    if v ~= v then return zero end
    return math.max(least or LEAST[dtype], math.min(even(v) + zero, MOST[dtype]))
  end

  -- The number of a scale that belongs to element i, from 0.
  local function place(x, s, a, i)
    if M.count(s.shape) == 1 then return 1 end
    local axis = (a.axis or -1) % #x.shape + 1
    local n, inner = x.shape[axis], 1
    for d = axis + 1, #x.shape do inner = inner * x.shape[d] end
    local j, outer = math.floor(i / inner) % n, math.floor(i / inner / n)
    if (a.group or 0) == 0 then return j + 1 end
    local blocks = math.ceil(n / a.group)
    return (outer * blocks + math.floor(j / a.group)) * inner + i % inner + 1
  end

  local function zero_at(x, zero, a, i)
    return zero and zero[place(x, zero, a, i)] or 0
  end

  function M.quantize(inputs, a)
    local x, scale, zero = inputs[1], inputs[2], inputs[3]
    local dtype = a.dtype or 'i8'
    local y = M.new(x.shape, dtype)
    for i = 0, M.count(x.shape) - 1 do
      y[i + 1] = to_byte(x[i + 1], scale[place(x, scale, a, i)], zero_at(x, zero, a, i), dtype)
    end
    return { y }
  end

  function M.dequantize(inputs, a)
    local q, scale, zero = inputs[1], inputs[2], inputs[3]
    local y = M.new(q.shape, a.dtype or 'f32')
    for i = 0, M.count(q.shape) - 1 do
      y[i + 1] = (q[i + 1] - zero_at(q, zero, a, i)) * scale[place(q, scale, a, i)]
    end
    return { y }
  end

  function M.quantize_rows(inputs)
    local x = inputs[1]
    local n = x.shape[#x.shape]
    local lead = { unpack(x.shape) }
    lead[#lead] = 1
    local q, scales = M.new(x.shape, 'i8'), M.new(lead, 'f32')
    for r = 0, M.count(lead) - 1 do
      local most = 0
      for j = 1, n do
        local v = math.abs(M.convert(x[r * n + j], 'f32'))
        most = (v > most or v ~= v) and most == most and v or most
      end
      local scale = M.convert(most / 127, 'f32')
      scales[r + 1] = scale
      for j = 1, n do q[r * n + j] = to_byte(x[r * n + j], scale, 0, 'i8', -127) end
    end
    return { q, scales }
  end

  -- -- A few bits ---------------------------------------------------------------------------------

  -- Planes of a block of 32 codes: bits of each, the lowest of them, bytes.
  local PLANES = { [8] = { { 8, 0, 32 } }, [6] = { { 4, 0, 16 }, { 2, 4, 8 } },
    [4] = { { 4, 0, 16 } }, [3] = { { 2, 0, 8 }, { 1, 2, 4 } }, [2] = { { 2, 0, 8 } } }

  -- f(i, lowest bit of the code, bits, byte of the block, lowest bit there), all from 0.
  local function planes(bits, f)
    local first = 0
    for _, plane in ipairs(PLANES[bits]) do
      local width, low, bytes = unpack(plane)
      for i = 0, 31 do
        -- codes go round the bytes, but for single bits, of which eight neighbours are in one
        local byte, at = i % bytes, math.floor(i / bytes) * width
        if width == 1 then byte, at = math.floor(i / 8), i % 8 end
        f(i, low, width, first + byte, at)
      end
      first = first + bytes
    end
  end

  local function resized(shape, from, to)
    local out = { unpack(shape) }
    out[#out] = out[#out] / from * to
    return out
  end

  local function part(v, low, width) return math.floor(v / 2 ^ low) % 2 ^ width end

  function M.pack_bits(inputs, a)
    local codes, bytes = inputs[1], 4 * a.bits
    local y = M.new(resized(codes.shape, 32, bytes), 'u8')
    for i = 1, M.count(y.shape) do y[i] = 0 end
    for b = 0, M.count(codes.shape) / 32 - 1 do
      planes(a.bits, function(i, low, width, byte, at)
        local to = b * bytes + byte + 1
        y[to] = y[to] + part(codes[b * 32 + i + 1], low, width) * 2 ^ at
      end)
    end
    return { y }
  end

  function M.unpack_bits(inputs, a)
    local packed, bytes = inputs[1], 4 * a.bits
    local y = M.new(resized(packed.shape, bytes, 32), 'u8')
    for i = 1, M.count(y.shape) do y[i] = 0 end
    for b = 0, M.count(y.shape) / 32 - 1 do
      planes(a.bits, function(i, low, width, byte, at)
        local to = b * 32 + i + 1
        y[to] = y[to] + part(packed[b * bytes + byte + 1], at, width) * 2 ^ low
      end)
    end
    return { y }
  end

  function M.packed_linear(inputs, a)
    local x, w, scale, min, bias, x_scale = unpack(inputs, 1, 6)
    local codes = M.unpack_bits({ w }, { bits = a.bits })[1]
    local group = a.group or 32
    local wide = M.new(codes.shape, 'f64')
    for i = 0, M.count(codes.shape) - 1 do
      local g = math.floor(i / group) + 1
      wide[i + 1] = min and codes[i + 1] * scale[g] + min[g] or
        (codes[i + 1] - 2 ^ (a.bits - 1)) * scale[g]
    end
    local k, plain = x.shape[#x.shape], M.new(x.shape, 'f64')
    for i = 0, M.count(x.shape) - 1 do
      local row = math.floor(i / k) + 1
      plain[i + 1] = x[i + 1] * (x_scale and x_scale[M.count(x_scale.shape) == 1 and 1 or row] or 1)
    end
    if k == 0 then -- of nothing: as of one 0
      plain.shape, wide.shape = resized(x.shape, 1, 1), { w.shape[1], 1 }
      plain.shape[#plain.shape] = 1
      for i = 1, M.count(plain.shape) do plain[i] = 0 end
      for i = 1, w.shape[1] do wide[i] = 0 end
    end
    local y = M.linear({ plain, wide, bias }, { act = a.act })[1]
    y.dtype = a.dtype or 'f32'
    return { y }
  end

  -- -- Sums --------------------------------------------------------------------------------------

  --- act((a - a_zero) a_scale + (b - b_zero) b_scale), each step in f32, as bytes if dtype says so.
  function M.scaled_add(inputs, a)
    local x, x_scale, y, y_scale, scale = unpack(inputs, 1, 5)
    local sum = M.new(x.shape, 'f32')
    for i = 1, M.count(x.shape) do
      sum[i] = M.convert((x[i] - (a.a_zero or 0)) * x_scale[1], 'f32')
      if y then
        local more = M.convert((y[i] - (a.b_zero or 0)) * y_scale[1], 'f32')
        sum[i] = M.convert(sum[i] + more, 'f32')
      end
      if a.act == 1 then sum[i] = math.max(sum[i], 0) end
    end
    if scale then
      local over = M.convert(1 / scale[1], 'f32')
      for i = 1, M.count(sum.shape) do sum[i] = M.convert(sum[i] * over, 'f32') end
      return M.quantize({ sum, { 1, shape = {}, dtype = 'f32' }, { a.y_zero or 0, shape = {},
        dtype = a.dtype } }, a)
    end
    sum.dtype = a.dtype or 'f32'
    return { sum }
  end

  --- y = act(x W' + b) for W of which n of each m inputs are there.
  function M.n_of_m_linear(inputs, a)
    local x, index, values, bias = unpack(inputs, 1, 4)
    local k, entries = x.shape[#x.shape], values.shape[2]
    local each = entries / math.ceil(k / 16)
    local wide = M.new({ a.rows, k }, 'f64')
    for i = 1, M.count(wide.shape) do wide[i] = 0 end
    for r = 0, a.rows - 1 do
      local tile, lane = math.floor(r / 16), r % 16
      for e = 0, entries - 1 do
        local both = index[(tile * math.ceil(entries / 2) + math.floor(e / 2)) * 16 + lane + 1]
        local c = math.floor(e / each) * 16 + (e % 2 == 0 and both % 16 or math.floor(both / 16))
        if c < k then
          local at = r * k + c + 1
          wide[at] = wide[at] + values[(tile * entries + e) * 16 + lane + 1]
        end
      end
    end
    if k == 0 then -- of nothing: as of one 0
      local one = M.new({ unpack(x.shape) }, 'f64')
      one.shape[#one.shape], wide = 1, M.new({ a.rows, 1 }, 'f64')
      for i = 1, M.count(one.shape) do one[i] = 0 end
      for i = 1, a.rows do wide[i] = 0 end
      x = one
    end
    local y = M.linear({ x, wide, bias }, { act = a.act })[1]
    y.dtype = a.dtype or 'f32'
    return { y }
  end

  --- y = act(x W' + b) for W in compressed rows, of one output or sixteen.
  function M.sparse_linear(inputs, a)
    local x, offset, column, values, bias = unpack(inputs, 1, 5)
    local block, k = #values.shape == 2 and 16 or 1, x.shape[#x.shape]
    local wide = M.new({ (#offset - 1) * block, k }, 'f64')
    for i = 1, M.count(wide.shape) do wide[i] = 0 end
    for r = 0, #offset - 2 do
      for e = offset[r + 1], offset[r + 2] - 1 do
        for j = 0, block - 1 do
          local at = (r * block + j) * k + column[e + 1] + 1
          wide[at] = wide[at] + values[e * block + j + 1]
        end
      end
    end
    local y = M.linear({ x, wide, bias }, { act = a.act })[1]
    y.dtype = a.dtype or 'f32'
    return { y }
  end
end

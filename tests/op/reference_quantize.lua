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

  local function byte(x, scale, zero, dtype, least)
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
      y[i + 1] = byte(x[i + 1], scale[place(x, scale, a, i)], zero_at(x, zero, a, i), dtype)
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
      for j = 1, n do q[r * n + j] = byte(x[r * n + j], scale, 0, 'i8', -127) end
    end
    return { q, scales }
  end
end

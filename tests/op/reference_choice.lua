-- SPDX-License-Identifier: MIT
-- reference_choice: what choosing between tensors means, answers about numbers, and functions of
-- bits (see reference.lua).

return function(M, tools)
  local each, at, broadcast = tools.each, tools.at, tools.broadcast

  --- The second input where the first is not 0, else the third.
  function M.where(inputs)
    local cond, x, y = unpack(inputs)
    local z = M.new(broadcast(cond.shape, broadcast(x.shape, y.shape)), M.promote(x.dtype, y.dtype))
    each(z.shape, function(index)
      z[#z + 1] = M.convert(at(at(cond, index) ~= 0 and x or y, index), z.dtype)
    end)
    return { z }
  end

  local INF = math.huge
  local ANSWERS = {
    logical_not = function(x) return x == 0 end,
    isnan = function(x) return x ~= x end,
    isinf = function(x) return x == INF or x == -INF end,
    isposinf = function(x) return x == INF end,
    isneginf = function(x) return x == -INF end,
    isfinite = function(x) return x == x and math.abs(x) ~= INF end,
  }
  for name, f in pairs(ANSWERS) do
    M[name] = function(inputs)
      local x = inputs[1]
      local y = M.new(x.shape, 'bool')
      for i = 1, M.count(x.shape) do y[i] = f(x[i]) and 1 or 0 end
      return { y }
    end
  end

  -- -- Bits ---------------------------------------------------------------------------------------

  -- As numbers of two's complement, bit by bit; those of i64 in samples need no more than 32.
  local WIDTH = { i64 = 64, i32 = 32, i8 = 8, u8 = 8, bool = 1 }

  local function by_bit(f)
    return function(x, y, width)
      local z = 0
      for i = 0, math.min(width, 32) - 1 do
        local p, q = math.floor(x / 2 ^ i) % 2, math.floor(y / 2 ^ i) % 2
        z = z + f(p, q) * (i == 31 and -2 ^ 31 or 2 ^ i)
      end
      return z
    end
  end

  local BITS = {
    bitwise_and = by_bit(function(p, q) return p * q end),
    bitwise_or = by_bit(function(p, q) return math.max(p, q) end),
    bitwise_xor = by_bit(function(p, q) return (p + q) % 2 end),
    bitwise_left_shift = function(x, y, width)
      return (y < 0 or y >= width) and 0 or x * 2 ^ y
    end,
    bitwise_right_shift = function(x, y, width)
      if y < 0 or y >= width then return x < 0 and -1 or 0 end
      return math.floor(x / 2 ^ y)
    end,
  }
  for name, f in pairs(BITS) do
    M[name] = function(inputs, args)
      local x, y = inputs[1], inputs[2]
      local dtype = y and M.promote(x.dtype, y.dtype) or x.dtype == 'bool' and 'i64' or x.dtype
      if not y then y = { args.value, shape = {}, dtype = dtype } end
      if args.reversed then x, y = y, x end
      local z = M.new(broadcast(x.shape, y.shape), dtype)
      each(z.shape, function(index)
        z[#z + 1] = tools.wrap(f(at(x, index), at(y, index), WIDTH[dtype]), dtype)
      end)
      return { z }
    end
  end

  --- Each bit the other way.
  function M.bitwise_not(inputs)
    local x = inputs[1]
    local y = M.new(x.shape, x.dtype)
    for i = 1, M.count(x.shape) do
      y[i] = x.dtype == 'bool' and 1 - x[i] or tools.wrap(-1 - x[i], x.dtype)
    end
    return { y }
  end
end

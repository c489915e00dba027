-- SPDX-License-Identifier: MIT
-- reference_scan: what cumulative sums mean, in plain loops over Lua numbers.  See reference.lua
-- for what a tensor is here.  Results carry the magnitude of what was added up.

local FLOAT = { f32 = true, f64 = true, f16 = true, bf16 = true }

return function(M) -- M: the rest of the reference
  --- The sum of each element and all before it along args.axis; from the end with args.reverse.
  function M.cumsum(inputs, args)
    local x = inputs[1]
    local axis = args.axis < 0 and args.axis + #x.shape + 1 or args.axis + 1
    local n, inner = x.shape[axis], 1
    for i = axis + 1, #x.shape do inner = inner * x.shape[i] end
    local y = M.new(x.shape, FLOAT[x.dtype] and x.dtype or 'i64')
    y.magnitude = {}
    for outer = 0, M.count(x.shape) / math.max(1, n * inner) - 1 do
      for k = 1, n > 0 and inner or 0 do
        local sum, size = 0, 0
        for i = 0, n - 1 do
          local at = outer * n * inner + (args.reverse and n - 1 - i or i) * inner + k
          sum, size = sum + x[at], size + math.abs(x[at])
          y[at], y.magnitude[at] = sum, size
        end
      end
    end
    return { y }
  end

  --- The product of each element and all before it; whole numbers wrap around, as i64 does.
  function M.cumprod(inputs, args)
    local x = inputs[1]
    local axis = args.axis < 0 and args.axis + #x.shape + 1 or args.axis + 1
    local n, inner = x.shape[axis], 1
    for i = axis + 1, #x.shape do inner = inner * x.shape[i] end
    local y = M.new(x.shape, FLOAT[x.dtype] and x.dtype or 'i64')
    for outer = 0, M.count(x.shape) / math.max(1, n * inner) - 1 do
      for k = 1, n > 0 and inner or 0 do
        local product = 1
        for i = 0, n - 1 do
          local at = outer * n * inner + (args.reverse and n - 1 - i or i) * inner + k
          product = product * x[at]
          y[at] = product
        end
      end
    end
    return { y }
  end
end

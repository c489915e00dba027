-- SPDX-License-Identifier: MIT
-- borders_rows_spec: rows of which some begin at a multiple of 16 bytes, and windows that begin
-- before their rows, on both sides of what kernels of the GPU take in packs: the simulated GPU
-- beside the CPU, and what it launches as approved.

local ridge = require 'ridge'
local borders = dofile 'tests/lua/borders.lua'
local PACK, numbers, try = borders.PACK, borders.numbers, borders.try

local function texts(name, f)
  it(name, function()
    if not borders.compare(name, f) then pending 'no nvcc: the simulated GPU was not built' end
  end)
end

describe('in packs or one by one', function()
  -- Rows are read once a row of windows where these move by one or two columns and begin one
  -- before an image at most: { size, stride, padding at the top, left, bottom, right }.
  texts('windows', function(out)
    for _, case in ipairs { { { 3, 3 }, { 1, 1 }, { 1, 1, 1, 1 } },
      { { 4, 3 }, { 1, 1 }, { 2, 1, 2, 1 } }, { { 3, 4 }, { 1, 1 }, { 1, 2, 1, 1 } },
      { { 1, 4 }, { 1, 1 }, { 0, 2, 0, 1 } }, { { 2, 2 }, { 2, 2 }, { 0, 0, 0, 0 } },
      { { 2, 4 }, { 2, 2 }, { 0, 1, 0, 1 } }, { { 2, 4 }, { 2, 2 }, { 0, 2, 0, 0 } },
      { { 2, 3 }, { 2, 3 }, { 0, 0, 0, 0 } }, { { 1, 5 }, { 1, 1 }, { 0, 2, 0, 2 } } } do
      local size, stride, padding = unpack(case)
      local opts = { stride = stride, padding = padding }
      try(out, ('of %d x %d by %d and %d, %s around'):format(size[1], size[2], stride[1],
        stride[2], table.concat(padding, ' ')), { numbers('f32', 1, 2, 6, 24) }, function(x)
        return x:max_pool2d(size, opts), x:avg_pool2d(size, opts)
      end)
    end
  end)

  -- Rows with a gap of one element between them, and of a pack.
  texts('rows apart', function(out)
    for _, dtype in ipairs { 'f32', 'bf16' } do
      for _, gap in ipairs { 1, PACK[dtype] } do
        local function rows(name, shape, f)
          local wide = { unpack(shape) }
          wide[#wide] = wide[#wide] + gap
          try(out, ('%s of %s, %d between'):format(name, dtype, gap),
            { numbers(dtype, unpack(wide)) }, function(x)
              return f(x:narrow(#shape, 1, shape[#shape]))
            end)
        end
        rows('softmax', { 5, 32 }, function(x) return x:softmax(2) end)
        rows('sums', { 5, 64 }, function(x) return x:sum(2), x:max(2), x:sum(1) end)
        rows('positions', { 5, 64 }, function(x) return x:argmax(2) end)
        rows('copies', { 5, 64 }, function(x) return x:contiguous(), x:t():contiguous() end)
        rows('functions', { 5, 64 }, function(x) return x:relu(), x + x, x:to 'f64' end)
        rows('concat', { 5, 64 }, function(x)
          return ridge.concat({ x, x }, 1), ridge.concat({ x, x }, 2)
        end)
        rows('products', { 16, 32 }, function(x) return x:matmul(x:t()), x:t():matmul(x) end)
        for _, causal in ipairs { false, true } do
          rows(causal and 'causal attention' or 'attention', { 24, 16 }, function(x)
            return ridge.nn.attention(x, x, x, { causal = causal })
          end)
          rows(causal and 'causal heads' or 'heads', { 2, 24, 16 }, function(x)
            return ridge.nn.attention(x, x, x, { causal = causal })
          end)
        end
        rows('pools', { 1, 2, 6, 16 }, function(x) return x:max_pool2d(2), x:avg_pool2d(2) end)
      end
    end
  end)
end)

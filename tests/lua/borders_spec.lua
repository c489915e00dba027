-- SPDX-License-Identifier: MIT
-- borders_spec: sizes on both sides of the borders at which a kernel of the GPU gives way to
-- another one, takes more than one block, or comes round again: what is launched on the simulated
-- GPU, as approved, and its numbers beside the CPU's.  Small samples reach one side alone.

local ridge = require 'ridge'
local borders = dofile 'tests/lua/borders.lua'
local PACK, FLOATS, numbers, try, both = borders.PACK, borders.FLOATS, borders.numbers, borders.try,
  borders.both

local function draw() return { generator = borders.generator } end

-- Rows of n elements, for each type: held by a warp, by wider teams, kept by a block, read again.
local function row_sizes(dtype)
  local n = PACK[dtype]
  return { 8, 8 + n, 64 * n, 65 * n, 128 * n, 129 * n, 257 * n, 513 * n, 1024 * n, 1025 * n,
    2048 * n, 2049 * n }
end

local function texts(name, f)
  it(name, function()
    if not borders.compare(name, f) then pending 'no nvcc: the simulated GPU was not built' end
  end)
end

describe('on both sides of a border', function()
  texts('softmax', function(out)
    for _, dtype in ipairs(FLOATS) do
      for _, n in ipairs(row_sizes(dtype)) do
        try(out, ('%s 3 x %d'):format(dtype, n), { numbers(dtype, 3, n), numbers(dtype, 3, n) },
          both(function(x) return x:softmax(2) end))
      end
    end
    -- more rows than teams that run at one time, twice
    for _, case in ipairs { { 97, 64 }, { 200, 64 }, { 65, 260 }, { 140, 260 }, { 33, 516 },
      { 70, 516 }, { 9, 2052 }, { 20, 2052 }, { 9, 4100 }, { 20, 4100 } } do
      try(out, ('f32 %d x %d'):format(unpack(case)), { numbers('f32', unpack(case)),
        numbers('f32', unpack(case)) }, both(function(x) return x:softmax(2) end))
    end
    -- by one block or two side by side, and what no block keeps
    for _, n in ipairs { 14272, 14276, 28544, 28548, 28928, 28932, 57856, 57860 } do
      try(out, ('f32 2 x %d'):format(n), { numbers('f32', 2, n), numbers('f32', 2, n) },
        both(function(x) return x:softmax(2) end))
    end
    -- across memory, by single threads where there are many rows
    for _, case in ipairs { { 9, 1023 }, { 9, 1024 }, { 40, 1025 }, { 1024, 3 }, { 1025, 3 } } do
      try(out, ('f32 %d x %d, the first axis'):format(unpack(case)),
        { numbers('f32', unpack(case)), numbers('f32', unpack(case)) },
        both(function(x) return x:softmax(1) end))
    end
    -- rows that begin anywhere
    try(out, 'f32 3 x 1028 behind one element', { numbers('f32', 3 * 1028 + 1) }, function(x)
      return x:narrow(1, 2, 3 * 1028):view(3, 1028):softmax(2)
    end)
  end)

  texts('layer_norm', function(out)
    local function norm(x) return ridge.nn.LayerNorm(x.shape[2]):to(x.device):to(x.dtype)(x) end
    local function gradients(x, dy, weight, bias)
      local layer = ridge.nn.LayerNorm(x.shape[2]):to(x.device):to(x.dtype)
      layer:train()
      layer.weight:detach():copy_(weight)
      layer.bias:detach():copy_(bias)
      x = x:detach():requires_grad_()
      local y = layer(x)
      y:backward(dy)
      return y:detach(), x.grad, layer.weight.grad, layer.bias.grad
    end
    for _, dtype in ipairs(FLOATS) do
      for _, n in ipairs(row_sizes(dtype)) do
        for _, rows in ipairs { 3, n < 3000 and 210 or 30 } do
          try(out, ('%s %d x %d'):format(dtype, rows, n), { numbers(dtype, rows, n),
            numbers(dtype, rows, n), numbers(dtype, n), numbers(dtype, n) }, gradients,
            dtype == 'f16' and 0.03 or dtype == 'bf16' and 0.2 or nil)
        end
      end
    end
    for _, n in ipairs { 14272, 14276, 28544, 28548, 28928, 28932, 57856, 57860 } do
      try(out, ('f32 2 x %d'):format(n), { numbers('f32', 2, n) }, norm)
      try(out, ('f32 2 x %d and back'):format(n), { numbers('f32', 2, n), numbers('f32', 2, n),
        numbers('f32', n), numbers('f32', n) }, gradients)
    end
  end)

  texts('cross_entropy', function(out)
    for _, dtype in ipairs { 'f32', 'bf16' } do
      for _, case in ipairs { { 300, 8 }, { 9, 9 }, { 70, 33 }, { 5, 1024 }, { 5, 1025 },
        { 3, 4104 }, { 300, 264 } } do
        for _, smoothing in ipairs { 0, 0.2 } do
          local rows, n = unpack(case)
          local labels = ridge.randint(0, n, rows, draw())
          labels:narrow(1, 2, 1):fill_(-100)
          for _, how in ipairs { 'mean', 'none' } do
            local dy = how == 'none' and numbers(dtype, rows) or numbers(dtype)
            try(out, ('%s %d x %d, smoothing %g, %s'):format(dtype, rows, n, smoothing, how),
              { numbers(dtype, rows, n), dy, labels }, both(function(x, y)
                return ridge.nn.cross_entropy(x, y, { smoothing = smoothing, reduction = how })
              end))
          end
        end
      end
    end
  end)

  texts('sums', function(out)
    local KINDS = { sum = function(x, axis) return x:sum(axis) end,
      max = function(x, axis) return x:max(axis) end,
      mean = function(x, axis) return x:mean(axis) end,
      norm2 = function(x, axis) return x:norm(2, axis) end,
      norm3 = function(x, axis) return x:norm(3, axis) end }
    local ORDER = { 'sum', 'max', 'mean', 'norm2', 'norm3' }
    for _, dtype in ipairs { 'f32', 'f16', 'f64', 'i64', 'u8' } do
      local whole = PACK[dtype] == nil
      for _, case in ipairs { { 1, 8191 }, { 1, 8192 }, { 1, 16389 }, { 2, 30000 }, { 3, 33 },
        { 33, 31 }, { 300, 7 }, { 300, 8 }, { 300, 16 }, { 64, 1023 }, { 700, 40 } } do
        for axis = 2, 1, -1 do
          local shape = axis == 2 and case or { case[2], case[1] }
          local x = whole and ridge.randint(0, 90, shape[1], shape[2], draw())
            :to(dtype) or numbers(dtype, unpack(shape))
          for k = 1, whole and 3 or 5 do
            try(out, ('%s of %s %d x %d, axis %d'):format(ORDER[k], dtype, shape[1], shape[2],
              axis), { x }, function(y) return KINDS[ORDER[k]](y, axis) end)
          end
        end
      end
    end
    -- rows from any element on, with gaps, and two axes that are far from each other
    try(out, 'f32 behind one element', { numbers('f32', 2, 9001) },
      function(x) return x:narrow(2, 2, 9000):sum(2), x:narrow(2, 2, 9000):sum(1) end)
    try(out, 'f32 of two axes', { numbers('f32', 65, 9, 130) },
      function(x) return x:sum { 1, 3 }, x:sum { 1, 2 }, x:sum(2), x:transpose(1, 3):sum(3) end)
    -- neighbouring axes that are one behind another axis, among those that are summed and that stay
    try(out, 'f32 of axes that join', { numbers('f32', 5, 3, 4, 7), numbers('f32', 3, 5, 4, 64) },
      function(x, y)
        return x:sum { 1, 3, 4 }, x:sum(2), y:sum { 1, 3, 4 }, y:sum(2), y:max { 1, 3, 4 },
          y:norm(2, { 1, 3, 4 }), y:transpose(3, 4):sum { 1, 3, 4 },
          y:narrow(3, 2, 3):sum { 1, 3, 4 }
      end)
  end)

  texts('positions', function(out)
    for _, dtype in ipairs { 'f32', 'bf16', 'f64', 'i32', 'u8' } do
      for _, case in ipairs { { 300, 5 }, { 40, 31 }, { 40, 32 }, { 9, 63 }, { 9, 64 }, { 5, 1023 },
        { 5, 1024 }, { 1, 2000 } } do
        for axis = 2, 1, -1 do
          local shape = axis == 2 and case or { case[2], case[1] }
          local x = ridge.randint(0, 200, shape[1], shape[2], draw()):to(dtype)
          try(out, ('%s %d x %d, axis %d'):format(dtype, shape[1], shape[2], axis), { x },
            function(y) return y:argmax(axis), y:argmin(axis) end)
        end
      end
    end
  end)

  texts('cumulative sums', function(out)
    for _, dtype in ipairs { 'f32', 'f16', 'f64', 'i64', 'i8' } do
      for _, case in ipairs { { 31, 70 }, { 32, 70 }, { 300, 33 }, { 2, 65 } } do
        local rows, n = unpack(case)
        local x = ridge.randint(-2, 3, rows, n, draw()):to(dtype)
        try(out, ('%s %d x %d'):format(dtype, rows, n), { x },
          function(y) return y:cumsum(2), y:cumsum(2, true) end)
        try(out, ('%s %d x %d, the first axis'):format(dtype, n, rows), { x:t():contiguous() },
          function(y) return y:cumsum(1), y:cumsum(1, true) end)
      end
    end
  end)

  texts('copies', function(out)
    for _, dtype in ipairs { 'f32', 'bf16', 'f64', 'u8' } do
      for _, case in ipairs { { 15, 40 }, { 16, 40 }, { 17, 16 }, { 64, 65 }, { 130, 70 } } do
        local x = ridge.randint(0, 200, case[1], case[2], 3, draw()):to(dtype)
        try(out, ('%s %d x %d x 3'):format(dtype, case[1], case[2]), { x }, function(y)
          return y:select(3, 2):contiguous():t():contiguous(), y:transpose(1, 2):contiguous(),
            y:transpose(1, 3):contiguous(), y:transpose(2, 3):contiguous()
        end)
      end
      local x = ridge.randint(0, 100, 4099, draw()):to(dtype)
      for _, n in ipairs { 15, 16, 17, 4096, 4098 } do
        try(out, ('%s %d, in order, behind one element, into another type'):format(dtype, n), { x },
          function(y)
            local from = y:narrow(1, 2, n)
            return y:narrow(1, 1, n):clone(), from:clone(), from:to 'f16', from:to 'f64',
              from:to 'i32', y:narrow(1, 1, n):to 'bf16'
          end)
      end
    end
  end)

  texts('joined', function(out)
    for _, dtype in ipairs { 'f32', 'bf16', 'f64', 'u8' } do
      for _, many in ipairs { 2, 8, 9, 17 } do
        local list = {}
        for i = 1, many do
          list[i] = ridge.randint(0, 100, 3, 8 + 8 * (i % 3), draw()):to(dtype)
        end
        list[many] = ridge.randint(0, 100, 3, 1500, draw()):to(dtype)
        try(out, ('%d of %s'):format(many, dtype), list, function(...)
          local turned = {}
          for i, x in ipairs { ... } do turned[i] = x:t() end
          return ridge.concat({ ... }, 2), ridge.concat(turned, 1)
        end)
      end
    end
  end)

  texts('rows by number', function(out)
    for _, dtype in ipairs { 'f32', 'bf16', 'f64' } do
      for _, case in ipairs { { 40, 1, 256 }, { 40, 3, 257 }, { 3000, 8, 300 }, { 2056, 8, 257 },
        { 300, 9, 300 }, { 301, 9, 300 }, { 255, 8, 256 }, { 257, 8, 256 }, { 9, 256, 20 },
        { 9, 257, 20 }, { 9, 2056, 700 }, { 5, 4100, 3 } } do
        local rows, n, many = unpack(case)
        local index = ridge.randint(0, math.min(rows, 200), many, draw())
        try(out, ('%d of %s %d x %d'):format(many, dtype, rows, n),
          { numbers(dtype, rows, n), numbers(dtype, many, n), index },
          both(function(x, i) return x:take(i) end), dtype == 'bf16' and 0.2 or nil)
      end
    end
  end)
end)

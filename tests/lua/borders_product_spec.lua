-- SPDX-License-Identifier: MIT
-- borders_product_spec: as borders_spec, of products, attention, images, steps and random numbers.

local ffi = require 'ffi'
local ridge = require 'ridge'
local borders = dofile 'tests/lua/borders.lua'
local C = require 'ridge.ffi.lib'
local FLOATS, numbers, try, both = borders.FLOATS, borders.numbers, borders.try, borders.both

local function texts(name, f)
  it(name, function()
    local modes = C.rg_device_modes_now()
    local kept = { vendor = modes.vendor, tf32 = modes.tf32 }
    local done, e = pcall(borders.compare, name, f)
    modes.vendor, modes.tf32 = kept.vendor, kept.tf32
    if not done then error(e, 0) end
    if not e then pending 'no nvcc: the simulated GPU was not built' end
  end)
end

local function draw() return { generator = borders.generator } end

-- Small whole numbers: sums of their products are exact in any order.
local function whole(dtype, ...)
  local shape = { ... }
  shape[#shape + 1] = draw()
  return ridge.randint(-2, 3, unpack(shape)):to(dtype)
end

describe('on both sides of a border', function()
  texts('products', function(out)
    local modes = C.rg_device_modes_now()
    for vendor = 0, 1 do
      modes.vendor = vendor
      for _, dtype in ipairs(FLOATS) do
        for _, case in ipairs { { 1, 8, 8 }, { 8, 1, 8 }, { 8, 8, 1 }, { 64, 32, 128 },
          { 65, 32, 128 }, { 64, 40, 128 }, { 64, 32, 136 }, { 72, 104, 136 }, { 63, 31, 17 },
          { 17, 33, 15 }, { 7, 9, 5 } } do
          local m, k, n = unpack(case)
          local what = ('%s %d x %d x %d, vendor %d'):format(dtype, m, k, n, vendor)
          try(out, what, { whole(dtype, m, k), whole(dtype, k, n) }, function(x, y)
            return x:matmul(y), x:t():contiguous():t():matmul(y), x:matmul(y:t():contiguous():t()),
              x:t():contiguous():t():matmul(y:t():contiguous():t()), x:select(1, 1):matmul(y),
              x:matmul(y:select(2, 1))
          end)
        end
        try(out, ('%s batches, vendor %d'):format(dtype, vendor), { whole(dtype, 3, 2, 16, 24),
          whole(dtype, 3, 2, 24, 8), whole(dtype, 24, 8), whole(dtype, 2, 24, 8) },
          function(x, y, one, two)
            return x:matmul(y), x:matmul(one), x:matmul(two), x:transpose(1, 2):matmul(two:narrow(1,
              2, 1)), x:narrow(3, 2, 15):matmul(y), x:narrow(4, 1, 16):matmul(y:narrow(3, 1, 16))
          end)
      end
    end
  end)

  texts('layers', function(out)
    local modes = C.rg_device_modes_now()
    for vendor = 0, 1 do
      modes.vendor = vendor
      for _, dtype in ipairs(FLOATS) do
        for _, rows in ipairs { 1, 64, 127, 128, 129 } do
          for _, act in ipairs { 'none', 'gelu' } do
            local near = dtype == 'bf16' and 0.1 or dtype == 'f16' and 0.02 or nil
            for _, form in ipairs { 'dense', 'low', 'stored', 'bits', 'seed' } do
              local n_in, n_out = 40, 72
              try(out, ('%s %s of %d rows, %s, vendor %d'):format(form, dtype, rows, act, vendor),
                { numbers(dtype, rows, n_in) }, function(x)
                  local layer = form == 'dense' and ridge.nn.Linear(n_in, n_out, { seed = 1,
                      activation = act })
                    or form == 'low' and ridge.nn.LowRankLinear(n_in, n_out, { seed = 1, rank = 8,
                      activation = act })
                    or ridge.nn.SKLinear(n_in, n_out, { seed = 1, num_terms = 2, low_rank = 8,
                      form = form, activation = act, warn = false })
                  return layer:to(dtype):to(x.device)(x)
                end, near)
            end
          end
        end
      end
    end
  end)

  -- Passes over lines of eights or of single elements, in blocks of 64, 128 or 256 threads: what
  -- follows a product, factors that are brought together, scaled results.
  texts('lines', function(out)
    for _, dtype in ipairs(FLOATS) do
      for _, n in ipairs { 64, 65, 128, 129, 512, 513, 1024, 1025, 2056 } do
        try(out, ('%s %d columns'):format(dtype, n), { whole(dtype, 3, 8), whole(dtype, n, 8),
          whole(dtype, n), whole(dtype, 3, 2 * n), whole(dtype, n, 8) },
          function(x, w, b, gaps, y)
            local layer = ridge.nn.Linear(8, n, { activation = 'tanh' }):to(dtype):to(x.device)
            layer.weight:detach():copy_(w)
            layer.bias:detach():copy_(b)
            return layer(x), gaps:narrow(2, 1, n, 2):matmul(y)
          end)
      end
    end
    for _, n in ipairs { 16, 512, 528, 1024, 1040, 2064 } do
      try(out, ('i8 %d columns'):format(n), { whole('i8', 3, 16), whole('i8', n, 16),
        numbers('f32', n) }, function(x, w, scales)
          return ridge.scaled_linear(x, w, 0.5, scales:abs()), ridge.scaled_linear(x, w, 0.5, 2)
        end)
    end
    -- axes before the last are rows of one product, also where they have one row each
    local modes = C.rg_device_modes_now()
    modes.vendor = 0
    for _, dtype in ipairs { 'f32', 'bf16' } do
      try(out, dtype .. ' rows out of several', { whole(dtype, 5, 3, 16), whole(dtype, 16, 8),
        whole(dtype, 2, 5, 3, 16) }, function(x, y, z)
          return x:narrow(2, 2, 1):matmul(y), x:matmul(y), x:narrow(2, 1, 2):matmul(y),
            z:narrow(3, 3, 1):matmul(y), z:narrow(2, 1, 1):matmul(y)
        end)
    end
  end)

  texts('attention', function(out)
    local modes = C.rg_device_modes_now()
    for _, dtype in ipairs(FLOATS) do
      for tf32 = 0, dtype == 'f32' and 1 or 0 do
        modes.tf32 = tf32
        for _, case in ipairs { { 64, 32, 32 }, { 65, 40, 40 }, { 33, 64, 64 }, { 30, 72, 64 },
          { 20, 104, 96 }, { 20, 128, 136 }, { 9, 264, 8 }, { 63, 33, 20 }, { 129, 8, 4 } } do
          local n, d, e = unpack(case)
          local q, k, v = numbers(dtype, 2, n, d), numbers(dtype, 2, n + 3, d),
            numbers(dtype, 2, n + 3, e)
          for _, causal in ipairs { false, true } do
            try(out, ('%s 2 x %d x %d, values of %d, causal %s, tf32 %d'):format(dtype, n, d, e,
              tostring(causal), tf32), { q, k, v, numbers(dtype, 2, n, e) },
              function(a, b, c, dy)
                a, b, c = a:detach():requires_grad_(), b:detach():requires_grad_(),
                  c:detach():requires_grad_()
                local y = ridge.nn.attention(a, b, c, { causal = causal })
                y:backward(dy)
                return y:detach(), a.grad, b.grad, c.grad
              end, dtype == 'bf16' and 0.15 or dtype == 'f16' and 0.02 or tf32 == 1 and 0.02
                or nil)
          end
        end
      end
    end
  end)

  texts('pools', function(out)
    for _, dtype in ipairs(FLOATS) do
      for _, layout in ipairs { 'nchw', 'nhwc' } do
        for _, case in ipairs { { 2, 2, 0, 32 }, { 3, 2, 1, 32 }, { 3, 1, 1, 32 }, { 2, 2, 0, 24 },
          { 4, 2, 1, 16 }, { 4, 2, 2, 16 }, { 3, 3, 0, 33 }, { 5, 1, 2, 16 }, { 2, 1, 0, 17 } } do
          local size, stride, padding, side = unpack(case)
          local shape = layout == 'nchw' and { 2, 8, 20, side } or { 2, 20, side, 8 }
          local opts = { stride = stride, padding = padding, layout = layout }
          local x = numbers(dtype, unpack(shape))
          for _, kind in ipairs { 'max_pool2d', 'avg_pool2d' } do
            local dy = x[kind](x, size, opts)
            try(out, ('%s %s %s, windows of %d every %d, padding %d, %d wide'):format(kind, dtype,
              layout, size, stride, padding, side), { x, numbers(dtype, unpack(dy:size())) },
              both(function(y) return y[kind](y, size, opts) end))
          end
        end
      end
    end
  end)

  texts('convolutions', function(out)
    for _, dtype in ipairs(FLOATS) do
      for _, layout in ipairs { 'nchw', 'nhwc' } do
        for _, case in ipairs { { 1, 3, 1, 1, 0 }, { 4, 3, 2, 1, 1 }, { 1, 2, 1, 2, 2 },
          { 2, 1, 1, 1, 0 } } do
          local groups, size, stride, dilation, padding = unpack(case)
          local shape = layout == 'nchw' and { 2, 4, 9, 11 } or { 2, 9, 11, 4 }
          local x, w, b = whole(dtype, unpack(shape)), whole(dtype, 8, 4 / groups, size, size),
            whole(dtype, 8)
          local opts = { stride = stride, padding = padding, dilation = dilation, groups = groups,
            layout = layout }
          local dy = whole(dtype, unpack(x:conv2d(w, opts):size()))
          try(out, ('%s %s, %d groups, kernels of %d, every %d, dilation %d, padding %d'):format(
            dtype, layout, groups, size, stride, dilation, padding), { x, w, b, dy },
            function(y, weight, bias, back)
              y, weight, bias = y:detach():requires_grad_(), weight:detach():requires_grad_(),
                bias:detach():requires_grad_()
              local o = { bias = bias }
              for k, v in pairs(opts) do o[k] = v end
              local z = y:conv2d(weight, o)
              z:backward(back)
              return z:detach(), y.grad, weight.grad, bias.grad
            end)
        end
      end
    end
  end)

  texts('random numbers', function(out)
    for _, dtype in ipairs { 'f32', 'bf16', 'f64', 'f16' } do
      for _, n in ipairs { 1, 5, 1023, 1024, 1025, 2048, 2051, 4100 } do
        try(out, ('%s %d'):format(dtype, n), { numbers(dtype, n) }, function(x)
          local o = { dtype = dtype, device = x.device }
          local function begun(f) ridge.seed(3) return f() end
          return begun(function() return ridge.rand(n, o) end),
            begun(function() return ridge.randn(n, o) end),
            begun(function() return ridge.randint(-5, 1000, n, { device = x.device }) end),
            begun(function() return x:dropout(0.3) end)
        end)
      end
    end
  end)

  texts('steps', function(out)
    for _, kind in ipairs { 'SGD', 'AdamW', 'Lion' } do
      for _, dtype in ipairs { 'f32', 'bf16', 'f64' } do
        for _, sizes in ipairs { { 2048 }, { 2049, 3 }, { 65537, 1 }, { 70000, 2051 }, { 600001 },
          64, 65, 129 } do
          local list = {}
          if type(sizes) == 'number' then
            for i = 1, sizes do list[i] = 3 + i % 7 end
          else
            list = sizes
          end
          local inputs = {}
          for i, n in ipairs(list) do
            inputs[2 * i - 1], inputs[2 * i] = numbers(dtype, n), numbers(dtype, n)
          end
          try(out, ('%s %s of %d, the first %d'):format(kind, dtype, #list, list[1]), inputs,
            function(...)
              local given, params = { ... }, {}
              for i = 1, #given / 2 do
                params[i] = given[2 * i - 1]:clone():requires_grad_()
              end
              local optimizer = ridge.optim[kind](params, { lr = 0.01, weight_decay = 0.1 })
              for _ = 1, 2 do
                optimizer:zero_grad()
                for i, p in ipairs(params) do (p * 1):backward(given[2 * i]) end
                optimizer:step()
              end
              return unpack(params)
            end)
        end
      end
    end
  end)

  texts('norms of many', function(out)
    for _, dtype in ipairs(FLOATS) do
      for _, sizes in ipairs { { 5, 65536 }, { 65537, 3, 131073 }, 160, 161, 321 } do
        local inputs = {}
        if type(sizes) == 'number' then
          for i = 1, sizes do inputs[i] = numbers(dtype, 1 + i % 9) end
        else
          for i, n in ipairs(sizes) do inputs[i] = numbers(dtype, n) end
        end
        inputs[#inputs + 1] = numbers(dtype, 33, 40)
        try(out, ('%d of %s, the first %d'):format(#inputs, dtype, inputs[1].shape[1]), inputs,
          function(...)
            local list = { ... }
            list[#list] = list[#list]:t():narrow(2, 2, 31)
            local pointers = ffi.new('const rg_tensor *[?]', #list)
            for i, x in ipairs(list) do pointers[i - 1] = x._t end
            local ref = require 'ridge.ffi.ref'
            assert.equal(0, C.rg_total_norm(pointers, #list, ref.slot))
            return ref.wrap(ref.slot[0])
          end)
      end
    end
  end)

  texts('singular values', function(out)
    for _, case in ipairs { { 1, 9 }, { 64, 64 }, { 65, 66 }, { 70, 66 }, { 300, 7 } } do
      for _, dtype in ipairs { 'f32', 'f64' } do
        try(out, ('%s %d x %d'):format(dtype, unpack(case)), { numbers(dtype, unpack(case)) },
          function(x)
            local _, s = x:svd()
            return s
          end)
      end
    end
  end)

  texts('sums over replicas', function(out)
    for _, dtype in ipairs(FLOATS) do
      for _, n in ipairs { 3, 4, 1024, 1028, 4099 } do
        try(out, ('%s %d'):format(dtype, n), { numbers(dtype, n), numbers(dtype, n + 1),
          numbers(dtype, n) }, function(a, b, c)
            a, b, c = a:clone(), b:clone():narrow(1, 2, n), c:clone()
            ridge.all_reduce_({ a, b, c }, { mean = true })
            ridge.all_reduce_ { a, c }
            return a, b, c
          end)
      end
    end
  end)
end)

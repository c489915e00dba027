-- SPDX-License-Identifier: MIT
-- Products, attention and convolution, by libraries and by ridge's own kernels: part of agree.lua.

local ridge = require 'ridge'
local nn = ridge.nn

local h = ... -- agree.lua's helpers
local tiny, modes, try = h.opt.tiny, h.modes, h.try

-- In every mode: w as try takes it, path(vendor) the way that is taken then.
local function agrees(w, path)
  for vendor = 1, 0, -1 do
    for deterministic = 0, 1 do
      modes.vendor, modes.deterministic = vendor, deterministic
      local v = {}
      for k, x in pairs(w) do v[k] = x end
      v.name = w.name .. (deterministic == 1 and ' deterministic' or '')
      v.path, v.again = path(vendor), deterministic == 1
      try(v)
    end
  end
  modes.vendor, modes.deterministic = 1, 0
end

-- Own kernels for tensor cores take rows of whole eights, of halves.
local function own(dtype, ...)
  for _, n in ipairs { ... } do
    if n % 8 ~= 0 then return 'tiles' end
  end
  return dtype == 'f32' and 'tiles' or 'mma'
end

local function leaf(x) return x:clone():requires_grad_() end

local products = tiny and { { 16, 24, 8 }, { 17, 33, 9 }, { 1, 32, 16 } }
  or { { 128, 128, 128 }, { 256, 512, 1024 }, { 129, 257, 65 }, { 1, 4096, 4096 }, { 1000, 72, 8 },
    { 64, 8191, 64 }, { 2048, 2048, 2048 } }
for _, dtype in ipairs { 'f32', 'f16', 'bf16' } do
  for _, s in ipairs(products) do
    local m, k, n = unpack(s)
    local a, b = ridge.randn(m, k), ridge.randn(k, n)
    local at = ('%dx%dx%d'):format(m, k, n)
    local function w(name, inputs, op, f)
      -- a sum of k terms one after the other in f32 is some sqrt(k) / 2 of them off
      return { name = name .. ' ' .. at, dtype = dtype, inputs = inputs, op = op, f = f,
        units = 8 + (dtype == 'f32' and k ^ 0.5 or 0) }
    end
    agrees(w('matmul', { a, b }, 'matmul', function(x, y) return x:matmul(y) end),
      function(vendor) return vendor == 1 and 'cublasLt' or own(dtype, k, n) end)
    agrees(w('matmul transposed', { a:t():contiguous(), b:t():contiguous() }, 'matmul',
      function(x, y) return x:t():matmul(y:t()) end),
      function(vendor) return vendor == 1 and 'cublasLt' or own(dtype, m == 1 and k or m, k) end)
    agrees(w('batched matmul', { ridge.randn(3, math.min(m, 300), k), b }, 'matmul',
      function(x, y) return x:matmul(y) end),
      function(vendor) return vendor == 1 and 'cublasLt' or own(dtype, k, n) end)
  end
  if dtype == 'f32' then
    modes.tf32 = 1
    try { name = 'matmul tf32', dtype = dtype, units = 2 ^ 14, op = 'matmul', path = 'cublasLt',
      inputs = { ridge.randn(64, 96), ridge.randn(96, 48) },
      f = function(x, y) return x:matmul(y) end }
    modes.tf32 = 0
  end

  -- layers, with what follows their products
  for _, n in ipairs(tiny and { 16, 9 } or { 256, 72, 129 }) do
    local n_in, rank = tiny and 24 or 264, 8
    local x = ridge.randn(tiny and 5 or 120, n_in)
    for _, act in ipairs { 'none', 'relu', 'gelu' } do
      local function forward(make, trains)
        return function(y)
          local layer = make():to(y.dtype)
          layer:train(trains == true)
          if y.device ~= 'cpu' then layer:to(y.device) end
          return layer(y)
        end
      end
      local layers = {
        linear = function() return nn.Linear(n_in, n, { activation = act, seed = 1 }) end,
        lowrank_linear = function()
          return nn.LowRankLinear(n_in, n, { rank = rank, activation = act, seed = 1 })
        end,
        sketched_linear = function()
          return nn.SKLinear(n_in, n, { num_terms = 2, low_rank = rank, activation = act, seed = 1,
            form = 'stored', warn = false })
        end,
        linear_dropout = function()
          ridge.seed(7)
          return nn.Linear(n_in, n, { activation = act, seed = 1, dropout = 0.3 })
        end,
      }
      for op, make in pairs(layers) do
        agrees({ name = ('%s %d %s'):format(op, n, act), dtype = dtype, units = 32, op = op,
          inputs = { x }, f = forward(make, op == 'linear_dropout') },
          -- the weight of a dense layer lies by its inputs
          function(vendor)
            return vendor == 1 and 'cublasLt' or own(dtype, n_in, op:find '^linear' and 8 or n)
          end)
      end
      for _, form in ipairs { 'bits', 'seed' } do
        try { name = ('sketched_linear_%s %d %s'):format(form, n, act), dtype = dtype, units = 32,
          op = 'sketched_linear_' .. form, inputs = { x },
          path = (dtype == 'f32' or n % 8 == 0) and 'signs' or 'tiles',
          f = forward(function()
            return nn.SKLinear(n_in, n, { num_terms = 2, low_rank = rank, activation = act,
              seed = 1, form = form, warn = false })
          end) }
      end
    end
  end

  local heads = tiny and { { 2, 20, 8 }, { 2, 11, 6 } }
    or { { 4, 300, 64 }, { 2, 1024, 128 }, { 3, 77, 40 }, { 2, 130, 20 } }
  for _, s in ipairs(heads) do
    local list = {}
    for i = 1, 4 do list[i] = ridge.randn(1, unpack(s)) end
    local function path(vendor)
      if dtype == 'f32' or s[3] % 8 ~= 0 then return 'tiles' end
      return vendor == 1 and h.cudnn and 'cudnn' or 'tensor cores'
    end
    -- cuDNN's gradients are wrong before 9.16 where keys are no multiple of 128
    local function path_back(vendor)
      local major, minor = (h.cudnn or '0.0'):match '^(%d+)%.(%d+)'
      local old = major * 100 + minor < 916 and s[2] % 128 ~= 0
      return path(old and 0 or vendor)
    end
    for _, causal in ipairs { false, true } do
      local name = ('attention %dx%dx%d%s'):format(s[1], s[2], s[3], causal and ' causal' or '')
      -- in f32 a sum over n keys is some sqrt(n) / 2 of them off, as that of a product
      local units = dtype == 'f32' and 16 + s[2] ^ 0.5 or 16
      agrees({ name = name, dtype = dtype, units = units, op = 'attention',
        inputs = { list[1], list[2], list[3] },
        f = function(q, k, v) return nn.attention(q, k, v, { causal = causal }) end }, path)
      -- y is rounded to its type before it is used again; the CPU's in f64 is not
      agrees({ name = name .. ' back', dtype = dtype, units = 64, op = 'attention_back',
        inputs = list, f = function(q, k, v, dy)
          q, k, v = leaf(q), leaf(k), leaf(v)
          nn.attention(q, k, v, { causal = causal }):backward(dy)
          return ridge.concat({ q.grad, k.grad, v.grad }, 1)
        end }, path_back)
      if dtype == 'f32' and s[3] % 4 == 0 then
        modes.tf32 = 1
        try { name = name .. ' tf32', dtype = dtype, units = 2 ^ 14, op = 'attention',
          path = 'tensor cores', inputs = { list[1], list[2], list[3] },
          f = function(q, k, v) return nn.attention(q, k, v, { causal = causal }) end }
        modes.tf32 = 0
      end
    end
  end

  local images = tiny and { { 2, 3, 7, 6, 4, 3 } }
    or { { 4, 16, 28, 28, 32, 3 }, { 2, 3, 32, 32, 8, 5 } }
  for _, s in ipairs(images) do
    local batch, c_in, rows, columns, c_out, kernel = unpack(s)
    local x = ridge.randn(batch, c_in, rows, columns)
    local weight = ridge.randn(c_out, c_in, kernel, kernel)
    local dy = ridge.randn(batch, c_out, rows, columns)
    local function conv(y, v) return y:conv2d(v, { padding = (kernel - 1) / 2 }) end
    local at = ('%dx%dx%dx%d to %d'):format(batch, c_in, rows, columns, c_out)
    local function path(vendor) return vendor == 1 and h.cudnn and 'cudnn' or 'direct' end
    agrees({ name = 'conv2d ' .. at, dtype = dtype, units = 16, op = 'conv2d',
      inputs = { x, weight }, f = conv }, path)
    agrees({ name = 'conv2d_back_data ' .. at, dtype = dtype, units = 16, op = 'conv2d_back_data',
      inputs = { x, weight, dy }, f = function(y, v, d)
        y = leaf(y)
        conv(y, v):backward(d)
        return y.grad
      end }, path)
    agrees({ name = 'conv2d_back_weight ' .. at, dtype = dtype,
      units = dtype == 'f32' and 16 + (batch * rows * columns) ^ 0.5 or 16,
      op = 'conv2d_back_weight', inputs = { x, weight, dy }, f = function(y, v, d)
        v = leaf(v)
        conv(y, v):backward(d)
        return v.grad
      end }, path)
  end
end

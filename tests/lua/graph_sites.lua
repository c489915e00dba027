-- SPDX-License-Identifier: MIT
--- Pieces of networks that passes look for, with numbers of a random function in them, and records
--- that its other steps do not come to. Sometimes somebody else reads what lies in the middle.
local ridge = require 'ridge'
local nn = ridge.nn

local M = {}

local ROWS, CHANNELS, SIDE = 4, 16, 6

--- Modules that the pieces run, the same for each function.
---@return table by name
function M.modules()
  local function conv(c_in, c_out, opts) return nn.Conv2d(c_in, c_out, opts.kernel or 3, {
    padding = opts.padding or 1, groups = opts.groups, bias = opts.bias, seed = opts.seed }) end
  local norm = nn.BatchNorm(CHANNELS):eval()
  norm.running_var:copy_(ridge.arange(1, CHANNELS) * 0.1 + 0.4)
  norm.running_mean:copy_(ridge.arange(1, CHANNELS) * 0.05 - 0.3)
  return {
    norm = norm,
    convs = { conv(16, 16, { seed = 21 }), conv(16, 16, { seed = 22, bias = false }),
      conv(16, 16, { seed = 23, kernel = 1, padding = 0 }),
      conv(16, 16, { seed = 24, groups = 16 }) },
    linears = { nn.Linear(6, 6, { seed = 25 }), nn.Linear(6, 6, { seed = 26, bias = false }),
      nn.LowRankLinear(6, 6, { rank = 2, seed = 27 }),
      nn.SKLinear(6, 6, { low_rank = 2, seed = 28, warn = false }),
      nn.SKLinear(6, 6, { low_rank = 2, form = 'bits', seed = 29, warn = false }),
      nn.SKLinear(6, 6, { low_rank = 2, form = 'seed', seed = 30, warn = false }) },
    sketched = nn.SKConv2d(16, 16, 3, { padding = 1, low_rank = 2, seed = 31, warn = false }),
    features = nn.MultiHeadAttention(6, { heads = 2, kind = 'features', seed = 32 }):eval(),
  }
end

--- All of them in an order.
---@param sites table of `modules`
---@return table[] modules
function M.list(sites)
  local list = { sites.norm, sites.sketched, sites.features }
  for _, more in ipairs { sites.convs, sites.linears } do
    for _, module in ipairs(more) do list[#list + 1] = module end
  end
  return list
end

-- The elements of x, over and over, in another shape.
local function filled(x, ...)
  local flat = x:to('f32'):reshape(-1)
  local n = 1
  for i = 1, select('#', ...) do n = n * select(i, ...) end
  return flat:take(ridge.arange(0, n - 1, { dtype = 'i64' }):remainder(flat.shape[1])):reshape(...)
end

local function image(x) return x.ndim == 4 and x.shape[2] == CHANNELS and x.dtype == 'f32' and x
    or filled(x, 1, CHANNELS, SIDE, SIDE) end
local function rows(x) return x.ndim == 2 and x.shape[2] == 6 and x.dtype == 'f32' and x
    or filled(x, ROWS, 6) end

local ACTS = { 'relu', 'tanh', 'sigmoid', 'gelu', 'silu', 'relu6' }

-- A number for each of n channels: numbers of the function's tensors (written to, now and then),
-- what does not depend on them, or one number.
local function factor(w, n, shape)
  return w.pick { function() return filled(w.other(), unpack(shape)) end,
    function() return (ridge.arange(1, n) * 0.1 + 0.5):reshape(unpack(shape)) end,
    function() return 1.5 end }()
end

local function around(w, y, n, shape)
  return w.pick { function() return y * factor(w, n, shape) end,
    function() return y + factor(w, n, shape) end, function() return y / 1.25 end,
    function() return y - factor(w, n, shape) end,
    function() return factor(w, n, shape) * y end,
    function() return y[w.pick(ACTS)](y) end, function() return y end }()
end

local function root(w, v)
  return w.pick { function(y) return y / (v + 1e-3):sqrt() end,
    function(y) return y * (v + 1e-3):rsqrt() end }
end

-- Batch normalisation in evaluation, piece by piece.
local function norm_pieces(w, x)
  local s = w.sites.norm
  local shape = { 1, CHANNELS, 1, 1 }
  local function vector(name) return s[name]:reshape(unpack(shape)) end
  local y = w.keep(x - vector 'running_mean')
  y = w.keep(root(w, vector 'running_var')(y))
  if w.below(3) > 1 then y = w.keep(y * vector 'weight') end
  return w.below(3) > 1 and y + vector 'bias' or y
end

local SITES = {
  function(w) -- what stands around a convolution
    local y = image(w.x)
    if w.below(3) == 1 then y = around(w, y, CHANNELS, { 1, CHANNELS, 1, 1 }) end
    if w.below(3) == 1 then
      y = y:pad { { 0, 0 }, { 0, 0 }, { w.below(2) - 1, w.below(2) - 1 }, { 1, w.below(2) - 1 } }
    end
    y = w.keep(w.pick(w.sites.convs)(y))
    for _ = 1, w.below(4) - 1 do y = w.keep(around(w, y, CHANNELS, { 1, CHANNELS, 1, 1 })) end
    return y
  end,
  function(w) -- several of them, with what is done to images
    local y = image(w.x)
    for _ = 1, 1 + w.below(4) do
      y = w.keep(w.pick(w.sites.convs)(y))
      y = w.keep(w.pick { function() return y:relu() end, function() return w.sites.norm(y) end,
        function() return y:max_pool2d(3, { stride = 1, padding = 1 }) end,
        function() return y:avg_pool2d(3, { stride = 1, padding = 1 }) end,
        function() return y + image(y) end, function() return norm_pieces(w, y) end,
        function()
          local n, c, h, v = unpack(y.shape)
          return y:reshape(n, 4, 4, h, v):permute(1, 3, 2, 4, 5):reshape(n, c, h, v)
        end,
        function() return y * y:mean({ 3, 4 }, true) end,
        function() return ridge.concat({ y, y:tanh() }, 2):narrow(2, 5, CHANNELS) end }())
    end
    return w.pick { y, y:mean { 3, 4 }, y:transpose(3, 4) }
  end,
  function(w) return norm_pieces(w, w.keep(w.pick(w.sites.convs)(image(w.x)))) end,
  function(w) -- what stands around a dense layer
    local y = rows(w.x)
    if w.below(3) == 1 then y = around(w, y, 6, { 6 }) end
    y = w.keep(w.pick(w.sites.linears)(y))
    for _ = 1, w.below(4) - 1 do y = w.keep(around(w, y, 6, { 6 })) end
    return y
  end,
  function(w) -- a product, a bias, an activation
    local y = w.keep(rows(w.x):matmul(filled(w.other(), 6, 6)))
    return w.pick { y + factor(w, 6, { 6 }), (y + filled(w.other(), 6))[w.pick(ACTS)](y), y:relu() }
  end,
  function(w) -- layer normalisation: of equal numbers it is what rounding left, which a move shows
    local x = w.moved(rows(w.x))
    local d = w.keep(x - x:mean(-1, true))
    local y = root(w, w.pick { d:square(), d * d, d:pow(2) }:mean(-1, true))(d)
    if w.below(2) == 1 then y = w.keep(y) * factor(w, 6, { 6 }) end
    return w.below(2) == 1 and y + factor(w, 6, { 6 }) or y
  end,
  function(w) -- GELU
    local x = rows(w.x)
    local e = w.keep((x / math.sqrt(2)):erf() + 1)
    return w.pick { x * e * 0.5, x * 0.5 * e, (e * 0.5) * x }
  end,
  function(w) -- attention
    local q, k, v = filled(w.x, 2, 3, 4), filled(w.other(), 2, 5, 4), filled(w.other(), 2, 5, 4)
    local scores = w.keep(q:matmul(k:transpose(-1, -2)) * w.pick { 0.5, 1 })
    return w.keep(scores:softmax(-1)):matmul(v)
  end,
  function(w)
    local x = rows(w.x)
    return w.keep(x:softmax(w.below(2))):argmax(w.below(2))
  end,
  function(w) return w.sites.sketched(image(w.x)) end,
  function(w) return (w.sites.features(filled(w.x, 2, 3, 6))) end,
  function(w) return w.x:argmin(w.below(math.max(1, w.x.ndim))) end,
  function(w) return w.x:unsqueeze(1):squeeze(1):unsqueeze(-1) end,
  function(w)
    return nn.cross_entropy(filled(w.x, ROWS, 6), ridge.arange(0, ROWS - 1, { dtype = 'i64' }))
  end,
  function() return ridge.randint(0, 5, ROWS, 6) end,
  function(w) return w.x:atan():sinh() end,
  function(w)
    local codes, scales = ridge.quantize_rows(rows(w.x):isfinite():to 'f32' * 2)
    return ridge.scaled_linear(codes, codes, scales, scales)
  end,
}

--- A piece of a network over x.
---@param world table of graph_functions
---@param x Tensor
---@param below function
---@param pick function
---@param other function
---@param keep function that hands a tensor to the function's later steps, now and then
---@param moved function of graph_functions
---@return Tensor
function M.step(world, x, below, pick, other, keep, moved)
  return pick(SITES) { x = x, sites = world.sites, below = below, pick = pick, other = other,
    moved = moved, keep = function(y)
      y = moved(y)
      if below(5) == 1 then keep(y) end
      return y
    end }
end

return M

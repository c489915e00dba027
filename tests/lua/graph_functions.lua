-- SPDX-License-Identifier: MIT
--- Functions drawn at random, and what they work on: tensors that look into one storage, modules,
--- an optimizer. The same number gives the same function and the same numbers in its tensors.
local ridge = require 'ridge'
local bits = require 'tests.lua.bits'
local sites = require 'tests.lua.graph_sites'
local nn, optim = ridge.nn, ridge.optim

local M = {}

-- -- Choices, the same ones for the same number --------------------------------------------------

-- Choices of 1 .. n, and of one of a list.
local function chooser(seed)
  local state = (seed * 7919 + 17) % 2147483647
  local function below(n) -- 1 .. n
    state = (state * 48271) % 2147483647
    return math.floor(state / 2147483647 * n) + 1
  end
  return below, function(list) return list[below(#list)] end
end

local FLOATS = { 'f32', 'f32', 'f32', 'f64', 'bf16', 'f16' }
local SHAPES = { { 4, 6 }, { 4, 6 }, { 6, 4 }, { 6 }, { 4, 1 }, { 2, 4, 6 }, {}, { 1, 6 } }
local UNARY = { 'neg', 'abs', 'sign', 'square', 'relu', 'floor', 'ceil', 'round', 'sqrt', 'rsqrt',
  'reciprocal', 'exp', 'log', 'log1p', 'sin', 'cos', 'tanh', 'erf', 'sigmoid', 'gelu', 'silu',
  'softplus', 'logical_not', 'isnan', 'isinf', 'isposinf', 'isneginf', 'isfinite',
  'trunc', 'exp2', 'expm1', 'log2', 'tan', 'asin', 'acos', 'atan', 'sinh', 'cosh', 'asinh', 'acosh',
  'atanh', 'selu', 'mish', 'softsign', 'hardsigmoid', 'hardswish', 'relu6' }
local BINARY = { 'add', 'sub', 'mul', 'div', 'pow', 'maximum', 'minimum', 'eq', 'ne', 'lt', 'le',
  'gt', 'ge', 'logical_and', 'logical_or', 'logical_xor',
  'remainder', 'fmod', 'floor_divide', 'trunc_divide', 'atan2', 'prelu', 'elu', 'celu',
  'threshold' }
local REDUCE = { 'sum', 'mean', 'prod', 'max', 'min', 'norm' }
local NUMBERS = { 0, -0.0, 1, -1, 0.5, 2, 3.25 }

-- What a step of a function may do with the tensors that are there: gives a new one, or nil.
local function view(x, below, pick)
  local n = x.ndim
  local kind = below(8)
  if kind == 1 and n >= 2 then return x:transpose(below(n), below(n)) end
  if kind == 2 then return x:reshape(-1) end
  if kind == 3 and n >= 1 then
    local axis = below(n)
    local start = below(x.shape[axis])
    return x:narrow(axis, start, below(x.shape[axis] - start + 1))
  end
  if kind == 4 and n >= 1 then
    local axis = below(n)
    return x:select(axis, below(x.shape[axis]))
  end
  if kind == 5 and n < 4 then return x:unsqueeze(below(n + 1)) end
  if kind == 6 and n >= 1 and x.shape[1] == 1 then
    return x:expand(3, unpack(x.shape, 2))
  end
  if kind == 7 then return x:detach() end
  if n == 2 then return pick { x:t(), x:permute(2, 1), x:reshape(x.shape[2], x.shape[1]) } end
end

-- An image of four channels with what x is on average in it.
local function image(x)
  return ridge.arange(1, 96):reshape(2, 3, 4, 4) * 0.01 * x:to('f32'):mean()
end

-- What lies within a step, moved where the function is.
local noise
function M.moved(y) return noise and noise(y, {}) or y end

local PADS = { 'constant', 'reflect', 'edge', 'wrap' }
local BITS = { 'bitwise_and', 'bitwise_or', 'bitwise_xor', 'bitwise_left_shift',
  'bitwise_right_shift' }

-- Operations on elements' places, on bits, on images.
local PLACES = {
  function(x, _, _, other) return ridge.where(x:gt(0), x, other()) end,
  function(x, _, pick, _, axis)
    local values, at = x:sort(axis)
    return pick { values, at, x:gather(axis, at) }
  end,
  function(x, below, pick, _, axis)
    local values, at = x:topk(below(x.shape[axis]), axis)
    return pick { values, at, x:index_select(axis, at:reshape(-1):narrow(1, 1, 1)) }
  end,
  function(x, _, pick, _, axis)
    local values, at = x:sort(axis)
    return x:scatter(axis, at, values * 2, { reduce = pick { 'add', 'none' } })
  end,
  function(x, below, pick)
    return x:pad({ { below(2) - 1, below(2) - 1 } }, { mode = pick(PADS) })
  end,
  function(x, _, pick, _, axis)
    return pick { function() return x:flip(axis) end, function() return x:roll(1, axis) end,
      function() return x:cumprod(axis) end, function() return x:tril() end,
      function() return x:triu() end, function() return x:tile(2) end }()
  end,
  function(x, below, pick) return x:to('i32')[pick(BITS)](x:to 'i32', below(3)) end,
  function(x) return x:to('i32'):bitwise_not() end,
  function(x, _, _, other) return ridge.einsum('ij,kj->ik', x, other()) end,
  function(x, _, pick)
    local a = image(x)
    return pick { function() return a:conv_transpose(ridge.ones(3, 2, 2, 2)) end,
      function() return a:conv(ridge.ones(2, 3, 3, 3)) end,
      function() return a:resize({ 6, 5 }, { mode = pick { 'nearest', 'linear' } }) end,
      function() return a:max_pool(2) end, function() return a:avg_pool(2) end,
      function() return a:instance_norm() end, function() return a:lrn(3) end,
      function() return ridge.nn.attention(a, a, a) end }()
  end,
  function(x, _, _, other) -- attention in its pieces
    local y = other()
    return x:matmul(y:transpose(-1, -2)):softmax(-1):matmul(y)
  end,
  function(x, _, _, _, axis) return x:sum(axis):unsqueeze(axis) * x end,
  function(x, _, _, _, axis) return M.moved(x:softmax(axis)):argmax(axis) end,
}

local function place(x, below, pick, other)
  return pick(PLACES)(x, below, pick, other, below(math.max(1, x.ndim)))
end

local MAKE = {
  place, place, place,
  function(x, _, pick) return x[pick(UNARY)](x) end,
  function(x, _, pick, other) return x[pick(BINARY)](x, other()) end,
  function(x, _, pick) return x[pick(BINARY)](x, pick(NUMBERS)) end,
  function(x, below, pick)
    local opts = x.ndim > 0 and below(2) == 1 and { axis = below(x.ndim), keep = below(2) == 1 }
    return opts and x[pick(REDUCE)](x, opts) or x[pick(REDUCE)](x)
  end,
  view, view, view,
  function(x, _, pick) return x:to(pick { 'f32', 'f64', 'bf16', 'f16', 'i32' }) end,
  function(x, below, pick)
    local axis = below(math.max(1, x.ndim))
    return pick { function() return x:softmax(axis) end, function() return x:cumsum(axis) end,
      function() return x:argmax(axis) end, function() return x:layer_norm() end,
      function() return x:clone() end, function() return x:contiguous() end }()
  end,
  function(x, _, _, other)
    local y = other()
    return x:matmul(y)
  end,
  function(x, below, _, other) return ridge.concat({ x, other() }, below(math.max(1, x.ndim))) end,
  function(x) return x:take(ridge.arange(0, 2, { dtype = 'i64' }):remainder(x.shape[1])) end,
  function(x, below) return x:dropout(0.25), below end,
  function(_, _, pick) return ridge[pick { 'rand', 'randn' }](unpack(pick(SHAPES))) end,
  function(_, _, pick) return ridge[pick { 'zeros', 'ones' }](unpack(pick(SHAPES))) end,
}

local function write(x, below, pick, other)
  local kind = below(6)
  if kind == 1 then x:copy_(other())
  elseif kind == 2 then x[pick { 'add_', 'sub_', 'mul_' }](x, other())
  elseif kind == 3 then x[pick { 'neg_', 'relu_', 'exp_', 'tanh_' }](x)
  elseif kind == 4 then x:fill_(pick(NUMBERS))
  elseif kind == 5 then view(x, below, pick):add_(pick(NUMBERS))
  else x:normal_() end
end

-- -- Modules, and what a function does with them -------------------------------------------------

-- Modules of six features.
local function modules()
  return {
    nn.Linear(6, 6, { seed = 1 }),
    nn.Sequential(nn.Linear(6, 8, { seed = 2 }), nn.GELU(), nn.LayerNorm(8),
      nn.Linear(8, 6, { seed = 3 })),
    nn.Sequential(nn.BatchNorm(6), nn.ReLU()),
    nn.Sequential(nn.BatchNorm(6), nn.Linear(6, 6, { seed = 4 })):eval(),
    nn.Sequential(nn.GroupNorm(2, 6), nn.SiLU()),
    nn.RMSNorm(6),
    nn.MultiHeadAttention(6, { heads = 2, seed = 5 }),
    nn.LSTM(6, 6, { seed = 6 }),
    nn.GRU(6, 6, { seed = 7 }),
    nn.Sequential(nn.Dropout(0.25), nn.Tanh(), nn.Linear(6, 6, { seed = 8, dropout = 0.2 })),
  }
end

local SEQUENCES = { [7] = true, [8] = true, [9] = true }
local KINDS = { 'SGD', 'Adam', 'AdamW', 'Lion' }

-- x as rows, or sequences, of six features.
local function features(x, kind)
  local last = x.shape[x.ndim]
  if last ~= 6 then x = ridge.ones(4, 6) * x:sum() end
  if x.dtype ~= 'f32' then x = x:to 'f32' end
  return x:reshape(SEQUENCES[kind] and { -1, 2, 6 } or { -1, 6 })
end

local function through(world, x, below)
  local kind = below(#world.modules)
  local net = world.modules[kind]
  x = features(x, kind)
  if world.recompute and below(3) > 1 then
    local draws = below(2) == 1
    return (ridge.recompute(function(v) return draws and net(v):dropout(0.25) or net(v) end, x))
  end
  return (net(x))
end

local COMPUTE = { 'bf16', 'f16' }

-- One step: a new tensor, or nil.
local function step(world, pool, below, pick, keep)
  local x = pick(pool)
  local function other() return pick(pool) end
  if world.sites and below(2) == 1 then
    return sites.step(world, x, below, pick, other, keep, M.moved)
  end
  local kind = below(10)
  if kind <= 2 then return through(world, x, below) end
  if kind == 3 then
    return ridge.autocast(pick(COMPUTE), function() return through(world, x, below) * 1 end)
  end
  if kind == 4 then
    return ridge.scope(function() return pick(MAKE)(pick(MAKE)(x, below, pick, other) or x, below,
      pick, other) end)
  end
  return pick(MAKE)(x, below, pick, other)
end

-- A backward pass from what was made, and perhaps the optimizer's step.
local function train(world, made, below)
  local loss
  for _, x in ipairs(made) do
    if x.requires_grad and x.count > 0 then
      local part = x:to('f32'):tanh():mean()
      loss = loss and loss + part or part
    end
  end
  if not loss then return end
  if not world.accumulates then world.optimizer:zero_grad() end
  loss:backward()
  if below(3) > 1 then world.optimizer:step() end
end

-- -- Worlds --------------------------------------------------------------------------------------

--- What a function works on: tensors, of which some look into one storage, modules, an optimizer.
---@param seed number
---@param opts table|nil {sites = true: half of its steps are pieces that passes look for, noise =
---  function of a new tensor that gives one in its place}
---@return table world
function M.world(seed, opts)
  local below, pick = chooser(seed)
  local world = { seed = seed, tensors = {}, modules = modules(), trains = below(3) == 1 }
  world.sites = opts and opts.sites and sites.modules()
  world.noise = opts and opts.noise
  local list = world.tensors
  for i = 1, 1 + below(3) do
    list[i] = ridge.zeros(unpack(pick(SHAPES))):to(pick(FLOATS))
  end
  for i = 1, #list do
    if below(3) == 1 and list[i].ndim == 2 then list[#list + 1] = list[i]:t() end
  end
  world.recompute = world.trains and below(2) == 1
  world.parameters = {}
  for _, module in ipairs(world.modules) do
    for _, p in ipairs(module:parameters()) do table.insert(world.parameters, p) end
  end
  for _, module in ipairs(world.sites and sites.list(world.sites) or {}) do
    for _, p in ipairs(module:parameters()) do table.insert(world.parameters, p) end
  end
  world.accumulates = world.trains and below(2) == 1
  if world.accumulates then -- gradients that are there are added to, at each replay too
    local loss = 0
    for _, p in ipairs(world.parameters) do loss = loss + p.tensor:mean() end
    loss:backward()
  end
  world.optimizer = optim[pick(KINDS)](world.parameters, { lr = 0.01 })
  return world
end

local SPECIAL = { 0 / 0, 1 / 0, -1 / 0, -0.0, 0, 1e-40, -1e-310 }

--- Other numbers in its tensors; in round 2 some that arithmetic is not expected to meet.
---@param world table
---@param round number
function M.refill(world, round)
  for i, x in ipairs(world.tensors) do
    local values = ridge.randn(unpack(x.shape))
    if round == 2 and x.ndim > 0 then
      local flat = values:reshape(-1)
      for k = 1, flat.shape[1], 3 do flat[k] = SPECIAL[(k + i) % #SPECIAL + 1] end
    end
    x:copy_(values)
  end
end

--- Everything that is there behind a run: tensors, parameters, gradients, buffers.
---@param world table
---@return table list for bits.all
function M.held(world)
  local list = { unpack(world.tensors) }
  for _, p in ipairs(world.parameters) do
    list[#list + 1] = p.tensor
    list[#list + 1] = p.tensor.grad
  end
  for _, module in ipairs(world.modules) do
    list[#list + 1] = module:state()
  end
  return list
end

--- A function of a world, drawn by the world's number. What a step cannot do is left out.
---@param world table
---@return function f returns a table of tensors
function M.of(world)
  local function f()
    noise = world.noise
    local below, pick = chooser(world.seed + 1000003)
    local pool, made = {}, {}
    for i, x in ipairs(world.tensors) do
      pool[i] = world.trains and x:detach() or x -- no run is part of the next one's tape
    end
    local function other() return pick(pool) end
    local function keep(y)
      if y.count > 4096 then return end
      y = world.noise and world.noise(y, pool) or y
      pool[#pool + 1] = y
      made[#made + 1] = y
    end
    for _ = 1, 2 + below(18) do
      if below(5) == 1 then
        pcall(write, pick(pool), below, pick, other)
      else
        local ok, y = pcall(step, world, pool, below, pick, keep)
        if ok and y then keep(y) end
      end
    end
    if world.trains then pcall(train, world, made, below) end
    local out = {}
    for i = 1, below(3) do out[i] = #made > 0 and pick(made) or nil end
    out.last = made[#made] or (pick(pool) + 1)
    return out
  end
  if world.trains then return f end
  return function() return ridge.no_grad(f) end
end

--- Four rounds of a function, with other contents each: what it gave, and what was there after it.
---@param seed number of the function and its world
---@param way string[]|string|nil exact passes to replay a plan behind, recorded in round 0;
---  'captured': by ridge.capture; nil: eager
---@return table rounds {results' bits (none in round 0), the world's bits}, from 0
---@return table|nil graph the plan's, as recorded
function M.rounds(seed, way)
  ridge.seed(seed)
  local world = M.world(seed)
  local f, plan = M.of(world), nil
  local out = {}
  for round = 0, 3 do
    ridge.seed(100 + round)
    M.refill(world, round)
    ridge.seed(200 + round)
    local results
    if not way then
      results = f()
    elseif round == 0 and way == 'captured' then
      plan = ridge.capture(f)
    elseif round == 0 then
      plan = ridge.graph(f):check():optimize(way):check():plan()
    else
      results = plan:run()
    end
    out[round] = { round > 0 and bits.all(results) or {}, bits.all(M.held(world)) }
  end
  return out, plan and plan.graph
end

return M

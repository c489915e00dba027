-- SPDX-License-Identifier: MIT
-- Graphs of random functions: recorded, checked, emitted and replayed three times with other
-- contents, they have the bits of the eager run. RIDGE_RANDOM_GRAPHS says how many (200), and
-- RIDGE_RANDOM_FIRST which is the first: one that failed runs again by its number.
local ridge = require 'ridge'
local bits = require 'tests.lua.bits'

local MANY = tonumber(os.getenv 'RIDGE_RANDOM_GRAPHS' or 200)
local FIRST = tonumber(os.getenv 'RIDGE_RANDOM_FIRST' or 1)

-- -- Choices, the same ones for the same number --------------------------------------------------

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
  'softplus' }
local BINARY = { 'add', 'sub', 'mul', 'div', 'pow', 'maximum', 'minimum', 'eq', 'ne', 'lt', 'le',
  'gt', 'ge' }
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

local MAKE = {
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
  function(x, below) return x:take(ridge.arange(3, { dtype = 'i64' }) % x.shape[1]), below end,
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

-- -- Functions -----------------------------------------------------------------------------------

-- Tensors that are there before: some look into one storage.
local function givens(seed)
  local below, pick = chooser(seed)
  local list = {}
  for i = 1, 1 + below(3) do
    list[i] = ridge.zeros(unpack(pick(SHAPES))):to(pick(FLOATS))
  end
  for i = 1, #list do
    if below(3) == 1 and list[i].ndim == 2 then list[#list + 1] = list[i]:t() end
  end
  return list
end

local SPECIAL = { 0 / 0, 1 / 0, -1 / 0, -0.0, 0 }

local function refill(list, round)
  for i, x in ipairs(list) do
    local values = ridge.randn(unpack(x.shape))
    if round == 2 and x.ndim > 0 then
      local flat = values:reshape(-1)
      for k = 1, flat.shape[1], 3 do flat[k] = SPECIAL[(k + i) % #SPECIAL + 1] end
    end
    x:copy_(values)
  end
end

-- A function of the tensors that are there, the same steps for the same number. What a step cannot
-- do with them is left out.
local function random_function(seed, tensors)
  return function()
    local below, pick = chooser(seed + 1000003)
    local pool, made = {}, {}
    for i, x in ipairs(tensors) do pool[i] = x end
    local function other() return pick(pool) end
    for _ = 1, 2 + below(18) do
      local x = pick(pool)
      if below(5) == 1 then
        pcall(write, x, below, pick, other)
      else
        local ok, y = pcall(pick(MAKE), x, below, pick, other)
        if ok and y and y.count <= 4096 then
          pool[#pool + 1] = y
          made[#made + 1] = y
        end
      end
    end
    local out = {}
    for i = 1, below(3) do out[i] = #made > 0 and pick(made) or nil end
    out.last = made[#made] or (pick(pool) + 1)
    return out
  end
end

local function same(seed)
  ridge.seed(seed)
  local eager_given, given = givens(seed), givens(seed)
  local eager, f = random_function(seed, eager_given), random_function(seed, given)
  local plan
  for round = 0, 3 do
    ridge.seed(100 + round)
    refill(eager_given, round)
    ridge.seed(100 + round)
    refill(given, round)
    ridge.seed(200 + round)
    local want = bits.all(eager())
    ridge.seed(200 + round)
    if round == 0 then
      plan = ridge.graph(f):check():plan()
    else
      local what = ('graph %d, round %d\n%s'):format(seed, round, tostring(plan.graph))
      assert.same(want, bits.all(plan:run()), what)
    end
    assert.same(bits.all(eager_given), bits.all(given), ('graph %d: what was there, round %d\n%s')
      :format(seed, round, tostring(plan.graph)))
  end
end

describe('graphs of random functions', function()
  it('have the bits of the eager run', function()
    for seed = FIRST, FIRST + MANY - 1 do same(seed) end
  end)
end)

-- SPDX-License-Identifier: MIT
-- Run by device_spec and compiled_spec with RIDGE_GPU naming the simulated GPU: plans join
-- elementwise functions into chains, and a chain gives the very bits that one step after the other
-- gives.
--
--   ridge tests/lua/fused_child.lua [SEED] [PROGRAMS]    of functions, by chance; 1 and 60
local ridge = require 'ridge'

local failed = 0

local function check(what, ok, why)
  if not ok then
    failed = failed + 1
    print('not ok ' .. what .. ': ' .. tostring(why))
  end
end

local function steps_of(plan) return table.concat(plan:facts().steps, ' ') end

local function same_list(a, b)
  if type(a) ~= 'table' then return a == b or (a ~= a and b ~= b) end
  for i = 1, #a do
    if not same_list(a[i], b[i]) then return false end
  end
  return #a == #b
end

local function same_bits(a, b) return same_list(a:tolist(), b:tolist()) end

-- -- What is joined ----------------------------------------------------------------------

local DEVICE = { device = 'sim:0' }
local function normal(shape, dtype)
  return ridge.randn(shape, DEVICE):to(dtype or 'f32')
end

local x, bias = normal { 6, 37 }, normal { 37 }
local plan = ridge.capture(function() return ((x + bias):gelu() * 0.5 - x):tanh() end)
check('five functions', steps_of(plan) == 'fused', steps_of(plan))
plan = ridge.capture(function() return (x + 1):sum() + (bias * 2):exp() end)
check('a sum between', steps_of(plan) == 'add sum fused', steps_of(plan))
plan = ridge.capture(function() return x:t() + 1, x:reshape { 37, 6 } * 2 end)
check('what is transposed stays', steps_of(plan) == 'add mul', steps_of(plan))
plan = ridge.capture(function() return x:gt(0):to 'f32' + 1 end)
check('comparisons stay', steps_of(plan) == 'gt cast add', steps_of(plan))

-- what overlaps in another arrangement is not joined: a thread would read what another one wrote
local long = normal { 64 }
local wanted = long:clone()
local function shift(y)
  local z = y[{ { 1, 63 } }] * 2
  y[{ { 2, 64 } }]:copy_(z)
end
for _ = 1, 3 do shift(wanted) end
plan = ridge.capture(shift, long)
plan:run(2)
check('shifted by one', same_bits(long, wanted), steps_of(plan))
check('shifted by one, step by step', steps_of(plan) == 'mul copy', steps_of(plan))

-- a chain has room for so many tensors, and ends there
local left, right = {}, {}
for i = 1, 20 do left[i], right[i] = normal { 5 }, normal { 5 } end
plan = ridge.capture(function()
  for i = 1, 19 do (left[i] * right[i]):release() end
  return left[20] * right[20] + 1
end)
plan:run(1)
check('more tensors than a chain has room for',
  same_bits(plan.results[1], left[20] * right[20] + 1), steps_of(plan))

-- -- Whatever is captured ------------------------------------------------------------------

local ONE = { 'tanh', 'gelu', 'relu', 'sigmoid', 'square', 'abs', 'exp', 'silu', 'neg', 'relu6' }
local TWO = { 'add', 'sub', 'mul', 'maximum', 'minimum' }
local TYPES = { 'f32', 'bf16', 'f16' }
local SHAPES = { { 3, 5, 8 }, { 4, 16 }, { 1, 7 }, { 33 } }

local state = tonumber(arg and arg[1]) or 1
local function pick(list)
  state = (state * 48271) % 2147483647
  return type(list) == 'number' and state % list + 1 or list[state % #list + 1]
end

-- A shape that broadcasts to another one.
local function part(shape)
  local kind = pick(4)
  if kind == 1 then return shape end
  if kind == 2 then return { shape[#shape] } end
  if kind == 3 then
    local rows = {}
    for i = 1, #shape do rows[i] = i == 1 and shape[1] or 1 end
    return rows
  end
  return { 1 }
end

-- A program of functions that can be run again and again on the same tensors; of some, all that
-- they make is held, and so stored.
local held
local function program(shape, dtype)
  local given, list = { normal(shape, dtype), normal(shape, dtype) }, {}
  for i = 1, 3 + pick(12) do
    local kind = pick(6)
    if kind <= 2 then
      local name, from = pick(ONE), pick(2)
      list[i] = function(v) return v[math.max(1, #v - from + 1)][name](v[#v]) end
    elseif kind == 3 then
      local name, other = pick(TWO), normal(part(shape), dtype)
      list[i] = function(v) return v[#v][name](v[#v], other) end
    elseif kind == 4 then
      local name, back = pick(TWO), pick(3)
      list[i] = function(v)
        local before = v[math.max(1, #v - back)]
        return before[name](before, v[#v])
      end
    elseif kind == 5 then
      local number = pick(7) / 4
      list[i] = function(v) return number - v[#v] * number end
    else
      list[i] = function(v) return v[#v]:mul(0.25):add_(v[1]) end
    end
  end
  local holds = pick(2) == 1
  return function()
    local v = { given[1], given[2] }
    held = holds and v or nil
    for i = 1, #list do v[#v + 1] = list[i](v) end
    local middle = v[math.ceil(#v / 2)]
    return v[#v], middle
  end
end

local chains = 0
local PROGRAMS = tonumber(arg and arg[2]) or 60
for round = 1, PROGRAMS do
  local f = program(pick(SHAPES), pick(TYPES))
  local last, middle = f()
  plan = ridge.capture(f)
  for _, result in ipairs(plan.results) do result:fill_(-7) end -- what was captured is there
  plan:run(2)
  chains = chains + select(2, steps_of(plan):gsub('fused', ''))
  check('program ' .. round,
    same_bits(plan.results[1], last) and same_bits(plan.results[2], middle), steps_of(plan))
end
check('there were chains', chains > PROGRAMS / 2 and (held == nil or #held > 2), chains)

-- very many elements: two packs a thread (on the simulator's few multiprocessors), whole ones and
-- the rest of one at the end
for _, n in ipairs { 131072, 131072 + 2048 + 3, 140000 } do
  for _, dtype in ipairs { 'bf16', 'f32' } do
    local many, row = normal({ n }, dtype), normal({ n }, dtype)
    local function f() -- in place: what is stored does not depend on when garbage is collected
      return (many * row):add_(many):mul_(0.5)
    end
    local wanted_many = f()
    plan = ridge.capture(f)
    plan.results[1]:fill_(-7) -- what was captured is there already
    plan:run(1)
    check(n .. ' elements of ' .. dtype, steps_of(plan) == 'fused'
      and same_bits(plan.results[1], wanted_many), steps_of(plan))
  end
end

-- gradients of activations are links too
local layer = ridge.nn.Linear(8, 8, { seed = 3 })
layer:to 'sim:0'
local z = normal { 5, 8 }
local optimizer = ridge.optim.SGD(layer, { lr = 0.1 }) -- what is trained wants gradients
local function loss() return (layer(z):gelu() * 2):silu():sum() end
loss():backward()
local eager = layer.weight.grad:clone()
optimizer:zero_grad()
plan = ridge.capture(function()
  optimizer:zero_grad()
  loss():backward()
end)
plan:run(1)
check('gradients', layer.weight.grad:to('cpu'):allclose(eager:to 'cpu', 1e-6, 1e-6))

if failed == 0 then print 'done' end

-- SPDX-License-Identifier: MIT
-- Elementwise functions, copies, reductions and rows, by every way they have: a part of agree.lua.

local ridge = require 'ridge'
local nn = ridge.nn

local h = ... -- agree.lua's helpers
local tiny, modes, try = h.opt.tiny, h.modes, h.try
local one, report, watched = h.one, h.report, h.watched

local UNARY = { 'neg', 'abs', 'sign', 'square', 'relu', 'floor', 'ceil', 'round', 'sqrt', 'rsqrt',
  'reciprocal', 'exp', 'log', 'log1p', 'sin', 'cos', 'tanh', 'erf', 'sigmoid', 'gelu', 'silu',
  'softplus',
  'trunc', 'exp2', 'expm1', 'log2', 'tan', 'atan', 'sinh', 'cosh', 'asinh', 'selu', 'mish',
  'softsign', 'hardsigmoid', 'hardswish', 'relu6' }
local BINARY = { 'add', 'sub', 'mul', 'div', 'pow', 'maximum', 'minimum', 'eq', 'ne', 'lt', 'le',
  'gt', 'ge', 'atan2', 'prelu', 'elu', 'celu', 'threshold' }

local function leaf(x) return x:clone():requires_grad_() end

-- Two views of one tensor [rows x n + 3]: the first n columns of it made whole, which are moved in
-- packs, and n - 3 from the second on, which are not.
local function views(n)
  return { packs = function(x) return x:narrow(2, 1, n):contiguous() end,
    elements = function(x) return x:narrow(2, 2, n - 3) end }
end

local n = tiny and 64 or 4096
local rows = tiny and 3 or 37
local positive = ridge.randn(rows, n + 3):abs() + 0.5
local other = ridge.randn(rows, n + 3):abs() + 0.5
for _, dtype in ipairs { 'f32', 'f16', 'bf16' } do
  for path, view in pairs(views(n)) do
    for _, op in ipairs(UNARY) do
      try { name = op, dtype = dtype, units = 8, op = op, path = path, inputs = { positive },
        f = function(x)
          local v = view(x)
          return v[op](v)
        end }
    end
    for _, op in ipairs(BINARY) do
      try { name = op, dtype = dtype, units = 8, op = op, path = path, inputs = { positive, other },
        f = function(x, y)
          local v = view(x)
          return v[op](v, view(y))
        end }
    end
    try { name = 'act_back', dtype = dtype, units = 8, op = 'act_back', path = path,
      inputs = { positive, other }, f = function(x, dy)
        x = leaf(x)
        view(x):gelu():backward(view(dy))
        return x.grad
      end }
    local to = dtype == 'f16' and 'bf16' or 'f16'
    try { name = 'cast', dtype = dtype, units = 0, op = 'cast', path = path, inputs = { positive },
      f = function(x) return view(x):to(to) end,
      wanted = view(positive:to(dtype)):to(to):to 'f64' }
    try { name = 'dropout', dtype = dtype, units = 4, op = 'dropout', path = path,
      inputs = { positive }, f = function(x)
        ridge.seed(5)
        return nn.Dropout(0.4):train()(view(x))
      end }
    -- where the backward pass is made whole there are only packs
    try { name = 'dropout_back', dtype = dtype, units = 4, op = 'dropout_back', path = 'packs',
      inputs = { positive, other }, f = function(x, dy)
        ridge.seed(5)
        x = leaf(view(x))
        nn.Dropout(0.4):train()(x):backward(view(dy))
        return x.grad
      end }
    local index = ridge.randint(0, rows, rows + 4)
    try { name = 'take', dtype = dtype, units = 0, op = 'take', path = path,
      inputs = { positive, index }, f = function(x, i) return view(x):take(i) end }
    try { name = 'take_back', dtype = dtype, units = 8, op = 'take_back', path = path,
      inputs = { positive, ridge.randn(rows + 4, n + 3), index }, f = function(x, dy, i)
        x = leaf(view(x))
        x:take(i):backward(view(dy))
        return x.grad
      end }
  end
  try { name = 'copy', dtype = dtype, units = 0, op = 'copy', path = 'packs', inputs = { positive },
    f = function(x) return x:clone() end }
  try { name = 'copy', dtype = dtype, units = 0, op = 'copy', path = 'elements',
    inputs = { positive }, f = function(x) return x:narrow(2, 2, n - 3):contiguous() end }
  local side = tiny and 40 or 333
  try { name = 'copy', dtype = dtype, units = 0, op = 'copy', path = 'transpose',
    inputs = { ridge.randn(side, side + 7) }, f = function(x) return x:t():contiguous() end }

  -- reductions: along memory and across it, in packs and one by one
  for _, w in ipairs { { 'rows, packs', n, 2 }, { 'columns, packs', n, 1 }, { 'rows', 5, 2 },
    { 'columns', n - 3, 1 } } do
    local path, columns, axis = unpack(w)
    local x = ridge.randn(rows, columns)
    for _, op in ipairs { 'sum', 'mean', 'max', 'min', 'norm' } do
      try { name = op, dtype = dtype, units = 16, op = op, path = path, inputs = { x },
        f = function(y) return op == 'norm' and y:norm(2, axis) or y[op](y, axis) end }
    end
    try { name = 'prod', dtype = dtype, units = 16 * rows, op = 'prod', path = path,
      inputs = { ridge.ones(rows, columns) + 0.01 * x * (1 / columns) },
      f = function(y) return y:prod(axis) end }
  end
  for _, axis in ipairs { 1, 2 } do
    try { name = 'norm of powers of 3', dtype = dtype, units = 16, op = 'norm',
      inputs = { positive }, path = axis == 2 and 'rows' or 'columns',
      f = function(y) return y:norm(3, axis) end }
  end

  -- rows that are kept in registers, in shared memory, and read again
  for _, w in ipairs { { 'registers', 64 }, { 'registers', tiny and 1024 or 4096 },
    { 'shared memory', 10240 }, { 'again', 61 }, { 'again', tiny and 1001 or 20001 } } do
    local path, columns = unpack(w)
    local x, dy = ridge.randn(tiny and 2 or 33, columns), ridge.randn(tiny and 2 or 33, columns)
    local at = ' of ' .. columns
    try { name = 'softmax' .. at, dtype = dtype, units = 16, op = 'softmax', path = path,
      inputs = { x }, f = function(y) return y:softmax() end }
    try { name = 'softmax_back' .. at, dtype = dtype, units = 64, op = 'softmax_back', path = path,
      inputs = { x, dy }, f = function(y, d)
        y = leaf(y)
        y:softmax():backward(d)
        return y.grad
      end }
    local function norm(y)
      local layer = nn.LayerNorm(columns):to(y.dtype)
      return (y.device == 'cpu' and layer or layer:to(y.device))
    end
    try { name = 'layer_norm' .. at, dtype = dtype, units = 16, op = 'layer_norm', path = path,
      inputs = { x }, f = function(y) return norm(y)(y) end }
    try { name = 'layer_norm_back' .. at, dtype = dtype, units = 64, op = 'layer_norm_back',
      path = path, inputs = { x, dy }, f = function(y, d)
        y = leaf(y)
        norm(y)(y):backward(d)
        return y.grad
      end }
  end
end

-- Neighbours in a plan become one kernel, which is compiled or told its links.
local compiles = ridge.device.libraries('auto', true).nvrtc ~= nil
local function fused_now(name, dtype, f)
  local x, y = ridge.randn(rows, n, { device = 'auto' }):to(dtype)
  local wanted
  for vendor = 1, 0, -1 do
    modes.vendor = vendor
    local plan = ridge.capture(function() y = f(x) end)
    wanted = wanted or y:to 'cpu'
    for run = 1, 2 do -- step by step, and as a graph
      y:fill_(0 / 0)
      plan:run(1)
      local facts = plan:facts()
      local steps = table.concat(facts.steps, ' ')
      local far = (y:to 'cpu':to 'f64' - wanted:to 'f64'):abs():max():item()
      report(steps == 'fused' and facts.device_graph == (run == 2) and y:to 'cpu':equal(wanted),
        ('a plan of %s %s is one kernel, %s, with the same bits, run %d'):format(name, dtype,
          vendor == 1 and compiles and 'compiled' or 'told its links', run),
        ('%s, %s, %g apart'):format(steps, facts.why, far))
    end
  end
  modes.vendor = 1
end
local function fused(name, dtype, f)
  one(('a plan of %s %s'):format(name, dtype), function() fused_now(name, dtype, f) end)
end
for _, dtype in ipairs { 'f32', 'f16', 'bf16' } do
  fused('functions', dtype, function(x) return ((x * 2 + 1):tanh() * x):exp() end)
  for _, name in ipairs(UNARY) do
    fused('abs and ' .. name, dtype, function(x) return x:abs()[name](x:abs()) end)
  end
  for i = 1, 7 do -- comparisons are no links
    local name, row = BINARY[i], ridge.rand(n, { device = 'auto' }):to(dtype)
    fused('abs and ' .. name, dtype, function(x) return x:abs()[name](x:abs(), row) end)
  end
end

-- Singular values, by one block and by more.
for _, size in ipairs { tiny and 6 or 30, tiny and 70 or 150 } do
  local x, name = ridge.randn(size, size + 9), ('svd %d'):format(size)
  one(name, function()
    local got = watched(function()
      local _, s = x:to('auto'):svd()
      return s
    end, 'svd')
    local _, s = x:to('f64'):svd()
    local far = (got:to 'cpu':to 'f64' - s):abs():max():item() / s:max():item()
    report(far <= size * 2 ^ -22, name, far)
  end)
end

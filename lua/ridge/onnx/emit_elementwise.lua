-- SPDX-License-Identifier: MIT
--- Elementwise records as operators of ONNX, reductions, conversions.

local dtype = require 'ridge.tensor.dtype'
local emit = require 'ridge.onnx.emit'

local M = {}

local records = emit.records

-- -- One input ----------------------------------------------------------------------------------

local ONE = { neg = 'Neg', abs = 'Abs', sign = 'Sign', relu = 'Relu', floor = 'Floor',
  ceil = 'Ceil', round = 'Round', sqrt = 'Sqrt', reciprocal = 'Reciprocal', exp = 'Exp',
  log = 'Log', sin = 'Sin', cos = 'Cos', tanh = 'Tanh', erf = 'Erf', sigmoid = 'Sigmoid',
  softplus = 'Softplus', tan = 'Tan', asin = 'Asin', acos = 'Acos', atan = 'Atan', sinh = 'Sinh',
  cosh = 'Cosh', asinh = 'Asinh', acosh = 'Acosh', atanh = 'Atanh', selu = 'Selu',
  softsign = 'Softsign', bitwise_not = 'BitwiseNot' }

-- Functions that are made of several: f(e, x, element type).
local MADE = {}

function MADE.square(e, x) return e:node('Mul', { x, x }) end

function MADE.rsqrt(e, x) return e:node('Reciprocal', { e:node('Sqrt', { x }) }) end

function MADE.log1p(e, x, kind)
  return e:node('Log', { e:node('Add', { x, e:number(1, kind) }) })
end

function MADE.relu6(e, x, kind)
  return e:node('Clip', { x, e:number(0, kind), e:number(6, kind) })
end

function MADE.silu(e, x) return e:node('Mul', { x, e:node('Sigmoid', { x }) }) end

function MADE.trunc(e, x)
  return e:node('Mul', { e:node('Sign', { x }), e:node('Floor', { e:node('Abs', { x }) }) })
end

function MADE.exp2(e, x, kind) return e:node('Pow', { e:number(2, kind), x }) end

function MADE.expm1(e, x, kind)
  return e:node('Sub', { e:node('Exp', { x }), e:number(1, kind) })
end

function MADE.log2(e, x, kind)
  return e:node('Div', { e:node('Log', { x }), e:number(math.log(2), kind) })
end

function MADE.mish(e, x)
  if e.opset >= 18 then return e:node('Mish', { x }) end
  return e:node('Mul', { x, e:node('Tanh', { e:node('Softplus', { x }) }) })
end

function MADE.hardsigmoid(e, x)
  return e:node('HardSigmoid', { x }, { alpha = 1 / 6, beta = 0.5 })
end

function MADE.hardswish(e, x)
  if e.opset >= 14 then return e:node('HardSwish', { x }) end
  return e:node('Mul', { x, MADE.hardsigmoid(e, x) })
end

function MADE.gelu(e, x, kind)
  if e.opset >= 20 then return e:node('Gelu', { x }) end
  local inner = e:node('Erf', { e:node('Div', { x, e:number(math.sqrt(2), kind) }) })
  local part = e:node('Mul', { x, e:node('Add', { inner, e:number(1, kind) }) })
  return e:node('Mul', { part, e:number(0.5, kind) })
end

--- Write an activation: a name of schema.ACT_NAMES.
---@param e table
---@param act string|nil
---@param x string
---@param kind string element type
---@return string
function M.activation(e, act, x, kind)
  if act == nil or act == 'none' then return x end
  if MADE[act] then return MADE[act](e, x, kind) end
  return e:node(ONE[act], { x })
end

for op in pairs(ONE) do
  records[op] = function(e, node, names)
    local kind = node.outputs[1].dtype
    return e:node(ONE[op], { e:cast(names[1], node.inputs[1].dtype, kind) })
  end
end
for op, f in pairs(MADE) do
  records[op] = function(e, node, names)
    local kind = node.outputs[1].dtype
    return f(e, e:cast(names[1], node.inputs[1].dtype, kind), kind)
  end
end

for _, op in ipairs { 'floor', 'ceil', 'round', 'trunc' } do -- whole numbers are that already
  local f = records[op]
  records[op] = function(e, node, names)
    if dtype.kind[node.outputs[1].dtype] ~= 'float' then return names[1] end
    return f(e, node, names)
  end
end

function records.isnan(e, _, names) return e:node('IsNaN', { names[1] }) end
function records.isinf(e, _, names) return e:node('IsInf', { names[1] }) end
function records.isposinf(e, _, names)
  return e:node('IsInf', { names[1] }, { detect_negative = 0 })
end
function records.isneginf(e, _, names)
  return e:node('IsInf', { names[1] }, { detect_positive = 0 })
end
function records.isfinite(e, _, names)
  return e:node('Not', { e:node('Or', { e:node('IsNaN', { names[1] }),
    e:node('IsInf', { names[1] }) }) })
end
function records.logical_not(e, node, names)
  return e:node('Not', { e:cast(names[1], node.inputs[1].dtype, 'bool') })
end

-- -- Two inputs ---------------------------------------------------------------------------------

local TWO = { add = 'Add', sub = 'Sub', mul = 'Mul', div = 'Div', pow = 'Pow', maximum = 'Max',
  minimum = 'Min' }
local COMPARE = { eq = 'Equal', ne = 'Equal', lt = 'Less', le = 'LessOrEqual', gt = 'Greater',
  ge = 'GreaterOrEqual' }
local LOGIC = { logical_and = 'And', logical_or = 'Or', logical_xor = 'Xor' }

local ORDER = { bool = 1, u8 = 2, i8 = 2, i32 = 3, i64 = 4, f16 = 5, bf16 = 5, f32 = 6, f64 = 7 }

-- The type that two meet at, as ridge has it (ridge/op.h).
local function meet(a, b)
  if a == b then return a end
  if ORDER[a] == ORDER[b] then return ORDER[a] == 2 and 'i32' or 'f32' end
  return ORDER[a] > ORDER[b] and a or b
end

-- The two operands in one type, a number in its place.
local function operands(e, node, names, kind)
  local x = e:cast(names[1], node.inputs[1].dtype, kind)
  local args = node.args
  if node.inputs[2] then return x, e:cast(names[2], node.inputs[2].dtype, kind) end
  local number = e:number(args.value, kind)
  if args.reversed == 1 then return number, x end
  return x, number
end

for op, name in pairs(TWO) do
  records[op] = function(e, node, names)
    return e:node(name, { operands(e, node, names, node.outputs[1].dtype) })
  end
end

local function is_float(kind) return dtype.kind[kind] == 'float' end

function records.fmod(e, node, names)
  return e:node('Mod', { operands(e, node, names, node.outputs[1].dtype) }, { fmod = 1 })
end

-- Of floats: what is left over with the sign of what was divided, and whether the divisor has the
-- other one.
local function rest_of(e, x, y, kind)
  local rest = e:node('Mod', { x, y }, { fmod = 1 })
  local signs = e:node('Mul', { e:node('Sign', { rest }), e:node('Sign', { y }) })
  return rest, e:node('Less', { signs, e:number(0, kind) })
end

-- The sign is the divisor's; ONNX has that of whole numbers alone.
function records.remainder(e, node, names)
  local kind = node.outputs[1].dtype
  local x, y = operands(e, node, names, kind)
  if not is_float(kind) then return e:node('Mod', { x, y }) end
  local rest, turns = rest_of(e, x, y, kind)
  return e:node('Where', { turns, e:node('Add', { rest, y }), rest })
end

-- Of floats: what is left over is subtracted first, as x / y may be rounded up to a whole number
-- (0.9 / 0.1), and is infinite where x is.
local function floor_quotient(e, x, y, kind)
  local rest, turns = rest_of(e, x, y, kind)
  local whole = e:node('Round', { e:node('Div', { e:node('Sub', { x, rest }), y }) })
  local less = e:node('Sub', { whole, e:number(1, kind) })
  local none = e:node('Equal', { y, e:number(0, kind) })
  return e:node('Where', { none, e:node('Div', { x, y }),
    e:node('Where', { turns, less, whole }) })
end

function records.floor_divide(e, node, names)
  local kind = node.outputs[1].dtype
  local x, y = operands(e, node, names, kind)
  if is_float(kind) then return floor_quotient(e, x, y, kind) end
  local wide = kind == 'i8' and 'i32' or kind -- -128 less what is left over is no i8
  x, y = e:cast(x, kind, wide), e:cast(y, kind, wide)
  return e:cast(e:node('Div', { e:node('Sub', { x, e:node('Mod', { x, y }) }), y }), wide, kind)
end

-- Only unsigned numbers have an operator, which does not say what 8 places and more give: nothing.
for op, direction in pairs { bitwise_left_shift = 'LEFT', bitwise_right_shift = 'RIGHT' } do
  records[op] = function(e, node, names)
    local kind = node.outputs[1].dtype
    if kind ~= 'u8' then return nil end
    local x, y = operands(e, node, names, kind)
    return e:node('BitShift', { x, e:node('Min', { y, e:number(8, kind) }) },
      { direction = direction })
  end
end

function records.trunc_divide(e, node, names)
  local quotient = e:node('Div', { operands(e, node, names, node.outputs[1].dtype) })
  return is_float(node.outputs[1].dtype) and MADE.trunc(e, quotient) or quotient
end

-- Activations with a number: an attribute.
for op, name in pairs { elu = 'Elu', celu = 'Celu', prelu = 'LeakyRelu' } do
  records[op] = function(e, node, names)
    local kind = node.outputs[1].dtype
    local x = e:cast(names[1], node.inputs[1].dtype, kind)
    if not node.inputs[2] and node.args.reversed ~= 1 and (op ~= 'celu' or kind == 'f32') then
      return e:node(name, { x }, { alpha = node.args.value })
    end
    if op ~= 'prelu' then return nil end
    if #node.outputs[1].shape ~= #node.inputs[1].shape or not node.inputs[2] then return nil end
    local _, slope = operands(e, node, names, kind)
    return e:node('PRelu', { x, slope })
  end
end

function records.threshold(e, node, names)
  local kind = node.outputs[1].dtype
  local x, y = operands(e, node, names, kind)
  return e:node('Where', { e:node('LessOrEqual', { x, y }), e:number(0, kind), x })
end

local whole_not = records.bitwise_not
function records.bitwise_not(e, node, names) -- ~1 is -2, which is true again
  if node.inputs[1].dtype == 'bool' then return e:node('Not', { names[1] }) end
  return whole_not(e, node, names)
end

for op, name in pairs { bitwise_and = 'BitwiseAnd', bitwise_or = 'BitwiseOr',
  bitwise_xor = 'BitwiseXor' } do
  records[op] = function(e, node, names)
    local kind = node.outputs[1].dtype
    if kind == 'bool' then return e:node(name:sub(8), { operands(e, node, names, kind) }) end
    if e.opset < 18 then e:refuse(node, name .. ' needs opset = 18') end
    return e:node(name, { operands(e, node, names, kind) })
  end
end

for op, name in pairs(COMPARE) do
  records[op] = function(e, node, names)
    local kind = node.inputs[1].dtype
    if node.inputs[2] then
      kind = meet(kind, node.inputs[2].dtype)
    elseif node.args.value ~= math.floor(node.args.value) and dtype.kind[kind] ~= 'float' then
      kind = 'f32'
    end
    local z = e:node(name, { operands(e, node, names, kind) })
    return op == 'ne' and e:node('Not', { z }) or z
  end
end

for op, name in pairs(LOGIC) do
  records[op] = function(e, node, names)
    return e:node(name, { operands(e, node, names, 'bool') })
  end
end

records['where'] = function(e, node, names)
  local kind = node.outputs[1].dtype
  return e:node('Where', { e:cast(names[1], node.inputs[1].dtype, 'bool'),
    e:cast(names[2], node.inputs[2].dtype, kind), e:cast(names[3], node.inputs[3].dtype, kind) })
end

function records.cast(e, node, names)
  return e:cast(names[1], node.inputs[1].dtype, node.outputs[1].dtype)
end

-- -- Reductions ---------------------------------------------------------------------------------

local REDUCE = { sum = 'ReduceSum', mean = 'ReduceMean', prod = 'ReduceProd', max = 'ReduceMax',
  min = 'ReduceMin' }

--- Write a reduction.
---@param e table
---@param op string operator
---@param x string
---@param axes number[] from 0
---@param keep boolean
---@return string
function M.reduce(e, op, x, axes, keep)
  local keepdims = keep and 1 or 0
  if op == 'ReduceSum' or e.opset >= 18 then
    return e:node(op, { x, e:ints(axes) }, { keepdims = keepdims })
  end
  return e:node(op, { x }, { axes = axes, keepdims = keepdims })
end

local function axes_of(node)
  local axes = {}
  for i, axis in ipairs(node.args.axes) do axes[i] = axis - 1 end
  return axes
end

local function reduction(e, node, x, op)
  local axes = axes_of(node)
  if #axes == 0 then return x end -- of a number
  return M.reduce(e, op, x, axes, node.args.keep)
end

for op, name in pairs(REDUCE) do
  records[op] = function(e, node, names)
    return reduction(e, node, e:cast(names[1], node.inputs[1].dtype, node.outputs[1].dtype), name)
  end
end

function records.norm(e, node, names)
  local p = node.args.p
  local x = e:cast(names[1], node.inputs[1].dtype, node.outputs[1].dtype)
  if p == 1 then return reduction(e, node, x, 'ReduceL1') end
  if p == 2 then return reduction(e, node, x, 'ReduceL2') end
  if p == math.huge then return reduction(e, node, e:node('Abs', { x }), 'ReduceMax') end
  e:refuse(node, ('ONNX has no norm of p = %g'):format(p))
end

--- An axis as ONNX counts it.
---@param axis number from 1, or below 0
---@return number
function M.axis(axis)
  return axis > 0 and axis - 1 or axis
end

for op, name in pairs { argmax = 'ArgMax', argmin = 'ArgMin' } do
  records[op] = function(e, node, names)
    return e:node(name, { names[1] }, { axis = M.axis(node.args.axis),
      keepdims = node.args.keep and 1 or 0 })
  end
end

function records.softmax(e, node, names)
  return e:node('Softmax', { e:cast(names[1], node.inputs[1].dtype, node.outputs[1].dtype) },
    { axis = M.axis(node.args.axis) })
end

function records.cumsum(e, node, names)
  local x = e:cast(names[1], node.inputs[1].dtype, node.outputs[1].dtype)
  return e:node('CumSum', { x, e:number(M.axis(node.args.axis), 'i64') },
    { reverse = node.args.reverse and 1 or 0 })
end

return M

-- SPDX-License-Identifier: MIT
--- The element types that ONNX's operators take, in the versions that export writes, and the types
--- of what they give. After ONNX's list of its operators.

local dtype = require 'ridge.tensor.dtype'
local fields = require 'ridge.onnx.fields'

local M = {}

local NUMBER = 'u8 i8 i32 i64 f16 bf16 f32 f64'
local WIDE = 'i32 i64 f16 bf16 f32 f64'
local REAL = 'f16 bf16 f32 f64'
local IEEE = 'f16 f32 f64'
local ANY = 'bool ' .. NUMBER
local MORE = ANY .. ' f8e4m3 f8e5m2'

-- since, types of the input that is computed with, operators; a later row is what holds from its
-- version on
local LIST = {
  { 13, ANY, [[Cast Concat Equal Expand Gather GatherElements Identity Pad Reshape Resize
    ScatterElements Shape Slice Squeeze Transpose Trilu Unsqueeze]] },
  { 19, MORE, 'Cast Identity Reshape Shape' },
  { 21, MORE, 'Pad Squeeze Transpose Unsqueeze' },
  { 13, NUMBER, 'Abs ArgMax ArgMin Clip Erf Greater Less Max Min Mod ReduceMax ReduceMin Sign' },
  { 20, ANY, 'ReduceMax ReduceMin' },
  { 13, 'u8 i8 i32 i64 f16 f32 f64', 'GreaterOrEqual LessOrEqual TopK' },
  { 16, NUMBER, 'GreaterOrEqual LessOrEqual' },
  { 13, WIDE, [[Add Div Gemm MatMul Mul ReduceL1 ReduceL2 ReduceMean ReduceProd ReduceSum
    Sub]] },
  { 14, NUMBER, 'Add Div Mul Sub' },
  { 13, 'i8 i32 i64 f16 bf16 f32 f64', 'Neg' },
  { 13, REAL, [[Ceil Exp Floor Gelu IsNaN LayerNormalization Log Reciprocal Relu Sigmoid Softmax
    Sqrt Tanh]] },
  { 14, 'i8 i32 i64 f16 bf16 f32 f64', 'Relu' },
  { 13, IEEE, [[Acos Acosh Asin Asinh Atan Atanh AveragePool BatchNormalization Conv ConvTranspose
    Cos Cosh Elu GRU HardSigmoid HardSwish InstanceNormalization LSTM Mish Round Selu Sin Sinh
    Softplus Softsign Tan LeakyRelu]] },
  { 14, REAL, 'BatchNormalization' },
  { 16, REAL, 'LeakyRelu' },
  { 13, 'f32', 'Celu' },
  { 13, 'i32 i64 f16 f32 f64', 'PRelu' },
  { 16, 'i32 i64 f16 bf16 f32 f64', 'PRelu' },
  { 13, 'i32 i64 f32 f64', 'CumSum' },
  { 14, WIDE, 'CumSum' },
  { 13, 'f32 f64', 'IsInf' },
  { 20, REAL .. ' f8e4m3 f8e5m2', 'IsInf IsNaN' },
  { 13, 'u8 i8 f16 f32 f64', 'MaxPool' },
  { 13, 'u8 i8 i32 i64', 'BitwiseAnd BitwiseNot BitwiseOr BitwiseXor' },
  { 13, 'u8', 'BitShift' },
  { 13, 'bool', 'And Not Or Xor' },
  { 13, 'f32', 'QuantizeLinear' },
  { 13, 'u8 i8 i32', 'DequantizeLinear' },
  { 13, 'u8 i8', 'MatMulInteger' },
  { 13, 'bool u8 i8 i32 i64 f16 f32 f64', 'Where' },
  { 16, ANY, 'Where' },
  { 13, 'i32 i64 f16 f32 f64', 'Pow' }, -- of an exponent, too
  { 15, WIDE, 'Pow' },
  { 13, 'i64', 'ConstantOfShape' },
}

local TAKES = {}
for _, row in ipairs(LIST) do
  local set = {}
  for name in row[2]:gmatch '%S+' do set[name] = true end
  for op in row[3]:gmatch '%a+%d?' do
    TAKES[op] = TAKES[op] or {}
    table.insert(TAKES[op], { since = row[1], types = set })
  end
end

--- The type that an operator computes with: that of its first input, of Where that of its second.
---@param op string
---@param types table of the inputs
---@return string|nil
function M.of(op, types)
  return types[op == 'Where' and 2 or 1]
end

--- Does an operator compute with a type?
---@param op string
---@param name string
---@param opset number
---@return boolean
function M.takes(op, name, opset)
  local types = {}
  for _, row in ipairs(TAKES[op]) do
    if row.since <= opset then types = row.types end
  end
  return types[name] == true
end

-- A type that holds all numbers of another one, in which the operator computes the same.
local WIDER = { bool = 'i32', u8 = 'i32', i8 = 'i32', i32 = 'f64', f16 = 'f32', bf16 = 'f32' }

--- The type that an operator takes in the place of another one: itself where it takes that.
---@param op string
---@param name string
---@param opset number
---@return string|nil nil where there is none that loses nothing
function M.instead(op, name, opset)
  while name and not M.takes(op, name, opset) do name = WIDER[name] end
  return name
end

local GIVES = { Shape = 'i64', ArgMax = 'i64', ArgMin = 'i64', DequantizeLinear = 'f32',
  MatMulInteger = 'i32' }
for op in ([[And Equal Greater GreaterOrEqual IsInf IsNaN Less LessOrEqual Not Or
  Xor]]):gmatch '%a+' do
  GIVES[op] = 'bool'
end

--- The type of an output.
---@param op string
---@param types table of the inputs
---@param attributes table
---@param i number which output
---@return string|nil
function M.gives(op, types, attributes, i)
  if op == 'Cast' then
    for name, number in pairs(fields.type) do
      if number == attributes.to.value and dtype.bytes[name] then return name end
    end
  end
  if op == 'ConstantOfShape' then
    local t = attributes.value and attributes.value.value
    return not t and 'f32' or t.value and t.value.dtype or t.type
  end
  if op == 'QuantizeLinear' then return types[3] or 'u8' end -- that of the zero point
  if op == 'TopK' and i == 2 then return 'i64' end
  return GIVES[op] or M.of(op, types)
end

-- Inputs that are of one type, from and to; the last ones where there is no end.
local ALIKE = { Where = { 2, 3 }, Gemm = { 1, 3 }, Conv = { 1, 3 }, ConvTranspose = { 1, 3 },
  BatchNormalization = { 1, 1 }, LSTM = { 1, 4 }, GRU = { 1, 4 },
  InstanceNormalization = { 1, 3 }, LayerNormalization = { 1, 3 } }
for op in ([[Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Clip Concat Div Equal Greater
  GreaterOrEqual Less LessOrEqual MatMul Max Min Mod Mul Or PRelu Sub Xor]]):gmatch '%a+' do
  ALIKE[op] = { 1 }
end

--- Two types among the inputs that have to be one; nil where they are.
---@param op string
---@param types table of the inputs, nil where one is left out
---@param count number of inputs
---@return string|nil first
---@return string|nil other
function M.clash(op, types, count)
  local range = ALIKE[op]
  if not range then return nil end
  local first = types[range[1]]
  for i = range[1], math.min(range[2] or count, count) do
    if types[i] and types[i] ~= first then return first, types[i] end
  end
end

return M

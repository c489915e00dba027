-- SPDX-License-Identifier: MIT
--- The operators of ONNX that export writes: since which version they are what is written here, how
--- many inputs and outputs they take, their attributes. After ONNX's list of its operators.

local M = {}

-- name: since, least and most inputs, outputs, attributes by their types
local LIST = {
  { 'Abs', 13, 1, 1, 1 }, { 'Add', 13, 2, 2, 1 }, { 'And', 7, 2, 2, 1 },
  { 'ArgMax', 13, 1, 1, 1, { axis = 'int', keepdims = 'int', select_last_index = 'int' } },
  { 'ArgMin', 13, 1, 1, 1, { axis = 'int', keepdims = 'int', select_last_index = 'int' } },
  { 'AveragePool', 11, 1, 1, 1, { kernel_shape = 'ints', strides = 'ints', pads = 'ints',
    count_include_pad = 'int' } },
  { 'BatchNormalization', 9, 5, 5, 1, { epsilon = 'float' } },
  { 'Cast', 13, 1, 1, 1, { to = 'int', saturate = 'int' } }, { 'Ceil', 13, 1, 1, 1 },
  { 'Clip', 13, 1, 3, 1 },
  { 'Concat', 13, 1, 2 ^ 31, 1, { axis = 'int' } },
  { 'ConstantOfShape', 9, 1, 1, 1, { value = 'tensor' } },
  { 'Conv', 11, 2, 3, 1, { kernel_shape = 'ints', strides = 'ints', pads = 'ints',
    dilations = 'ints', group = 'int' } },
  { 'ConvTranspose', 11, 2, 3, 1, { kernel_shape = 'ints', strides = 'ints', pads = 'ints',
    dilations = 'ints', group = 'int', output_padding = 'ints' } },
  { 'DequantizeLinear', 13, 2, 3, 1, { axis = 'int', block_size = 'int' } },
  { 'QuantizeLinear', 13, 2, 3, 1, { axis = 'int', block_size = 'int' } },
  { 'MatMulInteger', 10, 2, 4, 1 },
  { 'Cos', 7, 1, 1, 1 }, { 'CumSum', 11, 2, 2, 1, { reverse = 'int' } }, { 'Div', 13, 2, 2, 1 },
  { 'Equal', 13, 2, 2, 1 }, { 'Erf', 13, 1, 1, 1 }, { 'Exp', 13, 1, 1, 1 },
  { 'Expand', 13, 2, 2, 1 }, { 'Floor', 13, 1, 1, 1 },
  { 'GRU', 7, 3, 6, 2, { hidden_size = 'int', direction = 'string', linear_before_reset = 'int' } },
  { 'Gather', 13, 2, 2, 1, { axis = 'int' } }, { 'GatherElements', 13, 2, 2, 1, { axis = 'int' } },
  { 'Gelu', 20, 1, 1, 1, { approximate = 'string' } },
  { 'Gemm', 13, 2, 3, 1, { transB = 'int' } },
  { 'Greater', 13, 2, 2, 1 }, { 'GreaterOrEqual', 12, 2, 2, 1 }, { 'Identity', 13, 1, 1, 1 },
  { 'InstanceNormalization', 6, 3, 3, 1, { epsilon = 'float' } },
  { 'IsInf', 10, 1, 1, 1, { detect_negative = 'int', detect_positive = 'int' } },
  { 'IsNaN', 13, 1, 1, 1 },
  { 'LSTM', 7, 3, 8, 3, { hidden_size = 'int', direction = 'string' } },
  { 'LayerNormalization', 17, 2, 3, 1, { axis = 'int', epsilon = 'float' } },
  { 'Less', 13, 2, 2, 1 }, { 'LessOrEqual', 12, 2, 2, 1 }, { 'Log', 13, 1, 1, 1 },
  { 'MatMul', 13, 2, 2, 1 }, { 'Max', 13, 1, 2 ^ 31, 1 },
  { 'MaxPool', 12, 1, 1, 1, { kernel_shape = 'ints', strides = 'ints', pads = 'ints' } },
  { 'Min', 13, 1, 2 ^ 31, 1 }, { 'Mul', 13, 2, 2, 1 }, { 'Neg', 13, 1, 1, 1 },
  { 'Not', 1, 1, 1, 1 }, { 'Or', 7, 2, 2, 1 },
  { 'Pad', 13, 2, 3, 1, { mode = 'string' } }, { 'Pow', 13, 2, 2, 1 },
  { 'Reciprocal', 13, 1, 1, 1 }, { 'Relu', 13, 1, 1, 1 }, { 'Reshape', 13, 2, 2, 1 },
  { 'Round', 11, 1, 1, 1 },
  { 'ScatterElements', 13, 3, 3, 1, { axis = 'int', reduction = 'string' } },
  { 'Shape', 13, 1, 1, 1 }, { 'Sigmoid', 13, 1, 1, 1 }, { 'Sign', 13, 1, 1, 1 },
  { 'Sin', 7, 1, 1, 1 }, { 'Slice', 13, 3, 5, 1 }, { 'Softmax', 13, 1, 1, 1, { axis = 'int' } },
  { 'Softplus', 1, 1, 1, 1 }, { 'Sqrt', 13, 1, 1, 1 }, { 'Squeeze', 13, 1, 2, 1 },
  { 'Sub', 13, 2, 2, 1 }, { 'Tanh', 13, 1, 1, 1 },
  { 'TopK', 11, 2, 2, 2, { axis = 'int', largest = 'int', sorted = 'int' } },
  { 'Transpose', 13, 1, 1, 1, { perm = 'ints' } },
  { 'Trilu', 14, 1, 2, 1, { upper = 'int' } }, { 'Unsqueeze', 13, 2, 2, 1 },
  { 'Where', 9, 3, 3, 1 }, { 'Xor', 7, 2, 2, 1 },
  -- axes are an input from 13 on in ReduceSum, from 18 on in the others
  { 'ReduceSum', 13, 1, 2, 1, { keepdims = 'int' } },
}

for name, since in pairs { Tan = 7, Asin = 7, Acos = 7, Atan = 7, Sinh = 9, Cosh = 9, Asinh = 9,
  Acosh = 9, Atanh = 9, Selu = 6, Softsign = 1, Mish = 18, HardSwish = 14, BitwiseNot = 18 } do
  LIST[#LIST + 1] = { name, since, 1, 1, 1 }
end

for name, since in pairs { PRelu = 9, BitwiseAnd = 18, BitwiseOr = 18, BitwiseXor = 18 } do
  LIST[#LIST + 1] = { name, since, 2, 2, 1 }
end
LIST[#LIST + 1] = { 'BitShift', 11, 2, 2, 1, { direction = 'string' } }

for name, since in pairs { Elu = 6, LeakyRelu = 6, Celu = 12 } do
  LIST[#LIST + 1] = { name, since, 1, 1, 1, { alpha = 'float' } }
end

LIST[#LIST + 1] = { 'Resize', 13, 1, 4, 1, { mode = 'string', nearest_mode = 'string',
  coordinate_transformation_mode = 'string', exclude_outside = 'int', cubic_coeff_a = 'float',
  antialias = 'int' } }
LIST[#LIST + 1] = { 'HardSigmoid', 6, 1, 1, 1, { alpha = 'float', beta = 'float' } }
LIST[#LIST + 1] = { 'Mod', 13, 2, 2, 1, { fmod = 'int' } }

for _, name in ipairs { 'ReduceMean', 'ReduceProd', 'ReduceMax', 'ReduceMin', 'ReduceL1',
  'ReduceL2' } do
  LIST[#LIST + 1] = { name, 13, 1, 2, 1, { axes = 'ints', keepdims = 'int' } }
end

for _, row in ipairs(LIST) do
  M[row[1]] = { since = row[2], least = row[3], most = row[4], outputs = row[5],
    attributes = row[6] or {} }
end

return M

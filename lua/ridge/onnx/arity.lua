-- SPDX-License-Identifier: MIT
--- How many inputs operators of ONNX take, in any of the versions that are read. After ONNX's list
--- of its operators.

local blame = require 'ridge.blame'

local M = {}

-- least, most, operators
local LIST = {
  { 0, 0, 'Constant RandomNormal RandomUniform' },
  { 1, math.huge, 'Concat Einsum Max Mean Min Sum' },
  { 1, 1, [[Abs Acos Acosh ArgMax ArgMin Asin Asinh Atan Atanh AveragePool Bernoulli BitwiseNot Cast
    Ceil Celu ConstantOfShape Cos Cosh DepthToSpace Det DynamicQuantizeLinear Elu Erf Exp EyeLike
    Flatten Floor Gelu GlobalAveragePool GlobalLpPool GlobalMaxPool HardSigmoid HardSwish Hardmax
    Identity If IsInf IsNaN LRN LeakyRelu Log LogSoftmax LpNormalization LpPool MaxPool
    MeanVarianceNormalization Mish Neg NonZero Not RandomNormalLike RandomUniformLike Reciprocal
    Relu Round Selu Shape Shrink Sigmoid Sign Sin Sinh Size Softmax Softplus Softsign SpaceToDepth
    Sqrt Swish Tan Tanh ThresholdedRelu Transpose Unique]] },
  { 1, 2, [[ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd
    ReduceSum ReduceSumSquare Split Squeeze TopK Trilu Unsqueeze Upsample]] },
  { 1, 3, 'Clip Dropout' },
  { 1, 4, 'Pad Resize' },
  { 1, 5, 'Slice' },
  { 2, 2, [[Add AffineGrid And BitShift BitwiseAnd BitwiseOr BitwiseXor CastLike CenterCropPad
    Compress CumSum Div Equal Expand Gather GatherElements GatherND Greater GreaterOrEqual
    GridSample Less LessOrEqual MatMul Mod Mul Or PRelu Pow RMSNormalization Reshape
    ReverseSequence Sub Tile Xor]] },
  { 2, 3, [[Conv ConvTranspose DequantizeLinear Gemm LayerNormalization MaxUnpool
    NegativeLogLikelihoodLoss QuantizeLinear SoftmaxCrossEntropyLoss TensorScatter]] },
  { 2, 4, 'ConvInteger MatMulInteger' },
  { 3, 3, [[Col2Im GroupNormalization InstanceNormalization OneHot Range Scatter ScatterElements
    ScatterND Where]] },
  { 3, 4, 'RotaryEmbedding' },
  { 3, 5, 'DeformConv' },
  { 3, 6, 'GRU RNN' },
  { 3, 7, 'Attention' },
  { 3, 8, 'LSTM' },
  { 5, 5, 'BatchNormalization' },
  { 8, 8, 'QLinearMatMul' },
  { 8, 9, 'QLinearConv' },
}

local RANGE = {}
for _, row in ipairs(LIST) do
  for op in row[3]:gmatch '%w+' do RANGE[op] = row end
end

local function count_text(n) return n == 1 and '1 input' or ('%d inputs'):format(n) end

--- Raise where a node has too few inputs or too many.
---@param what string the file
---@param n table a node of ONNX's own
function M.check(what, n)
  local range, count = RANGE[n.op], #n.inputs
  if not range then return end
  for i = 1, range[1] do
    if (n.inputs[i] or '') == '' then
      blame.raise(('%s: %s has no input %d; it takes %s%s'):format(what, n:label(), i,
        range[2] > range[1] and 'at least ' or '', count_text(range[1])), 'EFORMAT', n.op)
    end
  end
  if count > range[2] then
    blame.raise(('%s: %s has %d inputs; it takes %s%s'):format(what, n:label(), count,
      range[2] > range[1] and 'at most ' or '', count_text(range[2])), 'EFORMAT', n.op)
  end
end

return M

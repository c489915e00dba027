-- SPDX-License-Identifier: MIT
--- Files in operators from before version 7: operators that have not changed between their version
--- and 7, and since which one.  After ONNX's list of operators.

local blame = require 'ridge.blame'

local M = {}

-- The version that an operator of version 7 is of, where that is an older one.
local SINCE = {}
for version, names in pairs {
  'ArgMax ArgMin Constant Conv ConvTranspose DepthToSpace Flatten Gather GlobalAveragePool '
    .. 'GlobalMaxPool Hardmax Identity If LRN LogSoftmax Loop LpNormalization MatMul MaxPool '
    .. 'MaxRoiPool Not RandomNormal RandomNormalLike RandomUniform RandomUniformLike ReduceL1 '
    .. 'ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum '
    .. 'ReduceSumSquare Shape Size Slice Softmax Softplus Softsign SpaceToDepth Squeeze TopK '
    .. 'Transpose Unsqueeze',
  'GlobalLpPool LpPool Pad Split', '', 'Concat', 'Reshape',
  'Abs Cast Ceil Clip Elu Exp Floor HardSigmoid InstanceNormalization LeakyRelu Log Max Mean Min '
    .. 'Neg Reciprocal Relu Selu Sigmoid Sqrt Sum Tanh Tile',
} do
  for name in names:gmatch '%a%w*' do SINCE[name] = version end
end

--- The oldest version in which all operators are read.
M.ALL = 7

--- Refuse an operator that was another one, or none, in the version that its file asks for.
---@param what string for errors
---@param op string of ai.onnx
---@param version number|nil that is asked for; nil where the file does not say
function M.check(what, op, version)
  if version and version < M.ALL and not (SINCE[op] and SINCE[op] <= version) then
    blame.raise(('%s: it is of opset %d, in which %s was another operator or none; %d to 24 are '
      .. 'read'):format(what, version, op, M.ALL), 'ENOSUP', 'onnx.load')
  end
end

return M

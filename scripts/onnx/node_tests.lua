-- SPDX-License-Identifier: MIT
--- ONNX's own tests of its operators, as the wheel of onnx has them: each model is read and run,
--- called and as a plan, and its results are compared with the stored ones.
--
--     ./ridge scripts/onnx/node_tests.lua DIR [--only PATTERN] [--write results/onnx_nodes.md]
--
-- DIR is onnx/backend/test/data/node in the place where the wheel was installed. Every test is
-- counted; those that need what ridge has no type for, and those of a few kinds of operators, are
-- named apart with the reason.

local ridge = require 'ridge'
local dtype = require 'ridge.tensor.dtype'
local file = require 'ridge.onnx.file'
local load = require 'ridge.onnx.load'

local opt, rest = ridge.args {
  { 'only', '', 'tests whose names this pattern finds' },
  { 'write', '', 'the page of results' },
  { 'plans', true, 'run each as a plan, too' },
  { 'list', '', 'write the names of the tests that are counted, and run none' },
  { 'note', '', 'a sentence more on the page' },
  rest = 'DIR', most = 1,
}
local folder_of_tests = rest[1]

local RTOL, ATOL = 1e-3, 1e-5

-- -- What a test is about -----------------------------------------------------------------------

-- Classes by operators, and how many of a class the issue asks for at least.
local CLASSES = {
  { 'elementwise', 155, [[Abs Acos Acosh Add Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot
    BitwiseOr BitwiseXor Ceil Celu Clip Cos Cosh Div Elu Erf Exp Floor Gelu HardSigmoid HardSwish
    LeakyRelu Log Max Mean Min Mish Mod Mul Neg PRelu Pow Reciprocal Relu Round Selu Shrink Sigmoid
    Sign Sin Sinh Softplus Softsign Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu]] },
  { 'logic', 55, [[And Equal Greater GreaterOrEqual IsInf IsNaN Less LessOrEqual Not Or Where
    Xor]] },
  { 'reductions', 150, [[ArgMax ArgMin CumSum CumProd Hardmax LogSoftmax ReduceL1 ReduceL2
    ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare
    Softmax]] },
  { 'shape', 128, [[CenterCropPad Concat Constant ConstantOfShape DepthToSpace Expand EyeLike
    Flatten Identity Pad Range Reshape ReverseSequence Shape Size Slice SpaceToDepth Split Squeeze
    Tile Transpose Trilu Unsqueeze]] },
  { 'index', 30, [[Compress Gather GatherElements GatherND NonZero OneHot Scatter ScatterElements
    ScatterND TensorScatter TopK Unique ArrayFeatureExtractor]] },
  { 'products', 20, 'Det Einsum Gemm MatMul' },
  { 'conv and pool', 115, [[AffineGrid AveragePool Col2Im Conv ConvTranspose DeformConv
    GlobalAveragePool GlobalLpPool GlobalMaxPool GridSample LpPool MaxPool MaxUnpool Resize
    Upsample]] },
  { 'norms', 60, [[BatchNormalization GroupNormalization InstanceNormalization LRN
    Dropout LayerNormalization LpNormalization MeanVarianceNormalization RMSNormalization]] },
  { 'losses and optimizers', 50, [[Adagrad Adam Momentum NegativeLogLikelihoodLoss
    SoftmaxCrossEntropyLoss]] },
  { 'casts', 34, 'Cast CastLike' },
  { 'recurrent', 10, 'GRU LSTM RNN' },
  { 'quantized', 20, [[ConvInteger DequantizeLinear DynamicQuantizeLinear MatMulInteger QLinearConv
    QLinearMatMul QuantizeLinear]] },
  { 'attention', 50, 'Attention RotaryEmbedding' },
  { 'expanded functions', 300, '' },
}

-- Kinds of operators that are no part of this: the whole test is left out.
local APART = {
  { 'strings and text', 'RegexFullMatch StringConcat StringNormalizer StringSplit TfIdfVectorizer '
    .. 'LabelEncoder' },
  { 'control flow', 'If Loop Scan SequenceMap' },
  { 'sequences and optional values', [[OptionalGetElement OptionalHasElement SequenceEmpty
    SequenceInsert SequenceLength SplitToSequence]] },
  { 'random draws', 'Bernoulli RandomNormal RandomNormalLike RandomUniform RandomUniformLike' },
  { 'signal', [[BlackmanWindow DFT HammingWindow HannWindow MelWeightMatrix STFT]] },
  { 'detection and pictures', 'ImageDecoder NonMaxSuppression RoiAlign' },
  { 'trees', 'TreeEnsemble' },
}

local function by_word(list, index)
  local words = {}
  for i, entry in ipairs(list) do
    for word in entry[index]:gmatch '%w+' do words[word] = i end
  end
  return words
end
local CLASS_OF, APART_OF = by_word(CLASSES, 3), by_word(APART, 2)

local function class_of(name, graph)
  if name:find '_expanded' then return 'expanded functions' end
  for _, node in ipairs(graph.nodes) do
    local i = CLASS_OF[node.op]
    if i and node.op ~= 'Constant' then return CLASSES[i][1] end
  end
  return CLASS_OF[graph.nodes[1].op] and CLASSES[CLASS_OF[graph.nodes[1].op]][1] or 'others'
end

-- Why a test is left out: a type, or a kind of operator.
local function reason_of(name, model, tensors)
  for _, list in ipairs { model.graph.inputs, model.graph.outputs, tensors } do
    for _, value in ipairs(list) do
      local kind = value.type or 'none'
      if kind == 'sequence' or kind == 'optional' or kind == 'map' then
        return 'sequences and optional values'
      end
      if kind == 'string' then return 'strings and text' end
      if not dtype.bytes[kind] then return 'types that ridge has not' end
    end
  end
  local is_expanded = name:find '_expanded' ~= nil
  for _, node in ipairs(model.graph.nodes) do
    local i = APART_OF[node.op]
    if i and not (is_expanded and node.op == 'If') then return APART[i][1] end
  end
  local draws = name:find '^test_training_dropout' and not name:find 'zero_ratio'
  return draws and 'random draws' or nil
end

-- -- One test -----------------------------------------------------------------------------------

local function list_of(command)
  local lines, pipe = {}, assert(io.popen(command))
  for line in pipe:lines() do lines[#lines + 1] = line end
  pipe:close()
  return lines
end

local function exists(path)
  local f = io.open(path, 'rb')
  if f then f:close() end
  return f ~= nil
end

-- Tensors of a test: input_0.pb, input_1.pb ...  An empty file is an input that is left out.
local function tensors_of(folder, kind, values)
  local list = {}
  for i = 0, 99 do
    local path = ('%s/test_data_set_0/%s_%d.pb'):format(folder, kind, i)
    if not exists(path) then break end
    local of = values[i + 1] and values[i + 1].type
    if of == 'sequence' or of == 'optional' or of == 'map' then
      list[#list + 1] = { type = of }
    else
      list[#list + 1] = file.read_tensor(path)
    end
  end
  return list
end

-- What is wrong with a result, nil where nothing is.
local function difference(got, wanted)
  if not ridge.is_tensor(got) then return 'it is missing' end
  if got:describe() ~= wanted:describe() then
    return ('it is %s, expected %s'):format(got:describe(), wanted:describe())
  end
  local a, b = got:to('f64'):reshape(-1), wanted:to('f64'):reshape(-1)
  if a.count == 0 then return nil end
  a, b = a:tolist(), b:tolist()
  for i = 1, #a do
    local p, q = a[i], b[i]
    local same = p == q or p ~= p and q ~= q
    if not same and not (math.abs(p - q) <= ATOL + RTOL * math.abs(q)) then
      return ('element %d is %.9g, expected %.9g'):format(i, p, q)
    end
  end
end

local function compared(results, wanted)
  for i, tensor in ipairs(wanted) do
    local wrong = difference(results[i], tensor)
    if wrong then return ('output %d: %s'):format(i, wrong) end
  end
end

local unplanned = 0

-- As a plan: nothing to compute is no fault, where all is known beforehand.
local function planned(module, inputs, wanted)
  local ok, graph = pcall(ridge.graph, module, unpack(inputs))
  if not ok then
    local text = tostring(graph)
    if text:find 'computes nothing' then return nil end
    if text:find 'not known when a plan is made' then
      unplanned = unplanned + 1 -- how large a result is depends on data
      return nil
    end
    return 'as a plan: ' .. text
  end
  local results = { graph:plan()() }
  local wrong = compared(results, wanted)
  return wrong and 'as a plan: ' .. wrong
end

local function attempt(name, model, given, expected)
  local inputs, wanted = {}, {}
  for i, t in ipairs(given) do inputs[i] = file.tensor(t) end
  for i, t in ipairs(expected) do wanted[i] = file.tensor(t) end
  local module = load.of(model, name)
  local wrong = compared({ module(unpack(inputs)) }, wanted)
  if wrong or not opt.plans then return wrong end
  return planned(module, inputs, wanted)
end

-- -- All ----------------------------------------------------------------------------------------

if not folder_of_tests then
  error('where are the tests? onnx/backend/test/data/node is asked for', 0)
end

local counted = {}
local rows, apart, failed, total, outside = {}, {}, {}, 0, 0
for _, class in ipairs(CLASSES) do rows[class[1]] = { kept = 0, passed = 0 } end
rows.others = { kept = 0, passed = 0 }

for _, name in ipairs(list_of(("ls -1 '%s'"):format(folder_of_tests))) do
  local folder = folder_of_tests .. '/' .. name
  if name:find(opt.only) and exists(folder .. '/model.onnx') then
    total = total + 1
    local model, given, expected, why
    local ok, err = pcall(function()
      model = file.read(folder .. '/model.onnx')
      given = tensors_of(folder, 'input', model.graph.inputs)
      expected = tensors_of(folder, 'output', model.graph.outputs)
      local all = { unpack(given) }
      for _, t in ipairs(expected) do all[#all + 1] = t end
      why = reason_of(name, model, all)
    end)
    if ok and why then
      apart[why] = (apart[why] or 0) + 1
      outside = outside + 1
    else
      local class = ok and rows[class_of(name, model.graph)] or rows.others
      class.kept = class.kept + 1
      counted[#counted + 1] = name
      local wrong = not ok and tostring(err) or nil
      if ok and opt.list == '' then
        local ran, text = pcall(attempt, name, model, given, expected)
        wrong = not ran and tostring(text) or ran and text or nil
      end
      if wrong then
        failed[#failed + 1] = { name, (wrong:gsub('^[%w_./]+:%d+: ', ''):gsub('%s+', ' ')) }
      else
        class.passed = class.passed + 1
      end
    end
  end
end

if opt.list ~= '' then
  local f = assert(io.open(opt.list, 'w'))
  f:write(table.concat(counted, '\n'), '\n')
  f:close()
  return
end

-- -- The page -----------------------------------------------------------------------------------

local lines = {}
local function line(text, ...)
  lines[#lines + 1] = select('#', ...) > 0 and text:format(...) or text
end

local kept, passed = 0, 0
line '| class | tests | passed | asked for |'
line '|---|---|---|---|'
for _, class in ipairs(CLASSES) do
  local row = rows[class[1]]
  kept, passed = kept + row.kept, passed + row.passed
  line('| %s | %d | %d | %d |', class[1], row.kept, row.passed, class[2])
end
if rows.others.kept > 0 then
  kept, passed = kept + rows.others.kept, passed + rows.others.passed
  line('| others | %d | %d | |', rows.others.kept, rows.others.passed)
end
line('| **all** | **%d** | **%d** | 1177 |', kept, passed)
line ''
if opt.note ~= '' then
  line(opt.note .. '.')
  line ''
end
line('Of %d passed %d have no plan: how large their results are depends on data.', passed,
  unplanned)
line ''
line('Of %d tests %d are left out:', total, outside)
line ''
line '| reason | tests |'
line '|---|---|'
local reasons = {}
for why in pairs(apart) do reasons[#reasons + 1] = why end
table.sort(reasons, function(a, b) return apart[a] > apart[b] or apart[a] == apart[b] and a < b end)
for _, why in ipairs(reasons) do line('| %s | %d |', why, apart[why]) end
line ''
-- What is wrong with tests themselves, by the beginning of their names.
local FAULTS = {
  test_adam_multiple = 'its numbers are those of epsilon 0.01, and its node says nothing of it',
  test_qlinearmatmul = 'its numbers wrap around where the operator saturates: -236 is stored as 20',
}

local function fault_of(name)
  for begin, text in pairs(FAULTS) do
    if name:sub(1, #begin) == begin then return ' (' .. text .. ')' end
  end
  return ''
end

if #failed > 0 then
  line 'What is not passed, and what was said:'
  line ''
  for _, entry in ipairs(failed) do
    local text = entry[2]:gsub('|', '/')
    text = #text > 150 and text:sub(1, 150) .. ' ...' or text
    line('- `%s`: %s%s', entry[1], text, fault_of(entry[1]))
  end
end

local text = table.concat(lines, '\n') .. '\n'
io.write(text)
if opt.write ~= '' then
  local f = assert(io.open(opt.write, 'w'))
  f:write('# ONNX\'s tests of its operators\n\n',
    '`./ridge scripts/onnx/node_tests.lua`, over the tests in the wheel of onnx 1.19.0: each is\n',
    'called and run as a plan, and passes where both agree with what is stored (rtol 1e-3, atol\n',
    '1e-5, types and shapes too).\n\n',
    text)
  f:close()
end

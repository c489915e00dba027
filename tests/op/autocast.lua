-- SPDX-License-Identifier: MIT
-- autocast: the mixed-precision class of every operation, written by hand and not read from the
-- library's records.
--
-- They are those of PyTorch's lists for CUDA (torch.amp, "Autocast Op Reference"), where it has the
-- operation: products and convolutions in the lower-precision type; what loses digits or range in
-- half types (powers, logarithms, exponentials, sums over many elements, norms, softmax, losses) in
-- f32; what takes several inputs in the widest of their types; everything else as it is given. It
-- differs in `mean`, which is in f32 here as a sum is, and which PyTorch leaves in its type.
-- Gradients are in no list: they follow the type of what they are the gradients of.

local CLASSES = {
  LOWER = { 'matmul', 'linear', 'linear_dropout', 'lowrank_linear', 'sketched_linear',
    'sketched_linear_bits', 'sketched_linear_seed', 'conv2d', 'conv2d_add', 'conv2d_back_data',
    'conv2d_back_weight', 'attention', 'attention_dropout' },
  F32 = { 'rsqrt', 'reciprocal', 'exp', 'log', 'log1p', 'softplus', 'expm1', 'log2', 'tan',
    'asin', 'acos', 'sinh', 'cosh', 'pow', 'sum', 'mean', 'prod',
    'cumsum', 'cumprod', 'norm', 'softmax', 'layer_norm', 'cross_entropy' },
  WIDEST = { 'add', 'sub', 'mul', 'div', 'maximum', 'minimum', 'eq', 'ne', 'lt', 'le', 'gt', 'ge',
    'logical_and', 'logical_or', 'logical_xor', 'concat', 'remainder', 'fmod', 'floor_divide',
    'trunc_divide', 'atan2', 'prelu', 'elu', 'celu', 'threshold' },
  NONE = { 'neg', 'abs', 'sign', 'square', 'relu', 'floor', 'ceil', 'round', 'sqrt', 'sin', 'cos',
    'tanh', 'erf', 'sigmoid', 'gelu', 'silu', 'act_back', 'fill', 'arange', 'copy', 'cast', 'take',
    'take_back', 'uniform', 'normal', 'signs', 'randint', 'dropout', 'dropout_back', 'max', 'min',
    'argmax', 'argmin', 'softmax_back', 'layer_norm_back', 'attention_back',
    'attention_dropout_back', 'cross_entropy_back', 'sgd_step', 'adam_step', 'lion_step',
    'total_norm', 'all_reduce', 'scaled_linear', 'scaled_conv2d', 'expand_signs', 'sign_bits',
    'max_pool2d', 'max_pool2d_back', 'avg_pool2d', 'avg_pool2d_back',
    'svd', 'gather', 'scatter', 'sort', 'topk', 'pad', 'pad_back', 'tril', 'triu', 'resample',
    'resample_back', 'where', 'logical_not', 'isnan', 'isinf', 'isposinf', 'isneginf', 'isfinite',
    'trunc', 'exp2', 'atan', 'asinh', 'acosh', 'atanh', 'selu', 'mish', 'softsign', 'hardsigmoid',
    'hardswish', 'relu6', 'bitwise_not', 'bitwise_and', 'bitwise_or', 'bitwise_xor',
    'bitwise_left_shift', 'bitwise_right_shift', 'quantize', 'dequantize', 'quantize_rows',
    'pack_bits', 'unpack_bits', 'packed_linear', 'scaled_add', 'scaled_pool2d', 'sparse_linear',
    'n_of_m_linear' },
}

local class_of = {}
for class, names in pairs(CLASSES) do
  for _, name in ipairs(names) do
    assert(not class_of[name], name .. ' is in two classes')
    class_of[name] = class
  end
end

return class_of

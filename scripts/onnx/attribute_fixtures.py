#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes more of tests/fixtures/onnx/ops: each value of the attributes of ONNX's operators, several
nodes a file, and what ONNX Runtime makes of them, or ONNX's reference evaluator where they differ.

    python3 scripts/onnx/attribute_fixtures.py tests/fixtures/onnx/ops
"""

import os
import sys

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

import op_fixtures
from op_fixtures import CASES, case, f, i, node

CASES.clear()
op_fixtures.RNG = np.random.default_rng(20)


def by_reference(model, inputs):
    return ReferenceEvaluator(model).run(None, inputs)


def several(name, nodes, inputs, weights=None, opset=17, by=op_fixtures.evaluated):
    """A file of nodes whose results are all of its results, but those named `_`."""
    outputs = [o for n in nodes for o in n.output if o and not o.startswith('_')]
    op_fixtures.evaluated = by
    case(name, nodes, inputs, ' '.join(outputs), weights, opset)


def named(op, inputs, output, **attributes):
    """A node of inputs some of which are left out, as ''."""
    return helper.make_node(op, [s if s != '-' else '' for s in inputs.split()], output.split(),
                            **attributes)


def u8(*shape):
    return op_fixtures.RNG.integers(0, 256, shape, dtype=np.uint8)


def s8(*shape):
    return op_fixtures.RNG.integers(-128, 128, shape, dtype=np.int8)


def one(x, kind=np.float32):
    return np.array(x, dtype=kind)


# -- Of each element -------------------------------------------------------------------------------

several('activations', [
    node('PRelu', 'x s', 'a'), node('Elu', 'x', 'b', alpha=0.7), node('Selu', 'x', 'c'),
    node('Selu', 'x', 'd', alpha=1.5, gamma=0.9), node('Celu', 'x', 'e', alpha=0.6),
    node('ThresholdedRelu', 'x', 'g', alpha=0.4),
    node('HardSigmoid', 'x', 'h', alpha=0.3, beta=0.4), node('HardSwish', 'x', 'j'),
    node('Gelu', 'x', 'k'), node('Gelu', 'x', 'l', approximate='tanh'),
    node('Shrink', 'x', 'm', lambd=0.3, bias=0.1), node('Clip', 'x lo hi', 'n'),
    node('Clip', 'x lo', 'o'), named('Clip', 'x - hi', 'p'), node('LogSoftmax', 'x', 'q', axis=0),
    node('Hardmax', 'x', 'r', axis=1), node('Softsign', 'x', 's_'), node('Softplus', 'x', 't'),
    node('Mish', 'x', 'u'), node('LeakyRelu', 'x', 'v', alpha=0.2),
    node('Hardmax', 'z', 'w', axis=0),
], {'x': f(3, 4), 'z': one([[1, 5, 2], [1, 3, 2]])}, {'s': f(4), 'lo': one(-0.5), 'hi': one(0.8)},
        20)
several('activations_before_13', [
    node('Clip', 'x', 'a', min=-0.4, max=0.6), node('Clip', 'x', 'b', max=0.1),
    node('LogSoftmax', 'x', 'c', axis=1), node('Hardmax', 'x', 'd', axis=1),
], {'x': f(2, 3, 4)}, None, 10)
several('swish', [node('Swish', 'x', 'a', alpha=1.7)], {'x': f(3, 4)}, None, 24)
several(
    'elements', [
        node('Identity', 'x', 'a'), node('Mean', 'x y z', 'b'), node('Max', 'x y z', 'c'),
        node('Min', 'x y z', 'd'), node('Sum', 'x y z', 'e'), node('BitwiseAnd', 'p q', 'g'),
        node('BitwiseOr', 'p q', 'h'), node('BitwiseXor', 'p q', 'j'), node('BitwiseNot', 'p', 'k'),
        node('BitShift', 'p r', 'l', direction='LEFT'),
        node('BitShift', 'p r', 'm', direction='RIGHT'), node('Pow', 'x two', 'n'),
        node('Sign', 'x', 'o'), node('Round', 'w', 's'),
    ], {
        'x': f(2, 3), 'y': f(3), 'z': f(2, 1), 'p': u8(2, 3), 'q': u8(2, 3), 'r': np.array(
            [1, 2, 3], np.uint8), 'w': one([0.5, 1.5, -2.5, 2.4]),
    }, {'two': one([2])}, 20,
)
several(
    'logic', [
        node('And', 'a b', 'c'), node('Or', 'a b', 'd'), node('Xor', 'a b', 'e'),
        node('Not', 'a', 'g'), node('IsNaN', 'x', 'h'), node('IsInf', 'x', 'j'),
        node('IsInf', 'x', 'k', detect_negative=0), node('IsInf', 'x', 'l', detect_positive=0),
        node('GreaterOrEqual', 'x y', 'm'), node('LessOrEqual', 'x y', 'n'),
        node('Equal', 'x y', 'o'),
    ], {
        'a': np.array([True, True, False, False]), 'b': np.array([True, False, True, False]),
        'x': one([np.nan, np.inf, -np.inf, 1]), 'y': one([1, 1, 0, 1]),
    }, None, 20,
)
several('casts', [
    node('CastLike', 'x n', 'a'), node('Cast', 'x', 'b', to=onnx.TensorProto.BOOL),
    node('Cast', 'x', 'c', to=onnx.TensorProto.FLOAT),
    node('Cast', 'n', 'd', to=onnx.TensorProto.DOUBLE),
    node('Cast', 'x', 'e', to=onnx.TensorProto.INT8),
], {'x': one([-2.7, 0, 0.4, 3.9]), 'n': i(1, -2)}, None, 19)

# -- Sums and the like -----------------------------------------------------------------------------

REDUCTIONS = ('Mean', 'Prod', 'L1', 'L2', 'SumSquare', 'LogSum', 'LogSumExp', 'Max', 'Min', 'Sum')
several(
    'reductions', [node('Reduce' + r, 'x a', f'k{r}', keepdims=1) for r in REDUCTIONS] +
    [node('Reduce' + r, 'x b', f'd{r}', keepdims=0)
     for r in REDUCTIONS] + [node('Reduce' + r, 'x', f'a{r}') for r in REDUCTIONS] + [
         node('Reduce' + r, 'x none', f'n{r}', noop_with_empty_axes=1)
         for r in ('L1', 'L2', 'SumSquare', 'LogSum', 'Max')
     ] + [
         node('ReduceL2', 'n a', 'iL2'), node('ReduceSumSquare', 'n a', 'iSq'),
         node('ReduceMax', 'n b', 'iMax'),
     ], {
         'x': np.abs(f(2, 3, 4)) + one(0.1), 'n': op_fixtures.RNG.integers(-5, 6, (2, 3, 4)).astype(
             np.int32),
     }, {'a': i(1), 'b': i(0, -1), 'none': i()}, 18,
)
several('reductions_before_18', [
    node('ReduceMean', 'x', 'a', axes=[1]), node('ReduceMax', 'x', 'b', axes=[-1], keepdims=0),
    node('ReduceL1', 'x', 'c', axes=[0, 2]), node('ArgMin', 'x', 'd', axis=1),
], {'x': f(2, 3, 4)}, None, 13)
several('cumulated', [
    node('CumSum', 'x a', 'b'), node('CumSum', 'x a', 'c', exclusive=1),
    node('CumSum', 'x d', 'e', reverse=1),
], {'x': f(3, 4)}, {'a': i(0)[0], 'd': i(-1)[0]})

# -- Places ----------------------------------------------------------------------------------------

several('compressed', [
    node('Compress', 'x c', 'a', axis=1), node('Compress', 'x d', 'b'),
    node('Compress', 'x e', 'g', axis=0),
], {'x': f(3, 4)}, {
    'c': np.array([False, True, True]), 'd': np.array([True] + 4 * [False] + [True]), 'e': np.array(
        [False, False]),
})
several('scattered', [node('ScatterElements', 'x j u', 'a', axis=1)] + [
    node('ScatterElements', 'x j u', 'e' + r, axis=1, reduction=r)
    for r in ('add', 'mul', 'max', 'min')
] + [node('ScatterND', 'x k v', 'b')] +
        [node('ScatterND', 'x k v', 'n' + r, reduction=r)
         for r in ('add', 'mul', 'max', 'min')], {'x': f(3, 4), 'u': f(3, 2), 'v': f(2, 4)},
        {'j': np.array([[0, -1], [2, 1], [3, 0]], np.int64), 'k': np.array([[2], [0]], np.int64)},
        18)
several('unique', [
    node('Unique', 'x', 'a b c d'), node('Unique', 'x', 'e g h j', sorted=0),
    node('Unique', 'y', 'k l m n', axis=0),
], {}, {'x': i(2, 1, 1, 3, 4, 3), 'y': i(1, 0, 2, 3, 1, 0, 0, 9).reshape(4, 2)})
several('tensor_scatter', [
    node('TensorScatter', 'x u p', 'a'), node('TensorScatter', 'x u q', 'b', mode='circular'),
    node('TensorScatter', 'x v', 'c', axis=2),
], {'x': f(2, 5, 3), 'u': f(2, 2, 3), 'v': f(2, 5, 2)}, {'p': i(1, 3), 'q': i(4, 2)}, 24)
several('unpooled', [
    node('MaxPool', 'x', '_y _i', kernel_shape=[2, 2], strides=[2, 2]),
    node('MaxUnpool', '_y _i', 'a', kernel_shape=[2, 2], strides=[2, 2]),
], {'x': f(1, 2, 4, 4)})
several('unpooled_larger', [node('MaxUnpool', 'y j s', 'a', kernel_shape=[2, 2], strides=[2, 2])],
        {'y': one([[[[1, 2], [3, 4]]]]), 'j': np.array([[[[5, 7], [13, 15]]]], np.int64)},
        {'s': i(1, 1, 5, 5)},
        by=by_reference)
several('padded', [
    node('Pad', 'x p', 'a', mode='edge'), node('Pad', 'x p', 'b', mode='wrap'),
    node('Pad', 'x q v ax', 'c'), node('Pad', 'x z', 'd'),
], {'x': f(3, 4)},
        {'p': i(1, 2, 2, 1), 'q': i(2, 1), 'v': one(0.5), 'ax': i(-1), 'z': i(0, 0, 0, 0)}, 19)
several('padded_before_11', [
    node('Pad', 'x', 'a', pads=[0, 1, 2, 0], value=0.25),
    node('Pad', 'x', 'b', pads=[0, 3, 0, 1], mode='reflect'),
], {'x': f(2, 4)}, None, 10)
several('sliced_before_10', [
    node('Slice', 'x', 'a', starts=[1, -3], ends=[9, -1], axes=[0, 1]),
    node('Slice', 'x', 'b', starts=[1], ends=[2]),
], {'x': f(3, 5)}, None, 9)
several(
    'sliced',
    [node('Slice', 'x s e a', 'b'),
     node('Slice', 'x s e a t', 'c'),
     node('Slice', 'x s s a', 'd')], {'x': f(5, 3)}, {'s': i(1), 'e': i(5), 'a': i(0), 't': i(2)},
)
several('rearranged', [
    node('CenterCropPad', 'x s', 'a'), node('CenterCropPad', 'x t', 'b', axes=[1]),
    node('Tile', 'x r', 'c'), node('SpaceToDepth', 'm', 'd', blocksize=2),
    node('DepthToSpace', 'n', 'e', blocksize=2, mode='DCR'),
    node('ReverseSequence', 'x l', 'g', batch_axis=0, time_axis=1),
    node('ReverseSequence', 'x k', 'h', batch_axis=1, time_axis=0), node('Trilu', 'x', 'j'),
    node('Tile', 'y w', 'o'), node('Split', 'x p', 'u v', axis=1),
    node('Concat', 'x x', 'z', axis=-1),
], {'x': f(3, 4), 'm': f(1, 2, 4, 6), 'n': f(1, 8, 2, 3), 'y': f(1, 2, 1, 2, 1)}, {
    's': i(5, 3), 't': i(7), 'r': i(2, 3), 'l': i(2, 4, 1), 'k': i(1, 3, 2, 3), 'w': i(
        2, 1, 2, 1, 3), 'p': i(1, 3),
}, 18)
several('shapes', [
    node('Flatten', 'x', 'a', axis=-1), node('Flatten', 'x', 'b', axis=0),
    node('Shape', 'x', 'c', start=-2), node('Shape', 'x', 'd', start=1, end=-1),
    node('Size', 'x', 'e'), node('Transpose', 'x', 'g'), node('EyeLike', 'm', 'h', k=1),
    node('EyeLike', 'm', 'j', dtype=onnx.TensorProto.INT64, k=-1),
    node('ConstantOfShape', 's', 'k'),
    node('ConstantOfShape', 's', 'l', value=onnx.numpy_helper.from_array(i(7))),
    node('Range', 'two nine three', 'n'), node('Squeeze', 'y', 'o'), node('Squeeze', 'y ax', 'p'),
    node('Unsqueeze', 'x un', 'q'), node('Range', 'nine two back', 'r'),
    node('Reshape', 'x zero', 'u', allowzero=0), node('Transpose', 'x', 'v', perm=[1, 0, 2]),
], {'x': f(2, 3, 4), 'm': f(3, 4), 'y': f(1, 3, 1)}, {
    's': i(2, 3), 'two': i(2)[0], 'nine': i(9)[0], 'three': i(3)[0], 'back': i(-2)[0], 'ax': i(0),
    'un': i(0, -1), 'zero': i(0, -1),
}, 16)
several('constants', [
    helper.make_node('Constant', [], ['_a'], value_int=3),
    helper.make_node('Constant', [], ['_b'], value_ints=[1, 2]),
    helper.make_node('Constant', [], ['_c'], value_floats=[0.5, 1.5]),
    helper.make_node('Constant', [], ['_d'], value_float=2.5),
    node('Add', 'n _a', 'e'), node('Add', 'n _b', 'g'), node('Add', 'x _c', 'h'),
    node('Add', 'x _d', 'j'),
], {'x': f(2), 'n': i(5, 6)})

# -- Windows ---------------------------------------------------------------------------------------

several('pools', [
    node('LpPool', 'x', 'a', kernel_shape=[2, 2], p=2, strides=[2, 1]),
    node('LpPool', 'x', 'b', kernel_shape=[2, 3], p=3), node('GlobalAveragePool', 'x', 'c'),
    node('GlobalMaxPool', 'x', 'd'), node('GlobalLpPool', 'x', 'e', p=2),
    node('GlobalLpPool', 'x', 'g', p=3),
    node('AveragePool', 'x', 'h', kernel_shape=[2, 2], auto_pad='VALID', strides=[2, 2]),
    node('AveragePool', 'x', 'j', kernel_shape=[3, 2], pads=[1, 0, 2, 1]),
    node('MaxPool', 'x', 'k', kernel_shape=[2, 2], dilations=[2, 3]),
    node('MaxPool', 'x', 'l', kernel_shape=[2, 2], strides=[3, 3], ceil_mode=1, pads=[0, 0, 1, 1]),
    node('MaxPool', 'x', 'm n', kernel_shape=[3, 2], pads=[1, 1, 1, 0], strides=[2, 1]),
    node('MaxPool', 'y', 'o', kernel_shape=[3], pads=[1, 1]),
    node('AveragePool', 'z', 'p', kernel_shape=[2, 1, 2]),
    node('AveragePool',
         'x',
         'q',
         kernel_shape=[3, 3],
         auto_pad='SAME_UPPER',
         strides=[2, 2],
         count_include_pad=1,
         ),
], {'x': f(1, 2, 5, 6), 'y': f(1, 2, 7), 'z': f(1, 1, 3, 3, 4)})
several('transposed_convolutions', [
    node('ConvTranspose', 'x w', 'a', auto_pad='SAME_UPPER', strides=[2, 2]),
    node('ConvTranspose', 'x w', 'b', auto_pad='SAME_LOWER', strides=[2, 2]),
    node('ConvTranspose', 'x w', 'c', output_shape=[8, 7], strides=[2, 2]),
    node('ConvTranspose', 'x v', 'd', group=2, dilations=[2, 1]),
    node('ConvTranspose', 'y u', 'e', pads=[1, 0], strides=[3]),
], {'x': f(1, 2, 3, 3), 'y': f(2, 3, 4)}, {'w': f(2, 3, 3, 2), 'v': f(2, 2, 2, 3), 'u': f(3, 2, 3)})
several('col2im', [
    node('Col2Im', 'x s k', 'a'),
    node('Col2Im', 'y s k', 'b', strides=[2, 1], pads=[0, 1, 1, 0], dilations=[1, 2]),
], {'x': f(1, 12, 12), 'y': f(2, 6, 6)}, {'s': i(5, 5), 'k': i(2, 3)}, 18)
several('convolutions', [
    node('Conv', 'x w', 'a', auto_pad='SAME_UPPER', strides=[2, 1]),
    node('Conv', 'x w', 'b', auto_pad='VALID', dilations=[2, 1]),
    node('Conv', 'x g', 'c', group=3, pads=[1, 1, 1, 1]),
], {'x': f(2, 3, 6, 5)}, {'w': f(4, 3, 3, 2), 'g': f(6, 1, 3, 3)})
several('deformed', [
    node('DeformConv', 'x w o', 'a', pads=[1, 1, 0, 0]),
    named('DeformConv', 'x w o b m', 'c', pads=[1, 1, 0, 0]),
    node('DeformConv', 'x g p', 'd', group=2, offset_group=2, strides=[2, 1]),
], {'x': f(1, 2, 4, 4), 'o': f(1, 8, 4, 4), 'm': f(1, 4, 4, 4), 'p': f(1, 16, 2, 3)},
        {'w': f(3, 2, 2, 2), 'b': f(3), 'g': f(2, 1, 2, 2)}, 19)

# -- Other sizes -----------------------------------------------------------------------------------

SIZES = {
    'grow': i(1, 1, 8, 3), 'less': i(1, 1, 3, 2), 'up': one([1, 1, 1.7,
                                                             2.5]), 'down': one([1, 1, 0.6, 0.5]),
    'one': i(1, 1, 1, 1), 'roi': one([0, 0, 0.2, -0.3, 1, 1, 0.9, 1.2]), 'two': i(7, 6),
}


def resize(inputs, output, **attributes):
    return named('Resize', inputs, output, **attributes)


several('resizes', [
    resize('x - - grow',
           'a',
           mode='nearest',
           coordinate_transformation_mode='asymmetric',
           nearest_mode='floor',
           ),
    resize('x - up', 'b', mode='nearest', nearest_mode='ceil'),
    resize('x - up',
           'c',
           mode='nearest',
           nearest_mode='round_prefer_ceil',
           coordinate_transformation_mode='asymmetric',
           ),
    resize('x - - grow', 'd', mode='linear', coordinate_transformation_mode='align_corners'),
    resize('x - - one', 'e', mode='linear', coordinate_transformation_mode='pytorch_half_pixel'),
    resize('x - - one', 'g', mode='linear', coordinate_transformation_mode='align_corners'),
    resize('x - up', 'h', mode='linear', coordinate_transformation_mode='half_pixel_symmetric'),
    resize('x - down', 'j', mode='linear', coordinate_transformation_mode='asymmetric'),
    resize('x - - less', 'k', mode='linear', antialias=1),
    resize('x - - less', 'l', mode='cubic', antialias=1),
    resize('x - - grow', 'm', mode='cubic', coordinate_transformation_mode='align_corners'),
    resize('x - down', 'n', mode='cubic', cubic_coeff_a=-0.6, exclude_outside=1),
    resize('x - - two', 'o', mode='linear', axes=[2, 3], keep_aspect_ratio_policy='not_larger'),
    resize('x - - two', 'p', mode='nearest', axes=[2, 3], keep_aspect_ratio_policy='not_smaller'),
], {'x': f(1, 1, 5, 4)}, {k: SIZES[k]
                          for k in ('grow', 'less', 'up', 'down', 'one', 'two')}, 19)
several('cropped_resizes', [
    resize('x roi - grow',
           'a',
           mode='linear',
           coordinate_transformation_mode='tf_crop_and_resize',
           extrapolation_value=7.0,
           ),
    resize('x roi - less',
           'b',
           mode='nearest',
           coordinate_transformation_mode='tf_crop_and_resize',
           extrapolation_value=-1.0,
           ),
    resize('x roi - one', 'c', mode='linear', coordinate_transformation_mode='tf_crop_and_resize'),
], {'x': f(1, 1, 5, 4)}, {k: SIZES[k]
                          for k in ('grow', 'less', 'one', 'roi')}, 13)
several('resizes_before_11',
        [node('Resize', 'x s', 'a', mode='nearest'),
         node('Resize', 'x s', 'b', mode='linear')], {'x': f(1, 1, 3, 4)},
        {'s': one([1, 1, 2, 1.5])}, 10)
several('upsampled',
        [node('Upsample', 'x s', 'a', mode='nearest'),
         node('Upsample', 'x s', 'b', mode='linear')], {'x': f(1, 1, 3, 4)},
        {'s': one([1, 1, 2, 3])}, 9)

GRID = f(1, 3, 4, 2) * one(1.3)
several('grids', [
    node('GridSample',
         'x g',
         f'{mode}{pad}{corners}',
         mode=mode,
         padding_mode=pad,
         align_corners=corners,
         ) for mode in ('linear', 'nearest', 'cubic') for pad in ('zeros', 'border', 'reflection')
    for corners in (0, 1)
], {'x': f(1, 2, 4, 5), 'g': GRID}, None, 20, by_reference)
several('grids_of_volumes', [
    node('GridSample', 'x g', 'a'),
    node('GridSample', 'x g', 'b', mode='nearest', padding_mode='border', align_corners=1),
], {'x': f(1, 2, 3, 4, 2), 'g': f(1, 2, 3, 2, 3)}, None, 20)
several('grids_before_20', [
    node('GridSample', 'x g', 'a', mode='bicubic'),
    node('GridSample', 'x g', 'b', mode='bilinear', padding_mode='reflection'),
], {'x': f(1, 2, 4, 5), 'g': GRID}, None, 16)
several('affine_grids', [
    node('AffineGrid', 't s', 'a'), node('AffineGrid', 't s', 'b', align_corners=1),
    node('AffineGrid', 'u v', 'c'), node('AffineGrid', 'u v', 'd', align_corners=1),
], {'t': f(2, 2, 3), 'u': f(1, 3, 4)}, {'s': i(2, 1, 3, 4), 'v': i(1, 1, 2, 4, 3)}, 20)

# -- Layers ----------------------------------------------------------------------------------------

several('normalized', [
    node('InstanceNormalization', 'x w b', 'a', epsilon=0.01),
    node('LpNormalization', 'x', 'c', p=1, axis=1), node('LpNormalization', 'x', 'd', p=2, axis=-1),
    node('MeanVarianceNormalization', 'x', 'e', axes=[0, 2]),
    node('MeanVarianceNormalization', 'y', 'g'),
], {'x': f(2, 4, 3), 'y': f(2, 2, 3, 2)}, {'w': f(4), 'b': f(4)})
several('normalized_before_21', [node('GroupNormalization', 'x w b', 'a', num_groups=2)],
        {'x': f(2, 4, 3)}, {'w': f(2), 'b': f(2)}, 18)
several('group_norm', [node('GroupNormalization', 'x w b', 'a', num_groups=2, epsilon=0.02)],
        {'x': f(2, 4, 3)}, {'w': f(4), 'b': f(4)}, 21)
several('rms_norm', [
    node('RMSNormalization', 'x w', 'a', axis=-1),
    node('RMSNormalization', 'x v', 'b', axis=1, epsilon=0.01),
], {'x': f(2, 3, 4)}, {'w': f(4), 'v': f(3, 4)}, 23)
LOSSES = [('none', 'a', 'e'), ('sum', 'b', 'g'), ('mean', 'c', 'h')]
several(
    'losses', [node('NegativeLogLikelihoodLoss', 'x t', a, reduction=r) for r, a, _ in LOSSES] + [
        node('NegativeLogLikelihoodLoss', 'x t w', e, reduction=r, ignore_index=1)
        for r, _, e in LOSSES
    ] + [
        node('SoftmaxCrossEntropyLoss', 'x t', 'j k', reduction='none'),
        node('SoftmaxCrossEntropyLoss', 'x t w', 'l', reduction='sum'),
        node('SoftmaxCrossEntropyLoss', 'y u', 'm', reduction='none'),
    ], {
        'x': f(2, 3, 4), 't': np.array([[0, 2, 1, 1], [2, 2, 0, 1]], np.int64), 'y': f(3, 4),
        'u': i(3, 0, 1),
    }, {'w': np.abs(f(3)) + one(0.2)},
)
several(
    'products', [
        node('Einsum', 'x', 'a', equation='ii->i'),
        node('Einsum', 'b y', 'c', equation='...ij,jk->...ik'),
        node('Einsum', 'x y', 'd', equation='ij,jk'), node('Einsum', 'y', 'e', equation='ij->'),
        node('Einsum', 'y', 'g', equation='ba'),
        node('Einsum', 'x y z', 'h', equation='ij,jk,kl->il'),
        node('Einsum', 'b', 'j', equation='...ij->...'), node('Einsum', 'x', 'k', equation='ii'),
        node('Det', 'b', 'l'), node('Det', 'four', 'm'), node('Det', 'single', 'n'),
        node('Gemm', 'x y', 'o', alpha=0.5), node('MatMul', 'v x', 'p'), node('MatMul', 'b v', 'q'),
    ], {
        'x': f(3, 3), 'y': f(3, 4), 'z': f(4, 2), 'b': f(2, 3, 3), 'four': f(4, 4), 'single': f(
            2, 1, 1), 'v': f(3),
    },
)


def recurrent(op, output, inputs='x w r', direction='forward', **attributes):
    return named(op, inputs, output, hidden_size=3, direction=direction, **attributes)


BOTH = {
    'w4': f(2, 12, 2), 'r4': f(2, 12, 3), 'b4': f(2, 24), 'h': f(2, 2, 3), 'c': f(2, 2, 3),
    'p': f(2, 9),
}
ONE = {
    'w1': f(1, 3, 2), 'r1': f(1, 3, 3), 'b1': f(1, 6), 'w3': f(1, 9, 2), 'r3': f(1, 9, 3),
    'b3': f(1, 18), 'w4': f(1, 12, 2), 'r4': f(1, 12, 3), 'h': f(1, 2, 3), 'n': np.array([4, 2],
                                                                                         np.int32),
}
several('recurrent', [
    recurrent('RNN', 'a b', 'x w1 r1 b1'),
    recurrent('RNN', 'c d', 'x w1 r1 b1 - h', 'reverse', activations=['Relu']),
    recurrent('GRU', 'e g', 'x w3 r3 b3 - h'),
    recurrent('GRU', 'j k', 'x w3 r3 b3 - h', linear_before_reset=1),
    recurrent('GRU', 'l m', 'x w3 r3 - n', 'reverse'), recurrent('LSTM', 'o q s', 'x w4 r4 - n'),
    recurrent('LSTM', 't u v', 'x w4 r4', clip=0.3),
    recurrent('LSTM',
              'y z aa',
              'x w4 r4',
              activations=['HardSigmoid', 'Softsign', 'Relu'],
              activation_alpha=[0.3],
              activation_beta=[0.4],
              ),
    recurrent('RNN', 'ab ac', 'x w1 r1', activations=['LeakyRelu'], activation_alpha=[0.2]),
    recurrent('RNN',
              'ad ae',
              'x w1 r1',
              activations=['ScaledTanh'],
              activation_alpha=[1.3],
              activation_beta=[0.7],
              ),
    recurrent('RNN', 'af ag', 'x w1 r1', activations=['ThresholdedRelu'], activation_alpha=[0.3]),
    recurrent('RNN', 'ah ai', 'x w1 r1', activations=['Elu'], activation_alpha=[0.6]),
    recurrent('RNN',
              'aj ak',
              'x w1 r1',
              activations=['Affine'],
              activation_alpha=[0.5],
              activation_beta=[0.1],
              ),
    recurrent('RNN', 'al am', 'x w1 r1', activations=['Softplus']),
], {'x': f(4, 2, 2)}, ONE)
several('recurrent_both_ways', [
    recurrent('LSTM', 'a b d', 'x w4 r4 b4 - h c p', 'bidirectional'),
    recurrent('LSTM', 'e g j', 'x w4 r4 b4 - h c', 'bidirectional'),
], {'x': f(4, 2, 2)}, BOTH)

ROWS = f(2, 3, 4)
several('rotated', [
    node('RotaryEmbedding', 'x c s p', 'a'), node('RotaryEmbedding', 'x c s p', 'b', interleaved=1),
    node('RotaryEmbedding', 'y c2 s2', 'd', rotary_embedding_dim=2, num_heads=2),
], {'x': f(2, 3, 2, 4), 'y': f(2, 3, 8)}, {
    'c': f(5, 2), 's': f(5, 2), 'p': np.array([[0, 1], [4, 2]], np.int64), 'c2': f(2, 3, 1),
    's2': f(2, 3, 1),
}, 23)
QUERIES = {'q': f(2, 2, 3, 4), 'k': f(2, 2, 5, 4), 'v': f(2, 2, 5, 4)}
MASK = {'m': f(3, 5)}
several(
    'attention', [
        node('Attention', 'q k v', 'a'), node('Attention', 'q k v m', 'b', scale=0.3),
        node('Attention', 'q k v t', 'c'), node('Attention', 'q k v', 'd', is_causal=1),
        node('Attention', 'q k v', 'e', softcap=0.7), named('Attention', 'q k v - pk pv', 'g h j'),
        named('Attention', 'q g1 g2', 'l'),
        node('Attention', 'fq fk fv', 'n', q_num_heads=2, kv_num_heads=2),
    ], {
        **QUERIES, 'pk': f(2, 2, 2, 4), 'pv': f(2, 2, 2, 4), 'g1': f(2, 1, 5, 4), 'g2': f(
            2, 1, 5, 4), 'fq': f(2, 3, 8), 'fk': f(2, 5, 8), 'fv': f(2, 5, 8),
    }, {**MASK, 't': np.array([[True, False, True, True, False]] * 2 + [[True] * 5])}, 23,
)
# ONNX Runtime limits scores before it adds the mask, against what ONNX says
several('attention_scores', [
    helper.make_node('Attention', ['q', 'k', 'v', 'm'], [f'o{mode}', '', '', f'p{mode}'],
                     qk_matmul_output_mode=mode,
                     softcap=2.0,
                     ) for mode in range(4)
], QUERIES, MASK, 23, by_reference)

# -- Whole numbers ---------------------------------------------------------------------------------

several('quantized_products', [
    node('QLinearMatMul', 'a as az b bs bz ys yz', 'c'),
    node('ConvInteger', 'x w xz', 'd', pads=[1, 0, 0, 1]),
    node('QLinearConv', 'x xs xz w ws wz ys yz', 'e'),
    node('QLinearConv', 'x xs xz w wsv wzv ys yz bias', 'g', strides=[1, 2]),
    node('MatMulInteger', 'a b az', 'h'),
], {'a': u8(3, 4), 'x': u8(1, 2, 4, 4)}, {
    'b': u8(4, 2), 'as': one(0.02), 'az': one(120, np.uint8), 'bs': one(0.03), 'bz': one(
        110, np.uint8), 'ys': one(0.5), 'yz': one(100, np.uint8), 'w': u8(
            3, 2, 2, 2), 'xs': one(0.01), 'xz': one(128, np.uint8), 'ws': one(0.02), 'wz': one(
                127, np.uint8), 'wsv': one([0.01, 0.02, 0.03]), 'wzv': one(
                    [127, 127, 127], np.uint8), 'bias': np.array([10, -20, 300], np.int32),
})
several('quantized', [
    node('QuantizeLinear', 'x s z', 'a', axis=0), node('DequantizeLinear', 'n s z', 'b', axis=0),
    node('QuantizeLinear', 'x one', 'c'),
    node('DequantizeLinear', 'n bs', 'd', axis=1, block_size=2),
    node('QuantizeLinear', 'x bs bz', 'e', axis=1, block_size=2),
], {'x': f(2, 4), 'n': s8(2, 4)}, {
    's': one([0.02, 0.05]), 'z': one([3, -4], np.int8), 'one': one(0.04), 'bs': one(
        [[0.02, 0.1], [0.03, 0.07]]), 'bz': one([[1, 2], [-3, 4]], np.int8),
}, 21)

if __name__ == '__main__':
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    for name, model in sorted(CASES.items()):
        onnx.save(model, os.path.join(folder, name + '.onnx'))
    print(len(CASES), 'cases')

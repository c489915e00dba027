#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/fixtures/onnx/ops: small ONNX models and what ONNX Runtime makes of them.

Each case is one file: a model, with its inputs and results as more initializers, named `<input 1` and
`>output 1`, which nothing reads. Needs numpy, onnx and onnxruntime.

    python3 scripts/onnx/op_fixtures.py tests/fixtures/onnx/ops
"""

import os
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

RNG = np.random.default_rng(19)
TYPES = {np.dtype(k): v for k, v in ((np.float32, TensorProto.FLOAT), (np.float64, TensorProto.DOUBLE),
                                     (np.int64, TensorProto.INT64), (np.int32, TensorProto.INT32),
                                     (np.uint8, TensorProto.UINT8), (np.int8, TensorProto.INT8),
                                     (np.bool_, TensorProto.BOOL))}


def f(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def i(*values):
    return np.array(values, dtype=np.int64)


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


CASES = {}


def evaluated(model, inputs):
    """By ONNX Runtime, or by ONNX's reference evaluator where that refuses: the evaluator takes
    Softmax before 13 and LRN of several channels for something else."""
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    for output in bare.graph.output:
        output.ClearField('type')
    try:
        bare = onnx.shape_inference.infer_shapes(bare)
        return onnxruntime.InferenceSession(bare.SerializeToString(),
                                            providers=['CPUExecutionProvider']).run(None, inputs)
    except Exception as error:  # its errors have no class of their own
        print('by the reference evaluator:', str(error)[:100])
        return ReferenceEvaluator(model).run(None, inputs)


def case(name, nodes, inputs, outputs, weights=None, opset=17, symbolic=None):
    """Inputs and weights: arrays by name; outputs: names."""
    values = []
    for key, array in inputs.items():
        shape = symbolic[key] if symbolic and key in symbolic else list(array.shape)
        values.append(helper.make_tensor_value_info(key, TYPES[array.dtype], shape))
    initializers = [numpy_helper.from_array(a, k) for k, a in (weights or {}).items()]
    outs = [helper.make_value_info(o, onnx.TypeProto()) for o in outputs.split()]
    graph = helper.make_graph(nodes, name, values, outs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', opset)], producer_name='ridge')
    model.ir_version = 8
    results = evaluated(model, inputs)
    del graph.output[:]
    for name_, y in zip(outputs.split(), results):
        y = np.asarray(y)
        graph.output.append(helper.make_tensor_value_info(name_, TYPES[y.dtype], list(y.shape)
                                                          if not symbolic else None))
    for n, array in enumerate(inputs.values()):
        graph.initializer.append(numpy_helper.from_array(array, f'<{n + 1}'))
    for n, array in enumerate(results):
        graph.initializer.append(numpy_helper.from_array(np.asarray(array), f'>{n + 1}'))
    del model.graph.node[:], model.graph.input[:], model.graph.output[:], model.graph.initializer[:]
    model.graph.CopyFrom(graph)
    CASES[name] = model


# -- Operators, one each, where rules are easily got wrong ------------------------------------------

case('softmax_before_13', [node('Softmax', 'x', 'y')], {'x': f(2, 3, 4)}, 'y', opset=11)
case('softmax', [node('Softmax', 'x', 'y', axis=1)], {'x': f(2, 3, 4)}, 'y')
case('gemm_bias_row', [node('Gemm', 'a b c', 'y', alpha=0.5, beta=2.0, transA=1, transB=1)],
     {'a': f(3, 2)}, 'y', {'b': f(4, 3), 'c': f(2, 1)})
case('pool_ceil_pad', [node('AveragePool', 'x', 'y', kernel_shape=[3, 3], strides=[2, 2],
                            pads=[1, 1, 1, 1], ceil_mode=1, count_include_pad=1)],
     {'x': f(1, 2, 6, 5)}, 'y', opset=19)
case('pool_same_upper', [node('MaxPool', 'x', 'y', kernel_shape=[2, 2], strides=[1, 1],
                              auto_pad='SAME_UPPER')], {'x': f(1, 2, 5, 4)}, 'y')
case('pool_same_lower', [node('MaxPool', 'x', 'y', kernel_shape=[2, 2], strides=[1, 1],
                              auto_pad='SAME_LOWER')], {'x': f(1, 2, 5, 4)}, 'y')
case('pool_indices', [node('MaxPool', 'x', 'y i', kernel_shape=[2, 2], strides=[2, 2])],
     {'x': f(2, 2, 4, 4)}, 'y i')
case('conv_groups', [node('Conv', 'x w b', 'y', group=2, strides=[2, 1], pads=[1, 0, 2, 1],
                          dilations=[1, 2])], {'x': f(2, 4, 7, 6)}, 'y', {'w': f(6, 2, 3, 2), 'b': f(6)})
case('conv_same_lower', [node('Conv', 'x w', 'y', auto_pad='SAME_LOWER', strides=[2, 2])],
     {'x': f(1, 1, 5, 5)}, 'y', {'w': f(1, 1, 2, 2)})
case('conv1d', [node('Conv', 'x w', 'y', pads=[2, 1])], {'x': f(2, 3, 8)}, 'y', {'w': f(4, 3, 3)})
case('conv3d', [node('Conv', 'x w', 'y', pads=[1, 0, 1, 1, 1, 0])], {'x': f(1, 2, 4, 5, 4)}, 'y',
     {'w': f(3, 2, 2, 3, 2)})
case('conv_transpose', [node('ConvTranspose', 'x w b', 'y', strides=[2, 3], output_padding=[1, 0],
                             pads=[1, 0, 0, 1])], {'x': f(1, 2, 3, 3)}, 'y',
     {'w': f(2, 3, 3, 3), 'b': f(3)})
case('slice_backwards', [node('Slice', 'x s e a t', 'y')], {'x': f(4, 5)}, 'y',
     {'s': i(-1, 4), 'e': i(-100, 0), 'a': i(0, -1), 't': i(-1, -2)})
case('gather_negative', [node('Gather', 'x i', 'y', axis=1)], {'x': f(2, 4, 3)}, 'y',
     {'i': np.array([[-1, 0], [2, -4]], dtype=np.int64)})
case('gather_elements', [node('GatherElements', 'x i', 'y', axis=1)],
     {'x': f(2, 3), 'i': np.array([[0, -1], [2, 2]], dtype=np.int64)}, 'y')
case('gather_nd', [node('GatherND', 'x i', 'y', batch_dims=1)],
     {'x': f(2, 3, 4), 'i': np.array([[[1]], [[-1]]], dtype=np.int64)}, 'y')
case('onehot', [node('OneHot', 'i d v', 'y', axis=1)], {'i': i(1, -1, 3)}, 'y',
     {'d': i(4)[0], 'v': np.array([2, 5], dtype=np.float32)})
case('where_nan', [node('Where', 'c x y', 'z')],
     {'c': np.array([True, False, True]), 'x': np.array([1, np.nan, np.inf], dtype=np.float32),
      'y': np.array([np.nan, 2, -np.inf], dtype=np.float32)}, 'z')
case('mod', [node('Mod', 'x y', 'z')], {'x': i(-7, 7, -7, 7), 'y': i(3, -3, -3, 3)}, 'z')
case('fmod', [node('Mod', 'x y', 'z', fmod=1)], {'x': f(5) * 9, 'y': f(5)}, 'z')
case('div_whole', [node('Div', 'x y', 'z')], {'x': i(7, -9, 0), 'y': i(2, 4, 3)}, 'z')
case('pow_types', [node('Pow', 'x y', 'z')], {'x': i(2, 3, 4), 'y': np.array([3, 2, 1], np.float32)}, 'z')
case('reduce_axes', [node('ReduceSum', 'x a', 'y', keepdims=0)], {'x': f(2, 3, 4)}, 'y', {'a': i(-1, 0)})
case('reduce_nothing', [node('ReduceSum', 'x a', 'y', noop_with_empty_axes=1)], {'x': f(2, 3)}, 'y',
     {'a': i()})
case('log_sum_exp', [node('ReduceLogSumExp', 'x', 'y', axes=[1])], {'x': f(3, 4) * 300}, 'y')
case('argmax_last', [node('ArgMax', 'x', 'y', axis=-1, keepdims=0, select_last_index=1)],
     {'x': np.array([[2, 2, 1], [0, 3, 3]], dtype=np.float32)}, 'y')
case('cumsum', [node('CumSum', 'x a', 'y', exclusive=1, reverse=1)], {'x': f(2, 4)}, 'y', {'a': i(1)[0]})
case('pad_reflect', [node('Pad', 'x p', 'y', mode='reflect')], {'x': f(3, 4)}, 'y', {'p': i(0, 2, 1, 3)})
case('pad_negative', [node('Pad', 'x p v', 'y')], {'x': f(3, 4)}, 'y',
     {'p': i(1, -1, 0, 2), 'v': np.float32(1.5)})
case('split_uneven', [node('Split', 'x', 'a b c', num_outputs=3, axis=1)], {'x': f(2, 7)}, 'a b c', opset=18)
case('depth_to_space', [node('DepthToSpace', 'x', 'y', blocksize=2, mode='CRD')], {'x': f(1, 8, 2, 3)}, 'y')
case('trilu', [node('Trilu', 'x k', 'y', upper=0)], {'x': f(3, 4)}, 'y', {'k': i(-1)[0]})
case('einsum', [node('Einsum', 'a b', 'y', equation='bij,bjk->bik')], {'a': f(2, 3, 4), 'b': f(2, 4, 5)}, 'y')
case('resize_cubic', [helper.make_node('Resize', ['x', '', 's'], ['y'], mode='cubic', cubic_coeff_a=-0.5, exclude_outside=1)],
     {'x': f(1, 1, 4, 4)}, 'y', {'s': np.array([1, 1, 1.5, 0.6], dtype=np.float32)})
case('batch_norm', [node('BatchNormalization', 'x s b m v', 'y')], {'x': f(2, 3, 4, 2)}, 'y',
     {'s': f(3), 'b': f(3), 'm': f(3), 'v': np.abs(f(3)) + 0.1})
case('layer_norm', [node('LayerNormalization', 'x w b', 'y', axis=1)], {'x': f(2, 3, 4)}, 'y',
     {'w': f(3, 4), 'b': f(3, 4)})
case('lrn', [node('LRN', 'x', 'y', size=3, alpha=0.3, beta=0.5, bias=1.2)], {'x': f(1, 6, 2, 2)}, 'y')
case('loss_ignore', [node('SoftmaxCrossEntropyLoss', 'x t w', 'l', ignore_index=-5)],
     {'x': f(4, 3), 't': i(0, -5, 1, 2)}, 'l', {'w': np.abs(f(3))})
case('gru', [node('GRU', 'x w r b', 'y h', hidden_size=3, linear_before_reset=1)], {'x': f(4, 2, 5)},
     'y h', {'w': f(1, 9, 5), 'r': f(1, 9, 3), 'b': f(1, 18)})
case('lstm', [node('LSTM', 'x w r b', 'y h c', hidden_size=3)], {'x': f(4, 2, 5)}, 'y h c',
     {'w': f(1, 12, 5), 'r': f(1, 12, 3), 'b': f(1, 24)})
case('quantize', [node('QuantizeLinear', 'x s z', 'q', axis=1), node('DequantizeLinear', 'q s z', 'y', axis=1)],
     {'x': f(2, 3) * 50}, 'q y', {'s': np.array([0.5, 1, 2], np.float32), 'z': np.array([0, 128, 255], np.uint8)})
case('dynamic_quantize', [node('DynamicQuantizeLinear', 'x', 'y s z')], {'x': f(3, 4)}, 'y s z')
case('matmul_integer', [node('MatMulInteger', 'a b p q', 'y')],
     {'a': RNG.integers(0, 255, (3, 4)).astype(np.uint8), 'b': RNG.integers(-128, 127, (4, 2)).astype(np.int8)},
     'y', {'p': np.uint8(12), 'q': np.int8(-3)})
case('cast_down', [node('Cast', 'x', 'y', to=TensorProto.INT32)],
     {'x': np.array([-2.7, 2.7, 0.5, -0.5], np.float32)}, 'y')
case('empty', [node('Concat', 'x y', 'z', axis=0), node('ReduceSum', 'x', 's')],
     {'x': f(0, 3), 'y': f(2, 3)}, 'z s')

# -- Shapes that are computed -----------------------------------------------------------------------

case('flatten_by_shape',
     [node('Shape', 'x', 's'), node('Gather', 's zero', 'n'), node('Unsqueeze', 'n zero1', 'n1'),
      node('Concat', 'n1 minus', 't', axis=0), node('Reshape', 'x t', 'flat'),
      node('MatMul', 'flat w', 'y')],
     {'x': f(2, 3, 4)}, 'y', {'zero': i(0)[0], 'zero1': i(0), 'minus': i(-1), 'w': f(12, 2)},
     symbolic={'x': ['N', 3, 4]})
case('reshape_by_input', [node('Reshape', 'x s', 'y'), node('Relu', 'y', 'z')],
     {'x': f(2, 6), 's': i(3, -1)}, 'z', symbolic={'x': ['N', 'M'], 's': ['K']})
case('range_by_sizes',
     [node('Shape', 'x', 's', start=1), node('Squeeze', 's', 'n'), node('Range', 'zero n one', 'r'),
      node('Cast', 'r', 'f', to=TensorProto.FLOAT), node('Mul', 'x f', 'y')],
     {'x': f(2, 5)}, 'y', {'zero': i(0)[0], 'one': i(1)[0]}, symbolic={'x': ['N', 'T']})

# -- Whole graphs -----------------------------------------------------------------------------------

case('shared_weight', [node('MatMul', 'x w', 'a'), node('Relu', 'a', 'b'), node('MatMul', 'b w', 'c'),
                       node('Add', 'c w', 'y')], {'x': f(3, 3)}, 'y', {'w': f(3, 3)})
case('outputs_that_are_not_made', [node('Add', 'x w', 'y')], {'x': f(3)}, 'x y w', {'w': f(3)})


def constant_if():
    then = helper.make_graph([node('Mul', 'x two', 't')], 'then',
                             [], [helper.make_tensor_value_info('t', TensorProto.FLOAT, None)])
    other = helper.make_graph([node('Neg', 'x', 'e')], 'else',
                              [], [helper.make_tensor_value_info('e', TensorProto.FLOAT, None)])
    case('if_of_rank', [node('Shape', 'x', 's'), node('Size', 's', 'r'), node('Equal', 'r four', 'is4'),
                        node('If', 'is4', 'y', then_branch=then, else_branch=other)],
         {'x': f(2, 3)}, 'y', {'four': i(4)[0], 'two': np.float32(2)})


constant_if()


def with_function():
    body = [helper.make_node('Mul', ['a', 'b'], ['s']),
            helper.make_node('LeakyRelu', ['s'], ['l']),
            helper.make_node('Add', ['l', 'b'], ['c'])]
    slope = body[1].attribute.add()
    slope.name, slope.type, slope.ref_attr_name = 'alpha', onnx.AttributeProto.FLOAT, 'slope'
    function = helper.make_function('own', 'Leaky', ['a', 'b'], ['c'], body,
                                    [helper.make_opsetid('', 17)], ['slope'])
    graph = helper.make_graph(
        [helper.make_node('Leaky', ['x', 'w'], ['h'], domain='own', slope=0.5),
         helper.make_node('Leaky', ['h', 'x'], ['y'], domain='own', slope=0.1)],
        'functions', [helper.make_tensor_value_info('x', TensorProto.FLOAT, [3])],
        [helper.make_tensor_value_info('y', TensorProto.FLOAT, [3])],
        [numpy_helper.from_array(f(3), 'w')])
    model = helper.make_model(graph, functions=[function], producer_name='ridge',
                              opset_imports=[helper.make_opsetid('', 17), helper.make_opsetid('own', 1)])
    model.ir_version = 8
    x = f(3)
    y = evaluated(model, {'x': x})[0]
    model.graph.initializer.append(numpy_helper.from_array(x, '<1'))
    model.graph.initializer.append(numpy_helper.from_array(y, '>1'))
    CASES['functions'] = model


with_function()

if __name__ == '__main__':
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    for name, model in sorted(CASES.items()):
        onnx.save(model, os.path.join(folder, name + '.onnx'))
    print(len(CASES), 'cases')

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The light models of onnx's wheel with weights drawn at random, and what ONNX Runtime makes of them.

Their own weights are all alike, so that many a mistake gives the same result. Here each weight that a
ConstantOfShape makes is a normal draw of the size of He et al., or between 0.5 and 1.5 where it is a
variance or scale of a normalisation; the input is drawn, too.

    python3 scripts/onnx/random_weights.py FROM TO [NAME ...]

FROM is onnx/backend/test/data/light; TO is written: NAME.onnx, NAME_input_0.pb, NAME_output_0.pb, for
scripts/onnx/light.lua. Needs numpy, onnx and onnxruntime.
"""

import os
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper


def positive(graph):
    """Names that are scales or variances of a normalisation."""
    return {n.input[i] for n in graph.node if n.op_type == 'BatchNormalization' for i in (1, 4)}


def randomized(model, rng):
    graph, shapes, rest = model.graph, {}, []
    for t in graph.initializer:
        shapes[t.name] = numpy_helper.to_array(t)
    ones = positive(graph)
    for node in graph.node:
        if node.op_type != 'ConstantOfShape' or node.input[0] not in shapes:
            rest.append(node)
            continue
        shape = tuple(int(s) for s in shapes[node.input[0]])
        if node.output[0] in ones or len(shape) == 1 and shape[0] == 1:
            value = rng.uniform(0.5, 1.5, shape)
        elif len(shape) > 1:
            value = rng.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))
        else:
            value = rng.standard_normal(shape) * 0.1
        graph.initializer.append(numpy_helper.from_array(value.astype(np.float32), node.output[0]))
    del graph.node[:]
    graph.node.extend(rest)
    last = graph.node[-1]
    if last.op_type == 'Softmax': # what it is given says more: it leaves one number of large ones
        graph.output[0].name = last.input[0]
        del graph.node[-1]
    return model


def main():
    onnxruntime.set_default_logger_severity(3)
    source, target, only = sys.argv[1], sys.argv[2], sys.argv[3:]
    os.makedirs(target, exist_ok=True)
    for file in sorted(os.listdir(source)):
        name = file[:-len('.onnx')]
        if not file.endswith('.onnx') or only and name not in only:
            continue
        rng = np.random.default_rng(1)
        model = randomized(onnx.load(os.path.join(source, file)), rng)
        made = {t.name for t in model.graph.initializer}
        value = next(i for i in model.graph.input if i.name not in made)
        shape = [d.dim_value or 1 for d in value.type.tensor_type.shape.dim]
        x = rng.standard_normal(shape).astype(np.float32)
        path = os.path.join(target, name)
        onnx.save(model, path + '.onnx')
        session = onnxruntime.InferenceSession(path + '.onnx', providers=['CPUExecutionProvider'])
        y = session.run(None, {value.name: x})[0]
        for part, array in (('input', x), ('output', y)):
            with open(f'{path}_{part}_0.pb', 'wb') as f:
                f.write(numpy_helper.from_array(array).SerializeToString())
        print(name, y.shape, float(np.abs(y).max()), flush=True)


if __name__ == '__main__':
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How many of ONNX's tests of its operators ONNX Runtime (CPU) passes, at the same tolerances.

    python3 scripts/onnx/ort_nodes.py DIR NAMES

DIR is onnx/backend/test/data/node; NAMES is what `node_tests.lua DIR --list NAMES` wrote: the tests that
are counted there.
"""

import os
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

RTOL, ATOL = 1e-3, 1e-5


def tensor(folder, kind, i):
    t = onnx.TensorProto()
    with open(os.path.join(folder, 'test_data_set_0', f'{kind}_{i}.pb'), 'rb') as f:
        t.ParseFromString(f.read())
    return numpy_helper.to_array(t)


def passes(folder):
    session = onnxruntime.InferenceSession(os.path.join(folder, 'model.onnx'),
                                           providers=['CPUExecutionProvider'])
    feeds = {v.name: tensor(folder, 'input', i) for i, v in enumerate(session.get_inputs())}
    for i, y in enumerate(session.run(None, feeds)):
        wanted = tensor(folder, 'output', i)
        if y.shape != wanted.shape or y.dtype != wanted.dtype or not np.allclose(
                y.astype(np.float64), wanted.astype(np.float64), rtol=RTOL, atol=ATOL, equal_nan=True):
            return False
    return True


def main():
    onnxruntime.set_default_logger_severity(4)
    with open(sys.argv[2], encoding='utf-8') as f:
        names = f.read().split()
    passed = 0
    for name in names:
        try:
            passed += passes(os.path.join(sys.argv[1], name))
        except Exception:  # its errors have no class of their own
            pass
    print(f'ONNX Runtime {onnxruntime.__version__} passes {passed:,} of the {len(names):,}')


if __name__ == '__main__':
    main()

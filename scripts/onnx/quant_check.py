# SPDX-License-Identifier: MIT
"""Quantized nets beside ONNX Runtime: its results of ridge's QDQ files, in steps of bytes, and what
its own quantization makes of the same nets and the same data: scales, zero points, integers.

    quant_check.py FOLDER ROWS > results/onnx_quant.md

ROWS is what `quant_nets.lua` printed.  Exits with 1 where bytes are more than a step apart, or
integers, scales or zero points differ.
"""
import logging
import pathlib
import platform
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

HEAD = """# Quantized nets beside ONNX Runtime

Made by `make onnx`: `scripts/onnx/quant_nets.lua` quantizes each net with `ridge.quant.static` (ranges by
minmax of one batch) and writes it as QDQ, version 13 of the operators; `scripts/onnx/quant_check.py` has
onnx check the file and ONNX Runtime run it on rows that were not calibrated with, with all of its passes
and with none. Bytes: the last values that are bytes, how many are apart, and by how many steps at most.
Result: the largest difference of the last numbers, of the largest of them.

Steps: with all passes, with none. Precise: with all passes and `session.x64quantprecision`, only where bytes
are more than a step apart and the processor has no VNNI. There ONNX Runtime adds two products of u8 by i8 in
16 bits, which saturates (its documentation says so), and its bytes are others than those of its own file
without passes; the setting avoids that, and does not run with all files (`refused`: its conversion of weights
to u8 leaves a zero point that its own DequantizeLinear does not take).

Integers: ONNX Runtime's own `quantize_static` of the same net in f32 with the same batch: how many
integers of the weights and of the biases, and how many scales (relative 1e-6) and zero points of
activations, are the same. A bias whose scale differs in the last bit may be off by one, and counts as another.
With one scale for a weight (qnnpack) a depthwise layer has a scale for each channel in ridge all the same, so
that its integers, and its biases', are others.

ridge {ridge}, onnx {onnx}, ONNX Runtime {ort}, {machine}.

| net | types | scheme | check | bytes apart | steps | precise | result | result, no passes | weights | biases | scales | zero points |
|---|---|---|---|---|---|---|---|---|---|---|---|---|"""


def run(path, x, level, precise=False):
    options = ort.SessionOptions()
    options.log_severity_level, options.graph_optimization_level = 4 if precise else 3, level
    if precise:
        options.add_session_config_entry("session.x64quantprecision", "1")
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: x})[0]


class Once(CalibrationDataReader):
    def __init__(self, x):
        self.left = [{"input": x}]

    def get_next(self):
        return self.left.pop() if self.left else None


def layers(path):
    """Of each Conv and Gemm in order: the integers of weight and bias, scale and zero of x."""
    graph = onnx.load(path).graph
    known = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    made = {name: node for node in graph.node for name in node.output}

    def behind(name):
        node = made.get(name)
        return node if node is not None and node.op_type == "DequantizeLinear" else None

    found = []
    for node in graph.node:
        if node.op_type not in ("Conv", "Gemm", "MatMul"):
            continue
        x, w = behind(node.input[0]), behind(node.input[1])
        b = behind(node.input[2]) if len(node.input) > 2 and node.input[2] else None
        if x is None or w is None:
            continue
        found.append({"w": known[w.input[0]], "b": known[b.input[0]] if b is not None else None,
                      "scale": float(known[x.input[1]].reshape(-1)[0]),
                      "zero": int(known[x.input[2]].reshape(-1)[0])})
    return found


def theirs(folder, number, activations, scheme):
    path = folder / f"{number}.{activations}.{scheme}.theirs.onnx"
    kind = QuantType.QUInt8 if activations == "u8" else QuantType.QInt8
    quantize_static(str(folder / f"{number}.f32.onnx"), str(path),
                    Once(np.load(folder / f"{number}.x.npy")), quant_format=QuantFormat.QDQ,
                    per_channel=scheme == "fbgemm", activation_type=kind,
                    weight_type=QuantType.QInt8,
                    extra_options={"ActivationSymmetric": activations == "i8",
                                   "WeightSymmetric": True})
    return layers(path)


def same(pairs):
    return f"{sum(a for a, _ in pairs)} of {sum(b for _, b in pairs)}"


def compare(ours, other):
    """Counts of what is the same: weights, biases, scales, zero points."""
    weights, biases, scales, zeros = [], [], [], []
    for a, b in zip(ours, other):
        w = b["w"] if b["w"].shape == a["w"].shape else b["w"].T
        weights.append((int((a["w"] == w).sum()), w.size))
        if a["b"] is not None and b["b"] is not None:
            biases.append((int((a["b"].reshape(-1) == b["b"].reshape(-1)).sum()), a["b"].size))
        scales.append((int(abs(a["scale"] / b["scale"] - 1) < 1e-6), 1))
        zeros.append((int(a["zero"] == b["zero"]), 1))
    return weights, biases, scales, zeros


def has_vnni():
    flags = next((line for line in open("/proc/cpuinfo") if line.startswith("flags")), "")
    return "avx512_vnni" in flags or "avx_vnni" in flags


def apart(path, x, want, level, precise=False):
    """How many bytes differ, and by how many steps at most; nothing where it does not run."""
    try:
        got = run(path, x, level, precise)
    except Exception:
        if not precise:
            raise
        return None
    off = np.abs(got.astype(int) - want.astype(int))
    return int((off > 0).sum()), int(off.max())


def main():
    logging.disable(logging.WARNING)
    folder, failed, lines, version = pathlib.Path(sys.argv[1]), 0, [], "?"
    all_passes = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    none = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    for row in open(sys.argv[2]).read().splitlines():
        number, name, activations, scheme, _, _ = row.split("\t")
        base = f"{number}.{activations}.{scheme}"
        path, fresh = folder / f"{base}.onnx", np.load(folder / f"{number}.fresh.npy")
        version = onnx.load(path).producer_version
        onnx.checker.check_model(str(path), full_check=True)
        want, y = np.load(folder / f"{base}.bytes.npy"), np.load(folder / f"{base}.y.npy")
        bytes_path, precise = folder / f"{base}.bytes.onnx", ""
        n, steps = apart(bytes_path, fresh, want, all_passes)
        n_none, steps_none = apart(bytes_path, fresh, want, none)
        far = steps > 1
        if far and not has_vnni():
            again = apart(bytes_path, fresh, want, all_passes, precise=True)
            precise = "refused" if again is None else f"{again[0]}, {again[1]}"
            far = again is None or again[1] > 1  # what cannot be told apart is not held
        differences = [np.abs(run(path, fresh, level) - y).max() / np.abs(y).max()
                       for level in (all_passes, none)]
        ours, other = layers(path), theirs(folder, number, activations, scheme)
        assert len(ours) == len(other) > 0, (name, len(ours), len(other))
        weights, biases, scales, zeros = compare(ours, other)
        own = name in ("depthwise", "groups") and scheme == "qnnpack"
        different = any(a != b for a, b in weights + biases + scales + zeros)
        failed += far or steps_none > 1 or not own and different
        lines.append(f"| {name} | {activations} | {scheme} | passed "
                     f"| {max(n, n_none)} of {want.size} | {steps}, {steps_none} | {precise} "
                     f"| {differences[0]:.1e} | {differences[1]:.1e} | {same(weights)} "
                     f"| {same(biases)} | {same(scales)} | {same(zeros)} |")
    machine = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo")
                    if line.startswith("model name")), platform.machine())
    print(HEAD.format(ridge=version, onnx=onnx.__version__, ort=ort.__version__, machine=machine))
    print("\n".join(lines))
    sys.exit(1 if failed else 0)


main()

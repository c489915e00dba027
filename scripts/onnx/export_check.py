# SPDX-License-Identifier: MIT
"""Files that ridge.onnx.export wrote, by others: onnx's full check, and ONNX Runtime's results
beside ridge's at each batch size.

    export_check.py FOLDER ROWS > results/onnx_export.md

ROWS is what `export_nets.lua` printed.  Exits with 1 where a file fails, or a result is further
away than 1e-5 of the largest value.
"""
import pathlib
import platform
import re
import sys

import numpy as np
import onnx
import onnxruntime

TOLERANCE = 1e-5
HEAD = """# ONNX files that ridge writes

Made by `make onnx`: `scripts/onnx/export_nets.lua` exports each net in evaluation mode, with a
dynamic batch axis, from an example of 4 rows; `scripts/onnx/export_check.py` has onnx check each
file (`full_check`, shapes inferred strictly) and ONNX Runtime run it on the CPU at batch sizes
{batches}, where the largest difference from ridge's own results is taken of the largest value;
at 0 the shapes are compared, not of the net 'views', which reads its last row, nor of LSTM and GRU,
whose kernels in ONNX Runtime end the process there (a file of one such node alone, made by onnx's
helpers, does so too).
`loaded` is the same of the file as ridge loads it, at sizes 4, 2, 3 and 7. The bound is {tolerance}.

ridge {ridge}, onnx {onnx}, ONNX Runtime {ort}, {machine}.

| net | operators | passes | nodes | numbers | onnx's check | ONNX Runtime | loaded |
|---|---|---|---|---|---|---|---|"""


def batches_of(base):
    names = base.parent.glob(base.name + ".in.*.npy")
    return sorted(int(re.search(r"\.in\.(\d+)\.npy$", str(name)).group(1)) for name in names)


def difference(path, base, n_outputs):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    worst = 0.0
    for n in batches_of(base):
        x = np.load(f"{base}.in.{n}.npy")
        results = session.run(None, {session.get_inputs()[0].name: x})
        assert len(results) == n_outputs
        for i, got in enumerate(results, 1):
            want = np.load(f"{base}.out.{n}.{i}.npy")
            if got.shape != want.shape or got.dtype != want.dtype:
                return float("inf")
            if got.size > 0:
                worst = max(worst, float(np.abs(got - want).max() / np.abs(want).max()))
    return worst


def check(path):
    try:
        onnx.checker.check_model(path, full_check=True)
        onnx.shape_inference.infer_shapes(onnx.load(path), check_type=True, strict_mode=True,
                                          data_prop=True)
        return "passed"
    except Exception as error:  # pylint: disable=broad-except
        return "FAILED: " + str(error).replace("\n", " ")[:120]


def main():
    folder, rows = pathlib.Path(sys.argv[1]), open(sys.argv[2]).read().splitlines()
    failed, lines, version = 0, [], "?"
    for row in rows:
        number, name, opset, passes, path, n_outputs, nodes, count, valid, test, loaded = (
            row.split("\t"))
        said, worst = check(path), float("nan")
        version = onnx.load(path).producer_version
        try:
            worst = difference(path, folder / number, int(n_outputs))
        except Exception as error:  # pylint: disable=broad-except
            said += "; " + str(error).replace("\n", " ")[:200]
        good = said == "passed" and worst <= TOLERANCE and valid == test == "true"
        failed += not good
        mark = "" if good else " **FAILED**"
        lines.append(f"| {name} | {opset} | {passes} | {nodes} | {count} | {said}{mark} "
                     f"| {worst:.1e} | {float(loaded):.1e} |")
    print(HEAD.format(batches=", ".join(map(str, batches_of(folder / "1"))), tolerance=TOLERANCE,
                      ridge=version, onnx=onnx.__version__, ort=onnxruntime.__version__,
                      machine=platform.machine()))
    print("\n".join(lines))
    print(f"\n{len(lines)} files, {failed} failed.")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

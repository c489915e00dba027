#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""ONNX Runtime's side of the comparison with `bench.lua --plans`: whole networks in inference.

Prints one JSON object a line, as torch_bench.py: {"case", "us", "min_us", "max_us", "n"} in
microseconds a call (median of 11 windows), or {"case", "error"}.  Lines that begin with # say
versions, threads and instruction sets.  The networks are PyTorch's, with drawn weights, exported to
ONNX once into --models; their modules stand in the order of nets.lua, so that --weights gives ridge
the very same numbers (same_nets.lua).

usage: onnx_bench.py [--threads N] [--pin CORE[,CORE...]] [--only PREFIX[,PREFIX...]]
                     [--models DIR] [--weights DIR] [--no-spin] [--processor-time]
"""
import argparse
import json
import os
import struct
import sys
import tempfile
import time
import warnings

warnings.filterwarnings("ignore")
ap = argparse.ArgumentParser()
ap.add_argument("--threads", type=int, default=2)
ap.add_argument("--pin", default="", help="run on these cores alone")
ap.add_argument("--only", default="")
ap.add_argument("--models", default=os.path.join(tempfile.gettempdir(), "ridge_onnx_models"),
                help="folder of exported networks, written where one is missing")
ap.add_argument("--weights", default="",
                help="write weights, an input and its result of each case here, and time nothing")
ap.add_argument("--no-spin", action="store_true", help="threads that wait sleep")
ap.add_argument("--processor-time", action="store_true",
                help="of all threads together: what a busy machine leaves comparable")
opt = ap.parse_args()
if opt.pin:  # before the libraries start threads, which inherit it
    os.sched_setaffinity(0, {int(core) for core in opt.pin.split(",")})

import numpy as np  # noqa: E402
import onnxruntime as ort  # noqa: E402

wanted = [p for p in opt.only.split(",") if p]

# -- Networks: PyTorch is imported where one is missing -------------------------------------------


def lenet(nn):
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84),
        nn.ReLU(), nn.Linear(84, 10))


def mlp(nn):
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64))


def block(nn):
    """Pre-norm transformer block, width 256, 4 heads, causal, GELU, feed-forward 1024."""
    import torch

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.n1 = nn.LayerNorm(256)
            self.qkv, self.out = nn.Linear(256, 768), nn.Linear(256, 256)
            self.n2 = nn.LayerNorm(256)
            self.up, self.down = nn.Linear(256, 1024), nn.Linear(1024, 256)

        def forward(self, x):
            b, t, c = x.shape
            parts = self.qkv(self.n1(x)).split(256, -1)
            q, k, v = (h.view(b, t, 4, 64).transpose(1, 2) for h in parts)
            mask = torch.full((t, t), float("-inf")).triu(1)
            a = torch.softmax(q @ k.transpose(-2, -1) * 0.125 + mask, -1) @ v
            x = x + self.out(a.transpose(1, 2).reshape(b, t, c))
            return x + self.down(nn.functional.gelu(self.up(self.n2(x))))

    return Block()


def around(nn, inner, shortcut=None):
    """x + inner(x), or shortcut(x) + inner(x); the shortcut's parameters stand first."""

    class Around(nn.Module):
        def __init__(self):
            super().__init__()
            self.shortcut, self.inner = shortcut or nn.Identity(), inner

        def forward(self, x):
            return self.shortcut(x) + self.inner(x)

    return Around()


def convolved(nn, c_in, c_out, kernel, stride=1, groups=1, act=None):
    """Convolution and batch normalisation, as a list of modules."""
    list = [nn.Conv2d(c_in, c_out, kernel, stride, kernel // 2, groups=groups, bias=False),
            nn.BatchNorm2d(c_out)]
    return list + ([act()] if act else [])


def resnet(nn, counts, bottleneck):
    """He et al., 2016; strides of bottlenecks at the 3x3 convolution, as in torchvision."""
    out = 4 if bottleneck else 1
    layers = convolved(nn, 3, 64, 7, 2, act=nn.ReLU) + [nn.MaxPool2d(3, 2, 1)]
    c = 64
    for i, count in enumerate(counts):
        width = 64 << i
        for j in range(count):
            stride = 2 if i > 0 and j == 0 else 1
            shortcut = None
            if stride > 1 or c != width * out:
                shortcut = nn.Sequential(*convolved(nn, c, width * out, 1, stride))
            if bottleneck:
                inner = convolved(nn, c, width, 1, act=nn.ReLU) \
                    + convolved(nn, width, width, 3, stride, act=nn.ReLU) \
                    + convolved(nn, width, width * 4, 1)
            else:
                inner = convolved(nn, c, width, 3, stride, act=nn.ReLU) \
                    + convolved(nn, width, width, 3)
            layers += [around(nn, nn.Sequential(*inner), shortcut), nn.ReLU()]
            c = width * out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(c, 1000))


def mobilenet_v2(nn):
    """Sandler et al., 2018."""
    layers = convolved(nn, 3, 32, 3, 2, act=nn.ReLU6)
    c = 32
    for expand, width, count, first in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
                                        (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
        for j in range(count):
            stride, wide = first if j == 0 else 1, c * expand
            inner = convolved(nn, c, wide, 1, act=nn.ReLU6) if expand > 1 else []
            inner += convolved(nn, wide, wide, 3, stride, wide, act=nn.ReLU6)
            inner += convolved(nn, wide, width, 1)
            layers += [around(nn, nn.Sequential(*inner))] if stride == 1 and c == width else inner
            c = width
    layers += convolved(nn, c, 1280, 1, act=nn.ReLU6)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000))


# case: what makes the network, and the shape of its input
CASES = {
    "mlp_fwd_b32": (mlp, (32, 64)),
    "lenet_b1": (lenet, (1, 1, 28, 28)),
    "lenet_b64": (lenet, (64, 1, 28, 28)),
    "block_fwd_b8": (block, (8, 128, 256)),
    "resnet18_b1": (lambda nn: resnet(nn, (2, 2, 2, 2), False), (1, 3, 224, 224)),
    "resnet50_b1": (lambda nn: resnet(nn, (3, 4, 6, 3), True), (1, 3, 224, 224)),
    "mobilenet_v2_b1": (mobilenet_v2, (1, 3, 224, 224)),
}


def network(name):
    """The network of a case in evaluation mode: the same numbers at every call."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    net = CASES[name][0](nn)
    for m in net.modules():
        if isinstance(m, nn.BatchNorm2d):  # as if it had been trained
            m.weight.data.uniform_(0.5, 1.5)
            m.bias.data.normal_(0, 0.1)
            m.running_mean.normal_(0, 0.1)
            m.running_var.uniform_(0.5, 1.5)
    return net.eval()


def model(name):
    """The file of a case's ONNX model."""
    path = os.path.join(opt.models, name + ".onnx")
    if not os.path.exists(path):
        import torch

        os.makedirs(opt.models, exist_ok=True)
        part = f"{path}.{os.getpid()}"
        with torch.no_grad():
            torch.onnx.export(network(name), (torch.randn(CASES[name][1]),), part,
                              input_names=["x"], output_names=["y"], opset_version=17, dynamo=False)
        os.replace(part, path)
    return path


# -- Running --------------------------------------------------------------------------------------


def session(name):
    options = ort.SessionOptions()
    options.intra_op_num_threads = opt.threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.add_session_config_entry("session.intra_op.allow_spinning", "0" if opt.no_spin else "1")
    return ort.InferenceSession(model(name), options, providers=["CPUExecutionProvider"])


clock = time.process_time if opt.processor_time else time.perf_counter


def timed(f, windows=11, target=0.05):
    for _ in range(3):
        f()
    d = float("inf")
    for _ in range(5):
        t = clock()
        f()
        d = min(d, clock() - t)
    n = max(1, min(20000, int(target / d)))
    v = []
    for _ in range(windows):
        t = clock()
        for _ in range(n):
            f()
        v.append((clock() - t) / n * 1e6)
    v.sort()
    return {"us": v[len(v) // 2], "min_us": v[0], "max_us": v[-1], "n": n}


def write_safetensors(path, arrays):
    header, data = {}, []
    at = 0
    for key, a in arrays.items():
        a = np.ascontiguousarray(a, dtype=np.float32)
        header[key] = {"dtype": "F32", "shape": list(a.shape), "data_offsets": [at, at + a.nbytes]}
        at += a.nbytes
        data.append(a.tobytes())
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(data))


def write_weights(name):
    """Parameters by their place (0001, 0002 ...), an input x, and ONNX Runtime's result y."""
    net = network(name)
    kept = [v for k, v in net.state_dict().items() if not k.endswith("num_batches_tracked")]
    arrays = {f"{i:04d}": v.numpy() for i, v in enumerate(kept, 1)}
    x = np.random.default_rng(0).standard_normal(CASES[name][1], dtype=np.float32)
    os.makedirs(opt.weights, exist_ok=True)
    arrays["x"], arrays["y"] = x, session(name).run(None, {"x": x})[0]
    write_safetensors(os.path.join(opt.weights, name + ".safetensors"), arrays)


def isa():
    """Of the instruction sets that matter for kernels, those the processor has.  ONNX Runtime's own
    kernels take the best of them; nothing in the environment limits them."""
    try:
        with open("/proc/cpuinfo") as f:
            has = next(line for line in f if line.startswith("flags")).split()
    except (OSError, StopIteration):
        return "unknown"
    names = ("avx2", "fma", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16",
             "amx_int8")
    return " ".join(n for n in names if n in has)


def case(name):
    if wanted and not any(name.startswith(p) for p in wanted):
        return
    if opt.weights:
        return write_weights(name)
    try:
        run, x = session(name).run, {"x": np.random.default_rng(0).standard_normal(
            CASES[name][1], dtype=np.float32)}
        row = timed(lambda: run(None, x))
    except Exception as e:  # a peer that cannot is a result too
        row = {"error": f"{type(e).__name__}: {str(e)[:160]}"}
    print(json.dumps({"case": name, **row}), flush=True)


print(f"# ONNX Runtime {ort.__version__}, Python {sys.version.split()[0]}, {opt.threads} threads, "
      f"cores {','.join(map(str, sorted(os.sched_getaffinity(0))))}, processor has {isa()}"
      + (", processor time" if opt.processor_time else ""), flush=True)
for each in CASES:
    case(each)

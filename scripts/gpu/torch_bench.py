# SPDX-License-Identifier: MIT
"""PyTorch on the cases of bench.lua, one JSON line each: microseconds a call, median of windows.

What can be is captured in a CUDA graph and replayed, as ridge replays plans; the name then has _graph
behind it. The eager call stands beside it. Where this PyTorch cannot do a case, the line says why.

usage: torch_bench.py [--only PREFIX[,PREFIX...]]
"""
import argparse
import json
import time

import torch
import torch.nn.functional as F
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--only", default="")
opt = parser.parse_args()
wanted = [p for p in opt.only.split(",") if p]
DEV = "cuda"
BF16 = torch.bfloat16
torch.manual_seed(0)


def elapsed(f, n):
    torch.cuda.synchronize()
    before = time.perf_counter()
    for _ in range(n):
        f()
    torch.cuda.synchronize()
    return time.perf_counter() - before


def timed(f, windows=7, seconds=0.1):
    elapsed(f, 3)
    n = max(1, min(20000, int(seconds / elapsed(f, 1))))
    us = sorted(elapsed(f, n) / n * 1e6 for _ in range(windows))
    return {"us": us[len(us) // 2], "min_us": us[0], "max_us": us[-1], "n": n}


def graphed(f):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            f()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        f()
    return graph.replay


def case(name, make):
    if wanted and not any(name.startswith(p) for p in wanted):
        return
    for kind, wrap in (("", lambda f: f), ("_graph", graphed)):
        try:
            f, work = make()
            row = timed(wrap(f))
            if "flops" in work:
                row["tflops"] = work["flops"] / row["us"] / 1e6
            if "bytes" in work:
                row["gb_s"] = work["bytes"] / row["us"] / 1e3
        except Exception as e:  # a case that this PyTorch cannot do is a result too
            row = {"error": f"{type(e).__name__}: {str(e)[:160]}"}
        print(json.dumps({"case": name + kind, **row}), flush=True)
        torch.cuda.empty_cache()


def randn(dtype, *shape):
    return torch.randn(*shape, device=DEV).to(dtype)


def without_grad(f):
    def g():
        with torch.no_grad():
            return f()
    return g


def copy():
    n = 2**28
    x, y = randn(torch.float32, n), torch.zeros(n, device=DEV)
    return lambda: y.copy_(x), {"bytes": 8 * n}


def product(dtype):
    def make():
        n = 8192
        a, b = randn(dtype, n, n), randn(dtype, n, n)
        return lambda: a @ b, {"flops": 2 * n**3}
    return make


def linear(batch, inputs, outputs, dtype):
    def make():
        layer, x = nn.Linear(inputs, outputs).to(dtype).to(DEV), randn(dtype, batch, inputs)
        return without_grad(lambda: layer(x)), {"flops": 2 * batch * inputs * outputs}
    return make


def scaled_i8():
    """_int_mm has the sums; what makes them bf16 with scales of rows follows, as in ridge."""
    n = 8192
    x, w = ((torch.randn(n, n, device=DEV) * 8).to(torch.int8) for _ in range(2))
    one, other = torch.rand(n, 1, device=DEV), torch.rand(1, n, device=DEV)
    wt = w.t()
    return lambda: (torch._int_mm(x, wt) * one * other).to(BF16), {"flops": 2 * n**3}


def sums_i8():
    n = 8192
    x, w = ((torch.randn(n, n, device=DEV) * 8).to(torch.int8) for _ in range(2))
    wt = w.t()
    return lambda: torch._int_mm(x, wt), {"flops": 2 * n**3}


def scaled_f8(rows):
    def make():
        n = 8192
        x, w = ((torch.randn(n, n, device=DEV) * 8).to(torch.float8_e4m3fn) for _ in range(2))
        shapes = ((n, 1), (1, n)) if rows else ((), ())
        one, other = (torch.rand(*s, device=DEV) if s else torch.tensor(0.5, device=DEV)
                      for s in shapes)
        wt = w.t()
        return (lambda: torch._scaled_mm(x, wt, scale_a=one, scale_b=other, out_dtype=BF16)), \
            {"flops": 2 * n**3}
    return make


def bias_gelu():
    n = 8192
    x, b = randn(BF16, n, n), randn(BF16, n)
    return lambda: F.gelu(x + b), {"bytes": 4 * n * n}


def softmax():
    n = 8192
    x = randn(BF16, n, n)
    return lambda: x.softmax(-1), {"bytes": 4 * n * n}


def layer_norm(back):
    def make():
        rows, n = 16384, 4096
        layer, x = nn.LayerNorm(n).to(BF16).to(DEV), randn(BF16, rows, n)
        if not back:
            return without_grad(lambda: layer(x)), {"bytes": 4 * rows * n}
        dy = randn(BF16, rows, n)
        x.requires_grad_()

        def f():
            layer.weight.grad = layer.bias.grad = x.grad = None
            layer(x).backward(dy)
        return f, {"bytes": 10 * rows * n}
    return make


def cross_entropy():
    rows, n = 8192, 50304
    x, y = randn(BF16, rows, n).requires_grad_(), torch.randint(0, n, (rows,), device=DEV)

    def f():
        x.grad = None
        F.cross_entropy(x, y).backward()
    return f, {"bytes": 6 * rows * n}


def adamw():
    each, many = 2**20, 64
    params = [nn.Parameter(randn(torch.float32, each)) for _ in range(many)]
    for p in params:
        p.grad = 2 * p.detach()
    optimizer = torch.optim.AdamW(params, 1e-4, fused=True, capturable=True)
    return optimizer.step, {"bytes": 28 * each * many}


def attention(back):
    def make():
        heads, n, d = 16, 8192, 128
        q, k, v = (randn(BF16, 1, heads, n, d) for _ in range(3))
        flops = 2 * heads * n * n * d
        if not back:
            return (lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)), {"flops": flops}
        dy = randn(BF16, 1, heads, n, d)
        for x in (q, k, v):
            x.requires_grad_()

        def f():
            q.grad = k.grad = v.grad = None
            F.scaled_dot_product_attention(q, k, v, is_causal=True).backward(dy)
        return f, {"flops": 3.5 * flops}
    return make


def step_of(net, x, y):
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3, fused=True, capturable=True)

    def f():
        optimizer.zero_grad(set_to_none=True)
        F.mse_loss(net(x), y).backward()
        optimizer.step()
    return f, {}


def mlp():
    net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64)).to(DEV)
    return step_of(net, randn(torch.float32, 32, 64), randn(torch.float32, 32, 64))


class Block(nn.Module):
    """Pre-norm, causal, GELU, feed-forward of four times the width: ridge.nn.TransformerBlock."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (h.view(b, t, self.heads, -1).transpose(1, 2)
                   for h in self.qkv(self.n1(x)).split(c, -1))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.n2(x))))


def transformer():
    width, n, batch = 768, 1024, 8
    net = nn.Sequential(*[Block(width, 12) for _ in range(12)]).to(BF16).to(DEV)
    return step_of(net, randn(BF16, batch, n, width), randn(BF16, batch, n, width))


print(json.dumps({"torch": torch.__version__, "cuda": torch.version.cuda,
                  "cudnn": torch.backends.cudnn.version(),
                  "device": torch.cuda.get_device_name()}), flush=True)
case("mlp_step_f32", mlp)
case("transformer_12_step_bf16", transformer)
case("copy", copy)
case("product_8192_bf16", product(BF16))
case("product_8192_f16", product(torch.float16))
case("product_8192_f32", product(torch.float32))
case("scaled_8192_i8_rows", scaled_i8)
case("scaled_8192_i8_sums", sums_i8)
case("scaled_8192_f8e4m3", scaled_f8(False))
case("scaled_8192_f8e4m3_rows", scaled_f8(True))
case("linear_8192_bf16", linear(8192, 8192, 8192, BF16))
for batch in (1, 32):
    for width in (64, 256, 1024):
        case(f"linear_{width}_b{batch}_f32", linear(batch, width, width, torch.float32))
case("bias_gelu_bf16", bias_gelu)
case("softmax_bf16", softmax)
case("layer_norm_bf16", layer_norm(False))
case("layer_norm_bf16_fb", layer_norm(True))
case("cross_entropy_bf16_fb", cross_entropy)
case("adamw_f32", adamw)
case("attention_bf16_causal", attention(False))
case("attention_bf16_causal_fb", attention(True))
case("sketched_dense_bf16", linear(4096, 4096, 4096, BF16))

# SPDX-License-Identifier: MIT
"""PyTorch on the cases of bench.lua, one JSON line each: microseconds a call, median of windows.

What can be is captured in a CUDA graph and replayed, as ridge replays plans; the name then has _graph
behind it. The eager call stands beside it. Where this PyTorch cannot do a case, the line says why.

With --compiled the cases that torch.compile is a rival in are compiled instead, which takes longer
than timing them: NAME_compiled as the mode of that case runs it, NAME_compiled_graph compiled
without graphs of its own and then captured as a whole. A case ends after --limit seconds, all of
them after --seconds.

usage: torch_bench.py [--only PREFIX[,PREFIX...]] [--compiled [--limit N] [--seconds N]]
"""
import argparse
import json
import signal
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

parser = argparse.ArgumentParser()
parser.add_argument("--only", default="")
parser.add_argument("--compiled", action="store_true")
parser.add_argument("--limit", type=int, default=100)
parser.add_argument("--seconds", type=float, default=170)
opt = parser.parse_args()
wanted = [p for p in opt.only.split(",") if p]
DEV = "cuda"
BF16 = torch.bfloat16
torch.manual_seed(0)
BEGUN = time.monotonic()


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


def plain(f):
    return f


def line(name, make, wrap, **how):
    try:
        f, work = make()
        row = timed(wrap(f), **how)
        if "flops" in work:
            row["tflops"] = work["flops"] / row["us"] / 1e6
        if "bytes" in work:
            row["gb_s"] = work["bytes"] / row["us"] / 1e3
    except Exception as e:  # a case that this PyTorch cannot do is a result too
        row = {"error": f"{type(e).__name__}: {' '.join(str(e).split())[:160]}"}
    print(json.dumps({"case": name, **row}), flush=True)
    torch.cuda.empty_cache()


def is_wanted(name):
    return not wanted or any(name.startswith(p) for p in wanted)


def case(name, make, **how):
    if opt.compiled or not is_wanted(name):
        return
    for kind, wrap in (("", plain), ("_graph", graphed)):
        line(name + kind, make, wrap, **how)


def late(*_):
    raise TimeoutError("not compiled and timed in the time there was")


def compiled(name, make, mode, mode_captured):
    """make(wrap) as make() of a case; wrap compiles what it is given."""
    if not opt.compiled or not is_wanted(name):
        return
    signal.signal(signal.SIGALRM, late)
    for kind, how, wrap in (("_compiled", mode, plain), ("_compiled_graph", mode_captured, graphed)):
        left = int(opt.seconds - (time.monotonic() - BEGUN))
        if left < 1:
            print(json.dumps({"case": name + kind, "error": "no time left"}), flush=True)
            continue
        torch._dynamo.reset()
        signal.alarm(min(opt.limit, left))
        line(name + kind, lambda: make(lambda f: torch.compile(f, mode=how)), wrap)
        signal.alarm(0)


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


def fill():
    n = 2**28
    y = torch.zeros(n, device=DEV)
    return lambda: y.fill_(1), {"bytes": 4 * n}


def add():
    n = 2**27
    x, y = randn(torch.float32, n), randn(torch.float32, n)
    return lambda: x + y, {"bytes": 12 * n}


def product(dtype):
    def make():
        n = 8192
        a, b = randn(dtype, n, n), randn(dtype, n, n)
        return lambda: a @ b, {"flops": 2 * n**3}
    return make


def linear(batch, inputs, outputs, dtype, act=None):
    def make():
        layer, x = nn.Linear(inputs, outputs).to(dtype).to(DEV), randn(dtype, batch, inputs)
        return without_grad(lambda: act(layer(x)) if act else layer(x)), \
            {"flops": 2 * batch * inputs * outputs}
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


def bias_gelu(wrap=plain):
    n = 8192
    x, b = randn(BF16, n, n), randn(BF16, n)
    f = wrap(lambda x, b: F.gelu(x + b))
    return lambda: f(x, b), {"bytes": 4 * n * n}


def silu_mul():
    n = 8192
    x, y = randn(BF16, n, n), randn(BF16, n, n)
    return lambda: F.silu(x) * y, {"bytes": 6 * n * n}


def conv_gelu():
    n, channels, side = 64, 256, 56
    layer = nn.Conv2d(channels, channels, 1).to(BF16).to(DEV)
    x = randn(BF16, n, channels, side, side)
    return without_grad(lambda: F.gelu(layer(x))), {"bytes": 4 * n * channels * side**2}


def pool(method, last, back):
    def make():
        n, channels, side = 64, 64, 112
        x = randn(BF16, n, channels, side, side)
        x = x.to(memory_format=torch.channels_last) if last else x
        bytes = 2.5 * n * channels * side**2
        if not back:
            return lambda: method(x, 3, stride=2, padding=1), {"bytes": bytes}
        dy = torch.randn_like(method(x, 3, stride=2, padding=1))
        x.requires_grad_()

        def f():
            x.grad = None
            method(x, 3, stride=2, padding=1).backward(dy)
        return f, {"bytes": 2 * bytes}
    return make


def softmax(wrap=plain):
    n = 8192
    x = randn(BF16, n, n)
    f = wrap(lambda x: x.softmax(-1))
    return lambda: f(x), {"bytes": 4 * n * n}


def softmax_wide(wrap=plain):
    rows, n = 1024, 65536
    x = randn(BF16, rows, n)
    f = wrap(lambda x: x.softmax(-1))
    return lambda: f(x), {"bytes": 4 * rows * n}


def layer_norm(back, rows=16384, n=4096):
    def make(wrap=plain):
        layer, x = nn.LayerNorm(n).to(BF16).to(DEV), randn(BF16, rows, n)
        norm = wrap(layer)
        if not back:
            return without_grad(lambda: norm(x)), {"bytes": 4 * rows * n}
        dy = randn(BF16, rows, n)
        x.requires_grad_()

        def f():
            layer.weight.grad = layer.bias.grad = x.grad = None
            norm(x).backward(dy)
        return f, {"bytes": 10 * rows * n}
    return make


def cross_entropy(wrap=plain):
    rows, n = 8192, 50304
    x, y = randn(BF16, rows, n).requires_grad_(), torch.randint(0, n, (rows,), device=DEV)
    loss = wrap(F.cross_entropy)

    def f():
        x.grad = None
        loss(x, y).backward()
    return f, {"bytes": 6 * rows * n}


def adamw(wrap=plain):
    """Fused by PyTorch itself, or compiled from the steps of the foreach form."""
    each, many = 2**20, 64
    params = [nn.Parameter(randn(torch.float32, each)) for _ in range(many)]
    for p in params:
        p.grad = 2 * p.detach()
    how = {"fused": True} if wrap is plain else {"foreach": True}
    optimizer = torch.optim.AdamW(params, 1e-4, capturable=True, **how)
    return wrap(optimizer.step), {"bytes": 28 * each * many}


def embedding(dtype):
    """Rows of a table by number, and the gradient of the table: what moves is counted once."""
    def make():
        rows, width, n = 50304, 768, 8192
        table = randn(dtype, rows, width).requires_grad_()
        index = torch.randint(0, rows, (n,), device=DEV)
        dy = randn(dtype, n, width)

        def f():
            table.grad = None
            F.embedding(index, table).backward(dy)
        return f, {"bytes": (3 * n + rows) * width * table.element_size()}
    return make


WINDOW = 1024  # positions that a row sees besides its own block of 64


def window_mask(b, h, q, k):
    q, k = q // 64, k // 64
    return (q >= k) & (q - k <= WINDOW // 64)


def attention(dtype, back, local=False, tf32=False):
    def make(wrap=None):
        heads, n, d = 16, 8192, 128
        q, k, v = (randn(dtype, 1, heads, n, d) for _ in range(3))
        torch.backends.cuda.matmul.allow_tf32 = tf32
        flops = 4 * heads * n * (WINDOW if local else n / 2) * d
        if local and wrap is not None:  # blocks left out, which takes a compiled kernel
            blocks = create_block_mask(lambda b, h, q, k: (q >= k) & window_mask(b, h, q, k),
                                       None, None, n, n, DEV, BLOCK_SIZE=128)
            flex = wrap(flex_attention)
            attend = lambda: flex(q, k, v, block_mask=blocks)
        elif local:
            at = torch.arange(n, device=DEV)
            mask = window_mask(0, 0, at[:, None], at[None, :]) & (at[:, None] >= at[None, :])
            attend = lambda: F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        else:
            attend = lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)
        if not back:
            return without_grad(attend), {"flops": flops}
        dy = randn(dtype, 1, heads, n, d)
        for x in (q, k, v):
            x.requires_grad_()

        def f():
            q.grad = k.grad = v.grad = None
            attend().backward(dy)
        return f, {"flops": 3.5 * flops}
    return make


class Heads(nn.Module):
    """Causal attention between its projections, weights dropped: ridge.nn.MultiHeadAttention."""

    def __init__(self, width, heads, p):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.heads, self.p = heads, p

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (h.view(b, t, self.heads, -1).transpose(1, 2)
                   for h in self.qkv(x).split(c, -1))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.p)
        return self.out(a.transpose(1, 2).reshape(b, t, c))


def attention_dropout(wrap=plain):
    batch, n, width = 4, 2048, 2048
    layer = wrap(Heads(width, 16, 0.1).to(BF16).to(DEV).train())
    x, dy = randn(BF16, batch, n, width).requires_grad_(), randn(BF16, batch, n, width)

    def f():
        layer.zero_grad(set_to_none=True)
        x.grad = None
        layer(x).backward(dy)
    return f, {}


def step_of(net, x, y, wrap):
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3, fused=True, capturable=True)
    loss = wrap(lambda x, y: F.mse_loss(net(x), y))

    def f():
        optimizer.zero_grad(set_to_none=True)
        loss(x, y).backward()
        optimizer.step()
    return f, {}


def mlp(wrap=plain):
    net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64)).to(DEV)
    return step_of(net, randn(torch.float32, 32, 64), randn(torch.float32, 32, 64), wrap)


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


def transformer(wrap=plain):
    width, n, batch = 768, 1024, 8
    net = nn.Sequential(*[Block(width, 12) for _ in range(12)]).to(BF16).to(DEV)
    return step_of(net, randn(BF16, batch, n, width), randn(BF16, batch, n, width), wrap)


def sketched(terms, rank, dtype):
    """As Panther computes it, all terms in one batch: y = 1/(2T) sum ((x S1) U1 + (x U2) S2) + b."""
    def make():
        n = 4096
        x, bias = randn(dtype, n, n), randn(dtype, n)
        s1, u2 = randn(dtype, terms, n, rank), randn(dtype, terms, n, rank)
        u1, s2 = randn(dtype, terms, rank, n), randn(dtype, terms, rank, n)
        xs = x.unsqueeze(0).expand(terms, n, n)

        def f():
            both = torch.bmm(torch.bmm(xs, s1), u1) + torch.bmm(torch.bmm(xs, u2), s2)
            return both.mean(0) / 2 + bias
        return without_grad(f), {}
    return make


print(json.dumps({"torch": torch.__version__, "cuda": torch.version.cuda,
                  "cudnn": torch.backends.cudnn.version(),
                  "device": torch.cuda.get_device_name()}), flush=True)
case("mlp_step_f32", mlp)
case("transformer_12_step_bf16", transformer)
case("copy", copy)
case("fill_f32", fill)
case("add_f32", add)
case("product_8192_bf16", product(BF16))
case("product_8192_f16", product(torch.float16))
case("product_8192_f32", product(torch.float32))
case("scaled_8192_i8_rows", scaled_i8)
case("scaled_8192_i8_sums", sums_i8)
case("scaled_8192_f8e4m3", scaled_f8(False))
case("scaled_8192_f8e4m3_rows", scaled_f8(True))
case("linear_8192_bf16", linear(8192, 8192, 8192, BF16))
case("linear_gelu_8192_bf16", linear(8192, 4096, 4096, BF16, F.gelu))
for batch in (1, 32):
    for width in (64, 256, 1024):
        case(f"linear_{width}_b{batch}_f32", linear(batch, width, width, torch.float32))
case("bias_gelu_bf16", bias_gelu)
case("silu_mul_bf16", silu_mul)
case("softmax_bf16", softmax)
case("layer_norm_bf16", layer_norm(False))
case("layer_norm_bf16_fb", layer_norm(True))
case("softmax_wide_bf16", softmax_wide)
case("layer_norm_wide_bf16", layer_norm(False, 2048, 32768))
case("layer_norm_wide_bf16_fb", layer_norm(True, 2048, 32768))
case("conv_gelu_bf16", conv_gelu)
case("max_pool_bf16", pool(F.max_pool2d, False, False))
case("max_pool_bf16_fb", pool(F.max_pool2d, False, True))
case("avg_pool_bf16_fb", pool(F.avg_pool2d, False, True))
case("max_pool_nhwc_bf16_fb", pool(F.max_pool2d, True, True))
case("cross_entropy_bf16_fb", cross_entropy)
case("adamw_f32", adamw)
for name, how in (("bf16_causal", {"dtype": BF16}), ("bf16_local", {"dtype": BF16, "local": True}),
                  ("f32_causal", {"dtype": torch.float32}),
                  ("tf32_causal", {"dtype": torch.float32, "tf32": True})):
    for back in (False, True):
        case(f"attention_{name}{'_fb' if back else ''}", attention(back=back, **how))
torch.backends.cuda.matmul.allow_tf32 = False
case("attention_bf16_dropout_fb", attention_dropout)
case("embedding_bf16_fb", embedding(BF16))
case("embedding_f32_fb", embedding(torch.float32))
for dtype, of in ((BF16, "bf16"), (torch.float32, "f32")):
    case(f"sketched_dense_{of}", linear(4096, 4096, 4096, dtype))
    for terms in (1, 2, 4, 8):
        for rank in (32, 128, 512):
            case(f"sketched_{terms}_{rank}_{of}", sketched(terms, rank, dtype), windows=5,
                 seconds=0.03)

TUNED = "max-autotune-no-cudagraphs"
compiled("mlp_step_f32", mlp, "reduce-overhead", "default")
compiled("bias_gelu_bf16", bias_gelu, TUNED, TUNED)
compiled("softmax_bf16", softmax, TUNED, TUNED)
compiled("layer_norm_bf16", layer_norm(False), TUNED, TUNED)
compiled("layer_norm_bf16_fb", layer_norm(True), TUNED, TUNED)
compiled("attention_bf16_local", attention(BF16, False, True), "default", "default")
compiled("attention_bf16_local_fb", attention(BF16, True, True), "default", "default")
compiled("cross_entropy_bf16_fb", cross_entropy, TUNED, TUNED)
compiled("transformer_12_step_bf16", transformer, "reduce-overhead", "default")
compiled("adamw_f32", adamw, "default", "default")

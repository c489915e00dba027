#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/fixtures/gradients.safetensors: results and gradients by PyTorch, in float64.

usage: fixtures.py FILE      (needs PyTorch; the tests that read the file do not)
Each case has inputs NAME.in1 .., what arrives NAME.dy, the result NAME.y and gradients NAME.g1 ..
"""
import json, struct, sys
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(1)
torch.set_default_dtype(torch.float64)
out = {}


def R(*shape):
    return torch.randn(*shape)


def case(name, f, *inputs, fixed=()):
    xs = [x.clone().requires_grad_() for x in inputs]
    y = f(*xs, *fixed)
    dy = torch.randn_like(y)
    y.backward(dy)
    for i, x in enumerate(xs, 1):
        out[f"{name}.in{i}"] = x.detach()
        out[f"{name}.g{i}"] = x.grad
    for i, x in enumerate(fixed, len(xs) + 1):
        out[f"{name}.in{i}"] = x
    out[f"{name}.y"], out[f"{name}.dy"] = y.detach(), dy


case("add", lambda a, b: a + b, R(3, 1, 4), R(5, 1))
case("mul", lambda a, b: a * b, R(3, 4), R(4))
case("div", lambda a, b: a / b, R(2, 3), R(2, 3) + 3)
case("pow", lambda a, b: a ** b, R(6).abs() + 0.5, R(6))
for name in ("exp", "tanh", "sigmoid", "sin", "cos", "erf", "square", "abs"):
    case(name, getattr(torch, name), R(3, 5))
for name in ("log", "sqrt", "rsqrt", "reciprocal"):
    case(name, getattr(torch, name), R(3, 5).abs() + 0.3)
for name in ("relu", "gelu", "silu", "softplus"):
    case(name, getattr(F, name), R(4, 6))
case("softmax", lambda x: x.softmax(1), R(3, 7, 2))
case("matmul", lambda a, b: a @ b, R(2, 1, 3, 4), R(5, 4, 6))
case("linear", F.linear, R(2, 3, 4), R(5, 4), R(5))
case("sum", lambda x: x.sum((0, 2), keepdim=True), R(3, 4, 5))
case("mean", lambda x: x.mean(1), R(3, 4, 5))
case("max", lambda x: x.amax(2), R(3, 4, 5))
case("norm", lambda x: x.norm(dim=1), R(3, 4))
case("layer_norm", lambda x, w, b: F.layer_norm(x, (6,), w, b), R(2, 3, 6), R(6), R(6))
case("rms_norm", lambda x, w: F.rms_norm(x, (6,), w, 1e-5), R(2, 3, 6), R(6))
case("group_norm", lambda x, w, b: F.group_norm(x, 2, w, b), R(3, 4, 3, 2), R(4), R(4))
case("batch_norm", lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), R(5, 3, 2, 2), R(3), R(3))
case("conv2d", lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=(1, 2)), R(2, 3, 7, 6), R(4, 3, 3, 3), R(4))
case("conv2d_groups", lambda x, w: F.conv2d(x, w, dilation=2, groups=2), R(2, 4, 8, 7), R(6, 2, 3, 2))
case("max_pool2d", lambda x: F.max_pool2d(x, 3, 2, 1), R(2, 2, 7, 6))
case("avg_pool2d", lambda x: F.avg_pool2d(x, 2), R(2, 2, 6, 4))
labels = torch.tensor([2, 0, 4, 2])
case("cross_entropy", lambda x: F.cross_entropy(x, labels), R(4, 5))
case("cross_entropy_options", lambda x, w: F.cross_entropy(x, labels, w.detach(), label_smoothing=0.1, ignore_index=0),
     R(4, 5), fixed=(R(5).abs() + 0.1,))
case("mse_loss", F.mse_loss, R(3, 4), fixed=(R(3, 4),))
case("l1_loss", F.l1_loss, R(3, 4), fixed=(R(3, 4),))
case("huber_loss", F.huber_loss, 2 * R(3, 4), fixed=(R(3, 4),))
case("bce_with_logits", F.binary_cross_entropy_with_logits, R(3, 4), fixed=(torch.rand(3, 4),))
index = torch.tensor([[1, 4], [0, 1]])
case("embedding", lambda w: F.embedding(index, w), R(5, 3))
case("attention", lambda q, k, v: F.scaled_dot_product_attention(q, k, v), R(2, 3, 5, 4), R(2, 3, 7, 4), R(2, 3, 7, 6))
case("attention_causal", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
     R(2, 90, 8), R(2, 90, 8), R(2, 90, 8))


def recurrent(name, make):
    m = make(3, 4, num_layers=2, batch_first=True, bidirectional=True)
    weights = [p.detach() for p in m.parameters()]

    def f(x, *ws):
        names = [n for n, _ in m.named_parameters()]
        return torch.func.functional_call(m, dict(zip(names, ws)), (x,))[0]
    case(name, f, R(2, 5, 3), *weights)


recurrent("lstm", nn.LSTM)
recurrent("gru", nn.GRU)

header, blob = {"__metadata__": {"by": f"PyTorch {torch.__version__}", "command": "scripts/peers/fixtures.py"}}, b""
for name, x in out.items():
    data = x.contiguous().numpy().tobytes()
    header[name] = {"dtype": "F64", "shape": list(x.shape), "data_offsets": [len(blob), len(blob) + len(data)]}
    blob += data
text = json.dumps(header, separators=(",", ":")).encode()
text += b" " * (-len(text) % 8)
with open(sys.argv[1], "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text + blob)
print(len(out), "tensors,", 8 + len(text) + len(blob), "bytes")

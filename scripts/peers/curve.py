# SPDX-License-Identifier: MIT
"""PyTorch's losses from the weights and batches of curve.lua, in three ways of its own: prints how far
they and ridge's are apart. A trajectory is chaotic: what differs by rounding once differs later on.

usage: curve.py FOLDER_WITH_MNIST FOLDER_OF_CURVE_LUA
"""
import gzip
import os
import struct
import sys

import torch
from torch import nn
from torch.nn import functional as F


def idx(folder, name):
    path = os.path.join(folder, name)
    with (open(path, "rb") if os.path.exists(path) else gzip.open(path + ".gz")) as f:
        raw = f.read()
    sizes = struct.unpack(f">{raw[3]}I", raw[4:4 + 4 * raw[3]])
    return torch.frombuffer(bytearray(raw[4 + 4 * raw[3]:]), dtype=torch.uint8).reshape(sizes)


data, out = sys.argv[1:3]
x = (idx(data, "train-images-idx3-ubyte").float() / 255).unsqueeze(1)
y = idx(data, "train-labels-idx1-ubyte").long()
with open(os.path.join(out, "weights.bin"), "rb") as f:
    weights = torch.frombuffer(bytearray(f.read()), dtype=torch.float32)
with open(os.path.join(out, "losses.txt")) as f:
    ridge = [float(line) for line in f]


def train(dtype, mkldnn):
    torch.backends.mkldnn.enabled = mkldnn
    net = nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
        nn.Linear(84, 10)).to(dtype)
    at = 0
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(weights[at:at + p.numel()].view_as(p))
            at += p.numel()
    assert at == weights.numel(), "the weights are those of another network"
    optimizer = torch.optim.SGD(net.parameters(), 1e-2, momentum=0.9)
    batches, losses = len(x) // 64, []
    for i in range(len(ridge)):
        at = i % batches * 64
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x[at:at + 64].to(dtype)), y[at:at + 64])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


plain = train(torch.float32, False)
runs = [("PyTorch f32, its own convolutions", plain), ("PyTorch f32, oneDNN's", train(torch.float32, True)),
        ("PyTorch f64", train(torch.float64, False))]
print(f"{'step':>4s}  {'ridge f32':>10s}  " + "  ".join(name for name, _ in runs))
for i in list(range(0, len(ridge), 20)) + [len(ridge) - 1]:
    print(f"{i + 1:4d}  {ridge[i]:10.6f}  " + "  ".join(f"{losses[i]:{len(name)}.6f}" for name, losses in runs))
print(f"\nlargest difference over {len(ridge)} steps, of the runs to")
for name, losses in runs:
    apart = max(abs(a - b) for a, b in zip(losses, ridge))
    other = max(abs(a - b) for a, b in zip(losses, plain))
    print(f"  {name:34s} ridge {apart:.1e}   the first PyTorch {other:.1e}")

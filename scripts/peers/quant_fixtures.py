#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/fixtures/quant.safetensors: what PyTorch's observers make of values, the whole
numbers of it, and KLDivLoss times T^2.

usage: quant_fixtures.py FILE      (needs PyTorch; the test that reads the file does not)
"""
import json, struct, sys
import torch
import torch.nn.functional as F
from torch.ao.quantization import observer as obs

torch.manual_seed(3)
out = {}

# five batches that drift, with a few values far away
batches = torch.randn(5, 96) * torch.linspace(0.5, 2, 5)[:, None] + 0.4
batches[2, 7], batches[4, 11] = 9.0, -7.5
out["batches"] = batches

EIGHT = {"u8": dict(dtype=torch.quint8, qscheme=torch.per_tensor_affine, quant_min=0, quant_max=255),
         "i8": dict(dtype=torch.qint8, qscheme=torch.per_tensor_symmetric, quant_min=-127,
                    quant_max=127)}
KINDS = {"minmax": (obs.MinMaxObserver, {}), "mse": (obs.HistogramObserver, {}),
         "average": (obs.MovingAverageMinMaxObserver, dict(averaging_constant=0.01))}
for kind, (make, more) in KINDS.items():
    for name, scheme in EIGHT.items():
        o = make(**scheme, **more)
        for x in batches:
            o(x)
        scale, zero = o.calculate_qparams()
        q = torch.quantize_per_tensor(batches, float(scale), int(zero), scheme["dtype"])
        out[f"{kind}.{name}.scale"] = scale.float().reshape(1)
        out[f"{kind}.{name}.zero"] = zero.to(torch.int32).reshape(1)
        out[f"{kind}.{name}.codes"] = q.int_repr()
        out[f"{kind}.{name}.error"] = (q.dequantize() - batches).double().square().sum().reshape(1)

weight = torch.randn(6, 32) * torch.tensor([1, 0.1, 3, 0.01, 1, 20])[:, None]
o = obs.PerChannelMinMaxObserver(ch_axis=0, dtype=torch.qint8, quant_min=-127, quant_max=127,
                                 qscheme=torch.per_channel_symmetric)
o(weight)
scale, zero = o.calculate_qparams()
out["weight"], out["weight.scale"] = weight, scale.float()
out["weight.codes"] = torch.quantize_per_channel(weight, scale, zero, 0, torch.qint8).int_repr()

for t, alpha in ((1.0, 1.0), (4.0, 1.0), (4.0, 0.3), (20.0, 0.5)):
    student = (torch.randn(16, 10) * 3).double().requires_grad_()
    teacher = (torch.randn(16, 10) * 5).double()
    labels = torch.randint(0, 10, (16,))
    soft = torch.nn.KLDivLoss(reduction="batchmean")(F.log_softmax(student / t, -1),
                                                     F.softmax(teacher / t, -1)) * t ** 2
    loss = alpha * soft + (1 - alpha) * F.cross_entropy(student, labels)
    loss.backward()
    name = f"distill.{t:g}.{alpha:g}"
    out.update({name + ".student": student.detach(), name + ".teacher": teacher,
                name + ".labels": labels, name + ".loss": loss.detach().reshape(1),
                name + ".gradient": student.grad})

NAMES = {torch.float32: "F32", torch.float64: "F64", torch.int64: "I64", torch.int32: "I32",
         torch.uint8: "U8", torch.int8: "I8"}
header, data = {"__metadata__": {"torch": torch.__version__}}, b""
for name in sorted(out):
    x = out[name].detach().contiguous()
    raw = x.numpy().tobytes()
    header[name] = {"dtype": NAMES[x.dtype], "shape": list(x.shape),
                    "data_offsets": [len(data), len(data) + len(raw)]}
    data += raw
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
with open(sys.argv[1], "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text + data)

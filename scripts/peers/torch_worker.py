#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""PyTorch as a candidate of ridge.measure.ab: runs a function when it is told to (worker.py).

usage: torch_worker.py FILE [--threads N] [--compile MODE] [--freeze] [--input FILE.npy ...]
                       [--size NAME=N ...] [--seed N]
FILE.py defines make(), which returns a callable (a module, say) and a tuple of its arguments;
FILE.onnx is read as a module (onnx_torch.py), on the files given, in its order, or drawn inputs.  --compile eager leaves it as it is;
default, reduce-overhead and max-autotune are torch.compile's.  --freeze lets it fold what is computed
of parameters (batch normalisation) and keep weights in the layout of oneDNN's kernels.
"""
import argparse
import runpy

import numpy as np
import torch

import worker

ap = argparse.ArgumentParser()
ap.add_argument("file")
ap.add_argument("--threads", type=int, default=1)
ap.add_argument("--compile", default="default",
                choices=["eager", "default", "reduce-overhead", "max-autotune"])
ap.add_argument("--freeze", action="store_true")
ap.add_argument("--input", action="append", default=[], metavar="FILE.npy")
ap.add_argument("--size", action="append", default=[], metavar="NAME=N")
ap.add_argument("--seed", type=int, default=1)
opt = ap.parse_args()

torch.set_num_threads(opt.threads)
torch.manual_seed(opt.seed)
if opt.file.endswith(".onnx"):
    import onnx_torch

    sizes = {name: int(n) for name, n in (text.split("=", 1) for text in opt.size)}
    call, inputs = onnx_torch.module(opt.file, sizes, opt.seed)
    if opt.input:
        inputs = tuple(torch.from_numpy(np.load(path)) for path in opt.input)
else:
    call, inputs = runpy.run_path(opt.file)["make"]()
if isinstance(call, torch.nn.Module):
    call = call.eval()
if opt.compile != "eager":
    if opt.freeze:
        import torch._inductor.config

        torch._inductor.config.freezing = True
    call = torch.compile(call, mode=opt.compile)


def once():
    with torch.inference_mode():
        return call(*inputs)


def results():
    got = once()
    return [x.float().numpy() for x in (got if isinstance(got, (tuple, list)) else [got])]


once()  # compiles
words = opt.compile + (", frozen" if opt.freeze else "")
worker.serve(once, results, f"torch {torch.__version__}, {opt.threads} threads, {words}")

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""PyTorch as a candidate of ridge.measure.ab: runs a function when it is told to (worker.py).

usage: torch_worker.py FILE.py [--threads N] [--compile MODE] [--seed N]
FILE.py defines make(), which returns a callable (a module, say) and a tuple of its arguments.
--compile eager leaves it as it is; default, reduce-overhead and max-autotune are torch.compile's.
"""
import argparse
import runpy

import torch

import worker

ap = argparse.ArgumentParser()
ap.add_argument("file")
ap.add_argument("--threads", type=int, default=1)
ap.add_argument("--compile", default="default",
                choices=["eager", "default", "reduce-overhead", "max-autotune"])
ap.add_argument("--seed", type=int, default=1)
opt = ap.parse_args()

torch.set_num_threads(opt.threads)
torch.manual_seed(opt.seed)
call, inputs = runpy.run_path(opt.file)["make"]()
if isinstance(call, torch.nn.Module):
    call = call.eval()
if opt.compile != "eager":
    call = torch.compile(call, mode=opt.compile)


def once():
    with torch.inference_mode():
        return call(*inputs)


def results():
    got = once()
    return [x.float().numpy() for x in (got if isinstance(got, (tuple, list)) else [got])]


once()  # compiles
worker.serve(once, results, f"torch {torch.__version__}, {opt.threads} threads, {opt.compile}")

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""ONNX Runtime as a candidate of ridge.measure.ab: runs a file when it is told to (worker.py).

usage: ort_worker.py NET.onnx [--threads N] [--input NAME=FILE.npy ...] [--size NAME=N ...]
                     [--seed N] [--level all|extended|basic|none] [--spin]
Inputs that no file gives are drawn from a standard normal distribution; sizes that the file leaves
open are 1 unless --size names them.  Threads stop spinning with each run, so that they take nothing from whoever is timed
next (--spin leaves them).
"""
import argparse

import numpy as np
import onnxruntime as ort

import worker

ap = argparse.ArgumentParser()
ap.add_argument("net")
ap.add_argument("--threads", type=int, default=1)
ap.add_argument("--input", action="append", default=[], metavar="NAME=FILE.npy")
ap.add_argument("--size", action="append", default=[], metavar="NAME=N")
ap.add_argument("--seed", type=int, default=1)
ap.add_argument("--level", default="all", choices=["all", "extended", "basic", "none"])
ap.add_argument("--spin", action="store_true")
opt = ap.parse_args()

how = ort.SessionOptions()
how.intra_op_num_threads = opt.threads
how.inter_op_num_threads = 1
how.log_severity_level = 3
how.graph_optimization_level = {
    "all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
    "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "basic": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "none": ort.GraphOptimizationLevel.ORT_DISABLE_ALL}[opt.level]
if not opt.spin:
    how.add_session_config_entry("session.force_spinning_stop", "1")
session = ort.InferenceSession(opt.net, how, providers=["CPUExecutionProvider"])

KINDS = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16,
         "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(uint8)": np.uint8,
         "tensor(int8)": np.int8, "tensor(bool)": np.bool_}
given = dict(text.split("=", 1) for text in opt.input)
sizes = {name: int(n) for name, n in (text.split("=", 1) for text in opt.size)}
draw, feed = np.random.default_rng(opt.seed), {}
for x in session.get_inputs():
    if x.name in given:
        feed[x.name] = np.load(given[x.name])
    else:
        shape = [size if isinstance(size, int) else sizes.get(size, 1) for size in x.shape]
        feed[x.name] = draw.standard_normal(shape).astype(KINDS[x.type])

# bound once: no array is made or checked by a call
binding = session.io_binding()
for name, array in feed.items():
    binding.bind_cpu_input(name, array)
for x in session.get_outputs():
    binding.bind_output(x.name)

worker.serve(lambda: session.run_with_iobinding(binding), lambda: session.run(None, feed),
             f"onnxruntime {ort.__version__}, {opt.threads} threads, passes: {opt.level}")

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Training steps by torch's DistributedDataParallel over gloo, for ddp.lua, which writes its input.

usage: ddp.py FOLDER RANKS ROWS WIDTH LAYERS STEPS
Weights and rows of FOLDER; each rank has ROWS / RANKS of them and one thread.  Prints the mean
losses of the first steps, then the nanoseconds of a step.
"""
import os
import sys
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

LOSSES = 5


def network(folder, width, layers):
    parts = []
    for _ in range(layers):
        parts += [torch.nn.Linear(width, width), torch.nn.ReLU()]
    net = torch.nn.Sequential(*parts, torch.nn.Linear(width, 10))
    flat, at = np.fromfile(os.path.join(folder, "weights.bin"), dtype=np.float32), 0
    with torch.no_grad():
        for p in net.parameters():
            n = p.numel()
            p.copy_(torch.from_numpy(flat[at:at + n].reshape(p.shape)))
            at += n
    assert at == flat.size
    return net


def rank_of(rank, folder, ranks, rows, width, layers, steps):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=ranks,
                            init_method="file://" + os.path.join(folder, f"meet{os.getppid()}"))
    net = DistributedDataParallel(network(folder, width, layers))
    own = rows // ranks
    x = np.fromfile(os.path.join(folder, "x.bin"), dtype=np.float32).reshape(rows, width)
    y = np.fromfile(os.path.join(folder, "y.bin"), dtype=np.int64)
    x = torch.from_numpy(x[rank * own:(rank + 1) * own].copy())
    y = torch.from_numpy(y[rank * own:(rank + 1) * own].copy())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    loss_of = torch.nn.CrossEntropyLoss()

    def step():
        optimizer.zero_grad()
        loss = loss_of(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    losses = []
    for _ in range(LOSSES):
        loss = step().detach().clone()
        dist.all_reduce(loss)
        losses.append(f"{loss.item() / ranks:.7f}")
    dist.barrier()
    began = time.perf_counter_ns()
    for _ in range(steps):
        step()
    dist.barrier()
    took = (time.perf_counter_ns() - began) / steps
    if rank == 0:
        print("losses", *losses)
        print(f"ns {took:.0f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[2:]]
    mp.spawn(rank_of, args=(sys.argv[1], *numbers), nprocs=numbers[0])

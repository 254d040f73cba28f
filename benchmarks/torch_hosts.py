#!/usr/bin/env python3
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""hosts.cpp's emulated computation under PyTorch's DistributedDataParallel over gloo; benchmarks/hosts.sh starts it.

    bench_hosts resnet50 0 > table; sudo scripts/hosts 4 --rate 1gbit -- python3 benchmarks/torch_hosts.py table REPS

A line of the table is a tensor's size and the seconds of backward in it. Gradients are zeros, which DDP copies to its
buckets. Prints the least and the greatest time of a step, which lasts as long as its slowest rank.
"""
import os
import sys
import time

import torch
import torch.distributed as dist


class Layer(torch.autograd.Function):
    """Sleeps in backward until `until` seconds after its begin."""
    @staticmethod
    def forward(ctx, x, weight, zeros, until, begin):
        ctx.rest = zeros, until, begin
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        zeros, until, begin = ctx.rest
        begin.setdefault("at", time.perf_counter())
        time.sleep(max(0.0, begin["at"] + until - time.perf_counter()))
        return gradient, zeros, None, None, None


class Net(torch.nn.Module):
    def __init__(self, table):
        super().__init__()
        self.weights = torch.nn.ParameterList(torch.zeros(size) for size, _ in table)
        self.zeros = [torch.zeros(size) for size, _ in table]
        self.seconds = [seconds for _, seconds in table]

    def forward(self, x):
        time.sleep(sum(self.seconds) / 2)
        begin, until, left = {}, [], 0.0
        for seconds in reversed(self.seconds):
            left += seconds
            until.insert(0, left)
        for k, weight in enumerate(self.weights):
            x = Layer.apply(x, weight, self.zeros[k], until[k], begin)
        return x.sum()


def main():
    with open(sys.argv[1], encoding="ascii") as file:
        table = [(int(size), float(seconds)) for size, seconds in map(str.split, file)]
    reps = int(sys.argv[2])
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "eth0"
    dist.init_process_group("gloo")
    ddp = torch.nn.parallel.DistributedDataParallel(Net(table), gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(ddp.parameters(), 1e-3, momentum=0.9, fused=True)
    x = torch.zeros(1, requires_grad=True)
    times = []
    for _ in range(reps + 1):
        dist.barrier()
        start = time.perf_counter()
        optimizer.zero_grad()
        ddp(x).backward()
        optimizer.step()
        seconds = torch.tensor(time.perf_counter() - start)
        dist.all_reduce(seconds, dist.ReduceOp.MAX)
        times.append(1e3 * seconds.item())
    if dist.get_rank() == 0:
        print(f"DDP over gloo, torch {torch.__version__:12} {min(times[1:]):9.1f} {max(times[1:]):9.1f} ms", flush=True)
    dist.destroy_process_group()


main()

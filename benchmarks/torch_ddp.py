#!/usr/bin/env python3
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""A step of libtorch_step.cpp's network under PyTorch's DistributedDataParallel over gloo.

    torchrun --nproc-per-node 2 benchmarks/torch_ddp.py --batch 32 --reps 20

Milliseconds, the minimum over the repetitions; a step lasts as long as its slowest rank.
"""
import argparse
import time

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--batch", type=int, default=32, help="samples of a rank")
parser.add_argument("--reps", type=int, default=20)
args = parser.parse_args()

torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(1)
widths = [1024, 4096, 4096, 1024]
layers = []
for a, b in zip(widths, widths[1:]):
    layers += [torch.nn.Linear(a, b), torch.nn.ReLU()]
net = torch.nn.Sequential(*layers, torch.nn.Linear(1024, 10))
ddp = torch.nn.parallel.DistributedDataParallel(net, gradient_as_bucket_view=True)
optimizer = torch.optim.SGD(net.parameters(), 1e-3, momentum=0.9, weight_decay=1e-4, fused=True)
torch.manual_seed(dist.get_rank() + 7)
x, y = torch.randn(args.batch, 1024), torch.randint(0, 10, (args.batch,))
least = float("inf")
for k in range(-3, args.reps):
    dist.barrier()
    start = time.perf_counter()
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(ddp(x), y).backward()
    optimizer.step()
    seconds = torch.tensor(time.perf_counter() - start)
    dist.all_reduce(seconds, dist.ReduceOp.MAX)
    if k >= 0:
        least = min(least, seconds.item())
if dist.get_rank() == 0:
    print(f"DDP over gloo, torch {torch.__version__}, {dist.get_world_size()} ranks x {args.batch}: {1e3 * least:.2f} ms")
dist.destroy_process_group()

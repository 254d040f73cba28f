#!/usr/bin/env python3
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""ddp.py PROGRAM: twenty steps of DistributedDataParallel and of PROGRAM (ranks.cpp) agree.

From the same initial weights, which PROGRAM reads from a file written here, and on the same batches:
gradients of the last step and weights behind it, of SGD with Nesterov momentum and of AdamW, in float
and double, on 1, 2 and 4 ranks over gloo. PROGRAM's files of weights are read by
load_state_dict(strict=True). Prints "skipped: ..." where Python lacks a module.
"""
import os
import subprocess
import sys
import tempfile

try:
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as mp
    from safetensors.torch import load_file, save_file
except ImportError as e:
    print(f"skipped: {e}: pip install -r tests/torch_ddp/requirements.txt")
    sys.exit(0)

STEPS, SAMPLES = 20, 24
TYPES = {"float": (torch.float32, 1e-6), "double": (torch.float64, 1e-12)}  # and the largest difference
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, weight_decay=0.01, nesterov=True),
    "adamw": lambda p: torch.optim.AdamW(p, 0.001, weight_decay=0.1),
}


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        # A bias in front of batch norm has a gradient of rounding errors alone, which AdamW scales to lr.
        self.conv = torch.nn.Conv2d(3, 8, 3, bias=False)
        self.bn = torch.nn.BatchNorm2d(8)
        self.hidden = torch.nn.Linear(8 * 6 * 6, 32)
        self.norm = torch.nn.LayerNorm(32)
        self.out = torch.nn.Linear(32, 10)

    def forward(self, x):
        maps = torch.tanh(self.bn(self.conv(x))).flatten(1)
        return self.out(torch.tanh(self.norm(self.hidden(maps))))


def train(rank, ranks, folder):
    """All runs on this number of ranks; rank 0 writes ddp_NAME.pt."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous_{ranks}", rank=rank, world_size=ranks)
    for of, (dtype, _) in TYPES.items():
        data, target = torch.load(f"{folder}/batches_{of}.pt")
        own = SAMPLES // ranks
        for method, make in OPTIMIZERS.items():
            net = Network().to(dtype)
            net.load_state_dict(load_file(f"{folder}/initial_{of}.safetensors"))
            ddp = torch.nn.parallel.DistributedDataParallel(net)
            optimizer = make(net.parameters())
            for k in range(STEPS):
                optimizer.zero_grad()
                part = slice(rank * own, (rank + 1) * own)
                torch.nn.functional.cross_entropy(ddp(data[k, part]), target[k, part]).backward()
                optimizer.step()
            if rank == 0:
                values = {n: (p.detach(), p.grad) for n, p in net.named_parameters()}
                torch.save(values, f"{folder}/ddp_{method}_{of}_{ranks}.pt")
    dist.destroy_process_group()


def difference(ours, theirs):
    """The largest of all tensors, relative to the largest number of all."""
    largest = max(t.abs().max().item() for t in theirs.values())
    return max((ours[n] - t).abs().max().item() for n, t in theirs.items()) / largest


def main():
    program = sys.argv[1]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(1)
        initial, data = Network().state_dict(), torch.randn(STEPS, SAMPLES, 3, 8, 8, dtype=torch.float64)
        target = torch.randint(0, 10, (STEPS, SAMPLES))
        for of, (dtype, _) in TYPES.items():
            state = {n: t.to(dtype) if t.is_floating_point() else t for n, t in initial.items()}
            save_file(state, f"{folder}/initial_{of}.safetensors")
            torch.save((data.to(dtype), target), f"{folder}/batches_{of}.pt")
        subprocess.run([program, folder], check=True)
        for ranks in (1, 2, 4):
            mp.spawn(train, (ranks, folder), ranks)
            for of, (dtype, most) in TYPES.items():
                for method in OPTIMIZERS:
                    name = f"{method}_{of}_{ranks}"
                    net = Network().to(dtype)
                    net.load_state_dict(load_file(f"{folder}/{name}.safetensors"), strict=True)
                    if net.bn.num_batches_tracked != STEPS:
                        sys.exit(f"{name}: counts {net.bn.num_batches_tracked} batches")
                    theirs = torch.load(f"{folder}/ddp_{name}.pt")
                    gradients = difference(load_file(f"{folder}/{name}_gradients.safetensors"), {n: t[1] for n, t in theirs.items()})
                    weights = difference(dict(net.named_parameters()), {n: t[0] for n, t in theirs.items()})
                    print(f"{name}: gradients differ by {gradients:.2g}, weights by {weights:.2g}")
                    failed += not (gradients <= most and weights <= most)
    print(f"torch {torch.__version__}, {os.cpu_count()} cores")
    if failed:
        sys.exit(f"{failed} runs differ by more than 1e-6 in float or 1e-12 in double")


if __name__ == "__main__":
    main()

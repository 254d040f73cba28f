#!/usr/bin/env bash
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# PyTorch's powerSGD_hook keeps an error for tensors that it does not compress, which grows with every step.
#
# Expected: a vector is not worth compressing, so its gradients are averaged as they are: nothing is lost, and the
# memory of error feedback stays zero.
# Seen: the memory gets what each rank's gradient differs from the mean, and is added to the next gradient. Where the
# ranks' gradients are 10.001 and -9.999, it has grown to 20,000 after 2,000 steps, and the mean gradient, 0.001, is
# rounded to 0.00195 in float. (Of compressed tensors, too, the error is measured from the mean, where the paper's
# algorithm 2 measures it from the rank's own part; the means of both are the same but for rounding.)
# Versions: torch 2.15.0 (PyPI, gloo on the CPU), Python 3.11.7, Linux x86-64, 2026-11-28. The download is about 3 GB.
#
#   torch 2.15.0+cu132
#   step    2  gradient 0.001000  error memory 0.000
#   step    3  gradient 0.001000  error memory 10.000
#   step   12  gradient 0.000999  error memory 100.000
#   step  102  gradient 0.000977  error memory 1000.000
#   step 1002  gradient 0.000977  error memory 10000.000
#   step 2002  gradient 0.001953  error memory 20000.000
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check 'torch==2.15.0' 'numpy==2.4.6'
cat >"$folder/power_sgd.py" <<'PYTHON'
import sys

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook


def run(rank, path):
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=2)
    vector = torch.nn.Parameter(torch.zeros(8))
    net = torch.nn.Module()
    net.register_parameter("vector", vector)
    net.forward = lambda slope: slope * vector.sum()
    model = torch.nn.parallel.DistributedDataParallel(net)
    state = powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    slope = 10.001 if rank == 0 else -9.999
    seen = []
    for step in range(1, 2003):
        vector.grad = None
        model(slope).backward()
        if step in (2, 3, 12, 102, 1002, 2002):
            error = state.error_dict[0].abs().max().item() if state.error_dict else 0.0
            seen.append((step, vector.grad[0].item(), error))
    if rank == 0:
        print("torch", torch.__version__, flush=True)
        for step, gradient, error in seen:
            print(f"step {step:4}  gradient {gradient:.6f}  error memory {error:.3f}", flush=True)
        grows = seen[-1][2] > 1000 and abs(seen[-1][1] - 0.001) > 1e-4 and abs(seen[0][1] - 0.001) < 1e-6
        open(path + ".seen", "w").write(str(int(grows)))
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.multiprocessing.spawn(run, (sys.argv[1],), nprocs=2)
    sys.exit(open(sys.argv[1] + ".seen").read() != "1")
PYTHON
"$folder/venv/bin/python" "$folder/power_sgd.py" "$folder/meeting"

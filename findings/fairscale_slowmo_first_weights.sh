#!/usr/bin/env bash
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# fairscale's SlowMo takes its first slow weights after the first local step, not before it.
#
# Expected: slow weights are those with which training begins; four local steps later they go a share of the way to the
# weights of then (Wang et al. 2019, algorithm 1).
# What happens: the copy is made in the first call of perform_slowmo, which the documentation places behind
# optimizer.step(). So the first period has one step less, and the first local step is kept whole: with a gradient of 1,
# learning rate 1 and slowmo_lr 0.5 the weight goes from 0 by 1 and half of 3 to -2.5, not by half of 4 to -2. Every later
# period is as in the paper. (timm's Lookahead begins after its first period.) The process group is gloo's, of one process;
# without a GPU torch.cuda.synchronize, which the class calls, is replaced by nothing.
#
# Seen on 2026-11-30 with fairscale 0.4.13 and torch 2.15.0 from PyPI, on a CPU:
#   after 4 steps -2.5, after 8 -4.5, after 12 -6.5
#
# Exits with 0 while fairscale behaves so.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip -q install torch==2.15.0 numpy==2.4.6 setuptools==80.9.0 wheel==0.45.1
venv/bin/pip -q install --no-build-isolation --no-deps fairscale==0.4.13
cat >slow.py <<'PY'
import os, warnings
warnings.simplefilter("ignore")
import torch
if not torch.cuda.is_available():
    torch.cuda.synchronize = lambda *_: None
from fairscale.experimental.nn.data_parallel import SlowMoBaseAlgorithm, SlowMoDistributedDataParallel
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
torch.distributed.init_process_group("gloo")
weight = torch.nn.Parameter(torch.zeros(1))
model = torch.nn.ParameterList([weight])
slow = SlowMoDistributedDataParallel(
    model, nprocs_per_node=1, slowmo_base_algorithm=SlowMoBaseAlgorithm.LOCALSGD, slowmo_momentum=0.0, slowmo_lr=0.5,
    slowmo_frequency=4, localsgd_frequency=4, slowmo_memory_efficient=False, comm_device=torch.device("cpu"), use_streams=False)
optimizer = torch.optim.SGD([weight], lr=1.0)
seen = []
for step in range(12):
    weight.grad = torch.ones(1)
    optimizer.step()
    slow.perform_slowmo(optimizer)
    if step % 4 == 3:
        seen.append(float(weight))
print("after 4 steps {}, after 8 {}, after 12 {}".format(*seen))
PY
venv/bin/pip list 2>/dev/null | grep -E '^(fairscale|torch) '
venv/bin/python slow.py 2>/dev/null | tee seen
[[ $(<seen) == "after 4 steps -2.5, after 8 -4.5, after 12 -6.5" ]]

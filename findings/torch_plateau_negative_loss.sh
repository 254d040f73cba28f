#!/usr/bin/env bash
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# PyTorch's ReduceLROnPlateau never reduces the learning rate where the loss is negative.
#
# Expected: with the default relative threshold a loss that stands still, or rises, for more than `patience` epochs is a
# plateau, whatever its sign (a log density, for one, is often negative).
# Seen: in mode "min" a loss improves if it is below best * (1 - threshold). That is above a negative best: a constant -5
# and one that rises by 1e-4 an epoch improve in every epoch, and `best` rises with them. The same numbers with the sign
# + are reduced 6 times; so are the negative ones with threshold_mode="abs".
# Versions: torch 2.9.1 (PyPI, on the CPU), Python 3.11.7, Linux x86-64, 2026-11-28. The download is about 3 GB.
#
#   torch 2.9.1+cu128
#   constant +5, relative        learning rate 0.0125  best 5.0
#   constant -5, relative        learning rate 0.8     best -5.0
#   rising from -5, relative     learning rate 0.8     best -4.9981
#   constant -5, absolute        learning rate 0.0125  best -5.0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check 'torch==2.9.1' 'numpy==2.3.4'
cat >"$folder/plateau.py" <<'PYTHON'
import sys

import torch


def run(name, losses, **options):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.8)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=2, **options)
    for loss in losses:
        schedule.step(loss)
    rate = optimizer.param_groups[0]["lr"]
    print(f"{name:28} learning rate {rate:<7g} best {schedule.best}")
    return rate


print("torch", torch.__version__)
rates = [
    run("constant +5, relative", [5.0] * 20),
    run("constant -5, relative", [-5.0] * 20),
    run("rising from -5, relative", [-5.0 + 1e-4 * k for k in range(20)]),
    run("constant -5, absolute", [-5.0] * 20, threshold_mode="abs"),
]
sys.exit(0 if rates == [0.0125, 0.8, 0.8, 0.0125] else 1)
PYTHON
"$folder/venv/bin/python" "$folder/plateau.py"

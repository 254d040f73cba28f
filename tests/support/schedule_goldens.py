# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Prints the learning rates of PyTorch's schedulers that tests/schedule compares with ours, in fp64.
#   python3 tests/support/schedule_goldens.py     (needs torch; the values in the tests are of torch 2.15)
import torch
from torch.optim.lr_scheduler import ExponentialLR, OneCycleLR, ReduceLROnPlateau


def optimizer(rate):
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))], lr=rate)


def show(name, values):
    print(name, ", ".join(f"{v:.13g}" for v in values))


def curve(o, scheduler, steps):
    rates = []
    for _ in range(steps):
        rates.append(o.param_groups[0]["lr"])
        o.step()
        scheduler.step()
    return rates


o = optimizer(0.8)
show("exponential 0.8, gamma 0.9:", curve(o, ExponentialLR(o, 0.9), 5))
for options in ({}, {"anneal_strategy": "linear"}, {"three_phase": True},
                {"pct_start": 0.5, "div_factor": 10, "final_div_factor": 100}):
    o = optimizer(0.1)
    scheduler = OneCycleLR(o, max_lr=2, total_steps=20, cycle_momentum=False, **options)
    rates = [o.param_groups[0]["lr"]]
    for _ in range(19):
        o.step()
        scheduler.step()
        rates.append(o.param_groups[0]["lr"])
    show(f"one_cycle 2, 20 updates, {options}:", rates)

losses = [3, 2, 1.5, 1.5, 1.49999, 1.6, 1.2, 1.3, 1.25, 1.3, 1.1999, 1.4, 1.1, 1.1, 1.1, 1.1, 1.1,
          float("nan"), 1.0, 0.5, 0.6, 0.6, 0.6, 0.6, 0.6]
for values, options in ((losses, {"patience": 2}),
                        (losses, {"patience": 1, "cooldown": 2, "threshold": 0.01, "min_lr": 0.02}),
                        (losses, {"patience": 0, "factor": 0.5}),
                        ([3] * 25, {"patience": 1, "cooldown": 3, "factor": 0.5})):
    o = optimizer(0.8)
    scheduler = ReduceLROnPlateau(o, **options)
    rates = []
    for loss in values:
        scheduler.step(loss)
        rates.append(o.param_groups[0]["lr"])
    show(f"plateau 0.8 {options}:", rates)

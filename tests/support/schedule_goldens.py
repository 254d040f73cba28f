# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Prints the learning rates of PyTorch's schedulers that tests/schedule compares with ours, and the stages of
# tests/train/step/decided_batch.cpp, in fp64.
#   python3 tests/support/schedule_goldens.py
# Needs torch and fairscale; the values in the tests are of torch 2.15 and fairscale 0.4.13.
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


def ada_scale(ranks, updates=24, rate=0.05, samples=120, batch=12):
    """fairscale's AdaScale around one process that accumulates the ranks' gradients; the next update has the gain."""
    from fairscale.optim import AdaScale

    a = torch.tensor([1, 2, 3, 4, 1, 2, 0.5, 0.25, 1], dtype=torch.float64)
    c = torch.tensor([0.4, -0.1, 0.2, -0.2, 0.1, -0.1, 0.7, -1.5, 0], dtype=torch.float64)
    start = [0.5, -0.3, 0.8, 0.1, 0, 0.2, 1, -2, 0.05]
    w = torch.nn.Parameter(torch.tensor(start, dtype=torch.float64))
    o = AdaScale(torch.optim.SGD([w], lr=1.0), world_size=1, num_gradients_to_accumulate=ranks)
    gain, used, progress = 1.0, 1.0, 0.0
    for k in range(updates):
        if k:
            progress, used = progress + used / ranks * batch / samples, gain
        learning_rate, w.grad = gain * rate / (1 + progress), None
        for r in range(ranks):
            (0.5 * (a * (w - c - 0.25 * (r - 0.5 * (ranks - 1))) ** 2).sum()).backward()
        gain = float(o.gain())
        with torch.no_grad():
            w -= learning_rate * w.grad / ranks
    show(f"ada_scale, {ranks} ranks:", [gain, progress, *w.tolist()])


def stages_of(ranks, share, rate=0.02, most=8, exponent=0.5, samples=50, batch=6, epochs=9.5, beta=0.99):
    """The stages of adaptive_batch on the toy set T4 (docs/mathematics.md, 1.4), SGD, one center per rank."""
    import math
    import numpy as np

    a = np.array([1, 2, 3, 4, 1, 2, 0.5, 0.25, 1])
    c = np.array([0.4, -0.1, 0.2, -0.2, 0.1, -0.1, 0.7, -1.5, 0])
    w = np.array([0.5, -0.3, 0.8, 0.1, 0, 0.2, 1, -2, 0.05])
    shifts = [0.25 * (r - 0.5 * (ranks - 1)) for r in range(ranks)]
    means, weights, factor, seen, stages = np.zeros(6), 0.0, 1, 0, []
    while seen < epochs * samples:
        size = batch * factor
        g, small = a * (w - c), size / ranks
        local = np.mean([np.sum((a * (w - c - x)) ** 2) for x in shifts])
        square = (size * (g @ g) - small * local) / (size - small)
        trace = (local - g @ g) / (1 / small - 1 / size)
        means = beta * means + (1 - beta) * np.array([1, square, trace, square**2, trace**2, square * trace])
        weights = beta**2 * weights + (1 - beta) ** 2
        w, before, seen = w - rate * factor**exponent * g, seen, seen + size
        if seen // samples == before // samples:
            continue
        _, g1, s1, gg, ss, gs = means / means[0]
        ratio, independent = s1 / g1, weights / means[0] ** 2
        spread = (ss - s1**2) - 2 * ratio * (gs - g1 * s1) + ratio**2 * (gg - g1**2)
        error = math.sqrt(max(spread * independent / (1 - independent), 0)) / g1
        if 2 * factor <= most and 2 * factor <= share * (ratio - error) / batch:
            factor *= 2
            stages.append((before // samples + 1, factor))
    return stages


for ranks in (2, 3):
    print(f"adaptive_batch, {ranks} ranks, share {12 - 2 * ranks}:", stages_of(ranks, 12 - 2 * ranks))
for ranks in (3, 4):
    ada_scale(ranks)

#!/usr/bin/env python3
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""Steps of SGD and AdamW in PyTorch on the tensors of bench_optimizer, for
benchmarks/compare_torch.sh: lines of `name seconds`.

ResNet-50's 25.6 million parameters in their 161 tensors, FP32, minima over the repetitions after
three for warm-up. Configurations that this PyTorch does not support are skipped, with a message on
standard error.
"""
import argparse
import sys
import time

import torch

WARM = 3
RULES = {
    "sgd": (torch.optim.SGD, {"lr": 1e-3, "momentum": 0.9}),
    "adamw": (torch.optim.AdamW, {"lr": 1e-3, "weight_decay": 0.01}),
}
FORMS = {"loop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}


def shapes():
    """Convolutions, each with a batch norm's scale and shift, bottlenecks 3, 4, 6, 3, the classifier."""
    found = []

    def convolution(channels, filters, window):
        found.extend([(filters, channels, window, window), (filters,), (filters,)])

    convolution(3, 64, 7)
    channels = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for i in range(blocks):
            convolution(channels, width, 1)
            convolution(width, width, 3)
            convolution(width, 4 * width, 1)
            if i == 0:
                convolution(channels, 4 * width, 1)
            channels = 4 * width
    return found + [(1000, channels), (1000,)]


def measure(rule, form, reps):
    make, settings = RULES[rule]
    torch.manual_seed(1)
    weights = [torch.nn.Parameter(0.1 * (2 * torch.rand(s) - 1)) for s in shapes()]
    if (len(weights), sum(w.numel() for w in weights)) != (161, 25_557_032):
        sys.exit("these are not the tensors of ResNet-50")
    step = make(weights, **settings, **FORMS[form])
    for w in weights:
        w.grad = 0.01 * (2 * torch.rand_like(w) - 1)
    least = float("inf")
    for k in range(WARM + reps):
        begin = time.perf_counter()
        step.step()
        seconds = time.perf_counter() - begin
        if k >= WARM:
            least = min(least, seconds)
    return least


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--reps", type=int, default=30)
    o = options.parse_args()
    torch.set_num_threads(o.threads)
    for rule in RULES:
        for form in FORMS:
            name = f"torch-{torch.__version__}/{form}/{rule}_step"
            try:
                print(f"{name} {measure(rule, form, o.reps):.9f}", flush=True)
            except (TypeError, RuntimeError) as e:  # no such argument, or not on this device
                why = (str(e).splitlines() or [""])[0]
                print(f"skipped {name}: {why}", file=sys.stderr)


main()

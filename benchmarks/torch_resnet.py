#!/usr/bin/env python3
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""The networks of bench_resnet in PyTorch, for benchmarks/compare_torch.sh: lines of `name seconds`.

ResNet-20: one step (forward, loss, backward, SGD with momentum) on CIFAR's extents. ResNet-50:
forward, loss and backward on 224x224. Synthetic samples, minima over the repetitions after three for
warm-up. --precision bf16: forward and loss under autocast, and `_bf16` behind the names. PyTorch's samples are normalised floats in the format that is measured, while
Cordee's time includes the conversion from bytes. Configurations that this PyTorch does not support
are skipped, with a message on standard error.
"""
import argparse
import sys
import time

import torch
from torch import nn
import torch.nn.functional as F


class Subsample(nn.Module):
    """Option A: every second pixel, with zero channels added on both sides. No parameters."""

    def __init__(self, channels, wider):
        super().__init__()
        self.before = (wider - channels) // 2
        self.after = wider - channels - self.before

    def forward(self, x):
        return F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.before, self.after))


def convolution(channels, filters, window, stride=1):
    return nn.Conv2d(channels, filters, window, stride, window // 2, bias=False)


class Block(nn.Module):
    """Alternating convolutions and norms, a ReLU between them and after the sum with the shortcut."""

    def __init__(self, convolutions, shortcut):
        super().__init__()
        layers = []
        for c in convolutions:
            layers += [c, nn.BatchNorm2d(c.out_channels), nn.ReLU(inplace=True)]
        self.body = nn.Sequential(*layers[:-1])
        self.shortcut = shortcut

    def forward(self, x):
        return F.relu(self.body(x) + self.shortcut(x), inplace=True)


def resnet20():
    layers = [convolution(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(inplace=True)]
    channels = 16
    for width in (16, 32, 64):
        for _ in range(3):
            stride = 1 if width == channels else 2
            shortcut = nn.Identity() if stride == 1 else Subsample(channels, width)
            both = [convolution(channels, width, 3, stride), convolution(width, width, 3)]
            layers.append(Block(both, shortcut))
            channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def resnet50():
    layers = [convolution(3, 64, 7, 2), nn.BatchNorm2d(64), nn.ReLU(inplace=True)]
    layers.append(nn.MaxPool2d(3, 2, 1))
    channels = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for i in range(blocks):
            stride = 2 if i == 0 and width > 64 else 1
            shortcut = nn.Identity()
            if i == 0:
                project = convolution(channels, 4 * width, 1, stride)
                shortcut = nn.Sequential(project, nn.BatchNorm2d(4 * width))
            three = [
                convolution(channels, width, 1),
                convolution(width, width, 3, stride),
                convolution(width, 4 * width, 1),
            ]
            layers.append(Block(three, shortcut))
            channels = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


def begin(net):
    """Normal initialisation: convolutions by the fan out, classifiers by the fan in."""
    for m in net.modules():
        if isinstance(m, nn.Conv2d):
            nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
        elif isinstance(m, nn.Linear):
            nn.init.normal_(m.weight, std=m.in_features ** -0.5)
            nn.init.zeros_(m.bias)


# Network, number of parameters (of resnet<20> and resnet<50>), side, classes.
NETS = {20: (resnet20, 269_722, 32, 10), 50: (resnet50, 25_557_032, 224, 1000)}
FORMATS = ("nchw", "channels_last", "compile", "compile_channels_last")
WARM = 3


def measure(which, form, batch, reps, precision):
    """Yields (name, minimal seconds)."""
    make, parameters, side, classes = NETS[which]
    torch.manual_seed(1)
    net = make().train()
    have = sum(p.numel() for p in net.parameters())
    if have != parameters:
        sys.exit(f"resnet{which} has {have} parameters here and {parameters} in Cordee")
    x = torch.randn(batch, 3, side, side)
    labels = torch.randint(classes, (batch,))
    if form.endswith("channels_last"):
        net = net.to(memory_format=torch.channels_last)
        x = x.contiguous(memory_format=torch.channels_last)
    run = torch.compile(net) if form.startswith("compile") else net
    rule = torch.optim.SGD(net.parameters(), lr=1e-4, momentum=0.9)

    least = [float("inf")] * 3
    for k in range(WARM + reps):
        # Zeroing is part of a step, but not of forward and backward alone.
        start = time.perf_counter()
        rule.zero_grad(set_to_none=True)
        begin = time.perf_counter()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
            loss = F.cross_entropy(run(x), labels)
        middle = time.perf_counter()
        loss.backward()
        end = time.perf_counter()
        if which == 20:
            rule.step()
        done = time.perf_counter()
        if k >= WARM:
            seen = (middle - begin, end - begin, done - start)
            least = [min(a, b) for a, b in zip(least, seen)]
    if not torch.isfinite(loss):
        sys.exit(f"resnet{which} {form}: the loss is {loss.item()}")
    suffix = "" if precision == "fp32" else "_" + precision
    if which == 20:
        yield "resnet20_step" + suffix, least[2]
    else:
        yield "resnet50_forward" + suffix, least[0]
        yield "resnet50_forward_and_backward" + suffix, least[1]


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--reps", type=int, default=5)
    options.add_argument("--net", type=int, choices=sorted(NETS), action="append")
    options.add_argument("--format", choices=FORMATS, action="append")
    options.add_argument("--batch", type=int, help="128 for ResNet-20, 8 for ResNet-50 if not said")
    options.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    o = options.parse_args()
    torch.set_num_threads(o.threads)
    for which in o.net or sorted(NETS):
        for form in o.format or FORMATS:
            name = f"torch-{torch.__version__}/{form}"
            try:
                batch = o.batch or {20: 128, 50: 8}[which]
                for what, seconds in measure(which, form, batch, o.reps, o.precision):
                    print(f"{name}/{what} {seconds:.9f}", flush=True)
            except Exception as e:  # a compiler that is not there fails in a hundred ways
                if not form.startswith("compile"):
                    raise
                why = (str(e).splitlines() or [""])[0]
                print(f"skipped {name}/resnet{which}: {type(e).__name__}: {why}", file=sys.stderr)


if __name__ == "__main__":
    main()

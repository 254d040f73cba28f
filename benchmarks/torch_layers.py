#!/usr/bin/env python3
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's distance from fp64 on the layers of benchmarks/layers.cpp: the same line for each layer.

    torch_layers.py LAYERS

LAYERS are lines that bench_gpu_layers has printed. A layer is made from its name and its input's
extent; inputs are normal numbers that the precision holds, in channels_last. A ReLU's gradient passes
where the narrow output let it.
"""
import json
import pathlib
import re
import sys

import torch
from torch import nn
import torch.nn.functional as F

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
SAMPLES = 2


class Normed(nn.Module):
    def __init__(self, channels, adds):
        super().__init__()
        self.norm, self.adds = nn.BatchNorm2d(channels), adds

    def forward(self, x):
        return self.norm(x) + x if self.adds else self.norm(x)


def made(name, channels):
    """The layer without its ReLU; None of what PyTorch has no single layer for."""
    numbers = [int(n) for n in re.findall(r"\d+", name)]
    if name.startswith("convolution"):
        window, _, stride, filters = numbers
        return nn.Conv2d(channels, filters, window, stride, window // 2, bias=False)
    if name.startswith("batch norm"):
        return Normed(channels, "add" in name)
    if name.startswith("max pool"):
        return nn.MaxPool2d(3, 2, 1)
    if name.startswith("average pool"):
        return nn.AdaptiveAvgPool2d(1)
    if name.startswith("linear"):
        return nn.Sequential(nn.Flatten(), nn.Linear(channels, numbers[0]))
    return None


def results(layer, x, dy, opened=None):
    """y, dx and the parameters' gradients in fp64; `opened` says where a ReLU behind the layer is."""
    x = x.detach().requires_grad_()
    y = layer(x)
    if opened is not None:
        y = torch.where(opened(y), y, torch.zeros_like(y))
    y.backward(dy)
    return [t.detach().double().cpu() for t in (y, x.grad, *(p.grad for p in layer.parameters()))]


def errors(name, extent, kind):
    layer = made(name, extent[0])
    if layer is None:
        return None
    narrow = TYPES[kind]
    for p in layer.parameters():
        nn.init.normal_(p, std=0.25 if p.ndim == 1 else (2 / p[0].numel()) ** 0.5)
        p.data = p.data.to(narrow).to(torch.float32)
    x = torch.randn(SAMPLES, *extent).to(narrow)
    dy = torch.randn_like(layer(x.float())).to(narrow)

    def there(t):
        t = t.to(DEVICE, narrow)
        return t.contiguous(memory_format=torch.channels_last) if t.ndim == 4 else t
    own = made(name, extent[0]).to(DEVICE)
    own.load_state_dict(layer.state_dict())
    # Norms keep their numbers in float, as under autocast.
    own = own.to(memory_format=torch.channels_last)
    if not name.startswith("batch norm"):
        own = own.to(narrow)
    gate = (lambda y: y > 0) if "ReLU" in name else None
    found = results(own, there(x), there(dy), gate)
    seen = found[0] > 0
    right = results(layer.double(), x.double(), dy.double(), gate and (lambda y: seen))
    off = [((a - b).norm() / b.norm()).item() for a, b in zip(found, right)]
    return {"y": off[0], "dx": off[1], "parameters": max(off[2:], default=0.0)}


torch.manual_seed(1)
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
for line in pathlib.Path(sys.argv[1]).read_text().splitlines():
    row = json.loads(line)
    name, _, extent = row["layer"].rpartition(" on ")
    if "gradient" in row or not name:
        continue
    off = errors(name, [int(n) for n in extent.split("x")], row["precision"])
    if off is not None:
        print(json.dumps({"layer": row["layer"], "precision": row["precision"], **off}), flush=True)

#!/usr/bin/env python3
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""The errors of PyTorch against fp64 on the layers of benchmarks/layers.cpp: the same line for each layer
and for each step of a network.

    torch_layers.py LAYERS

LAYERS are lines printed by bench_gpu_layers. A layer is constructed from its name and its input's
extent, once for all engines, and not in bytes; inputs are normal numbers that the precision holds, in
channels_last. A ReLU's gradient is masked by the output in low precision. A step is forward, loss and
backward of the network in the usual training mode, autocast over channels_last, compared with the
same weights and samples in fp64 on the CPU.
"""
import copy
import json
import pathlib
import re
import sys

import torch
from torch import nn
import torch.nn.functional as F

from torch_resnet import NETS, Subsample, begin

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
SAMPLES = 2
SCALE = 1024  # of a loss, so that fp16 holds small slopes


class Normed(nn.Module):
    def __init__(self, channels, adds):
        super().__init__()
        self.norm, self.adds = nn.BatchNorm2d(channels), adds

    def forward(self, x):
        return self.norm(x) + x if self.adds else self.norm(x)


class Loss(nn.Module):
    """As under autocast: in float, of logits in low precision."""

    def forward(self, logits):
        labels = torch.arange(0, 7 * len(logits), 7, device=logits.device) % logits.shape[1]
        wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return SCALE * F.cross_entropy(wide, labels, label_smoothing=0.1)


def made(name, channels):
    """The layer without its ReLU."""
    numbers = [int(n) for n in re.findall(r"\d+", name)]
    if name.startswith("convolution"):
        window, _, stride, filters = numbers
        return nn.Conv2d(channels, filters, window, stride, window // 2, bias=False)
    if name.startswith("batch norm"):
        return Normed(channels, "add" in name)
    if name.startswith("subsample"):
        return Subsample(channels, numbers[0])
    if name.startswith("max pool"):
        return nn.MaxPool2d(3, 2, 1)
    if name.startswith("average pool"):
        return nn.AdaptiveAvgPool2d(1)
    if name.startswith("linear"):
        return nn.Sequential(nn.Flatten(), nn.Linear(channels, numbers[0]))
    if name.startswith("softmax loss"):
        return Loss()
    raise ValueError(f"torch_layers.py: unknown layer {name}")


def begun(net, narrow):
    """Parameters that the precision holds, with a little noise on those that are initially equal."""
    begin(net)
    with torch.no_grad():
        for p in net.parameters():
            if p.ndim == 1:
                p += 0.25 * torch.randn_like(p)
            p.copy_(p.to(narrow))
    return net


def there(what, *narrow):
    """A tensor or a module on the device, images and filters in channels_last."""
    form = {"memory_format": torch.channels_last}
    return what.to(DEVICE, *narrow, **form if isinstance(what, nn.Module) or what.ndim == 4 else {})


def distance(found, right):
    return ((found - right).norm() / right.norm()).item()


def results(layer, x, dy, opened=None):
    """y, dx and the parameters' gradients in fp64; `opened` is the mask of a ReLU after the layer."""
    x = x.detach().requires_grad_()
    y = layer(x)
    if opened is not None:
        y = torch.where(opened(y), y, torch.zeros_like(y))
    y.backward(dy)
    return [t.detach().double().cpu() for t in (y, x.grad, *(p.grad for p in layer.parameters()))]


def of_layer(name, extent, narrow):
    layer = begun(made(name, extent[0]), narrow)
    x = torch.randn(SAMPLES, *extent).to(narrow)
    dy = torch.randn_like(layer(x.float())).to(narrow)
    # Norms stay in float, as under autocast.
    own = there(copy.deepcopy(layer), *([] if name.startswith("batch norm") else [narrow]))
    gate = (lambda y: y > 0) if "ReLU" in name else None
    found = results(own, there(x, narrow), there(dy, narrow), gate)
    seen = found[0] > 0
    right = results(layer.double(), x.double(), dy.double(), gate and (lambda y: seen))
    off = [distance(a, b) for a, b in zip(found, right)]
    return {"y": off[0], "dx": off[1], "parameters": max(off[2:], default=0.0)}


def stepped(net, x, labels):
    """The loss and the gradient of all parameters, in fp64."""
    loss = F.cross_entropy(net(x), labels)
    (SCALE * loss).backward()
    gradient = torch.cat([p.grad.double().cpu().flatten() for p in net.parameters()])
    return loss.detach().double().cpu(), gradient


def of_step(depth, narrow):
    make, _, side, classes = NETS[depth]
    net = begun(make(), narrow)
    x = (torch.randint(256, (SAMPLES, 3, side, side)).double() / 255 - 0.5) / 0.25
    labels = torch.randint(classes, (SAMPLES,))
    own = there(copy.deepcopy(net))
    with torch.autocast(DEVICE, torch.bfloat16 if narrow == torch.float32 else narrow,
                        enabled=narrow != torch.float32):
        found = stepped(own, there(x, torch.float32), labels.to(DEVICE))
    right = stepped(net.double(), x, labels)
    return {"y": distance(found[0], right[0]), "gradient": distance(found[1], right[1])}


torch.manual_seed(1)
seen = set()
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
for line in pathlib.Path(sys.argv[1]).read_text().splitlines():
    row = json.loads(line)
    one = row["layer"], row["precision"]
    if row["precision"] not in TYPES or one in seen:
        continue
    seen.add(one)
    narrow = TYPES[row["precision"]]
    if row["layer"].startswith("a step"):
        if row["net"] not in NETS:  # ResNet-8, on which programs are tried
            continue
        off = of_step(row["net"], narrow)
    elif loss := re.fullmatch(r"softmax loss of (\d+)", row["layer"]):
        off = of_layer(row["layer"], [int(loss[1])], narrow)
    else:
        name, _, extent = row["layer"].rpartition(" on ")
        off = of_layer(name, [int(n) for n in extent.split("x")], narrow)
    print(json.dumps({"layer": row["layer"], "precision": row["precision"], **off}), flush=True)

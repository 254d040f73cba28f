#!/usr/bin/env python3
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""examples/cifar in PyTorch: the same files, network, recipe and options.

Batches continue from one permutation of the training images to the next; an image is padded with
zero bytes, cropped and flipped, then normalised by the training set's mean and deviation. Normal
initialisation: convolutions by the fan out, the classifier by the fan in. Only weights decay, and
adapt under LARS. On a GPU fp16 and bf16 are autocast over channels_last. The last line has the format
of examples/cifar.
"""
import argparse
import math
import pathlib
import time

import torch
import torch.nn.functional as F

from torch_resnet import begin, resnet20


def arguments():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--data", type=pathlib.Path, default="data/cifar-10")
    options.add_argument("--precision", choices=("fp32", "fp16", "bf16"), default="fp32")
    options.add_argument("--optimizer", choices=("sgd", "lars"), default="sgd")
    options.add_argument("--batch", type=int, default=128)
    options.add_argument("--seed", type=int, default=1)
    for name, value in (("epochs", 30), ("warmup", 1), ("learning-rate", 0.1), ("trust", 0.01),
                        ("decay", 5e-4), ("smoothing", 0.1)):
        options.add_argument("--" + name, type=float, default=value)
    return options.parse_args()


def records(folder, names, device):
    """Labels, and images as bytes."""
    raw = b"".join((folder / name).read_bytes() for name in names)
    all_bytes = torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(-1, 3073).to(device)
    return all_bytes[:, 0].long(), all_bytes[:, 1:].reshape(-1, 3, 32, 32).contiguous()


def crop_and_flip(images, pad=4):
    n, _, side, _ = images.shape
    device = images.device
    wide = F.pad(images, (pad,) * 4)
    down, right = torch.randint(2 * pad + 1, (2, n, 1), device=device)
    at = torch.arange(side, device=device)
    mirrored = torch.rand(n, 1, device=device) < 0.5
    rows, columns = down + at, right + torch.where(mirrored, side - 1 - at, at)
    samples = torch.arange(n, device=device)[:, None, None]
    cut = wide.permute(0, 2, 3, 1)[samples, rows[:, :, None], columns[:, None, :]]
    return cut.permute(0, 3, 1, 2)


class Optimizer(torch.optim.Optimizer):
    """sgd: u <- m u + g + d w, w <- w - lr u.  lars: u <- m u + lr ratio (g + d w), w <- w - u,
    ratio = trust |w| / (|g| + d |w|) of a weight, 1 of anything else."""

    def __init__(self, net, o):
        weights = [p for p in net.parameters() if p.ndim > 1]
        others = [p for p in net.parameters() if p.ndim == 1]
        super().__init__([{"params": weights, "decay": o.decay}, {"params": others, "decay": 0}],
                         {"lr": 0.0})
        self.trust = o.trust if o.optimizer == "lars" else None

    def ratio(self, p, decay):
        if self.trust is None or p.ndim == 1:
            return 1
        w, g = p.norm(), p.grad.norm()
        ratio = self.trust * w / (g + decay * w)
        return torch.where((w > 0) & (g > 0), ratio, torch.ones_like(ratio))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            inside, outside = (group["lr"], 1) if self.trust else (1, group["lr"])
            for p in group["params"]:
                u = self.state[p].setdefault("u", torch.zeros_like(p))
                u.mul_(0.9).add_((p.grad + group["decay"] * p) * self.ratio(p, group["decay"]) * inside)
                p.sub_(u * outside)


def main():
    o = arguments()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(o.seed)
    torch.backends.cudnn.benchmark = True
    labels, images = records(o.data, [f"data_batch_{i}.bin" for i in range(1, 6)], device)
    held_labels, held = records(o.data, ["test_batch.bin"], device)
    pixels = images.to(torch.float32) / 255
    mean, deviation = (f(pixels, dim=(0, 2, 3)).view(1, 3, 1, 1) for f in (torch.mean, torch.std))
    del pixels

    def normalised(x):
        x = (x.to(torch.float32) / 255 - mean) / deviation
        return x.contiguous(memory_format=torch.channels_last)

    net = resnet20().to(device).to(memory_format=torch.channels_last)
    begin(net)
    optimizer = Optimizer(net, o)
    narrow = {"fp32": None, "fp16": torch.float16, "bf16": torch.bfloat16}[o.precision]
    cast = torch.autocast(device, dtype=narrow or torch.bfloat16, enabled=narrow is not None)
    scaled = {"enabled": o.precision == "fp16"}
    scaler = (torch.amp.GradScaler("cuda", **scaled) if hasattr(torch.amp, "GradScaler")
              else torch.cuda.amp.GradScaler(**scaled))  # PyTorch 1

    n = len(labels)
    steps = math.ceil(o.epochs * n / o.batch * (1 - 1e-12))

    def learning_rate(epoch):
        falling = o.learning_rate * (1 - max(epoch, o.warmup) / o.epochs) ** 2
        return falling * min(1.0, epoch / o.warmup) if o.warmup > 0 else falling

    order = torch.empty(0, dtype=torch.long, device=device)
    start = time.perf_counter()
    for k in range(steps):
        while len(order) < o.batch:
            order = torch.cat([order, torch.randperm(n, device=device)])
        now, order = order[:o.batch], order[o.batch:]
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(k * o.batch / n)
        optimizer.zero_grad(set_to_none=True)
        with cast:
            loss = F.cross_entropy(net(normalised(crop_and_flip(images[now]))), labels[now],
                                   label_smoothing=o.smoothing)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        if k % max(1, steps // 10) == 0:
            print(f"step {k}: loss {loss.item():.4f}", flush=True)
    if device == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start

    net.eval()
    right = 0
    with torch.no_grad(), cast:
        for some, true in zip(held.split(1000), held_labels.split(1000)):
            right += (net(normalised(some)).argmax(1) == true).sum().item()
    print(f"validation accuracy {100 * right / len(held):.2f} % of {len(held)} images; "
          f"{steps} steps in {seconds:.1f} s")


main()

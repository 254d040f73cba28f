#!/usr/bin/env python3
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""The gradient of a first step in bf16, Cordee's and PyTorch's, each compared with fp64.

    torch_gradients.py BENCH_GRADIENTS [DEPTH [BATCH [SEEDS]]]

bench_gradients draws weights and samples and computes the exact gradient; PyTorch's step, on the same numbers, is forward,
loss and backward under autocast, in channels_last. Its step in fp64 is compared with the exact gradient first, so that both
are known to be of the same network. Errors are |g - g'| / |g'| over all parameters, a line a seed.
"""
import re
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
    import torch.nn.functional as F
except ImportError as missing:
    sys.exit(f"PyTorch: not measured ({missing})")

from torch_resnet import NETS

LINE = re.compile(r"seed (\d+) engine (\S+) error (\S+)")


def gradient(net, x, labels, narrow):
    with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
        loss = F.cross_entropy(net(x), labels)
    loss.backward()
    return torch.cat([p.grad.double().flatten() for p in net.parameters()])


def made(depth, weights):
    """The network with these parameters, which are in the order of the layers."""
    net = NETS[depth][0]().double()
    torch.nn.utils.vector_to_parameters(weights, net.parameters())
    return net.train()


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    bench = sys.argv[1]
    depth, batch, seeds = (int(v) for v in (sys.argv[2:] + ["20", "8", "5"][len(sys.argv) - 2:])[:3])
    side = NETS[depth][2]
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        out = subprocess.run([bench, "--net", str(depth), "--batch", str(batch), "--seeds", str(seeds), "--write", folder],
                             text=True, check=True, capture_output=True).stdout
        for seed, engine, ours in LINE.findall(out):
            def read(name, kind):
                return torch.from_numpy(np.fromfile(f"{folder}/{name}{seed}", dtype=kind))
            weights, right = read("weights", np.float64), read("gradient", np.float64)
            x = (read("pixels", np.uint8).double().view(batch, 3, side, side) / 255 - 0.5) / 0.25
            labels = read("labels", np.int32).long()
            distance = lambda g: ((g - right).norm() / right.norm()).item()
            same = distance(gradient(made(depth, weights), x, labels, False))
            if same > 1e-6:
                sys.exit(f"ResNet-{depth}: PyTorch's gradient in fp64 differs by {same:.1e}: not the same network")
            last = {"memory_format": torch.channels_last}
            theirs = distance(gradient(made(depth, weights).float().to(**last), x.float().contiguous(**last), labels, True))
            ratios.append(float(ours) / theirs)
            print(f"ResNet-{depth}, seed {seed}: engine {engine} {float(ours):.4f}, torch {torch.__version__} {theirs:.4f}, "
                  f"cordee / this {ratios[-1]:.3f}", flush=True)
    print(f"ResNet-{depth}, {seeds} seeds: median {np.median(ratios):.3f}, best {min(ratios):.3f}, worst {max(ratios):.3f}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""A training step of ResNet-50 in bf16 by AMX on one thread: a model, nothing is run.

Convolutions have a share of the tiles' peak, batch norm its passes over the activations at a bandwidth, and what else
a step does the times that were measured without AMX (benchmarks/results/2026-11-28-bf16-step.md). Prints a table of
milliseconds and the convolutions' share.
"""

import argparse


def layers():
    """(channels, filters, window, pixels of y, passes of the batch norm behind it) of each convolution."""
    # Passes as benchmarks/batch_norm.cpp counts them: forward and backward of a ReLU, of a sum with a ReLU, of neither.
    relu, add_relu, plain = 4 + 7, 5 + 8, 4 + 5
    yield 3, 64, 7, 112 * 112, relu
    channels = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width, side = 64 << stage, 56 >> stage
        for block in range(blocks):
            before = side * 2 if stage > 0 and block == 0 else side
            yield channels, width, 1, before * before, relu
            yield width, width, 3, side * side, relu
            yield width, 4 * width, 1, side * side, add_relu
            if block == 0:
                yield channels, 4 * width, 1, side * side, plain
            channels = 4 * width


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    number = {"type": float, "metavar": "X"}
    parser.add_argument("--batches", type=int, nargs="+", default=[8, 32], help="samples")
    parser.add_argument("--peak", default=2989, help="of the tiles, GF/s", **number)
    parser.add_argument("--forward", default=0.5, help="share of it, forward", **number)
    parser.add_argument("--dgrad", default=0.5, help="share of it, input gradient", **number)
    parser.add_argument("--wgrad", default=0.5, help="share of it, weight gradient", **number)
    parser.add_argument("--bandwidth", default=58, help="of batch norm, GB/s", **number)
    parser.add_argument("--packing", default=16.2, help="ms of a step", **number)
    parser.add_argument("--optimizer", default=14, help="ms of a step", **number)
    parser.add_argument("--pooling", default=0.9, help="ms of a sample", **number)
    parser.add_argument("--fixed", default=5, help="others, ms of a step", **number)
    parser.add_argument("--others", default=0.5, help="others, ms of a sample", **number)
    o = parser.parse_args()

    products = sum(c * k * r * r * p for c, k, r, p, _ in layers())
    stem = next(layers())
    without_stem = products - stem[0] * stem[1] * stem[2] ** 2 * stem[3]  # the image has no gradient
    normalized = sum(2 * k * p * passes for _, k, _, p, passes in layers())
    print("| batch | convolutions, ms | batch norm | packing | optimizer | pooling | others | convolutions' share |")
    print("|---|---|---|---|---|---|---|---|")
    for n in o.batches:
        passes = products / o.forward + without_stem / o.dgrad + products / o.wgrad
        parts = [n * 2 * passes / o.peak * 1e-6, n * normalized / o.bandwidth * 1e-6, o.packing, o.optimizer,
                 n * o.pooling, o.fixed + n * o.others]
        print(f"| {n} | " + " | ".join(f"{p:.0f}" for p in parts) + f" | {100 * parts[0] / sum(parts):.0f} % |")


if __name__ == "__main__":
    main()

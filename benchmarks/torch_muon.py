#!/usr/bin/env python3
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""A step of torch.optim.Muon on the matrices of bench_muon, by one thread: the minimum over repetitions."""
import argparse
import time

import torch


def matrices():
    """Convolutions but the first, (K, C R S); the classifier is none."""
    found, channels = [], 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for i in range(blocks):
            found += [(width, channels), (width, 9 * width), (4 * width, width)]
            if i == 0:
                found.append((4 * width, channels))
            channels = 4 * width
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reps", type=int, default=3)
    reps = parser.parse_args().reps
    torch.set_num_threads(1)
    weights = [torch.nn.Parameter(torch.zeros(s)) for s in matrices()]
    optimizer = torch.optim.Muon(weights, lr=0.02)
    best = processor = float("inf")
    for _ in range(reps):
        for w in weights:
            w.grad = 2 * torch.rand_like(w) - 1
        begin, used = time.perf_counter(), time.process_time()
        optimizer.step()
        best, processor = min(best, time.perf_counter() - begin), min(processor, time.process_time() - used)
    print(f'{{"torch": "{torch.__version__}", "matrices": {len(weights)}, "one thread, s": {best:.3f}, '
          f'"its processor, s": {processor:.3f}}}')


if __name__ == "__main__":
    main()

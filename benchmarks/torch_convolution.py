#!/usr/bin/env python3
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""The convolutions of bench_convolution beside PyTorch's, which are oneDNN's: GF/s, layer by layer.

    torch_convolution.py BENCH_CONVOLUTION [DEPTH [BATCH [ROUNDS [REPS [THREADS [WINDOW]]]]]]

The programs run in turn, REPS repetitions each time; figures are minima. Both call each pass several times in a row, so
operands are in the caches as far as they fit. PyTorch's tensors are channels_last, in fp32 and in bf16. Layers have
windows of WINDOW pixels (3; 0: all). Shares are of the peak of AMX's tiles for rows in bf16 if bench_convolution has
measured it, else of the multiply-add units.
"""
import re
import subprocess
import sys
import time

try:
    import torch
except ImportError as missing:
    sys.exit(f"PyTorch: not measured ({missing})")

DIRECTIONS = ("fprop", "dgrad", "wgrad")
NAME = re.compile(r"(\d+)x\d+, (\d+) -> (\d+), (\d+)x\d+(, stride 2)?$")


class layer:
    """A convolution in one precision, and calls of its three directions."""

    def __init__(self, name, batch, kind):
        side, channels, filters, window = (int(v) for v in NAME.match(name).groups()[:4])
        stride = 2 if name.endswith("stride 2") else 1
        arguments = ([stride] * 2, [window // 2] * 2, [1, 1], False, [0, 0], 1)
        last = {"memory_format": torch.channels_last}
        x = torch.randn(batch, channels, side, side).to(kind).contiguous(**last)
        w = torch.randn(filters, channels, window, window).to(kind).contiguous(**last)
        y = torch.ops.aten.convolution(x, w, None, *arguments)
        dy = torch.randn(*y.shape).to(kind).contiguous(**last)
        self.operations = 2 * y.numel() * channels * window * window
        back = torch.ops.aten.convolution_backward
        self.calls = {
            "fprop": lambda: torch.ops.aten.convolution(x, w, None, *arguments),
            "dgrad": lambda: back(dy, x, w, None, *arguments, [True, False, False]),
            "wgrad": lambda: back(dy, x, w, None, *arguments, [False, True, False]),
        }

    def seconds(self, direction, reps):
        best = float("inf")
        for rep in range(reps + 1):  # the first is a warm-up
            start = time.perf_counter()
            self.calls[direction]()
            if rep > 0:
                best = min(best, time.perf_counter() - start)
        return best


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    bench = sys.argv[1]
    depth, batch, rounds, reps, threads, window = (
        int(v) for v in (sys.argv[2:] + ["50", "8", "3", "5", "1", "3"][len(sys.argv) - 2:])[:6])
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    least, peaks, layers = {}, {}, {}
    for _ in range(rounds):
        lines = subprocess.run([bench, "--depth", str(depth), "--batch", str(batch), "--reps", str(reps),
                                "--threads", str(threads), "--lines", "1", "--again", "3"],
                               text=True, check=True, capture_output=True).stdout.splitlines()
        for line in lines:
            key, value = line.rsplit(" ", 1)
            engine, _, rest = key.partition("/")
            if engine == "peak":
                peaks[rest] = max(peaks.get(rest, 0), float(value))
                continue
            name, _, direction = rest.rpartition("/")
            if window and int(NAME.match(name)[4]) != window:
                continue
            place = (name, direction, engine)
            least[place] = min(least.get(place, float("inf")), float(value))
        for name, direction in dict.fromkeys(place[:2] for place in least):
            for kind in ("float32", "bfloat16"):
                one = layers.setdefault((name, kind), None) or layer(name, batch, getattr(torch, kind))
                layers[name, kind] = one
                place = (name, direction, "torch " + {"float32": "fp32", "bfloat16": "bf16"}[kind])
                least[place] = min(least.get(place, float("inf")), one.seconds(direction, reps))

    print(f"ResNet-{depth}, batch {batch}, {threads} thread(s), torch {torch.__version__}, {rounds} x {reps} repetitions\n"
          f"peaks: FMA {peaks['fma'] * 1e-9:.0f} GF/s, AMX "
          + (f"{peaks['amx'] * 1e-9:.0f} GF/s" if peaks["amx"] else "none: rows of engine amx are missing"))
    engines = list(dict.fromkeys(place[2] for place in least))
    sums = {}
    print(f"{'layer':34} {'':6}" + "".join(f"{e:>20}" for e in engines))
    for name, direction in dict.fromkeys(place[:2] for place in least):
        line = f"{name:34} {direction:6}"
        for engine in engines:
            work, seconds = layers[name, "float32"].operations, least[name, direction, engine]
            share = peaks["amx"] if engine.endswith("bf16") and peaks["amx"] else peaks["fma"]
            line += f"{work / seconds * 1e-9:13.1f} ({work / seconds / share:4.0%})"
            done = sums.setdefault((direction, engine), [0, 0, share])
            done[0], done[1] = done[0] + work, done[1] + seconds
        print(line)
    for direction in DIRECTIONS:
        print(f"{'all of them':34} {direction:6}" + "".join(
            f"{work / seconds * 1e-9:13.1f} ({work / seconds / share:4.0%})"
            for work, seconds, share in (sums[direction, engine] for engine in engines)))


if __name__ == "__main__":
    main()

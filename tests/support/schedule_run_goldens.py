# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Prints the goldens of tests/train/goldens_schedules.cpp: three weights of the toy set T4 (docs/mathematics.md, 1.4)
# after 40 updates of SGD with momentum 0.9, ten an epoch, under each schedule, written here from its source.
#   python3 tests/support/schedule_run_goldens.py
import math

CURVATURE, CENTER, START = (1, 4, 0.25), (0.4, -0.2, -1.5), (0.5, 0.1, -2)


def run(rate):
    w, b = list(START), [0.0] * 3
    for k in range(40):
        for i in range(3):
            b[i] = 0.9 * b[i] + CURVATURE[i] * (w[i] - CENTER[i])
            w[i] -= rate(k / 10) * b[i]
    return w


def one_cycle(e, peak, epochs, rise=0.3, start=25.0, end=1e4, u=0.0):  # torch's, two phases of cosines
    first, last, top = peak / start, peak / start / end, rise * epochs - u
    if e <= top:
        return peak + (first - peak) * (1 + math.cos(math.pi * e / top)) / 2
    x = min((e - top) / (epochs - u - top), 1)
    return last + (peak - last) * (1 + math.cos(math.pi * x)) / 2


def poly2(e, peak, warm, epochs, end, u):  # MLPerf training, resnet: lars_util
    return peak * e / warm if e < warm else end + (peak - end) * (1 - (e - warm) / (epochs - warm + u)) ** 2


def cosine(e, peak, epochs, floor=0.0):
    return floor + (peak - floor) * (1 + math.cos(math.pi * min(e / epochs, 1))) / 2


def steps(e, rate=0.05):
    return rate if e < 1 else rate / 10 if e < 3 else rate / 100


def poly(e, peak=0.05, epochs=4.0, power=2, end=0.0):
    return end + (peak - end) * (1 - min(e / epochs, 1)) ** power


SCHEDULES = {
    "constant": lambda e: 0.02,
    "multistep": steps,
    "polynomial": lambda e: poly(e, power=1.5, end=0.001),
    "cosine": lambda e: cosine(e, 0.05, 3.5, 0.002),
    "exponential": lambda e: 0.05 * 0.6**e,
    "warmup": lambda e: 0.01 + (steps(2) - 0.01) * e / 2 if e < 2 else steps(e),
    "warmup_then": lambda e: poly(0) * e / 2 if e < 2 else poly(e - 2),
    "linear_scaled": lambda e: 8 * cosine(e, 0.01, 4),
    "sqrt_scaled": lambda e: math.sqrt(8) * cosine(e, 0.01, 4),
    "scaled": lambda e: 0.4 * steps(e),
    "legw": lambda e: 2 * poly(4 * 0.25) * e / (4 * 0.25) if e < 4 * 0.25 else 2 * poly(e),
    "one_cycle": lambda e: one_cycle(e, 0.06, 4, u=0.1),
    "mlperf_poly2": lambda e: poly2(e, 0.06, 1, 4, 1e-4, 0.1),
    "akiba_slow_start": lambda e: 0.1 * (0.5 if e < 40 else 0.075),
    "then": lambda e: steps(e) if e < 1.5 else cosine(e - 1.5, 0.03, 2),
    "batch_scaled": lambda e: math.sqrt(1 if e < 1 else 2 if e < 2.5 else 3) * 0.02,
}
for name, rate in SCHEDULES.items():
    print(f"{name}:", ", ".join(f"{w:.13g}" for w in run(rate)))

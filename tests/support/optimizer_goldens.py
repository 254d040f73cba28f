#!/usr/bin/env python3
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""Golden vectors of optimizers on the toy set T4 (docs/mathematics.md, 1.4), in double precision.

Adam and RMSprop are PyTorch's own, the others programs in numpy after the formulas of their sources.
Needs numpy and torch. Prints name, segment and twelve digits; tests/train/goldens_*.cpp have them.
"""
import numpy as np

START = {"W1": [0.5, -0.3, 0.8, 0.1], "b1": [0, 0.2], "W2": [1, -2], "b2": [0.05]}
CURVATURE = {"W1": [1, 2, 3, 4], "b1": [1, 2], "W2": [0.5, 0.25], "b2": [1]}
CENTER = {"W1": [0.4, -0.1, 0.2, -0.2], "b1": [0.1, -0.1], "W2": [0.7, -1.5], "b2": [0]}
DECAYED = ("W1", "W2")


def array(of, k):
    return np.array(of[k], dtype=np.float64)


def gradient(w, k, shift=0.0):
    return array(CURVATURE, k) * (w - array(CENTER, k) - shift)


def show(name, weights):
    for k, w in weights.items():
        print(f"{name:28s} {k}  " + ", ".join(f"{x:.12g}" for x in w))


def run(name, step, rates):
    """step(w, g, k, t, lr, state) -> w, three steps"""
    w = {k: array(START, k) for k in START}
    state = {k: {} for k in START}
    for t, lr in enumerate(rates, 1):
        for k in w:
            w[k] = step(w[k], gradient(w[k], k), k, t, lr, state[k])
    show(name, w)


def decay_of(k, decay):
    return decay if k in DECAYED else 0.0


def larc_scaling(w, g, k, t, lr, s, trust=0.02, eps=1e-8, mu=0.9, decay=0.01):
    """apex.parallel.LARC(clip=False) around torch.optim.SGD"""
    wd = decay_of(k, decay)
    wn, gn = np.linalg.norm(w), np.linalg.norm(g)
    if wn != 0 and gn != 0:
        g = (g + wd * w) * (trust * wn / (gn + wd * wn + eps))
    s["b"] = mu * s["b"] + g if "b" in s else g
    return w - lr * s["b"]


def torch_run(name, make, rates):
    import torch

    w = {k: torch.tensor(START[k], dtype=torch.float64, requires_grad=True) for k in START}
    groups = [{"params": [w[k]], "weight_decay": decay_of(k, 0.01)} for k in w]
    optimizer = make(torch.optim)(groups)
    for lr in rates:
        for group in optimizer.param_groups:
            group["lr"] = lr
        for k in w:
            a, c = torch.from_numpy(array(CURVATURE, k)), torch.from_numpy(array(CENTER, k))
            w[k].grad = (a * (w[k] - c)).detach()
        optimizer.step()
    show(name, {k: w[k].detach().numpy() for k in w})


def main():
    run("larc_scaling", larc_scaling, [1, 1, 0.5])
    falling = [0.01, 0.01, 0.005]
    torch_run("adam", lambda o: lambda p: o.Adam(p), falling)
    torch_run("rmsprop", lambda o: lambda p: o.RMSprop(p), falling)
    torch_run("rmsprop, momentum 0.9", lambda o: lambda p: o.RMSprop(p, momentum=0.9), falling)
    torch_run("centered_rmsprop, 0.9, 0.5",
              lambda o: lambda p: o.RMSprop(p, momentum=0.9, alpha=0.5, centered=True), falling)


if __name__ == "__main__":
    main()

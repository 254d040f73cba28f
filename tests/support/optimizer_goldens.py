#!/usr/bin/env python3
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""Golden vectors of optimizers on the toy set T4 (docs/mathematics.md, 1.4), in double precision.

Adam and RMSprop are PyTorch's own, AdamP is timm's, the others programs in numpy after the formulas of
their sources. Needs numpy, torch and timm. Prints name, segment and twelve digits; tests/train/goldens_*.cpp have them.
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


def timm_adamp(name, rates, **options):
    """AdamP with W1 of two rows of two numbers and W2 of one row of two, W1 starting where its gradient is
    parallel to either row but nearly orthogonal to the whole. Prints the view of each projection."""
    import torch
    from timm.optim import adamp

    views = []
    for view in ("_channel_view", "_layer_view"):
        inner = getattr(adamp, view)
        setattr(adamp, view, lambda x, inner=inner, view=view: (views.append(view), inner(x))[1])
    shapes = {"W1": (2, 2), "b1": (2,), "W2": (1, 2), "b2": (1,)}
    start = dict(START, W1=[0.5, -0.2, 0.15, -0.15])
    w = {k: torch.tensor(start[k], dtype=torch.float64).reshape(shapes[k]).requires_grad_() for k in START}
    optimizer = adamp.AdamP([{"params": [w[k]], "weight_decay": decay_of(k, 0.01)} for k in w], **options)
    for lr in rates:
        for group in optimizer.param_groups:
            group["lr"] = lr
        for k in w:
            w[k].grad = torch.from_numpy(gradient(w[k].detach().numpy().reshape(-1), k)).reshape(shapes[k])
        optimizer.step()
        print("#", name, views)
        views.clear()
    show(name, {k: w[k].detach().numpy().reshape(-1) for k in w})


# What rank i gives to the vector of rank j: the ring of four, the star of three (their ring is the exact mean).
MIXING = {1: np.ones((1, 1)), 3: np.array([[1, 1, 1], [1, 2, 0], [1, 0, 2]]) / 3,
          4: np.array([[1, 1, 0, 1], [1, 1, 1, 0], [0, 1, 1, 1], [1, 0, 1, 1]]) / 3}


def on_ranks(name, ranks, step, rates):
    """step(w, g, k, t, lr, state, mix) -> w: all ranks' arrays of one tensor, one row a rank. The loss of a rank
    has T4's centers plus a quarter of its distance from the middle rank. Prints rows of W1, b1, W2, b2."""
    shift = 0.25 * (np.arange(ranks)[:, None] - (ranks - 1) / 2)
    w = {k: np.tile(array(START, k), (ranks, 1)) for k in START}
    state = {k: {} for k in START}
    for t, lr in enumerate(rates, 1):
        for k in w:
            w[k] = step(w[k], gradient(w[k], k, shift), k, t, lr, state[k], lambda x: MIXING[ranks] @ x)
    print(f"// {name}, {ranks}")
    for r in range(ranks):
        print("{" + ", ".join(f"{x:.12g}" for k in w for x in w[k][r]) + "},")
    return w


def decentlam(direction, mu, nesterov=False, correct=False):
    """z = W (w - lr d), u <- mu u + (w - z), w <- w - u; Nesterov: w - (w - z) - mu u. d is each rank's own."""
    def step(w, g, k, t, lr, s, mix):
        trial = w.copy()
        for r in range(len(w)):
            trial[r] -= lr * direction(w[r], g[r], k, t, s.setdefault(r, {}))
        away = w - mix(trial)
        carry = mu * lr / s.get("previous lr", lr) if correct else mu
        s["u"], s["previous lr"] = carry * s.get("u", 0 * w) + away, lr
        return w - away - mu * s["u"] if nesterov else w - s["u"]
    return step


def sgd_direction(w, g, k, t, s, decay=0.01):
    return g + decay_of(k, decay) * w


def lars_direction(w, g, k, t, s, trust=0.02, decay=0.01):
    if k not in DECAYED:
        return g
    wn, gn = np.linalg.norm(w), np.linalg.norm(g)
    ratio = trust * wn / (gn + decay * wn) if wn != 0 and gn != 0 else 1.0
    return ratio * (g + decay * w)


def lamb_direction(w, g, k, t, s, beta1=0.9, beta2=0.999, eps=1e-6, decay=0.01):
    s["v"] = beta2 * s.get("v", 0 * g) + (1 - beta2) * g * g
    u = g / (np.sqrt(s["v"] / (1 - beta2**t)) + eps) + decay_of(k, decay) * w
    wn, un = np.linalg.norm(w), np.linalg.norm(u)
    ratio = wn / un if k in DECAYED and wn != 0 and un != 0 else 1.0
    return (1 - beta1) * ratio * u


def quasi_global(mu=0.9, smoothing=0.9, nesterov=False):
    """QG-DmSGD with the published buffer m = (x - x+) / lr."""
    def step(w, g, k, t, lr, s, mix):
        d, m = sgd_direction(w, g, k, t, s), s.get("m", 0 * w)
        b = mu * m + d
        z = mix(w - lr * (d + mu * b if nesterov else b))
        s["m"] = smoothing * m + (1 - smoothing) * (w - z) / lr
        return z
    return step


def dmsgd(while_combining=False, mu=0.9):
    """b <- mu b + g + decay w, w <- W (w - lr b), or while combining W w - lr b."""
    def step(w, g, k, t, lr, s, mix):
        s["b"] = mu * s.get("b", 0 * w) + sgd_direction(w, g, k, t, s)
        return mix(w) - lr * s["b"] if while_combining else mix(w - lr * s["b"])
    return step


def combine_then_adapt(mixed, ranks, rates, mu):
    """x <- y - lr b, b <- mu b + g(y) + decay y, y = W x: the y are the weights of adapt then combine, `mixed`."""
    x = {k: np.tile(array(START, k), (ranks, 1)) for k in START}
    b = {k: 0 * x[k] for k in x}
    for lr in rates:
        for k in x:
            y = MIXING[ranks] @ x[k]
            g = gradient(y, k, 0.25 * (np.arange(ranks)[:, None] - (ranks - 1) / 2))
            b[k] = mu * b[k] + g + decay_of(k, 0.01) * y
            x[k] = y - lr * b[k]
    assert all(np.allclose(MIXING[ranks] @ x[k], mixed[k], rtol=0, atol=1e-14) for k in x)


def post_local(inner, period=2, start=2):
    """Post-local SGD: each rank steps on its own gradient; weights are averaged after each step before
    epoch `start`, after every `period`-th from then on. Step k, from 0, is at epoch k."""
    def step(w, g, k, t, lr, s, mix):
        w = np.array([inner(w[r], g[r], k, t, lr, s.setdefault(r, {})) for r in range(len(w))])
        return np.tile(w.mean(axis=0), (len(w), 1)) if t <= start or t % period == 0 else w
    return step


def lars_step(w, g, k, t, lr, s, mu=0.9):
    s["v"] = mu * s.get("v", 0 * w) + lr * lars_direction(w, g, k, t, s)
    return w - s["v"]


def lamb_step(w, g, k, t, lr, s, beta1=0.9, beta2=0.999, eps=1e-6, decay=0.01):
    s["m"] = beta1 * s.get("m", 0 * g) + (1 - beta1) * g
    s["v"] = beta2 * s.get("v", 0 * g) + (1 - beta2) * g * g
    u = s["m"] / (1 - beta1**t) / (np.sqrt(s["v"] / (1 - beta2**t)) + eps) + decay_of(k, decay) * w
    wn, un = np.linalg.norm(w), np.linalg.norm(u)
    return w - lr * (wn / un if k in DECAYED and wn != 0 and un != 0 else 1.0) * u


def lion_step(w, g, k, t, lr, s, beta1=0.9, beta2=0.99, decay=0.01):
    m = s.get("m", 0 * g)
    s["m"] = beta2 * m + (1 - beta2) * g
    return (1 - lr * decay_of(k, decay)) * w - lr * np.sign(beta1 * m + (1 - beta1) * g)


def adan_step(w, g, k, t, lr, s, beta1=0.98, beta2=0.92, beta3=0.99, eps=1e-8, decay=0.01):
    d = g - s.get("g", g)
    s["g"] = g
    s["m"] = beta1 * s.get("m", 0 * g) + (1 - beta1) * g
    s["v"] = beta2 * s.get("v", 0 * g) + (1 - beta2) * d
    s["n"] = beta3 * s.get("n", 0 * g) + (1 - beta3) * (g + beta2 * d) ** 2
    step = s["m"] / (1 - beta1**t) + beta2 * s["v"] / (1 - beta2**t)
    step = step / (np.sqrt(s["n"] / (1 - beta3**t)) + eps)
    return (w - lr * step) / (1 + lr * decay_of(k, decay))


def lans_step(w, g, k, t, lr, s, beta1=0.9, beta2=0.999, eps=1e-6, decay=0.01):
    g = g / np.linalg.norm(g) if np.linalg.norm(g) != 0 else g
    s["m"] = beta1 * s.get("m", 0 * g) + (1 - beta1) * g
    s["v"] = beta2 * s.get("v", 0 * g) + (1 - beta2) * g * g
    step = 0 * w
    for share, n in ((beta1, s["m"] / (1 - beta1**t)), (1 - beta1, g)):
        u = n / (np.sqrt(s["v"] / (1 - beta2**t)) + eps) + decay_of(k, decay) * w
        wn, un = np.linalg.norm(w), np.linalg.norm(u)
        step += share * (wn / un if wn != 0 and un != 0 else 1.0) * u
    return w - lr * step


def outer_momentum(inner, mu, rate, nesterov, per_rate, period=2, second=()):
    """DiLoCo and SlowMo: every second step the mean way back to the last common weights is a gradient. The tensors
    `second` average half a period earlier: a fragment of Streaming DiLoCo"""
    def step(w, g, k, t, lr, s, mix):
        a = s.setdefault("a", w[0].copy())
        w = np.array([inner(w[r], g[r], k, t, lr, s.setdefault(r, {})) for r in range(len(w))])
        if (t + (period // 2 if k in second else 0)) % period:
            return w
        unit = lr if per_rate else 1.0
        d = (a - w).mean(axis=0) / unit
        s["u"] = mu * s.get("u", 0 * a) + d
        s["a"] = a - rate * unit * (d + mu * s["u"] if nesterov else s["u"])
        return np.tile(s["a"], (len(w), 1))
    return step


def overlapped(inner, mu, rate, mixing, delay, period, second):
    """Streaming DiLoCo with overlap: as outer_momentum with Nesterov's, but the mean way back is used `delay` steps
    after it was taken, and a share `mixing` of the rank's weights stays"""
    def step(w, g, k, t, lr, s, mix):
        a = s.setdefault("a", w[0].copy())
        w = np.array([inner(w[r], g[r], k, t, lr, s.setdefault(r, {})) for r in range(len(w))])
        shift = period // 2 if k in second else 0
        if (t + shift) % period == 0:
            s["sent"] = (a - w).mean(axis=0)
        if t > delay and (t - delay + shift) % period == 0:
            s["u"] = mu * s.get("u", 0 * a) + s["sent"]
            s["a"] = a - rate * (s["sent"] + mu * s["u"])
            w = mixing * w + (1 - mixing) * s["a"]
        return w
    return step


def majority_vote(mu, decay=0.01):
    """Signum with majority vote: a zero votes 1 in even steps, -1 in odd ones; a tie goes to rank (step mod ranks)"""
    def step(w, g, k, t, lr, s, mix):
        s["m"] = mu * s.get("m", 0.0) + (1 - mu) * g
        votes = np.where(s["m"] == 0, 1 if t % 2 == 1 else -1, np.sign(s["m"]))
        total = votes.sum(axis=0)
        sign = np.where(total == 0, votes[(t - 1) % len(votes)], np.sign(total))
        return w - lr * (sign + decay_of(k, decay) * w)
    return step


def one_bit_adam(start, beta1=0.9, beta2=0.999, eps=1e-8, decay=0.01):
    """Of a step t > start the ranks exchange the signs of momenta, times their mean magnitude, with error feedback"""
    def step(w, g, k, t, lr, s, mix):
        ranks, n = g.shape
        m, v = s.get("m", np.zeros(n)), s.get("v", np.zeros(n))
        if t <= start:
            g = g.mean(axis=0)
            m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
        else:
            x = beta1 * m + (1 - beta1) * g + s.get("e", 0.0)
            code = x if ranks == 1 else np.where(x < 0, -1, 1) * np.abs(x).mean(axis=1, keepdims=True)
            s["e"], m = x - code, code.mean(axis=0)
        s["m"], s["v"] = m, v
        return w - lr * (np.where(v == 0, 0, m / (np.sqrt(v) + eps)) + decay_of(k, decay) * w)
    return step


def variance_step(t, scaler):
    """DeepSpeed's counters: the interval doubles after `scaler` updates of the second moment"""
    interval, counter = 1, 0
    for step in range(1, t + 1):
        due = step % interval == 0
        counter += due
        if due and counter == scaler:
            interval, counter = 2 * interval, 0
    return due


def zero_one_adam(freeze, var_scaler, step_scaler, clipper, beta1=0.9, beta2=0.999, eps=1e-8, decay=0.01):
    """Steps t <= freeze + 1 are alike on all ranks: a mean gradient, exact in variance steps, else of signs with error
    feedback. Later ones are each rank's own; their sum, times the root of v, is exchanged as signs."""
    def compressed(x, s):
        x = x + s.get("e", 0.0)
        code = x if len(x) == 1 else np.where(x < 0, -1, 1) * np.abs(x).mean(axis=1, keepdims=True)
        s["e"] = x - code
        return code.mean(axis=0)

    def step(w, g, k, t, lr, s, mix):
        m, v, keep = s.get("m", 0 * g), s.get("v", np.zeros(g.shape[1])), 1 - lr * decay_of(k, decay)
        own = t > freeze + 1
        if not own:
            exact = variance_step(t, var_scaler)
            g = np.tile(g.mean(axis=0) if exact else compressed(g, s), (len(g), 1))
            v = beta2 * v + (1 - beta2) * g[0] ** 2 if exact else v
        elif "sum" not in s:
            s.update(sum=0 * w, rates=0.0, since=0, interval=1, start=w[0], e=0 * w)
        m, root = beta1 * m + (1 - beta1) * g, np.sqrt(v) + eps
        way = lr * np.where(v == 0, 0, m / root)
        w = keep * w - way
        if own:
            s["sum"], s["rates"], s["start"] = keep * s["sum"] + way, s["rates"] + lr, keep * s["start"]
            if t % s["interval"] == 0:
                u = compressed(s["sum"] * root, s)
                m, s["start"] = np.tile(u / s["rates"], (len(w), 1)), s["start"] - np.where(v == 0, 0, u / root)
                w, s["sum"], s["rates"] = np.tile(s["start"], (len(w), 1)), 0 * w, 0.0
            s["since"] += 1
            if s["since"] == step_scaler:
                s["since"], s["interval"] = 0, min(clipper, 2 * s["interval"])
        s["m"], s["v"] = m, v
        return w
    return step


def one_bit_lamb(start, coeff_beta, most, decay=0.01, beta1=0.9, beta2=0.999, eps=1e-8, limits=(0.01, 10), least=0.5,
                 threshold=0.1):
    """DeepSpeed's OnebitLamb: its ratio is an average of LAMB's until step `start`, times a limited factor from there on"""
    def step(w, g, k, t, lr, s, mix):
        ranks, n = g.shape
        m, v, c = s.get("m", np.zeros(n)), s.get("v", np.zeros(n)), s.get("c", 0.0)
        wd = decay_of(k, decay)
        if t <= start:
            g = g.mean(axis=0)
            m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
            u = m / (np.sqrt(v) + eps) + wd * w[0]
            wn, un = np.linalg.norm(w[0]), np.linalg.norm(u)
            ratio = min(max(wn / un, limits[0]), limits[1]) if wn != 0 and un != 0 else 1.0
            s["c"] = coeff_beta * c + (1 - coeff_beta) * ratio if ratio != 1 else c
        else:
            x = beta1 * m + (1 - beta1) * g + s.get("e", 0.0)
            code = x if ranks == 1 else np.where(x < 0, -1, 1) * np.abs(x).mean(axis=1, keepdims=True)
            s["e"], new = x - code, code.mean(axis=0)
            fresh = beta2 * s.get("f", v) + (1 - beta2) * ((new - beta1 * m) / (1 - beta1)) ** 2
            m, s["f"] = new, fresh
            own = m / (np.sqrt(v) + eps)
            u = own + wd * w[0]
            factor = ((np.sqrt(v) + eps) / (np.sqrt(fresh) + eps)).max()
            share = min(1.0, np.linalg.norm(own) / np.linalg.norm(u))
            factor = min(max(factor * share + 1 - share, least), most)
            last = s.get("last", 1.0)
            s["last"] = min(max(factor, last * (1 - threshold)), last * (1 + threshold))
            ratio = c * s["last"]
        s["m"], s["v"] = m, v
        return w - lr * ratio * u
    return step


def sgd_step(w, g, k, t, lr, s, mu=0.9):
    s["b"] = mu * s.get("b", 0 * w) + g + decay_of(k, 0.01) * w
    return w - lr * s["b"]


def sharpness_aware(name, ranks, rates, radius, adaptive=False, eta=0.01, period=1, reuse=0.7, mu=0.9):
    """SGD on gradients that each rank takes uphill of the weights by its own gradient. Prints W1, b1, W2, b2."""
    sizes = [len(START[k]) for k in START]
    flat = lambda of: np.concatenate([array(of, k) for k in START])
    w, a, c, b, kept = flat(START), flat(CURVATURE), flat(CENTER), 0.0, [None] * ranks
    weights = np.repeat([k in DECAYED for k in START], sizes)
    for t, lr in enumerate(rates):
        used = []
        for r in range(ranks):
            gradient_at = lambda x: a * (x - c - 0.25 * (r - (ranks - 1) / 2))
            g = gradient_at(w)
            size = np.where(weights, abs(w) + eta, 1.0) if adaptive else 1.0
            if t % period == 0:
                h = gradient_at(w + radius * size**2 * g / np.linalg.norm(size * g))
                kept[r] = h - g * (h @ g) / (g @ g)
            else:
                h = g + reuse * np.linalg.norm(g) / np.linalg.norm(kept[r]) * kept[r]
            used.append(h)
        b = mu * b + np.mean(used, axis=0)
        w = w - lr * b
    print(f"// {name}, {ranks}")
    print("{" + ", ".join("{" + ", ".join(f"{x:.12g}" for x in part) + "}" for part in np.split(w, np.cumsum(sizes)[:-1])) + "}")


def schedule_free(rates, beta, warmup, adam, decay=0.01):
    """As the authors' package: y and z are kept, x is computed at the end. Shows x."""
    y = {k: array(START, k) for k in START}
    z, v = {k: y[k].copy() for k in y}, {k: 0 * y[k] for k in y}
    total = 0
    for t, lr in enumerate(rates, 1):
        lr *= min(t / warmup, 1) if warmup else 1
        total += lr**2
        c = lr**2 / total
        for k in y:
            g = gradient(y[k], k)
            if adam:
                v[k] = 0.999 * v[k] + 0.001 * g * g
                g = g / (np.sqrt(v[k] / (1 - 0.999**t)) + 1e-8)
            g = g + decay_of(k, decay) * y[k]
            y[k] = (1 - c) * y[k] + c * z[k] + lr * (beta * (1 - c) - 1) * g
            z[k] = z[k] - lr * g
    return {k: (y[k] - (1 - beta) * z[k]) / beta for k in y}


SIDES = {"W1": (2, 2), "W2": (1, 2)}


def newton_schulz(x, steps=5, eps=1e-7, a=3.4445, b=-4.7750, c=2.0315):
    """As torch.optim.Muon's, in double."""
    y = (x.T if x.shape[0] > x.shape[1] else x) / max(np.linalg.norm(x), eps)
    for _ in range(steps):
        s = y @ y.T
        y = a * y + (b * s + c * s @ s) @ y
    return y.T if x.shape[0] > x.shape[1] else y


def muon(inner, names, sides=SIDES, scale="original", mu=0.95, nesterov=True, decay=0.1, steps=5):
    """The tensors of these names by Muon, the others by the step `inner`."""
    def step(w, g, k, t, lr, s):
        if k not in names:
            return inner(w, g, k, t, lr, s)
        rows, columns = sides[k]
        s["m"] = mu * s.get("m", 0 * g) + (1 - mu) * g
        u = (1 - mu) * g + mu * s["m"] if nesterov else s["m"]
        factor = {"original": max(1, rows / columns) ** 0.5, "match_rms_adamw": 0.2 * max(rows, columns) ** 0.5,
                  "spectral_unclamped": (rows / columns) ** 0.5}[scale]
        o = newton_schulz(u.reshape(rows, columns), steps).reshape(-1)
        return (1 - lr * decay) * w - lr * factor * o
    return step


def adamw_step(w, g, k, t, lr, s, beta1=0.9, beta2=0.999, eps=1e-8):
    s["m"] = beta1 * s.get("m", 0 * g) + (1 - beta1) * g
    s["v"] = beta2 * s.get("v", 0 * g) + (1 - beta2) * g * g
    return w - lr * (s["m"] / (1 - beta1**t)) / (np.sqrt(s["v"] / (1 - beta2**t)) + eps)


def torch_groups(name, rates, b1, b2):
    """SGD whose W2 has twice the rate, momentum 0.5 and no decay, whose biases have b1 and b2 times the rate."""
    import torch

    w = {k: torch.tensor(START[k], dtype=torch.float64, requires_grad=True) for k in START}
    factor = {"W1": 1, "b1": b1, "W2": 2, "b2": b2}
    optimizer = torch.optim.SGD(
        [{"params": [w["W1"]], "weight_decay": 0.01, "momentum": 0.9}, {"params": [w["b1"]], "momentum": 0.9},
         {"params": [w["W2"]], "momentum": 0.5}, {"params": [w["b2"]], "momentum": 0.9}], lr=1.0)
    for lr in rates:
        for group, k in zip(optimizer.param_groups, w):
            group["lr"] = lr * factor[k]
        for k in w:
            a, c = torch.from_numpy(array(CURVATURE, k)), torch.from_numpy(array(CENTER, k))
            w[k].grad = (a * (w[k] - c)).detach()
        optimizer.step()
    show(name, {k: w[k].detach().numpy() for k in w})


def around_sgd(name, rates, after, mu=0.9):
    """after(w, slow, t) -> w, slow around SGD with momentum and without decay; shows slow."""
    w = {k: array(START, k) for k in START}
    b = {k: 0 * w[k] for k in w}
    slow = {k: w[k].copy() for k in w}
    for t, lr in enumerate(rates, 1):
        for k in w:
            b[k] = mu * b[k] + gradient(w[k], k)
            w[k], slow[k] = after(w[k] - lr * b[k], slow[k], t)
    show(name, slow)


def lookahead(w, slow, t, period=2, rate=0.5):
    if t % period:
        return w, slow
    slow = slow + rate * (w - slow)
    return slow, slow


def exponential(w, slow, t, decay=0.9):
    return w, (w if t == 1 else decay * slow + (1 - decay) * w)


def stochastic(w, slow, t, start=2, period=2):
    n = (t - start) // period
    if t - start < period:
        return w, w
    return w, slow + (w - slow) / n if (t - start) % period == 0 else slow


def main():
    run("larc_scaling", larc_scaling, [1, 1, 0.5])
    falling = [0.01, 0.01, 0.005]
    torch_run("adam", lambda o: lambda p: o.Adam(p), falling)
    torch_run("rmsprop", lambda o: lambda p: o.RMSprop(p), falling)
    torch_run("rmsprop, momentum 0.9", lambda o: lambda p: o.RMSprop(p, momentum=0.9), falling)
    torch_run("centered_rmsprop, 0.9, 0.5",
              lambda o: lambda p: o.RMSprop(p, momentum=0.9, alpha=0.5, centered=True), falling)
    for delta in (0.1, 0.5, 2):
        timm_adamp(f"adamp, delta {delta}", falling, delta=delta, nesterov=delta == 2)
    run("lion", lion_step, falling)
    run("adan", adan_step, falling)
    run("lans", lans_step, [0.1, 0.1, 0.05])
    run("muon{adamw}", muon(adamw_step, ("W1", "W2")), [0.1, 0.1, 0.05])
    tall = {"W1": (4, 1), "W2": (2, 1)}
    run("muon{adamw}, W1", muon(adamw_step, ("W1",), tall, "match_rms_adamw", 0.5, False, 0, 7), [0.1, 0.1, 0.05])
    show("schedule_free_sgd", schedule_free([0.2] * 5, 0.9, 3, adam=False))
    show("schedule_free_adamw", schedule_free([0.02] * 5, 0.9, 0, adam=True))
    falling, halved = [0.1, 0.1, 0.05], [1, 1, 0.5]
    for ranks in MIXING:
        mixed = on_ranks("DSGD", ranks, decentlam(sgd_direction, 0), falling)
        combine_then_adapt(mixed, ranks, falling, 0)
        on_ranks("DSGD while combining", ranks, dmsgd(while_combining=True, mu=0), falling)
        mixed = on_ranks("DmSGD", ranks, dmsgd(), falling)
        combine_then_adapt(mixed, ranks, falling, 0.9)
        on_ranks("DmSGD while combining", ranks, dmsgd(while_combining=True), falling)
        on_ranks("decentlam", ranks, decentlam(sgd_direction, 0.9), falling)
        on_ranks("decentlam, Nesterov", ranks, decentlam(sgd_direction, 0.9, nesterov=True), falling)
        on_ranks("decentlam, corrected", ranks, decentlam(sgd_direction, 0.9, correct=True), falling)
        on_ranks("decentlam_over{lars}", ranks, decentlam(lars_direction, 0.9), halved)
        on_ranks("decentlam_over{lamb}", ranks, decentlam(lamb_direction, 0.9), falling)
        on_ranks("qg_dmsgd", ranks, quasi_global(), falling)
        on_ranks("qg_dmsgd, Nesterov", ranks, quasi_global(nesterov=True), falling)
        on_ranks("local_steps{lars}", ranks, post_local(lars_step), [1, 1, 0.5, 0.5, 0.25])
        on_ranks("local_steps{lamb}", ranks, post_local(lamb_step), [0.01, 0.01, 0.005, 0.005, 0.0025])
        on_ranks("outer_momentum, DiLoCo", ranks, outer_momentum(sgd_step, 0.9, 0.7, True, False), [0.1] * 4 + [0.05])
        on_ranks("outer_momentum, SlowMo", ranks, outer_momentum(sgd_step, 0.5, 1, False, True), [0.1, 0.1, 0.05, 0.05, 0.05])
        on_ranks("outer_momentum, two fragments", ranks,
                 outer_momentum(sgd_step, 0.9, 0.7, True, False, 4, ("W2", "b2")), [0.1] * 9)
        on_ranks("overlapped, two fragments", ranks,
                 overlapped(sgd_step, 0.9, 0.7, 0.5, 2, 6, ("W2", "b2")), [0.1] * 10 + [0.05] * 5)
        on_ranks("majority_vote, signSGD", ranks, majority_vote(0), [0.1] * 5 + [0.05])
        on_ranks("majority_vote, Signum", ranks, majority_vote(0.9), [0.1] * 5 + [0.05])
        on_ranks("one_bit_adam", ranks, one_bit_adam(3), [0.01] * 3 + [0.002] * 4)
        on_ranks("zero_one_adam", ranks, zero_one_adam(5, 2, 3, 3),
                 [0.01] * 6 + [0.002, 0.001] * 5 + [0.002])
        on_ranks("one_bit_lamb", ranks, one_bit_lamb(4, 0.5, 4, least=0.75), [0.01] * 4 + [0.02] * 6)
        sharpness_aware("SAM", ranks, falling, 0.1)
        sharpness_aware("ASAM", ranks, falling, 0.5, adaptive=True)
        sharpness_aware("LookSAM", ranks, [0.1] * 5, 0.1, period=2)
    torch_groups("groups by name", falling, b1=1, b2=0)
    torch_groups("groups by kind", falling, b1=0.5, b2=0.5)
    five = [0.1, 0.1, 0.05, 0.05, 0.05, 0.02, 0.02, 0.02]
    around_sgd("lookahead", five, lookahead)
    around_sgd("exponential_average", five, exponential)
    around_sgd("stochastic_average", five, stochastic)


if __name__ == "__main__":
    main()

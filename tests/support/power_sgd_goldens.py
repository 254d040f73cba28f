#!/usr/bin/env python3
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""Golden weights of power_sgd on four quadratic tensors, a program in numpy after the paper, in double precision.

Prints, for 1, 3 and 4 ranks and each tensor, its first and last number and the sum of w[i] cos(i), as
tests/comm/reducers/power_sgd.cpp has them. With --torch compares the program, started at the directions that PyTorch
draws, with powerSGD_hook of PyTorch (gloo, 2 and 4 processes).
"""
import socket
import sys

import numpy as np

# Shape, and the offset in the planes.
TENSORS = [((6, 8), 0), ((8, 2, 3, 3), 64), ((6,), 256), ((2, 2), 320)]
RANK, RATE, STEPS, LEARNING_RATE = 2, 1.2, 6, 0.2
PROJECTION = 12  # purpose::projection
TORCH_FIRST_STEP = 2  # that the hook compresses, behind those in which DDP orders its buckets


def philox(counter, seed):
    mask, x = 0xFFFFFFFF, list(counter)
    k0, k1 = seed & mask, seed >> 32
    for _ in range(10):
        p0, p1 = 0xD2511F53 * x[0], 0xCD9E8D57 * x[2]
        x = [p1 >> 32 ^ x[1] ^ k0, p1 & mask, p0 >> 32 ^ x[3] ^ k1, p0 & mask]
        k0, k1 = (k0 + 0x9E3779B9) & mask, (k1 + 0xBB67AE85) & mask
    return x


def normals(count, step, offset, column, seed=0):
    """Of random_sequence(seed, projection, step, offset).subsequence(column)"""
    counter = [PROJECTION << 24 | step, offset, 0]
    key = philox([column, ~counter[0] & 0xFFFFFFFF, counter[1], counter[2]], seed)
    seed = key[0] << 32 | key[1]
    words = [w for k in range(count) for w in philox([k, *counter], seed)]
    u = [((a << 32 | b) >> 11) * 2.0**-53 for a, b in zip(words[::2], words[1::2])]
    u = np.array(u).reshape(count, 2)
    return np.sqrt(-2 * np.log1p(-u[:, 0])) * np.cos(2 * np.pi * u[:, 1])


def drawn(cols, offset):
    return np.stack([normals(cols, 0, offset, column) for column in range(RANK)], 1)


def start(k):
    size = int(np.prod(TENSORS[k][0]))
    return np.cos(0.3 * np.arange(size) + k)


def gradient(w, k, rank):
    i = np.arange(w.size)
    return (1 + 0.5 * (i % 3)) * (w - np.sin(i + 0.7 * rank + k))


def orthonormal(p):
    return np.linalg.qr(p)[0]


def train(ranks, first_q, first_step=0):
    w = [start(k) for k in range(len(TENSORS))]
    error = [[np.zeros_like(x) for x in w] for _ in range(ranks)]
    q = [None] * len(w)
    for step in range(STEPS):
        for k, (shape, offset) in enumerate(TENSORS):
            rows, cols = shape[0], w[k].size // shape[0]
            x = [gradient(w[k], k, r) + error[r][k] for r in range(ranks)]
            mean = sum(x) / ranks
            if ranks > 1 and step >= first_step and (rows + cols) * RANK * RATE < rows * cols:
                if step == first_step:
                    q[k] = first_q(cols, offset)
                p = orthonormal(sum(y.reshape(rows, cols) @ q[k] for y in x) / ranks)
                own = [y.reshape(rows, cols).T @ p for y in x]
                q[k] = sum(own) / ranks
                for r in range(ranks):
                    error[r][k] = x[r] - (p @ own[r].T).ravel()
                mean = (p @ q[k].T).ravel()
            w[k] = w[k] - LEARNING_RATE * mean
    return w


def torch_rank(rank, ranks, port, results):
    import torch
    import torch.distributed as dist
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as hook

    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    net = torch.nn.Module()
    for k, (shape, _) in enumerate(TENSORS):
        net.register_parameter(f"w{k}", torch.nn.Parameter(torch.tensor(start(k)).reshape(shape)))
    net.forward = lambda: sum(
        (torch.tensor(1 + 0.5 * (np.arange(p.numel()) % 3)) / 2
         * (p.flatten() - torch.tensor(np.sin(np.arange(p.numel()) + 0.7 * rank + k))) ** 2).sum()
        for k, p in enumerate(net.parameters()))
    model = torch.nn.parallel.DistributedDataParallel(net)
    state = hook.PowerSGDState(None, matrix_approximation_rank=RANK, start_powerSGD_iter=TORCH_FIRST_STEP,
                               min_compression_rate=RATE, random_seed=0)
    model.register_comm_hook(state, hook.powerSGD_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    for _ in range(STEPS):
        optimizer.zero_grad()
        model().backward()
        optimizer.step()
    if rank == 0:
        results.put(([p.detach().numpy().ravel() for p in net.parameters()],))
    dist.barrier()
    dist.destroy_process_group()


def compare_with_torch():
    import torch
    import torch.multiprocessing as mp

    for ranks in (2, 4):
        with socket.create_server(("127.0.0.1", 0)) as free:  # a moment later
            port = free.getsockname()[1]
        results = mp.get_context("spawn").Queue()
        context = mp.spawn(torch_rank, (ranks, port, results), nprocs=ranks, join=False)
        (theirs,) = results.get()
        while not context.join():
            pass
        # The hook draws for one tensor of its bucket after the other, in the order of their gradients or the
        # opposite one.
        worst = []
        for order in ((0, 1), (1, 0)):
            torch.manual_seed(np.random.RandomState(0).randint(1_000_000_000))
            first = {}
            for k in order:
                shape = TENSORS[k][0]
                cols = int(np.prod(shape[1:]))
                first[TENSORS[k][1]] = torch.randn(1, cols, RANK, dtype=torch.float64)[0].numpy()
            ours = train(ranks, lambda cols, offset, of=first: of[offset], TORCH_FIRST_STEP)
            worst.append(max(np.abs(a - b).max() for a, b in zip(ours, theirs)))
        print(f"torch {torch.__version__}, {ranks} ranks: largest difference {min(worst):.3g}"
              f" (in the other order {max(worst):.3g})")
        if min(worst) > 1e-12:
            sys.exit("the programs differ")


def main():
    if sys.argv[1:] == ["--torch"]:
        return compare_with_torch()
    for ranks in (1, 3, 4):
        for k, w in enumerate(train(ranks, drawn)):
            three = w[0], w[-1], w @ np.cos(np.arange(w.size))
            print(f"{ranks} ranks, tensor {k}: " + ", ".join(f"{x:.12g}" for x in three))


if __name__ == "__main__":
    main()

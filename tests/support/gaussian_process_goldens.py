# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Prints the golden numbers of tests/schedule/gaussian_process.cpp: the fit of a Gaussian process by autograd and
# torch.optim.Adam in fp64, in gpytorch's coordinates (softplus; the noise above 1e-4).
#   python3 tests/support/gaussian_process_goldens.py     (needs torch; the values in the test are of torch 2.15)
import math

import torch

torch.set_default_dtype(torch.float64)
LENGTH = 0.2
x = torch.arange(12) / 12
y = (x - 0.4) ** 2 + 0.05 * torch.sin(37 * x)


def kernel(a, b):
    return torch.exp(-((a[:, None] - b[None, :]) ** 2) / (2 * LENGTH**2))


mean = torch.nn.Parameter(y.mean().clone())
a = torch.nn.Parameter(torch.tensor(0.0))
b = torch.nn.Parameter(torch.tensor(math.log(math.expm1(1e-3 - 1e-4))))


def covariance():
    return torch.nn.functional.softplus(a) * kernel(x, x) + (torch.nn.functional.softplus(b) + 1e-4) * torch.eye(12)


def log_likelihood():
    return torch.distributions.MultivariateNormal(mean.expand(12), covariance()).log_prob(y) / 12


adam = torch.optim.Adam([mean, a, b], lr=0.01)
for step in range(100):
    adam.zero_grad()
    loss = -log_likelihood()
    loss.backward()
    if step == 0:
        print("log likelihood / n and its gradient", *(f"{-v.item():.15g}" for v in (loss, mean.grad, a.grad, b.grad)))
    adam.step()
print("after 100 steps", *(f"{v.item():.15g}" for v in (mean, a, b)))
grid = torch.tensor([0, 0.3, 0.7, 1.0])
with torch.no_grad():
    k = torch.nn.functional.softplus(a) * kernel(grid, x)
    inverse = torch.linalg.inv(covariance())
    print("means", *(f"{v:.12g}" for v in (mean + k @ inverse @ (y - mean)).tolist()))
    c = torch.nn.functional.softplus(a) * kernel(grid, grid) - k @ inverse @ k.T
    print("variances", *(f"{v:.12g}" for v in torch.diagonal(c).tolist()))
    print("with the last", *(f"{v:.12g}" for v in c[:, -1].tolist()))

#!/usr/bin/env python3
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""Golden vectors of int8: scales, zero points, running ranges, fake-quantized values and gradients of
torch.ao, the bounds of NVIDIA's entropy calibration, and the percentiles of onnxruntime's.

Needs numpy, scipy, torch, onnx and onnxruntime, and nvidia-modelopt (or PATH of its wheel's
modelopt/torch/quantization/calib/histogram.py as the argument: only one function of it is run).
Prints rows of tests/support/quantization_goldens.hpp.
"""
import ast
import sys
from collections import Counter

import numpy as np
import torch
from scipy.stats import entropy
from onnxruntime.quantization.calibrate import HistogramCollector
from torch.ao.quantization import observer as ao

N = 4096


def tensors():
    """Quantiles of the logistic distribution, rectified, with an outlier, and scaled."""
    u = (np.arange(N) + 0.5) / N
    x = np.log(u / (1 - u))
    yield "logistic", x + 0.125
    yield "rectified", np.maximum(x, 0)
    spiked = np.maximum(x, 0)
    spiked[-1] = 300
    yield "outlier", spiked
    yield "shifted", 0.25 * x - 1


def qparams(observer, x):
    observer(torch.from_numpy(x.astype(np.float32)))
    scale, zero = observer.calculate_qparams()
    return scale.numpy().astype(np.float64), zero.numpy()


def square_error(x, scale, zero):
    x = torch.from_numpy(x.astype(np.float32))
    y = torch.fake_quantize_per_tensor_affine(x, float(scale), int(zero), 0, 255)
    return float(((x.double() - y.double()) ** 2).mean())


def activations():
    for name, x in tensors():
        scale, zero = qparams(ao.MinMaxObserver(dtype=torch.quint8), x)
        points = torch.tensor([-9.0, -1.0, -0.01, 0.0, 0.3, 1.75, 7.0, 400.0])
        fake = torch.fake_quantize_per_tensor_affine(points, float(scale[0]), int(zero[0]), 0, 255)
        print(f'{{"{name}", {scale[0]:.9g}F, {zero[0]}, '
              f'{{{", ".join(f"{v:.9g}F" for v in fake.tolist())}}}, ', end="")
        s, z = qparams(ao.HistogramObserver(dtype=torch.quint8), x)
        print(f'{square_error(x, s[0], z[0]):.9g}}},')


def weights():
    w = np.array([[0.5, -1.27, 0.3, 0.0049], [0.02, 0.01, -0.005, 0.0], [0.0, 0.0, 0.0, 0.0],
                  [-3.0, 2.9, 1e-3, 1.5]], np.float32)
    watch = ao.PerChannelMinMaxObserver(dtype=torch.qint8, qscheme=torch.per_channel_symmetric,
                                        quant_min=-127, quant_max=127)
    scale, zero = qparams(watch, w)
    assert not zero.any()
    fake = torch.fake_quantize_per_channel_affine(
        torch.from_numpy(w), torch.from_numpy(scale.astype(np.float32)),
        torch.zeros(4, dtype=torch.int32), 0, -127, 127)
    for s, row in zip(scale, fake.tolist()):
        print(f'{{{s:.9g}F, {{{", ".join(f"{v:.9g}F" for v in row)}}}}},')


def running_ranges():
    """After each of five tensors: smallest, largest, scale and zero point."""
    watch = ao.MovingAverageMinMaxObserver(averaging_constant=0.01, dtype=torch.quint8)
    by_name = dict(tensors())
    for name in ["shifted", "logistic", "outlier", "rectified", "logistic"]:
        scale, zero = qparams(watch, by_name[name])
        print(f'{{"{name}", {watch.min_val.item():.9g}F, {watch.max_val.item():.9g}F, '
              f'{scale[0]:.9g}F, {zero[0]}}},')


def gradients():
    """Where the gradient of fake quantization is 1: x is a number of quarter steps."""
    quarters = [-5, -3, -2, -1, 0, 509, 1018, 1020, 1021, 1022, 1023, 1024]
    for zero in (0, 3, 126, 255):
        x = torch.tensor([(q / 4 - zero) * 0.25 for q in quarters], requires_grad=True)
        torch.fake_quantize_per_tensor_affine(x, 0.25, zero, 0, 255).sum().backward()
        print(f'{{{zero}, {{{", ".join(str(int(g)) for g in x.grad.tolist())}}}}},')


def modelopt():
    if len(sys.argv) > 1:
        tree = ast.parse(open(sys.argv[1]).read())
        wanted = [n for n in tree.body if getattr(n, "name", "") == "_compute_amax_entropy"]
        names = {"np": np, "torch": torch, "entropy": entropy, "Counter": Counter}
        exec(compile(ast.Module(wanted, []), sys.argv[1], "exec"), names)
        return names["_compute_amax_entropy"]
    from modelopt.torch.quantization.calib.histogram import _compute_amax_entropy
    return _compute_amax_entropy


def histograms():
    k = np.arange(1024)
    yield "tail", 1000000 // (1 + k * k // 64)
    gaps = 1000000 // (1 + k * k // 64)
    gaps[k % 3 == 1] = 0
    gaps[1020] = 40
    yield "gaps", gaps
    yield "uniform", np.full(1024, 1000)
    yield "zeros", np.where(k == 0, 50000000, 200000 // (1 + k))
    yield "spike", np.where(k == 400, 100000, 30000 // (1 + k // 8))


def entropies():
    compute = modelopt()
    for name, h in histograms():
        for unsigned in (False, True):
            found = compute(h.astype(np.int64).copy(), np.arange(1025.0), 8, unsigned,
                            start_bin=128)
            print(f'{{"{name}", {256 if unsigned else 128}, {int(found)}}},')


def long_tails():
    """65,536 quantiles of powers of the logistic distribution."""
    u = (np.arange(65536) + 0.5) / 65536
    x = np.log(u / (1 - u))
    yield "squared", x * np.abs(x)
    yield "cubed", x ** 3
    yield "rectified cube", np.maximum(x, 0) ** 3
    yield "sinh", np.sinh(x / 2)
    yield "exponential", np.exp(x / 2)


def entropy_bounds():
    """Of 2,048 bins, as HistogramCalibrator collects them."""
    compute = modelopt()
    for name, x in [*tensors(), *long_tails()]:
        size = torch.from_numpy(x.astype(np.float32)).abs()
        h = torch.histc(size, bins=2048, min=0, max=size.max()).int().numpy()
        edges = torch.linspace(0, size.max(), 2049).numpy()
        found = compute(h, edges, 8, bool(x.min() >= 0), start_bin=128)
        print(f'{{"{name}", {float(found):.9g}F}},')


def percentiles():
    """Of both tails (100 - p) %: onnxruntime's percentile is the share between them."""
    for name, x in tensors():
        for p in (75, 99, 99.9):
            collector = HistogramCollector("percentile", False, 2048, 128, 2 * p - 100, "same")
            collector.collect_value({name: x.astype(np.float32)})
            low, high = collector.compute_percentile()[name][:2]
            print(f'{{"{name}", {p}, {float(low):.9g}F, {float(high):.9g}F}},')


activations()
weights()
running_ranges()
gradients()
entropies()
entropy_bounds()
percentiles()

# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""Statistics of runs with different seeds for scripts/gpu-check, without dependencies.

Welch's confidence interval of a difference of means (B. L. Welch, Biometrika 34, 1947), with sample standard
deviations s:

    mean a - mean b  +-  t sqrt(sa^2 / na + sb^2 / nb)

where t is the quantile of Student's distribution with  (sa^2/na + sb^2/nb)^2 / ((sa^2/na)^2 / (na-1) + (sb^2/nb)^2 / (nb-1))
degrees of freedom.
"""
import math
import statistics


def student_within(t, freedom):
    """The probability that |T| < t. With t = sqrt(freedom) tan x it is an integral of
    cos(x)^(freedom - 1), by Simpson's rule."""
    end, parts = math.atan(t / math.sqrt(freedom)), 2000
    step = end / parts
    weighted = sum((1 if i in (0, parts) else 4 if i % 2 else 2) *
                   math.cos(i * step) ** (freedom - 1) for i in range(parts + 1))
    log_scale = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - math.log(math.pi) / 2
    return 2 * math.exp(log_scale) * weighted * step / 3


def student_quantile(within, freedom):
    """The t with P(|T| < t) = within; freedom at least 1."""
    low, high = 0.0, math.pi / 2  # of atan(t / sqrt(freedom))
    for _ in range(60):
        middle = (low + high) / 2
        if student_within(math.sqrt(freedom) * math.tan(middle), freedom) < within:
            low = middle
        else:
            high = middle
    return math.sqrt(freedom) * math.tan(low)


def welch(a, b, within=0.95):
    """(mean a - mean b, half the interval's width); requires at least two values on each side."""
    ea, eb = statistics.variance(a) / len(a), statistics.variance(b) / len(b)
    difference = statistics.fmean(a) - statistics.fmean(b)
    if ea + eb == 0:
        return difference, 0.0
    freedom = (ea + eb) ** 2 / (ea ** 2 / (len(a) - 1) + eb ** 2 / (len(b) - 1))
    return difference, student_quantile(within, freedom) * math.sqrt(ea + eb)


def mean_gap(a, b):
    """The mean absolute difference of two curves of equal length."""
    if len(a) != len(b) or not a:
        raise ValueError(f"curves of {len(a)} and {len(b)} steps")
    return statistics.fmean(abs(x - y) for x, y in zip(a, b))

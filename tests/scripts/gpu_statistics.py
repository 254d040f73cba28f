# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""The statistics of scripts/gpu: Student's quantiles compared with tables, and intervals computed by hand."""
import math
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts" / "gpu"))
from run_statistics import mean_gap, student_quantile, student_within, welch


class Student(unittest.TestCase):
    def test_the_table_of_95_percent(self):
        for freedom, t in ((1, 12.706), (2, 4.303), (4, 2.776), (8, 2.306), (30, 2.042), (1e4, 1.960)):
            self.assertAlmostEqual(student_quantile(0.95, freedom), t, delta=6e-4, msg=freedom)

    def test_one_and_two_degrees_have_closed_forms(self):
        for t in (0.1, 1, 3, 20):
            self.assertAlmostEqual(student_within(t, 1), 2 / math.pi * math.atan(t), places=9)
            self.assertAlmostEqual(student_within(t, 2), t / math.sqrt(2 + t * t), places=9)


class Welch(unittest.TestCase):
    def test_equal_variances_by_hand(self):
        # Variances 2.5 each, so the error is sqrt(0.5 + 0.5) = 1 and freedom 1 / (2 * 0.25 / 4) = 8.
        difference, half = welch([1, 2, 3, 4, 5], [11, 12, 13, 14, 15])
        self.assertEqual(difference, -10)
        self.assertAlmostEqual(half, 2.306004, places=5)

    def test_unequal_variances_by_hand(self):
        # 2.5 and 40: the error is sqrt(0.5 + 8), freedom 8.5^2 / (0.25 / 4 + 64 / 4) = 4.498.
        difference, half = welch([1, 2, 3, 4, 5], [4, 8, 12, 16, 20])
        self.assertEqual(difference, -9)
        freedom = 8.5 ** 2 / (0.25 / 4 + 64 / 4)
        self.assertAlmostEqual(half, student_quantile(0.95, freedom) * math.sqrt(8.5), places=9)
        self.assertTrue(2.571 < half / math.sqrt(8.5) < 2.776)  # the table's 5 and 4 degrees

    def test_different_counts_by_hand(self):
        # Means 2 and 4, variances 1 and 2: the error is sqrt(1/3 + 1), freedom (4/3)^2 / (1/18 + 1).
        difference, half = welch([1, 2, 3], [3, 5])
        self.assertAlmostEqual(difference, -2)
        self.assertAlmostEqual(half, student_quantile(0.95, 32 / 19) * math.sqrt(4 / 3), places=9)

    def test_values_that_never_differ_have_no_width(self):
        self.assertEqual(welch([3, 3], [1, 1]), (2, 0))


class Gap(unittest.TestCase):
    def test_is_the_mean_distance(self):
        self.assertEqual(mean_gap([1, 2, 3], [2, 2, 1]), 1)

    def test_curves_of_other_lengths_have_none(self):
        for a, b in (([1], [1, 2]), ([], [])):
            with self.assertRaises(ValueError):
                mean_gap(a, b)


unittest.main()

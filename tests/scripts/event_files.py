#!/usr/bin/env python3
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""TensorBoard's own reader finds every scalar of the run that tests/train/callbacks/tensorboard.cpp logs.

Usage: tests/scripts/event_files.py PROGRAM, which has the test cases of tests/train.
"""
import os
import subprocess
import sys
import tempfile

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError:
    print("skipped: no Python module tensorboard: pip install tensorboard")
    sys.exit(0)

with tempfile.TemporaryDirectory() as scratch:
    folder = os.path.join(scratch, "run")
    subprocess.run([sys.argv[1], "-tc=tensorboard: a run's file begins*"], check=True,
                   env={**os.environ, "CORDEE_TENSORBOARD_FOLDER": folder})
    run = EventAccumulator(folder)
    run.Reload()
    assert run.file_version == 2, run.file_version
    steps = {tag: [event.step for event in run.Scalars(tag)] for tag in run.Tags()["scalars"]}
    names = ["accuracy", "gradient_norm", "images_per_second", "input_wait_seconds", "learning_rate", "loss", "skipped"]
    ratios = ["trust_ratio_" + name for name in ["min", "first_quartile", "median", "third_quartile", "max"]]
    expected = {"train/" + name: list(range(20)) for name in names}
    expected |= {"validation/" + name: [9, 19] for name in ["accuracy", "accuracy_top5", "loss"]}
    expected |= {"train/" + name: [k for k in range(20) if k != 3] for name in ratios}  # that update is skipped
    assert steps == expected, steps
    rates = [round(event.value, 6) for event in run.Scalars("train/learning_rate")]
    assert rates == [0.05] * 20, rates
print("TensorBoard reads the run")

#!/usr/bin/env python3
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""MLPerf's compliance checker (PyPI: mlperf-logging) accepts the log that tests/train/callbacks/mllog.cpp writes, and no worse one.

Usage: tests/scripts/mlperf_checker.py PROGRAM, which has the test cases of tests/train. The rules are those of a closed
submission of ResNet-50 to Training 4.0, the last round that had this benchmark.
"""
import logging
import os
import subprocess
import sys
import tempfile

try:
    from mlperf_logging.compliance_checker import mlp_compliance
    from mlperf_logging.compliance_checker.mlp_parser import parse_file
except ImportError:
    print("skipped: no Python module mlperf_logging: pip install mlperf-logging")
    sys.exit(0)
RULES = "4.0.0"


def complaints(path):
    """What the checker finds wrong with a log; an empty list for a compliant one."""
    checker = mlp_compliance.make_checker("training", RULES, False, True)
    checker.log_messages = lambda: None
    checker.check_file(path, f"training_{RULES}/common.yaml")
    return [*checker.warnings.values(), *checker.overwritable.values(), *checker.not_overwritable]


with tempfile.TemporaryDirectory() as scratch:
    path = os.path.join(scratch, "log")
    subprocess.run([sys.argv[1], "-tc=mllog: the lines of a run*"], check=True,
                   env={**os.environ, "CORDEE_MLLOG_FILE": path})
    lines, errors = parse_file(path, ruleset=RULES)
    assert not errors, errors
    assert len(lines) > 30, len(lines)
    times = {line.key: line.timestamp for line in lines}
    assert times["init_start"] == min(times.values()) <= times["init_stop"], times  # when the callback was made
    found = complaints(path)
    assert not found, "\n".join(found)
    # The checker is awake: it finds each of these lines missing.
    text = open(path).read().splitlines(keepends=True)
    for key in ["submission_benchmark", "submission_org", "cache_clear", "init_start", "init_stop", "run_start", "run_stop",
                "epoch_start", "epoch_stop", "eval_start", "eval_stop", "eval_accuracy", "train_samples", "eval_samples",
                "global_batch_size", "gradient_accumulation_steps", "opt_name", "lars_opt_momentum",
                "lars_opt_weight_decay", "lars_epsilon"]:
        assert any(f'"key": "{key}"' in line for line in text), key
        open(path, "w").writelines(line for line in text if f'"key": "{key}"' not in line)
        assert complaints(path), f"no complaint without {key}"
print(f"MLPerf's checker accepts the {len(text)} lines")

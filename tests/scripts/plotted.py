#!/usr/bin/env python3
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""scripts/plot reads what csv and json_lines write, draws one and several runs, and says what it cannot read.

Usage: tests/scripts/plotted.py PROGRAM, which has the test cases of tests/train.
"""
import importlib.machinery
import importlib.util
import math
import os
import subprocess
import sys
import tempfile

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "plot")
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("plot", SCRIPT)
plot = importlib.util.module_from_spec(importlib.util.spec_from_loader("plot", loader))
loader.exec_module(plot)

assert plot.smoothed([1, math.nan, 3]) == [1, 1, 3]
assert plot.smoothed([float(k) for k in range(100)])[-1] == 98.5  # the last two of a hundred
clock = [{"seconds": t, "samples": 8, "epoch": e} for t, e in [(1, 0), (2, 1), (6, 2), (8, 3), (1, 4), (2, 5)]]
speeds = plot.throughput(clock, [(1, 0, 0)])  # a validation after the second; the fifth is resumed
assert [None if math.isnan(x) else x for x in speeds] == [None, 8, None, 4, None, 8], speeds


def run(*arguments):
    done = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


with tempfile.TemporaryDirectory() as scratch:
    folder = os.path.join(scratch, "run")
    os.mkdir(folder)
    subprocess.run([sys.argv[1], "-tc=logs: the files of one run"], check=True,
                   env={**os.environ, "CORDEE_LOG_FOLDER": folder})
    table, lines = (os.path.join(folder, name) for name in ("log.csv", "log.jsonl"))
    (_, steps, validations), (_, same_steps, same_validations) = plot.read(table), plot.read(lines)
    assert len(steps) == 20 and len(validations) == 2, (len(steps), validations)
    for a, b in zip(steps, same_steps):
        assert set(a) == set(b)
        for field in a:
            # csv has six decimals of epochs and accuracies, three of seconds
            close = abs(a[field] - b[field]) <= (6e-4 if field == "seconds" else 1e-6)
            assert close or math.isnan(a[field]) and math.isnan(b[field]), (field, a, b)
    assert [v[0] for v in validations] == [0.9, 1.9] == [v[0] for v in same_validations]
    assert sum(math.isnan(s["trust_ratio_median"]) for s in steps) == 1  # an update is skipped
    assert plot.read("LARS=" + folder)[0] == "LARS" and plot.read(folder)[0] == "run"

    assert run(os.path.join(scratch, "none"))[0] == 1
    other = os.path.join(scratch, "other.csv")
    open(other, "w").write("a,b\n1,2\n")
    code, text = run(other)
    assert code == 1 and "it is not a log of csv" in text, text
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        print("skipped: the pictures: no Python module matplotlib")
        sys.exit(0)
    for runs in ([table], [lines, "again=" + table], [folder]):
        picture = os.path.join(scratch, "picture.png")
        code, text = run("--output", picture, *runs)
        assert code == 0 and "Warning" not in text, text
        with open(picture, "rb") as f:
            data = f.read()
        assert data[:8] == b"\x89PNG\r\n\x1a\n" and len(data) > 20000, len(data)
        os.remove(picture)
    code, text = run("--output", os.path.join(scratch, "no", "folder.png"), table)
    assert code == 1 and "cannot write" in text, text
print("scripts/plot reads both logs and draws them")

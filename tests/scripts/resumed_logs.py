#!/usr/bin/env python3
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""Every log of a run that was killed and goes on has each update once, as other programs read it.

Usage: tests/scripts/resumed_logs.py PROGRAM, which has the test cases of tests/train.
"""
import csv
import json
import os
import subprocess
import sys
import tempfile

STEPS = list(range(20))

with tempfile.TemporaryDirectory() as scratch:
    folder = os.path.join(scratch, "run")
    subprocess.run([sys.argv[1], "-tc=logs: the files of a run that is killed*"], check=True,
                   env={**os.environ, "CORDEE_RESUMED_LOGS": folder})

    def opened(name):
        return open(os.path.join(folder, name), newline="", encoding="utf-8")

    with opened("log.csv") as file:
        rows = list(csv.DictReader(file, strict=True))
    assert [int(row["step"]) for row in rows] == STEPS, rows
    assert all(None not in row and None not in row.values() for row in rows), "another number of columns"
    assert [k for k in STEPS if rows[k]["validation_loss"]] == [9, 19]

    with opened("log.jsonl") as file:
        lines = [json.loads(line) for line in file]
    of = {event: [line["step"] for line in lines if line["event"] == event] for event in ("begin", "step", "epoch", "end")}
    assert of == {"begin": [0, 12], "step": STEPS, "epoch": [9, 19], "end": [19]}, of

    with opened("mllog.log") as file:
        text = file.read().splitlines()
    assert all(line.startswith(":::MLLOG ") for line in text), text
    events = [json.loads(line.removeprefix(":::MLLOG ")) for line in text]
    keys = [(e["key"], e["metadata"].get("epoch_num")) for e in events]
    for key in ("run_start", "run_stop"):
        assert keys.count((key, None)) == 1, keys
    for key in ("epoch_start", "epoch_stop", "eval_start", "eval_stop", "eval_accuracy"):
        for epoch in (1, 2):
            assert keys.count((key, epoch)) == 1, (key, epoch, keys)

    # A list that a killed run has not ended, which the format admits, and the resumed run's own file.
    with opened("trace.step-12.json") as file:
        spans = [e for e in json.load(file) if e["ph"] == "X" and e["name"] == "step"]
    assert [e["args"]["step"] for e in spans] == STEPS[12:], spans
    with opened("trace.json") as file:
        assert json.loads(file.read().rstrip().rstrip(",") + "]") == []

    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    except ImportError:
        print("skipped: tensorboard's files: no Python module tensorboard: pip install tensorboard")
        sys.exit(0)
    board = os.path.join(folder, "tensorboard")
    files = sorted(os.path.join(board, name) for name in os.listdir(board))
    assert len(files) == 2, files

    def losses(path):
        run = EventAccumulator(path)
        run.Reload()
        return [e.step for e in run.Scalars("train/loss")]

    assert losses(board) == STEPS, losses(board)
    assert sorted(sum((losses(path) for path in files), [])) == STEPS, "file by file, as tbparse reads"
print("every log has each update once")

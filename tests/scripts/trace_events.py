#!/usr/bin/env python3
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""Python's json reads the timeline that tests/train/callbacks/chrome_trace.cpp records, and its ranges are sorted and nested.

Usage: tests/scripts/trace_events.py PROGRAM, which has the test cases of tests/train.
"""
import json
import os
import subprocess
import sys
import tempfile


def check(events):
    ranges = {}
    for e in events:
        assert e["ph"] in "MX", e
        if e["ph"] == "X":
            assert e["ts"] >= 0 and e["dur"] >= 0, e
            ranges.setdefault((e["pid"], e["tid"]), []).append(e)
    assert sorted(ranges) == [(rank, thread) for rank in range(3) for thread in range(2)], sorted(ranges)
    # Times are printed in microseconds with three digits: each of two numbers is half a nanosecond off at most.
    rounding = 0.0011
    for line in ranges.values():
        begins = [e["ts"] for e in line]
        assert begins == sorted(begins)
        open_ends = []
        for e in line:
            while open_ends and open_ends[-1] <= e["ts"] + rounding:
                open_ends.pop()
            end = e["ts"] + e["dur"]
            assert not open_ends or end <= open_ends[-1] + rounding, e
            open_ends.append(end)
    for rank in range(3):
        compute = ranges[rank, 0]
        steps = [e for e in compute if e["name"] == "step"]
        assert [e["args"]["step"] for e in steps] == list(range(20))

        def around(inner):
            return [s["args"]["step"] for s in steps
                    if s["ts"] <= inner["ts"] and inner["ts"] + inner["dur"] <= s["ts"] + s["dur"] + rounding]

        for name in ["forward", "backward", "wait for exchange", "update"]:
            for e in compute:
                assert e["name"] != name or len(around(e)) == 1, e
        for e in ranges[rank, 1]:  # exchanges end within the step that posts them
            assert e["name"] == "exchange" and len(around(e)) == 1, e
        inputs = [e for e in compute if e["name"] == "input"]
        assert [around(e) for e in inputs] == [[]] + [[k] for k in range(19)], "an update is read during the one before"
        assert all(not around(e) for e in compute if e["name"] == "validation")
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert names == {0: "rank 0", 1: "rank 1", 2: "rank 2"}, names


with tempfile.TemporaryDirectory() as scratch:
    path = os.path.join(scratch, "trace.json")
    subprocess.run([sys.argv[1], "-tc=chrome_trace: every rank's*"], check=True,
                   env={**os.environ, "CORDEE_TRACE_FILE": path})
    with open(path) as trace:
        events = json.load(trace)
check(events)
print(f"json reads {len(events)} events, sorted and nested")

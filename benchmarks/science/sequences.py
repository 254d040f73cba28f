#!/usr/bin/env python3
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""Runs the sequence models of docs/large_batch.md, and prints the page's tables.

    benchmarks/science/sequences.py lstm --program lstm_legw --data FOLDER_OF_MNIST --out lstm.csv
    benchmarks/science/sequences.py transformer --program character_transformer --out transformer.csv
    benchmarks/science/sequences.py lstm --out lstm.csv --table       # prints the table, runs nothing

A run is a line of the file; runs that are there are not repeated. One run at a time, on one thread.
"""
import argparse
import csv
import os
import statistics
import subprocess
import sys
import time


class Experiment:
    """Runs of a program, by the values of its options `keys`; a line has those, the results and the seconds."""

    def __init__(self, args, keys, results, fixed):
        self.args, self.keys, self.results, self.fixed = args, keys, results, fixed
        self.rows = {}
        header = keys + results + ["seconds"]
        if os.path.exists(args.out):
            with open(args.out, newline="") as file:
                lines = csv.DictReader(file)
                if lines.fieldnames != header:
                    sys.exit(f"{args.out} has the columns {lines.fieldnames}, not {header}: name another file")
                for line in lines:
                    self.rows[tuple(line[k] for k in keys)] = [float(line[r]) for r in results]
        elif not args.table:
            with open(args.out, "w") as file:
                file.write(",".join(header) + "\n")

    def run(self, *values):
        """The results of the run with these values of the keys; NaN if --table is given and it is not there."""
        key = tuple(f"{v:g}" if isinstance(v, float) else str(v) for v in values)
        if key not in self.rows and self.args.table:
            return [float("nan")] * len(self.results)
        if key not in self.rows:
            command = [self.args.program, *self.fixed]
            for name, value in zip(self.keys, key):
                command += ["--" + name.replace("_", "-"), value]
            start = time.monotonic()
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            seconds = time.monotonic() - start
            line = done.stdout.strip().split(",")
            if tuple(line[:len(key)]) != key or len(line) != len(key) + len(self.results):
                sys.exit(f"{' '.join(command)} printed {done.stdout!r}, not a line of {key}")
            with open(self.args.out, "a") as file:
                file.write(f"{','.join(line)},{seconds:.1f}\n")
            print(",".join(line), f"{seconds:.1f} s", flush=True)
            self.rows[key] = [float(x) for x in line[len(key):]]
        return self.rows[key]


def tuned(grid, value):
    """The rate of the grid with the largest value, which grows once by a factor of two at an end that is the best."""
    rate = max(grid, key=value)
    if rate == min(grid):
        return max((rate, rate / 2), key=value)
    if rate == max(grid):
        return max((rate, rate * 2), key=value)
    return rate


def spread(values, scale, digits):
    """Mean and standard deviation of the runs that are there, and their number if some are missing."""
    known = [v for v in values if v == v]
    if not known:
        return "not run"
    deviation = f" ± {scale * statistics.stdev(known):.{digits}f}" if len(known) > 1 else ""
    missing = f" ({len(known)} of {len(values)} seeds)" if len(known) < len(values) else ""
    return f"{scale * statistics.mean(known):.{digits}f}{deviation}{missing}"


def lstm(args):
    options = ["--warmup", "0.02"] + (["--data", args.data] if args.data else [])
    e = Experiment(args, ["rule", "batch", "learning_rate", "epochs", "seed"], ["updates", "accuracy"], options)
    grid = [0.05, 0.1, 0.2, 0.4]
    rate = tuned(grid, lambda r: e.run("legw", 128, r, 6, 1)[1])
    print("at 128, seed 1:", ", ".join(f"{k[2]}: {100 * v[1]:.2f} %" for k, v in sorted(e.rows.items())
                                       if k[:2] == ("legw", "128") and k[3:] == ("6", "1")), "- best:", rate)
    batches, rules = (128, 1024, 8192), ("legw", "linear", "no_warmup")
    cells = {}
    for seed in range(1, args.seeds + 1):  # the whole table for a seed before the next seed
        for batch in batches:
            for rule in rules:
                run = "legw" if (rule, batch) == ("linear", 128) else rule  # k = 1: the same run
                cells.setdefault((rule, batch), []).append(e.run(run, batch, rate, 6, seed)[1])
    print("| rule |", " | ".join(f"{b:,}" for b in batches), "|\n|---|" + "---|" * len(batches))
    for rule in rules:
        print(f"| `{rule}` |", " | ".join(spread(cells[rule, b], 100, 2) for b in batches), "|")
    if args.longer:
        print("24 epochs, seed 1:", ", ".join(f"{b}: {100 * e.run('legw', b, rate, 24, 1)[1]:.2f} %" for b in (128, 8192)))


def transformer(args):
    options = ["--warmup", "0.015625", "--length", "8", "--bf16"] + (["--data", args.data] if args.data else [])
    e = Experiment(args, ["optimizer", "batch", "learning_rate", "epochs", "seed"], ["updates", "loss"], options)
    grids = {"lamb": [0.0025, 0.005, 0.01], "adamw": [0.0005, 0.001, 0.002]}
    rates = {o: tuned(grid, lambda r: -e.run(o, 64, r, 1, 1)[1]) for o, grid in grids.items()}
    batches = (4096, 64, 512)  # the first two decide
    cells = {(o, b): e.run(o, b, rates[o], 4, 1)[1] for b in batches for o in grids}
    for (o, batch, rate, epochs, _), (_, loss) in sorted(e.rows.items()):
        if epochs == "1":
            print(f"1 pass at 64: {o}, {rate}: {loss:.3f}")
    print("| optimizer | learning rate at 64 |", " | ".join(f"{b:,}" for b in sorted(batches)),
          "|\n|---|---|" + "---|" * len(batches))
    for o in grids:
        print(f"| `{o}` | {rates[o]} |", " | ".join(spread([cells[o, b]], 1, 3) for b in sorted(batches)), "|")
    if args.longer:
        print("16 passes at 4096:", ", ".join(f"{o}: {e.run(o, 4096, rates[o], 16, 1)[1]:.3f}" for o in grids))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=["lstm", "transformer"])
    parser.add_argument("--program", help="the example's program")
    parser.add_argument("--data", default="", help="folder of MNIST, or the text")
    parser.add_argument("--out", required=True, help="a line of CSV for each run")
    parser.add_argument("--table", action="store_true", help="print the table of the runs that are there")
    parser.add_argument("--seeds", type=int, default=3, help="lstm: of each cell")
    parser.add_argument("--longer", action="store_true", help="the further experiment, of four times the epochs")
    args = parser.parse_args()
    if not args.table and not args.program:
        parser.error("--program names the example's program")
    {"lstm": lstm, "transformer": transformer}[args.model](args)


if __name__ == "__main__":
    main()

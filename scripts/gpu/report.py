#!/usr/bin/env python3
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""What scripts/gpu-check has found so far, as OUT.json and a table OUT.md.

    report.py RESULTS OUT

RESULTS holds machine.json and, of the stages that ran, checks.jsonl, layers.jsonl, torch_layers.jsonl,
bandwidth.jsonl, tensor_cores.jsonl, throughput.jsonl, accuracy.jsonl and
curves/{cpu-1,cpu-2,gpu-fp32,gpu-fp16,...}.csv. The summary has a line for each bar; a bar of which nothing was
measured is said to be open. An accuracy holds where, of five seeds each or more, Welch's interval of the difference
is no wider than half a point on either side and reaches nought or lies above; elsewhere it is open, and says why.
"""
import collections
import csv
import json
import pathlib
import statistics
import sys

from statistics_of_runs import mean_gap, welch

THROUGHPUT = "ResNet-50, fp16, training step"
SEEDS, HALF_WIDTH = 5, 0.5  # of an accuracy: of each program at least, and in points at most


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def losses(path):
    with open(path, newline="") as file:
        return [float(row["loss"]) for row in csv.DictReader(file)]


def worst_error(rows):
    return max((row.get(k, 0) for row in rows for k in ("y", "dx", "parameters")), default=0)


def of_layers(rows, theirs):
    """A line for each engine and precision: the worst error of any layer, and PyTorch's of these."""
    for engine, precision in dict.fromkeys((row["engine"], row["precision"]) for row in rows):
        own = [row for row in rows if (row["engine"], row["precision"]) == (engine, precision)]
        names = {row["layer"] for row in own}
        broken = [row["layer"] for row in own if not row["within"]]
        said = f"worst relative error {worst_error(own):.2g}, bar {own[0]['bar']:g}"
        if beside := [row for row in theirs if row["precision"] == precision and row["layer"] in names]:
            said += f", PyTorch's {worst_error(beside):.2g} on {len(beside)} of them"
        if broken:
            said += f"; beyond it: {', '.join(broken)}"
        exact = "integers" if precision == "int8" else "fp64"
        yield f"{len(own)} layers alone, {engine}, {precision}, beside {exact}", said, not broken


def of_steps(rows, theirs):
    """A line for each: the loss, which has a bar, and the gradient, which has none."""
    beside = {(row["layer"], row["precision"]): row for row in theirs}
    for row in rows:
        said = f"relative error of the loss {row['y']:.2g}, bar {row['bar']:g}"
        said += f", of the gradient {row['gradient']:.2g}"
        if pytorch := beside.get((row["layer"], row["precision"])):
            said += f"; PyTorch's {pytorch['y']:.2g} and {pytorch['gradient']:.2g}"
        yield f"{row['layer']}, {row['precision']}, beside fp64", said, row["within"]


def of_curves(folder):
    """Two seeds on the CPU are as far apart as two right answers may be."""
    if not all((folder / f"cpu-{seed}.csv").exists() for seed in (1, 2)):
        return
    first, second = (losses(folder / f"cpu-{seed}.csv") for seed in (1, 2))
    for path in sorted(folder.glob("gpu-*.csv")):
        what, found = f"loss curve of {len(first)} steps, {path.stem[4:]}", losses(path)
        if not len(found) == len(first) == len(second) > 0:
            yield what, "cut off", None
            continue
        gap, allowed = mean_gap(found, first), mean_gap(second, first)
        yield (what, f"mean gap to the CPU {gap:.4f}, between two CPU seeds {allowed:.4f}",
               gap <= allowed)


def of_throughput(rows):
    best = {}
    for row in rows:
        name = row["program"].split(",")[0]
        if row["images_per_second"] > best.get(name, {"images_per_second": 0})["images_per_second"]:
            best[name] = row
    if len(best) == 2:
        ours, theirs = (best[name]["images_per_second"] for name in ("cordee", "pytorch"))
        yield (THROUGHPUT,
               f"{ours:.0f} images/s, PyTorch's best {theirs:.0f} ({best['pytorch']['program']}, "
               f"batch {best['pytorch']['batch']}): {ours / theirs:.3f}", ours >= theirs)


def of_accuracy(rows):
    runs = collections.defaultdict(lambda: collections.defaultdict(list))
    for row in rows:
        runs[row["batch"]][row["program"]].append(row["accuracy"])
    for batch, own in sorted(runs.items()):
        a, b = own["cordee"], own["pytorch"]
        if min(len(a), len(b)) < 2:
            continue
        difference, half = welch(a, b)
        why = ("five seeds of each are asked for" if min(len(a), len(b)) < SEEDS else
               f"the interval is wider than {HALF_WIDTH} on a side" if half > HALF_WIDTH else
               "gap to be explained" if difference + half < 0 else "")
        yield (f"CIFAR-10, ResNet-20, batch {batch}, {len(a)} and {len(b)} seeds",
               f"{statistics.fmean(a):.2f} %, PyTorch {statistics.fmean(b):.2f} %: difference "
               f"{difference:+.2f}, 95 % from {difference - half:+.2f} to {difference + half:+.2f}"
               + (f"; open: {why}" if why else ""), None if why else True)


def table(head, rows):
    def line(cells):
        return "| " + " | ".join(map(str, cells)) + " |"
    return [line(head), line("---" for _ in head), *map(line, rows), ""]


def main(results, out):
    machine = json.loads((results / "machine.json").read_text())
    read = {name: lines(results / f"{name}.jsonl")
            for name in ("checks", "layers", "torch_layers", "bandwidth", "tensor_cores", "throughput",
                         "accuracy")}
    bars = [(row["check"], row["result"], row["within"]) for row in read["checks"]]
    for of, whole in ((of_layers, False), (of_steps, True)):
        bars += of(*([row for row in read[name] if ("gradient" in row) == whole]
                     for name in ("layers", "torch_layers")))
    bars += of_curves(results / "curves")
    bars += [(f"share of the copy's bandwidth: {row['what']}", f"{row['share']:.3f}, bar {row['bar']}",
              row["within"]) for row in read["bandwidth"] if row["what"] != "copy"]
    bars += [(f"wmma beside cuDNN, median of {row['median of']} convolutions of ResNet-50",
              f"{row['ratio']:.2f} of its speed, bar {row['bar']}", row["within"])
             for row in read["tensor_cores"] if "median of" in row]
    bars += [*of_throughput(read["throughput"]), *of_accuracy(read["accuracy"])]
    for name, stage in (("layers alone", "correct"), ("a step of ResNet", "correct"),
                        ("loss curve", "correct"), ("bandwidth", "speed"), ("wmma beside cuDNN", "speed"),
                        (THROUGHPUT, "speed"), ("CIFAR-10", "accuracy")):
        if not any(name in bar[0] for bar in bars):
            bars.append((name, f"nothing measured yet: --only {stage}", None))

    words = {True: "yes", False: "**no**", None: "open"}
    text = [f"# {machine['card']}, {machine['date']}", "",
            "`scripts/gpu-check`: " + ", ".join(f"{k} {v}" for k, v in machine.items()
                                               if k not in ("card", "date")) + ".", ""]
    text += table(("what", "found", "holds"), [(a, b, words[c]) for a, b, c in bars])
    if read["throughput"]:
        text += table(("ResNet-50, fp16", "batch", "images/s"),
                      [(r["program"], r["batch"], f"{r['images_per_second']:.0f}")
                       for r in read["throughput"]])
    if read["bandwidth"]:
        text += table(("memory", "ms", "GB/s", "share of copy"),
                      [(r["what"], f"{r['milliseconds']:.3f}", f"{r['gigabytes_per_second']:.0f}",
                        f"{r['share']:.3f}") for r in read["bandwidth"]])
    if read["tensor_cores"]:
        text += table(("convolution", "batch", "direction", "wmma, ms", "cuDNN, ms", "ratio"),
                      [(r["layer"], r["batch"], r["direction"], f"{r['wmma']:.3f}", f"{r['cudnn']:.3f}",
                        f"{r['ratio']:.2f}") for r in read["tensor_cores"] if "layer" in r])
    if read["accuracy"]:
        text += table(("CIFAR-10", "batch", "seed", "held out, %"),
                      [(r["program"], r["batch"], r["seed"], f"{r['accuracy']:.2f}")
                       for r in sorted(read["accuracy"],
                                       key=lambda r: (r["batch"], r["program"], r["seed"]))])
    out.parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(f"{out}.md").write_text("\n".join(text))
    said = [{"what": a, "found": b, "holds": c} for a, b, c in bars]
    pathlib.Path(f"{out}.json").write_text(
        json.dumps({"machine": machine, "bars": said, **read}, indent=1) + "\n")
    print("\n".join(text))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))

#!/usr/bin/env python3
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""Writes the results of scripts/gpu-check so far as OUT.json and a table OUT.md.

    report.py RESULTS OUT

RESULTS holds machine.json and, of the stages that ran, checks.jsonl, layers.jsonl, torch_layers.jsonl,
bandwidth.jsonl, tensor_cores.jsonl, fused_graphs.jsonl, stages.jsonl, integers.jsonl, primitives.jsonl,
profile.jsonl, throughput.jsonl, accuracy.jsonl, cudnn_device.jsonl (cuDNN's description of the GPU, for OUT.json alone) and
curves/{cpu-1,cpu-2,gpu-fp32,gpu-fp16,...}.csv. The summary has a line for each bar: met, not met, or open if
nothing was measured. The accuracy bar is met if, with at least five seeds of each program, Welch's 95 % interval of the
difference is at most half a point wide on either side and contains 0 or lies above; otherwise it is open, with the reason.
"""
import collections
import csv
import json
import pathlib
import statistics
import sys

from run_statistics import mean_gap, welch

THROUGHPUT = "ResNet-50, fp16, training step"
SEEDS, HALF_WIDTH = 5, 0.5  # accuracy: the fewest seeds of each program, and the widest half interval in points


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def losses(path):
    with open(path, newline="") as file:
        return [float(row["loss"]) for row in csv.DictReader(file)]


def worst_error(rows):
    return max((row.get(k, 0) for row in rows for k in ("y", "dx", "parameters")), default=0)


def layer_bars(rows, theirs):
    """One bar per engine and precision: the largest error of any layer, and PyTorch's of the same layers."""
    for engine, precision in dict.fromkeys((row["engine"], row["precision"]) for row in rows):
        rows_of_engine = [row for row in rows if (row["engine"], row["precision"]) == (engine, precision)]
        names = {row["layer"] for row in rows_of_engine}
        broken = [row["layer"] for row in rows_of_engine if not row["within"]]
        result = f"worst relative error {worst_error(rows_of_engine):.2g}, bar {rows_of_engine[0]['bar']:g}"
        if beside := [row for row in theirs if row["precision"] == precision and row["layer"] in names]:
            result += f", PyTorch's {worst_error(beside):.2g} on {len(beside)} of them"
        if broken:
            result += f"; above it: {', '.join(broken)}"
        exact = "integers" if precision == "int8" else "fp64"
        yield f"{len(rows_of_engine)} layers alone, {engine}, {precision}, beside {exact}", result, not broken


def step_bars(rows, theirs):
    """One bar per step: the errors of the loss, of the logits, and of the gradient, which is at most 2."""
    beside = {(row["layer"], row["precision"]): row for row in theirs}
    for row in rows:
        result = f"relative error of the loss {row['y']:.2g}, bar {row['bar']:.2g}"
        if "logits" in row:  # not in results before 2026-11-26
            result += f", of the logits {row['logits']:.2g}, bar {row['logits_bar']:.2g}"
        result += f", of the gradient {row['gradient']:.2g}"
        if pytorch := beside.get((row["layer"], row["precision"])):
            result += f"; PyTorch's {pytorch['y']:.2g} and {pytorch['gradient']:.2g}"
        yield f"{row['layer']}, {row['precision']}, beside fp64", result, row["within"]


def curve_bars(folder):
    """The distance of two CPU seeds' loss curves bounds that of the GPU's curve to the CPU's."""
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


def throughput_bars(rows):
    """One bar per batch that both were measured at: our best beside PyTorch's best."""
    best = collections.defaultdict(dict)
    for row in rows:
        of_batch, name = best[row["batch"]], row["program"].split(",")[0]
        if name not in of_batch or row["images_per_second"] > of_batch[name]["images_per_second"]:
            of_batch[name] = row
    for batch, of_batch in sorted(best.items()):
        if len(of_batch) == 2:
            ours, theirs = (of_batch[name]["images_per_second"] for name in ("cordee", "pytorch"))
            yield (f"{THROUGHPUT}, batch {batch}",
                   f"{ours:.0f} images/s ({of_batch['cordee']['program']}), PyTorch's best {theirs:.0f} "
                   f"({of_batch['pytorch']['program']}): {ours / theirs:.3f}", ours >= theirs)


def accuracy_bars(rows):
    runs = collections.defaultdict(lambda: collections.defaultdict(list))
    for row in rows:
        runs[row["batch"]][row["program"]].append(row["accuracy"])
    for batch, programs in sorted(runs.items()):
        a, b = programs["cordee"], programs["pytorch"]
        if min(len(a), len(b)) < 2:
            continue
        difference, half = welch(a, b)
        reason = ("five seeds of each are required" if min(len(a), len(b)) < SEEDS else
               f"the interval is wider than {HALF_WIDTH} on either side" if half > HALF_WIDTH else
               "the accuracy is lower" if difference + half < 0 else "")
        yield (f"CIFAR-10, ResNet-20, batch {batch}, {len(a)} and {len(b)} seeds",
               f"{statistics.fmean(a):.2f} %, PyTorch {statistics.fmean(b):.2f} %: difference "
               f"{difference:+.2f}, 95 % from {difference - half:+.2f} to {difference + half:+.2f}"
               + (f"; open: {reason}" if reason else ""), None if reason else True)


def shown(milliseconds):
    return "none" if milliseconds is None else f"{milliseconds:.3f}"


def fused_bar(rows):
    """The median of plain over fused, over shapes that both support; there is no bar to meet."""
    ratios = [row["plain"] / row["fused"] for row in rows if row["fused"] and row["plain"]]
    if ratios:
        yield ("cuDNN's fused graphs beside plain ones",
               f"median {statistics.median(ratios):.2f} of {len(ratios)}: {len(rows) - len(ratios)} unsupported", None)


def table(head, rows):
    def line(cells):
        return "| " + " | ".join(map(str, cells)) + " |"
    return [line(head), line("---" for _ in head), *map(line, rows), ""]


def main(results, out):
    machine = json.loads((results / "machine.json").read_text())
    read = {name: lines(results / f"{name}.jsonl")
            for name in ("checks", "layers", "torch_layers", "bandwidth", "tensor_cores", "fused_graphs", "stages",
                         "integers", "primitives", "profile", "throughput", "accuracy", "cudnn_device")}
    bars = [(row["check"], row["result"], row["within"]) for row in read["checks"]]
    for bars_of, is_step in ((layer_bars, False), (step_bars, True)):
        bars += bars_of(*([row for row in read[name] if ("gradient" in row) == is_step]
                     for name in ("layers", "torch_layers")))
    bars += curve_bars(results / "curves")
    bars += [(f"share of the copy's bandwidth: {row['what']}", f"{row['share']:.3f}, bar {row['bar']}",
              row["within"]) for row in read["bandwidth"] if row["what"] != "copy"]
    bars += [(f"tensor_core beside cuDNN, median of {row['median of']} convolutions of ResNet-50",
              f"{row['ratio']:.2f} of its speed, bar {row['bar']}", row["within"])
             for row in read["tensor_cores"] if "median of" in row]
    bars += fused_bar(read["fused_graphs"])
    bars += [(f"logits on integers beside the CPU's: {row['net']}, batch {row['batch']}",
              "equal" if row["within"] else "different", row["within"]) for row in read["integers"]]
    bars += [(f"results beside CUB's or Thrust's: {row['primitive']}, {row['size']} numbers",
              "equal" if row["within"] else "different", row["within"]) for row in read["primitives"]]
    bars += [*throughput_bars(read["throughput"]), *accuracy_bars(read["accuracy"])]
    for name, stage in (("layers alone", "A"), ("a step of ResNet", "A"), ("loss curve", "C"), ("bandwidth", "B"),
                        ("tensor_core beside cuDNN", "B"), ("fused graphs", "B"), (THROUGHPUT, "B"), ("CIFAR-10", "C")):
        if not any(name in bar[0] for bar in bars):
            bars.append((name, f"not measured: --stage {stage}", None))

    verdicts = {True: "yes", False: "**no**", None: "open"}
    text = [f"# {machine['card']}, {machine['date']}", "",
            "`scripts/gpu-check`: " + ", ".join(f"{k} {v}" for k, v in machine.items()
                                               if k not in ("card", "date")) + ".", ""]
    text += table(("bar", "result", "met"), [(a, b, verdicts[c]) for a, b, c in bars])
    if read["throughput"]:
        text += table(("ResNet-50, fp16", "batch", "images/s"),
                      [(r["program"], r["batch"], f"{r['images_per_second']:.0f}")
                       for r in read["throughput"]])
    if read["bandwidth"]:
        text += table(("operation", "ms", "GB/s", "share of copy"),
                      [(r["what"], f"{r['milliseconds']:.3f}", f"{r['gigabytes_per_second']:.0f}",
                        f"{r['share']:.3f}") for r in read["bandwidth"]])
    if read["tensor_cores"]:
        text += table(("convolution", "batch", "pass", "tensor_core, ms", "cuDNN, ms", "ratio"),
                      [(r["layer"], r["batch"], r["direction"], f"{r['tensor_core']:.3f}", f"{r['cudnn']:.3f}",
                        f"{r['ratio']:.2f}") for r in read["tensor_cores"] if "layer" in r])
    if classifier := [r for r in read["tensor_cores"] if "classifier" in r]:
        text += table(("classifier", "batch", "product", "CUDA cores, ms", "tensor_core, ms", "cuDNN, ms"),
                      [(r["classifier"], r["batch"], r["direction"], f"{r['cuda_cores']:.4f}", f"{r['tensor_core']:.4f}",
                        f"{r['cudnn']:.4f}") for r in classifier])
    if read["fused_graphs"]:
        text += table(("graph of cuDNN", "convolution", "batch", "fused, ms", "plain, ms", "convolution alone, ms"),
                      [(r["graph"], r["layer"], r["batch"], shown(r["fused"]), shown(r["plain"]),
                        shown(r["convolution"])) for r in read["fused_graphs"]])
    if read["stages"]:
        text += table(("ResNet-50's step, batch 256, fp16", "ms"),
                      [(r["stage"], f"{r['milliseconds']:.3f}") for r in read["stages"]])
    if read["integers"]:
        text += table(("on integers", "batch", "images/s, launched", "replayed"),
                      [(r["net"], r["batch"], f"{r['images_per_second']:.0f}", f"{r['replayed']:.0f}")
                       for r in read["integers"]])
    if read["primitives"]:
        text += table(("ours beside CUB's or Thrust's", "numbers", "ours, us", "theirs, us", "theirs / ours"),
                      [(r["primitive"], r["size"], f"{r['ours']:.2f}", f"{r['theirs']:.2f}", f"{r['ratio']:.2f}")
                       for r in read["primitives"]])
    if read["profile"]:
        text += table(("kernel of a step", "launches", "ms"),
                      [(r["kernel"], r["launches"], f"{r['milliseconds']:.3f}") for r in read["profile"]])
    if read["accuracy"]:
        text += table(("CIFAR-10", "batch", "seed", "held out, %"),
                      [(r["program"], r["batch"], r["seed"], f"{r['accuracy']:.2f}")
                       for r in sorted(read["accuracy"],
                                       key=lambda r: (r["batch"], r["program"], r["seed"]))])
    out.parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(f"{out}.md").write_text("\n".join(text))
    result = [{"bar": a, "result": b, "met": c} for a, b, c in bars]
    pathlib.Path(f"{out}.json").write_text(
        json.dumps({"machine": machine, "bars": result, **read}, indent=1) + "\n")
    print("\n".join(text))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))

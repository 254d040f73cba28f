# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""The programs of scripts/gpu-check's stages, with their limits, and what their outputs mean."""
import json
import math
import re

from kernel_names import short_name
from program import Program

SECONDS = {"build": 420, "A": 480, "B": 360, "C": 420}  # each stage at most
SEEDS = (1, 2, 3, 4, 5)

# What compute-sanitizer checks: small cases, each tool alone. Failed API calls are not reported: tests provoke them.
SMALL_CASES = ("batch_norm on*,pooling on*,linear on*,filter_layout on*,elementwise on*,tensor_core on*,"
               "encode on*,segmented on*,loss on*,quantize on*,integer_network_on*")


def json_rows(file):
    """Reads lines of JSON, and whether all of their bars are met."""
    def read(text):
        rows = []
        for line in text.splitlines():
            if line.startswith("{"):
                try:
                    rows.append(json.loads(line))
                except ValueError:
                    pass
        if not rows:
            return "it printed no result", False, {}
        above = [row for row in rows if row.get("within") is False]
        return f"{len(rows)} results, {len(above)} beyond their bars", not above, {file: rows}
    return read


def device_and(read):
    """Reads cuDNN's description of the GPU as well, JSON of one line or of several behind "device: ": with it plans can
    be made without the GPU (tests/support/described_gpus.hpp)."""
    def read_both(text):
        result, met, rows = read(text)
        if found := re.search(r"^device: (?=\{)", text, re.MULTILINE):
            try:
                rows = {**rows, "cudnn_device": [json.JSONDecoder().raw_decode(text, found.end())[0]]}
            except ValueError:
                result += "; the device's description is no JSON"
        return result, met, rows
    return read_both


def number(pattern, file, **row):
    """Reads the number of a pattern's group into a row, under the group's name."""
    def read(text):
        found = re.findall(pattern, text, re.MULTILINE)
        if not found:
            return "it printed no result", False, {}
        (key, value), = re.search(pattern, text, re.MULTILINE).groupdict().items()
        return f"{float(value):g} {key.replace('_', ' ')}", True, {file: [{**row, key: float(value)}]}
    return read


def throughput(program, batch):
    return number(r"^(?P<images_per_second>[0-9.]+) images/s", "throughput", program=program, batch=batch)


def falling_loss(text):
    """On one batch again and again the loss falls: the mean of the last three is below 0.9 of the first three's."""
    losses = [float(loss) for loss in re.findall(r"^step \d+: loss (\S+),", text, re.MULTILINE)]
    if len(losses) < 6:
        return "it printed too few losses", False, {}
    first, last = sum(losses[:3]) / 3, sum(losses[-3:]) / 3
    return f"loss {first:.4f} -> {last:.4f} in {len(losses)} steps", last < 0.9 * first, {}


def passed_cases(text):
    """A doctest runner's summary. That no case ran is a failure: a filter may have matched none. A case that prints
    "skipped: " and why returns at once, so that doctest counts it as passed."""
    found = re.search(r"^\[doctest\] test cases:\s*(\d+) \|\s*(\d+) passed", text, re.MULTILINE)
    if not found:
        return "it printed no summary", False, {}
    skipped = re.findall(r"MESSAGE: skipped: (.*)", text)
    passed = int(found[2]) - len(skipped)
    result = "; ".join([f"{passed} of {found[1]} cases passed", *(f"skipped: {why}" for why in skipped)])
    if skipped and passed == 0 and found[1] == found[2]:
        return result, None, {}
    return result, found[1] == found[2] != "0", {}


def sanitized(text):
    if re.search("Device not supported|Unable to", text):
        return "skipped: it does not run on this machine", None, {}
    found = re.search(r"========= ERROR SUMMARY: (\d+) error", text) or re.search(
        r"========= RACECHECK SUMMARY: (\d+) hazard", text)
    if not found:
        return "it printed no summary", False, {}
    cases, ran, _ = passed_cases(text)
    return f"{found[1]} errors; {cases}", found[1] == "0" and ran, {}


def profile(text):
    """ncu's CSV of one metric: the kernels' times, summed by short name."""
    times = {}
    for row in re.findall(r'^"\d+",.*$', text, re.MULTILINE):
        cells = re.findall(r'"([^"]*)"', row)
        name, unit, value = short_name(cells[4]), cells[-2], float(cells[-1].replace(",", ""))
        count, total = times.get(name, (0, 0.0))
        times[name] = count + 1, total + value * {"ns": 1e-6, "us": 1e-3, "ms": 1, "s": 1e3}[
            {"nsecond": "ns", "usecond": "us", "msecond": "ms", "second": "s"}.get(unit, unit)]
    if not times:
        return "it printed no kernel", False, {}
    rows = [{"kernel": name, "launches": count, "milliseconds": round(total, 4)}
            for name, (count, total) in sorted(times.items(), key=lambda item: -item[1][1])]
    return (f"{sum(row['launches'] for row in rows)} launches, {sum(row['milliseconds'] for row in rows):.2f} ms",
            True, {"profile": rows})


def correctness(m):
    tests, nccl = m.build / "tests/test_cuda", m.build / "tests/test_nccl_gpu"
    yield Program("tests of kernels on the GPU", [tests, "--duration=true"], limit=100, cases=True,
                  read=passed_cases)
    yield Program("values of fused graphs", [m.build / "benchmarks/bench_gpu_fused_graphs", "--batch", 16, "--check", 1],
                  limit=60, read=device_and(json_rows("fused_values")), skip="" if m.cudnn else "cuDNN not found")
    yield Program("ranks over NCCL", [nccl, "--duration=true"], limit=50, cases=True,
                  read=passed_cases,
                  skip="" if m.nccl else "NCCL not found")
    yield Program("ResNet-50, fp16, one batch, eager: the loss falls",
                  [m.build / "examples/imagenet_shape_gpu", "--batch", 64, "--warmup", 0, "--steps", 30], limit=60,
                  read=falling_loss)
    yield Program("ResNet-50, fp16, one batch, replayed: the loss falls",
                  [m.build / "examples/imagenet_shape_gpu", "--batch", 64, "--warmup", 0, "--steps", 30,
                   "--replay"], limit=60, read=falling_loss)
    for net, limit in ((20, 90), (50, 150)):
        yield Program(f"layers of ResNet-{net}", [m.build / "benchmarks/bench_gpu_layers", "--net", net], limit=limit,
                      read=json_rows("layers"))
    yield Program("PyTorch's layers", ["python3", "benchmarks/torch_layers.py", m.results / "layers.jsonl"],
                  limit=60, read=json_rows("torch_layers"), skip="" if m.torch else "no PyTorch", libraries=False)
    for tool, limit in (("memcheck", 60), ("synccheck", 40), ("initcheck", 40), ("racecheck", 120)):
        cases = f"--test-case={SMALL_CASES}"
        command = [m.sanitizer, "--tool", tool, "--error-exitcode", 99, "--report-api-errors", "no", tests,
                   "--duration=true", cases]
        if tool in ("synccheck", "racecheck"):  # they report no API errors
            del command[5:7]
        # Idle: a tool that preloads libraries of its own may leave the output in a buffer until the end.
        # racecheck takes 16 s for a batch norm's cases, and one that did not end has hidden the others.
        yield Program(f"tests of kernels under compute-sanitizer's {tool}", command, limit=limit, idle=limit,
                      apart=[tests, cases] if tool == "racecheck" else None, read=sanitized,
                      skip="" if m.sanitizer else "compute-sanitizer is not installed")


def speed(m):
    step = m.build / "benchmarks/bench_gpu_step"
    cudnn = "" if m.cudnn else "cuDNN not found"
    yield Program("bandwidth", [m.build / "benchmarks/bench_gpu_bandwidth", "--batch", 256, "--copy", 1024],
                  read=json_rows("bandwidth"))
    # Idle: between two lines the CPU draws and selects among 25.6 million numbers.
    yield Program("our kernels beside CUB's and Thrust's", [m.build / "benchmarks/bench_gpu_primitives"], limit=40,
                  idle=40, read=json_rows("primitives"))
    for batch, replay in ((256, 0), (256, 1), (64, 0), (512, 0)):
        how = "replayed" if replay else "eager"
        command = [m.build / "examples/imagenet_shape_gpu", "--batch", batch, "--warmup", 5, "--steps", 20]
        yield Program(f"ResNet-50 step, batch {batch}, {how}", command + (["--replay"] if replay else []),
                      limit=40, read=throughput("cordee" if how == "eager" else "cordee, replayed", batch))
    for mode, limit in (("eager", 45), ("compile", 100)):
        # Idle: it prints at its end only, and compiling takes about a minute.
        yield Program(f"PyTorch's step, batch 256, {mode}",
                      ["python3", "benchmarks/torch_imagenet_shape.py", "--mode", mode, "--batch", 256], limit=limit,
                      idle=limit, read=throughput(f"pytorch, {mode}", 256), skip="" if m.torch else "no PyTorch",
                      libraries=False)
    yield Program("fused graphs beside plain ones", [m.build / "benchmarks/bench_gpu_fused_graphs", "--batch", 256],
                  limit=50, read=json_rows("fused_graphs"), skip=cudnn)
    yield Program("times of a step's stages", [step, "--batch", 256], limit=40, read=json_rows("stages"))
    # Idle: between two lines the CPU computes the logits of 128 images by ResNet-50.
    yield Program("networks on integers: images/s, and logits beside the CPU's",
                  [m.build / "benchmarks/bench_gpu_infer", "--batch", 128], limit=40, idle=40, read=json_rows("integers"))
    # Idle: ncu prints its table at its end.
    yield Program("profile of one step",
                  [m.ncu, "--clock-control", "none", "--profile-from-start", "off", "--csv", "--metrics",
                   "gpu__time_duration.sum", step, "--batch", 256, "--profile", 1], limit=60, idle=60, read=profile,
                  skip="" if m.ncu else "ncu is not installed")
    yield Program("tensor_core beside cuDNN", [m.build / "benchmarks/bench_gpu_tensor_cores", "--batch", 256],
                  read=json_rows("tensor_cores"), skip=cudnn)


def accuracy(m):
    missing = "" if m.cifar else "CIFAR-10 not found: scripts/get-data cifar-10, or scripts/gpu-pack --cifar"
    curve = ["--data", m.cifar, "--epochs", 0.512, "--warmup", 0.1]
    curves = m.results / "curves"
    for seed in (1, 2):
        # Idle: its 200 losses go to a file; it takes no time of the GPU.
        yield Program(f"curve of the CPU, seed {seed}", [m.build / "examples/cifar", *curve, "--seed", seed, "--csv",
                      curves / f"cpu-{seed}.csv"], limit=200, idle=200, skip=missing, beside=True)
    for precision in ("fp32", "fp16", "bf16"):
        yield Program(f"curve of the GPU, {precision}", [m.build / "examples/cifar_gpu", *curve, "--precision",
                      precision, "--csv", curves / f"gpu-{precision}.csv"], limit=60, skip=missing)
    for seed in SEEDS:
        for batch in (128, 4096):
            options = ["--data", m.cifar, "--precision", "fp16", "--batch", batch, "--seed", seed, "--epochs", 30]
            if batch > 128:
                options += ["--optimizer", "lars", "--learning-rate", 3, "--warmup", 5]
            for program, command in (("cordee", [m.build / "examples/cifar_gpu"]),
                                     ("pytorch", ["python3", "benchmarks/torch_cifar.py"])):
                # Idle: one prints at its end, after 24 s on an H200, the other ten lines in more than 108 s.
                yield Program(
                    f"accuracy of {program}, batch {batch}, seed {seed}", [*command, *options], limit=150, idle=150,
                    read=number(r"^validation accuracy (?P<accuracy>[0-9.]+) %", "accuracy", program=program,
                                batch=batch, seed=seed),
                    skip=missing or ("no PyTorch" if program == "pytorch" and not m.torch else ""),
                    libraries=program == "cordee")


def calls(stage_programs, seconds):
    """In how many calls of a stage all of its programs have ended, if each takes its limit. One that a call cuts off
    is begun anew by the next one."""
    count, left = 1, seconds
    for program in stage_programs:
        if program.beside or program.skip:
            continue
        if program.limit > seconds:
            return math.inf
        if program.limit > left:
            count, left = count + 1, seconds
        left -= program.limit
    return count


PROGRAMS = {"A": correctness, "B": speed, "C": accuracy}

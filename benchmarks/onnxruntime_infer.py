#!/usr/bin/env python3
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""bench_infer compared with int8 of onnxruntime and, if it is installed, of OpenVINO: whole networks, one image and a
batch, on as many threads.

    onnxruntime_infer.py BENCH_INFER DEPTH [BATCH [ROUNDS [REPS [THREADS]]]]

onnxruntime runs two models: `ours`, the QDQ file that write_onnx makes of an int8 network, and `static`, made by its
own quantize_static from our fp32 file: batch norms folded, weights per channel, every activation quantized, which
is its fastest form; OpenVINO runs `static`. All optimizations, memory bound once. The programs run in turn; figures are
minima over all rounds, the worst round of the ratio is printed beside. bench_infer reads bytes, the others normalized
floats.
"""
import os
import re
import subprocess
import sys
import tempfile
import time

try:
    import numpy as np
    import onnxruntime
    from onnxruntime import quantization
    from onnxruntime.quantization.shape_inference import quant_pre_process
except ImportError as missing:
    sys.exit(f"onnxruntime: not measured ({missing})")

try:
    import openvino
except ImportError:
    openvino = None

LINE = re.compile(r"ResNet-\d+ batch +(\d+)  fp32 +([\d.]+) ms .*integers +([\d.]+) ms")


class images(quantization.CalibrationDataReader):
    def __init__(self, side):
        random = np.random.default_rng(1)
        self.left = [{"input": random.uniform(-2, 2, (1, 3, side, side)).astype(np.float32)} for _ in range(4)]

    def get_next(self):
        return self.left.pop() if self.left else None


def runner(path, side, batch, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    x = np.random.default_rng(2).uniform(-2, 2, (batch, 3, side, side)).astype(np.float32)
    bound = session.io_binding()
    of = onnxruntime.OrtValue.ortvalue_from_numpy
    y = session.run(None, {"input": x})[0]
    bound.bind_ortvalue_input("input", of(x))
    bound.bind_ortvalue_output(session.get_outputs()[0].name, of(y))
    return lambda: session.run_with_iobinding(bound)


def openvino_runner(path, side, batch, threads):
    core = openvino.Core()
    model = core.read_model(path)
    model.reshape([batch, 3, side, side])
    compiled = core.compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1,
                                                 "PERFORMANCE_HINT": "LATENCY"})
    request = compiled.create_infer_request()
    x = np.random.default_rng(2).uniform(-2, 2, (batch, 3, side, side)).astype(np.float32)
    request.set_input_tensor(openvino.Tensor(x, shared_memory=True))
    request.infer()
    return request.infer


def least(call, reps):
    best = 1e9
    for _ in range(reps):
        start = time.perf_counter()
        call()
        best = min(best, 1e3 * (time.perf_counter() - start))
    return best


def main():
    bench, depth = os.path.abspath(sys.argv[1]), int(sys.argv[2])
    batch, rounds, reps, threads = (int(v) for v in (sys.argv[3:] + ["128", "3", "20", "1"][len(sys.argv) - 3:])[:4])
    side = 224 if depth == 50 else 32
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([bench, "--depth", str(depth), "--write", "1"], cwd=folder, check=True, capture_output=True)
        fp32, ours, static = (os.path.join(folder, f) for f in ("fp32.onnx", "int8.onnx", "static.onnx"))
        folded = os.path.join(folder, "folded.onnx")
        quant_pre_process(fp32, folded, skip_symbolic_shape=True)
        quantization.quantize_static(folded, static, images(side), per_channel=True,
                                     quant_format=quantization.QuantFormat.QDQ,
                                     activation_type=quantization.QuantType.QUInt8,
                                     weight_type=quantization.QuantType.QInt8)
        calls = {(n, name): runner(path, side, n, threads) for n in (1, batch)
                 for name, path in (("ours", ours), ("static", static))}
        others = [{n: openvino_runner(static, side, n, threads) for n in (1, batch)}] if openvino else []
        rows = {1: [], batch: []}
        for _ in range(rounds):
            out = subprocess.run([bench, "--depth", str(depth), "--batch", str(batch), "--reps", str(reps),
                                  "--threads", str(threads)], text=True, check=True, capture_output=True).stdout
            for n, full, integers in LINE.findall(out):
                rows[int(n)].append((float(full), float(integers),
                                     *(least(calls[int(n), name], reps) for name in ("ours", "static")),
                                     *(least(call[int(n)], reps) for call in others)))
    print(f"ResNet-{depth}, {threads} thread(s), onnxruntime {onnxruntime.__version__}, {rounds} x {reps} repetitions, "
          f"load {os.getloadavg()[0]:.1f}\n{out.splitlines()[0]}")
    if openvino is None:
        print("OpenVINO: not measured (it is not installed)")
    for n, all_rounds in rows.items():
        full, integers, ours, static, *by_openvino = (min(column) for column in zip(*all_rounds))
        worst = min(min(r[2:4]) / r[1] for r in all_rounds)
        print(f"batch {n:3}: fp32 {full:.3f} ms, integers {integers:.3f} ms ({full / integers:.2f}x); onnxruntime "
              f"our file {ours:.3f} ms, static {static:.3f} ms: {min(ours, static) / integers:.2f}x, "
              f"worst round {worst:.2f}x")
        for milliseconds in by_openvino:
            print(f"           OpenVINO {openvino.__version__.split('-')[0]} {milliseconds:.3f} ms: "
                  f"cordee / this {integers / milliseconds:.3f}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""bench_int8 compared with onnxruntime's int8, layer by layer, from floats to floats on one thread.

    onnxruntime_int8.py BENCH_INT8 [ROUNDS [REPS [BATCH]]]

The programs run in turn, REPS repetitions each time; figures are minima. onnxruntime quantises, runs
QLinearConv (unsigned activations, signed weights with a scale per filter) and dequantises; bench_int8
keeps the 32-bit sums, which QLinearConv requantises to 8 bits. Needs onnxruntime and onnx.
"""
import re
import subprocess
import sys
import time

try:
    import numpy as np
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    sys.exit(f"onnxruntime: not measured ({missing})")

LINE = re.compile(r"(\d+)x\d+, (\d+) -> (\d+)(, stride 2)? +([\d.]+) ms .* ([\d.]+) ms +[\d.]+x$")


def session(side, channels, filters, stride, batch):
    random = np.random.default_rng(1)
    weights = random.integers(-127, 128, (filters, channels, 3, 3), dtype=np.int8)
    constants = {
        "scale": np.float32(0.01), "zero": np.uint8(64), "w": weights,
        "w_scale": np.full(filters, 0.01, np.float32), "w_zero": np.zeros(filters, np.int8),
        "y_scale": np.float32(0.05), "y_zero": np.uint8(128),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        helper.make_node("QLinearConv", ["q", "scale", "zero", "w", "w_scale", "w_zero",
                                         "y_scale", "y_zero"], ["p"],
                         kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[stride, stride]),
        helper.make_node("DequantizeLinear", ["p", "y_scale", "y_zero"], ["y"]),
    ]
    out = (side - 1) // stride + 1
    floats = TensorProto.FLOAT
    graph = helper.make_graph(
        nodes, "layer", [helper.make_tensor_value_info("x", floats, [batch, channels, side, side])],
        [helper.make_tensor_value_info("y", floats, [batch, filters, out, out])],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    ready = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                         providers=["CPUExecutionProvider"])
    bound = ready.io_binding()  # memory that stays, as ours does
    of = onnxruntime.OrtValue.ortvalue_from_numpy
    bound.bind_ortvalue_input("x", of(random.random((batch, channels, side, side), np.float32)))
    bound.bind_ortvalue_output("y", of(np.zeros((batch, filters, out, out), np.float32)))
    return lambda: ready.run_with_iobinding(bound)


def main():
    bench, rounds, reps, batch = (sys.argv[1:] + ["5", "10", "128"][len(sys.argv) - 2:])[:4]
    theirs, least, full = {}, {}, {}
    for _ in range(int(rounds)):
        table = subprocess.run([bench, "--reps", reps, "--batch", batch], text=True, check=True,
                               capture_output=True).stdout
        for found in filter(None, map(LINE.match, table.splitlines())):
            side, channels, filters, strided, fp32, int8 = found.groups()
            key = int(side), int(channels), int(filters), 2 if strided else 1
            if key not in theirs:
                theirs[key] = session(*key, int(batch))
                theirs[key]()
            full[key] = min(full.get(key, 1e9), float(fp32))
            ours, other = least.get(key, (1e9, 1e9))
            for _ in range(int(reps)):
                start = time.perf_counter()
                theirs[key]()
                other = min(other, 1e3 * (time.perf_counter() - start))
            least[key] = min(ours, float(int8)), other
    print(f"batch {batch}, one thread, onnxruntime {onnxruntime.__version__}, "
          f"{int(rounds) * int(reps)} repetitions\n")
    print(f"{'layer':<30} {'fp32':>10} {'int8':>10} {'onnxruntime':>14} {'over ours':>10}")
    for (side, channels, filters, stride), (ours, other) in least.items():
        name = f"{side}x{side}, {channels} -> {filters}" + (", stride 2" if stride == 2 else "")
        print(f"{name:<30} {full[side, channels, filters, stride]:>7.3f} ms {ours:>7.3f} ms "
              f"{other:>11.3f} ms {other / ours:>9.2f}x")


if __name__ == "__main__":
    main()

#!/usr/bin/env bash
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# OpenVINO's CPU plugin computes int64 and uint64 in 32 bits and keeps the types' names.
#
# A valid ONNX model (onnx.checker passes) multiplies and adds tensors of int64, and shifts uint64.
# One would expect numbers of 64 bits, or a refusal of the model. The output's type is int64, and
# its numbers are those of 32 bits: 3000000000 * 1 is -1294967296.
#
# Seen with openvino 2026.4.1, onnx 1.23.2, onnxruntime 1.32.0, Python 3.11, x86-64, 2026-11-28:
#
#   int64  Mul  expected [3000000000, 10000000000]  onnxruntime the same  openvino int64 [-1294967296, 1410065408]
#   int64  Add  expected [6000000000, 4300000000]  onnxruntime the same  openvino int64 [1705032704, 5032704]
#   uint64 BitShift  expected [1500000000, 2500000000]  onnxruntime the same  openvino uint64 [426258176, 352516352]
#
# Exits with 1 if OpenVINO's numbers are right, or the model is refused: the finding is then stale.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q 'openvino==2026.4.1' 'onnx==1.23.2' 'onnxruntime==1.32.0'
"$folder/venv/bin/python" - <<'EOF'
import sys

import numpy
import onnx
import onnxruntime
import openvino
from onnx import TensorProto, helper

print("openvino", openvino.__version__, "onnx", onnx.__version__, "onnxruntime", onnxruntime.__version__)


def wrong(op, kind, dtype, x, y, expected, **attributes):
    inputs = [helper.make_tensor_value_info(name, kind, ["n"]) for name in "xy"]
    graph = helper.make_graph([helper.make_node(op, ["x", "y"], ["z"], **attributes)], op, inputs,
                              [helper.make_tensor_value_info("z", kind, ["n"])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    feed = {"x": numpy.array(x, dtype), "y": numpy.array(y, dtype)}
    data = model.SerializeToString()
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    reference = session.run(None, feed)[0]
    core = openvino.Core()
    z = core.compile_model(core.read_model(data), "CPU")(feed)[0]
    same = "the same" if reference.tolist() == expected else reference.tolist()
    print(f"{dtype.__name__:6s} {op}  expected {expected}  onnxruntime {same}  "
          f"openvino {z.dtype} {z.tolist()}")
    return z.tolist() != expected and z.dtype == dtype


results = [
    wrong("Mul", TensorProto.INT64, numpy.int64, [3000000000, 100000], [1, 100000],
          [3000000000, 10000000000]),
    wrong("Add", TensorProto.INT64, numpy.int64, [3000000000, 4000000000], [3000000000, 300000000],
          [6000000000, 4300000000]),
    wrong("BitShift", TensorProto.UINT64, numpy.uint64, [6000000000, 10000000000], [2, 2],
          [1500000000, 2500000000], direction="RIGHT"),
]
sys.exit(0 if all(results) else "OpenVINO's numbers are right now")
EOF

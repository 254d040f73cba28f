#!/usr/bin/env bash
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# In OpenVINO's CPU plugin a BitShift after a MatMul rounds to the nearest: 7 >> 2 is 2.
#
# A valid ONNX model (onnx.checker passes): MatMul of int32, Add, Cast to uint32, BitShift to the right. All numbers are
# below 256. One would expect floor(sum / 4), as BitShift alone gives. The operators after the product are computed
# with it, in floats, and the result is rounded to the nearest integer. If a second node reads the sum, it is right.
#
# Seen with openvino 2026.4.1, onnx 1.23.2, onnxruntime 1.32.0, Python 3.11, x86-64, 2026-11-28:
#
#   sums        [7, 23, 39, 55, 71, 87, 103, 119, 135, 151, 167, 183, 199, 215, 231, 247]
#   expected    [1, 5, 9, 13, 17, 21, 25, 29, 33, 37, 41, 45, 49, 53, 57, 61]
#   onnxruntime [1, 5, 9, 13, 17, 21, 25, 29, 33, 37, 41, 45, 49, 53, 57, 61]
#   openvino    [2, 6, 10, 14, 18, 22, 26, 30, 34, 38, 42, 46, 50, 54, 58, 62]
#
# Exits with 1 if OpenVINO's numbers are right: the finding is then stale.
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
x = numpy.arange(64, dtype=numpy.int32).reshape(16, 4)
constants = {"w": numpy.ones((4, 1), numpy.int32), "one": numpy.int32([1]), "bits": numpy.uint32([2])}
nodes = [helper.make_node("MatMul", ["x", "w"], ["products"]),
         helper.make_node("Add", ["products", "one"], ["sum"]),
         helper.make_node("Cast", ["sum"], ["unsigned"], to=TensorProto.UINT32),
         helper.make_node("BitShift", ["unsigned", "bits"], ["z"], direction="RIGHT")]
graph = helper.make_graph(nodes, "shift",
                          [helper.make_tensor_value_info("x", TensorProto.INT32, ["batch", 4])],
                          [helper.make_tensor_value_info("z", TensorProto.UINT32, ["batch", 1])],
                          [onnx.numpy_helper.from_array(a, name) for name, a in constants.items()])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
onnx.checker.check_model(model, full_check=True)
data = model.SerializeToString()
expected = (x.sum(1) + 1) >> 2
session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
reference = session.run(None, {"x": x})[0].ravel()
core = openvino.Core()
z = core.compile_model(core.read_model(data), "CPU")({"x": x})[0].ravel()
print("sums       ", (x.sum(1) + 1).tolist())
print("expected   ", expected.tolist())
print("onnxruntime", reference.tolist())
print("openvino   ", z.tolist())
sys.exit(0 if not numpy.array_equal(z, expected) and numpy.array_equal(reference, expected)
         else "OpenVINO shifts right now")
EOF

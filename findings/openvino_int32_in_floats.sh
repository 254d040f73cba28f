#!/usr/bin/env bash
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# OpenVINO's CPU plugin computes several operators of int32 and uint32 in floats, which hold 24 bits.
#
# A valid ONNX model (onnx.checker passes) has one operator of int32 or uint32, whose operands and
# results fit the type. One would expect integers. Add, Sub, Mul, Max, Min and Less are exact;
# ReduceSum, MatMul, Div, Mod and BitShift round above 2^24. Nothing is said, and the type is
# kept. In default precision, on a processor without AMX.
#
# Seen with openvino 2026.4.1, onnx 1.23.2, onnxruntime 1.32.0, Python 3.11, x86-64, 2026-11-28:
#
#   ReduceSum of int32: expected [16777219], onnxruntime the same, openvino int32 [16777218]
#   MatMul    of int32: expected [16777219], onnxruntime the same, openvino int32 [16777218]
#   Div       of int32: expected [134217727], onnxruntime the same, openvino int32 [134217728]
#   Mod       of int32: expected [15], onnxruntime the same, openvino int32 [0]
#   BitShift  of uint32: expected [16777215, 268435455], onnxruntime the same, openvino uint32 [16777216, 0]
#
# Exits with 1 if one of them is right: the finding is then stale.
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
KINDS = {numpy.int32: TensorProto.INT32, numpy.uint32: TensorProto.UINT32}


def wrong(op, dtype, x, constants, expected, **attributes):
    x, expected = numpy.array(x, dtype), numpy.array(expected, dtype)
    names = ["x", "a", "b"][:1 + len(constants)]
    value = lambda name, a: helper.make_tensor_value_info(name, KINDS[dtype], a.shape)
    graph = helper.make_graph([helper.make_node(op, names, ["z"], **attributes)], op,
                              [value("x", x)], [value("z", expected)],
                              [onnx.numpy_helper.from_array(c, n) for c, n in zip(constants, names[1:])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    data = model.SerializeToString()
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    reference = session.run(None, {"x": x})[0]
    core = openvino.Core()
    z = core.compile_model(core.read_model(data), "CPU")({"x": x})[0]
    same = "the same" if numpy.array_equal(reference, expected) else reference.tolist()
    print(f"{op:9s} of {dtype.__name__}: expected {expected.ravel().tolist()}, onnxruntime {same}, "
          f"openvino {z.dtype} {z.ravel().tolist()}")
    return not numpy.array_equal(z, expected) and z.dtype == dtype


int32, uint32 = numpy.int32, numpy.uint32
results = [
    wrong("ReduceSum", int32, [[16777217, 2]], [numpy.array([1])], [[16777219]]),
    wrong("MatMul", int32, [[16777217, 2]], [int32([[1], [1]])], [[16777219]]),
    wrong("Div", int32, [2147483647], [int32([16])], [134217727]),
    wrong("Mod", int32, [2147483647], [int32([16])], [15]),
    wrong("BitShift", uint32, [2147483647, 4294967295], [uint32([7, 4])], [16777215, 268435455],
          direction="RIGHT"),
]
sys.exit(0 if all(results) else "one of them is right now")
EOF

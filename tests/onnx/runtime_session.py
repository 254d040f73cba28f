# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""The sessions of onnxruntime, and of OpenVINO where Python has it, that the tests of ONNX files
run. Imported where Python has onnxruntime."""
import os

import numpy
import onnxruntime

try:
    import openvino
except ImportError:
    openvino = None


def openvino_logits(path, inputs):
    """OpenVINO's output for the inputs, 25 at a time and the first one alone, on its CPU; None
    without OpenVINO. In floats of 32 bits: where a processor has AMX its default is bf16."""
    if openvino is None:
        return None
    options = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": min(4, os.cpu_count() or 1)}
    model = openvino.Core().compile_model(path, "CPU", options)
    parts = [model({"input": inputs[i:i + 25]})[0] for i in range(0, len(inputs), 25)]
    one = model({"input": inputs[:1]})[0]
    if not numpy.array_equal(one, parts[0][:1]):
        raise RuntimeError(f"{path}: OpenVINO's logits depend on the batch")
    return numpy.concatenate(parts)


def session_of(path, optimized=None):
    """Of a file, on four processors at most; the graph that onnxruntime makes of it is written to
    `optimized`."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = min(4, os.cpu_count() or 1)
    # Other tests run beside this one.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if optimized:
        options.log_severity_level = 3  # that file is for this processor: no warning
        options.optimized_model_filepath = optimized
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

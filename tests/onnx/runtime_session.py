# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""The sessions of onnxruntime that the tests of ONNX files run. Imported where Python has it."""
import os

import onnxruntime


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

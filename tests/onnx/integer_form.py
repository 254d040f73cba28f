# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""The ONNX files of integer networks (integer_form.hpp) in onnxruntime and, where Python has it, in
OpenVINO: the logits of every image are equal, and every tensor of the graph is of integers, also in the graph that onnxruntime makes
of it. Imported where Python has numpy, onnx and onnxruntime."""
import os
import time

import numpy
import onnx

from runtime_session import openvino_logits, session_of

INTEGERS = {getattr(onnx.TensorProto, name)
            for name in ("UINT8", "INT8", "INT32", "UINT32", "BOOL", "INT64")}  # 64: axes


def others(path):
    """The tensors of a file that are not of such integers, or of an unknown type."""
    model = onnx.shape_inference.infer_shapes(onnx.load(path), check_type=True, strict_mode=True)
    graph = model.graph
    types = {v.name: v.type.tensor_type.elem_type
             for v in [*graph.input, *graph.output, *graph.value_info]}
    types |= {t.name: t.data_type for t in graph.initializer}
    names = set(types) | {name for node in graph.node for name in [*node.input, *node.output]}
    return sorted(name for name in names - {""} if types.get(name) not in INTEGERS)


def check_integers(folder, pixels):
    """Prints the comparisons for pixels (samples, channels, height, width); the errors in words."""
    errors = []
    for name, step in (("integers", "step"), ("unfolded", "unfolded_step")):
        path, optimized = (os.path.join(folder, name + end) for end in (".onnx", ".optimized"))
        model = onnx.load(path)
        onnx.checker.check_model(model, full_check=True)
        assert [o.version for o in model.opset_import] == [17]
        logit_step = float.fromhex(open(os.path.join(folder, step)).read())
        if {p.key: float(p.value) for p in model.metadata_props} != {"logit_step": logit_step}:
            errors.append(f"{name}: the metadata are to be the logit's step, {logit_step}")
        ours = numpy.fromfile(os.path.join(folder, name), numpy.int32).reshape(len(pixels), -1)
        session = session_of(path, optimized)
        seconds = time.perf_counter()
        theirs = numpy.concatenate([session.run(["logits"], {"input": pixels[i:i + 25]})[0]
                                    for i in range(0, len(pixels), 25)])
        seconds = time.perf_counter() - seconds
        one = session.run(["logits"], {"input": pixels[:1]})[0]  # another batch size
        equal = int((ours == theirs).all(1).sum())
        same = int((ours.argmax(1) == theirs.argmax(1)).sum())
        print(f"{name}, as integers in ONNX: the same logits on {equal} of {len(ours)} images, the "
              f"same top 1 on {same}; they are from {theirs.min()} to {theirs.max()}; "
              f"{1000 * seconds / len(ours):.3g} ms an image")
        is_equal = equal == len(ours) and numpy.array_equal(one, ours[:1])
        if theirs.dtype != numpy.int32 or not is_equal:
            errors.append(f"{name}: the logits are to be equal on all {len(ours)} images")
        if len(numpy.unique(theirs)) < ours.shape[1]:
            errors.append(f"{name}: nearly all logits are one number")
        theirs = openvino_logits(path, pixels)
        if theirs is None:
            print(f"{name}: OpenVINO skipped: pip install openvino")
        else:
            wrong = int((theirs != ours).sum())
            print(f"{name}, in OpenVINO: {wrong} of {ours.size} logits differ")
            if wrong or theirs.dtype != numpy.int32:
                errors.append(f"{name}: OpenVINO's logits are to be equal: {wrong} differ")
        for file in (path, optimized):
            if others(file):
                errors.append(f"{file}: tensors that are not of integers: {others(file)[:9]}")
    return errors

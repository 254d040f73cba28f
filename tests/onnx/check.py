#!/usr/bin/env python3
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""check.py PROGRAM: the ONNX files that PROGRAM (export.cpp) writes pass onnx.checker, have
torchvision's names, and give PROGRAM's logits in onnxruntime, for any number of images; in int8
within one step of a byte. Prints "skipped: ..." where Python lacks a module."""
import os
import subprocess
import sys
import tempfile

try:
    import numpy
    import onnx
    import onnxruntime
except ImportError as e:
    print(f"skipped: {e}: pip install onnx onnxruntime numpy")
    sys.exit(0)

BAR = 1e-4  # of the largest difference between logits, which are of size 1
MEAN = numpy.array([0.485, 0.456, 0.406], numpy.float32).reshape(3, 1, 1)
DEVIATION = numpy.array([0.229, 0.224, 0.225], numpy.float32).reshape(3, 1, 1)
NETWORKS = {"resnet20": (32, 256, 10), "resnet18": (224, 6, 1000), "resnet50": (224, 6, 1000),
            "resnet20_int8": (32, 256, 10), "resnet18_int8": (64, 128, 10)}


def generated_images(samples, side):
    """Waves with noise, of other colors and directions for each of ten classes."""
    random = numpy.random.default_rng(7)
    y, x = numpy.mgrid[0:side, 0:side] / side
    waves = random.uniform(-12, 12, (10, 3, 2, 1, 1))
    phases = random.uniform(0, 6.28, (10, 3, 1, 1))
    images = 127 + 60 * numpy.sin(waves[:, :, 0] * x + waves[:, :, 1] * y + phases)
    images = images[numpy.arange(samples) % 10]
    return numpy.clip(images + random.normal(0, 40, images.shape), 0, 255).astype(numpy.uint8)


def session_of(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = min(4, os.cpu_count() or 1)
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def check(name, program, folder):
    side, samples, classes = NETWORKS[name]
    pixels = generated_images(samples, side)
    pixels.tofile(os.path.join(folder, "images"))
    subprocess.run([program, name, os.path.join(folder, "images"), folder], check=True)
    path = os.path.join(folder, "net.onnx")
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    assert [o.version for o in model.opset_import] == [17]
    names = {t.name for t in model.graph.initializer}
    expected = {"conv1.weight", "bn1.running_mean", "layer3.0.conv2.weight", "fc.weight", "fc.bias"}
    if not name.startswith("resnet20"):
        expected |= {"layer4.0.downsample.0.weight", "layer4.0.downsample.1.running_var"}
    if not expected <= names:
        sys.exit(f"{name}: no tensors {sorted(expected - names)}")

    types = {t.name: t.data_type for t in model.graph.initializer}
    weights = onnx.TensorProto.INT8 if name.endswith("int8") else onnx.TensorProto.FLOAT
    if types["layer1.0.conv1.weight"] != weights:
        sys.exit(f"{name}: weights are of type {types['layer1.0.conv1.weight']}")

    ours = numpy.fromfile(os.path.join(folder, "logits"), numpy.float32).reshape(samples, classes)
    images = (pixels.astype(numpy.float32) / 255 - MEAN) / DEVIATION
    session = session_of(path)
    theirs = session.run(["logits"], {"input": images})[0]
    one = session.run(["logits"], {"input": images[:1]})[0]  # another batch size
    difference = max(numpy.abs(ours - theirs).max(), numpy.abs(ours[:1] - one).max())
    same = int((ours.argmax(1) == theirs.argmax(1)).sum())
    size = numpy.abs(theirs).max()
    bar = (theirs.max() - theirs.min()) / 255 if name.endswith("int8") else BAR
    winners = len(set(theirs.argmax(1).tolist()))
    print(f"{name}: logits up to {size:.3g} differ by {difference:.2g} at most; the same top 1 on "
          f"{same} of {samples} images, of {winners} classes")
    if not (difference <= bar and same == samples and 0.1 < size < 100 and winners > 1):
        sys.exit(f"{name}: the bar is {bar:.2g} and the same top 1 on every image")


def main():
    for name in NETWORKS:
        with tempfile.TemporaryDirectory() as folder:
            check(name, sys.argv[1], folder)
    print("passed")


main()

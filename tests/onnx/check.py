#!/usr/bin/env python3
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""check.py PROGRAM: the ONNX files that PROGRAM (export.cpp) writes pass onnx.checker, have
torchvision's names, and give PROGRAM's logits in onnxruntime, for any number of images: those of
quantized networks within SIMULATED steps of the file's last QuantizeLinear, and integer_network's
within INTEGERS steps. In files of integer networks onnxruntime's logits are equal to theirs
(integer_form.py). Prints "skipped: ..." where Python lacks a module."""
import os
import subprocess
import sys
import tempfile

try:
    import numpy
    import onnx
    import onnxruntime  # noqa: F401, of runtime_session
except ImportError as e:
    print(f"skipped: {e}: pip install onnx onnxruntime numpy")
    sys.exit(0)

from integer_form import check_integers
from runtime_session import session_of

BAR = 1e-4  # of the largest difference between logits, which are of size 1
# Steps by which a logit may differ, on these few images: 0.34 and 0.41 were seen. Of many images
# some differ by more than a step (fashion_mnist.py).
SIMULATED, INTEGERS = 1, 2
MEAN = numpy.array([0.485, 0.456, 0.406], numpy.float32).reshape(3, 1, 1)
DEVIATION = numpy.array([0.229, 0.224, 0.225], numpy.float32).reshape(3, 1, 1)
NETWORKS = {"resnet20": (32, 256, 10), "resnet18": (224, 6, 1000), "resnet50": (224, 6, 1000),
            "resnet20_int8": (32, 256, 10), "resnet18_int8": (64, 128, 10),
            "resnet20_4bit": (32, 256, 10), "resnet20_2bit": (32, 256, 10),
            "resnet50_int8": (64, 64, 10)}
BITS = {"int8": 8, "4bit": 4, "2bit": 2}


def generated_images(samples, side):
    """Waves with noise, of other colors and directions for each of ten classes."""
    random = numpy.random.default_rng(7)
    y, x = numpy.mgrid[0:side, 0:side] / side
    waves = random.uniform(-12, 12, (10, 3, 2, 1, 1))
    phases = random.uniform(0, 6.28, (10, 3, 1, 1))
    images = 127 + 60 * numpy.sin(waves[:, :, 0] * x + waves[:, :, 1] * y + phases)
    images = images[numpy.arange(samples) % 10]
    return numpy.clip(images + random.normal(0, 40, images.shape), 0, 255).astype(numpy.uint8)


def last_step(model):
    """The step of the last QuantizeLinear of a file: nothing behind it is rounded."""
    scale = [n.input[1] for n in model.graph.node if n.op_type == "QuantizeLinear"][-1]
    return float(next(onnx.numpy_helper.to_array(t) for t in model.graph.initializer
                      if t.name == scale))


def integer_operators(path):
    """The convolutions and products in integers that onnxruntime makes of QuantizeLinear and
    DequantizeLinear on this processor. With AVX2 alone it clips their sums to 16 bits. With a batch
    norm in float behind each convolution there are none: all products are in float."""
    session_of(path, path + ".optimized")
    operators = {n.op_type for n in onnx.load(path + ".optimized").graph.node}
    return sorted(operators & {"QLinearConv", "ConvInteger", "QGemm", "MatMulInteger",
                               "DynamicQuantizeMatMul", "QLinearMatMul", "MatMulIntegerToFloat"})


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

    bits = BITS.get(name.partition("_")[2])
    weights = next(t for t in model.graph.initializer if t.name == "layer1.0.conv1.weight")
    if weights.data_type != (onnx.TensorProto.INT8 if bits else onnx.TensorProto.FLOAT):
        sys.exit(f"{name}: weights are of type {weights.data_type}")
    if bits:
        largest = int(numpy.abs(onnx.numpy_helper.to_array(weights).astype(int)).max())
        if largest != 2 ** (bits - 1) - 1:
            sys.exit(f"{name}: the largest weight is {largest}")

    read = lambda file, kind=numpy.float32: numpy.fromfile(os.path.join(folder, file), kind)
    ours = read("logits").reshape(samples, classes)
    images = (pixels.astype(numpy.float32) / 255 - MEAN) / DEVIATION
    session = session_of(path)
    theirs = session.run(["logits"], {"input": images})[0]
    one = session.run(["logits"], {"input": images[:1]})[0]  # another batch size
    difference = max(numpy.abs(ours - theirs).max(), numpy.abs(ours[:1] - one).max())
    same = int((ours.argmax(1) == theirs.argmax(1)).sum())
    size = numpy.abs(theirs).max()
    step = last_step(model) if bits else None
    bar = SIMULATED * step if bits else BAR
    winners = len(set(theirs.argmax(1).tolist()))
    print(f"{name}: logits up to {size:.3g} differ by {difference:.2g} at most; the same top 1 on "
          f"{same} of {samples} images, of {winners} classes")
    if bits:
        logit_step = float.fromhex(open(os.path.join(folder, "step")).read())
        integers = read("integers", numpy.int32).reshape(samples, classes) * logit_step
        of_integers = numpy.abs(integers - theirs).max() / step
        print(f"{name}: that is {difference / step:.3f} steps of the last QuantizeLinear, "
              f"{of_integers:.3f} on integers, the same top 1 on "
              f"{int((integers.argmax(1) == theirs.argmax(1)).sum())}")
        if integer_operators(path):
            sys.exit(f"{name}: onnxruntime has {integer_operators(path)}, whose sums it may clip")
        if not of_integers <= INTEGERS:
            sys.exit(f"{name}: the bar is {INTEGERS} steps for integer_network")
        if errors := check_integers(folder, pixels):
            sys.exit("\n".join(f"{name}: {e}" for e in errors))
    if not (difference <= bar and same == samples and 0.1 < size < 100 and winners > 1):
        sys.exit(f"{name}: the bar is {bar:.2g} and the same top 1 on every image")


def main():
    for name in NETWORKS:
        with tempfile.TemporaryDirectory() as folder:
            check(name, sys.argv[1], folder)
    print("passed")


if __name__ == "__main__":
    main()

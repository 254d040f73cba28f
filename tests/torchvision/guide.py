#!/usr/bin/env python3
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""guide.py PROGRAM PAGE README: runs the Python blocks of docs/python.md in order, and README's, in a folder with the
files that they read, and compares the logits with PROGRAM's (guide.cpp). Prints "skipped: ..." where Python lacks a module."""
import os
import re
import subprocess
import sys
import tempfile

try:
    import numpy
    import torch
    import torchvision
    from PIL import Image
    from safetensors.torch import save_file
except ImportError as e:
    print(f"skipped: {e}: pip install -r benchmarks/requirements_torchvision.txt")
    sys.exit(0)


def main():
    program, page, readme = map(os.path.abspath, sys.argv[1:4])
    with open(page) as file:
        text = file.read()
    with open(readme) as file:
        short = re.search(r"^```python\n(.*?)^```", file.read(), re.M | re.S)[1]
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    call = re.search(r"^```cpp\n(.*?)^```", text, re.M | re.S)[1]
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "guide.cpp")) as file:
        if "".join(call.split()) not in "".join(file.read().split()):
            sys.exit("the call of save in docs/python.md is not that of guide.cpp")
    torch.manual_seed(1)
    torch.set_num_threads(2)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        pixels = numpy.random.default_rng(7).integers(0, 256, (3, 32, 32), dtype=numpy.uint8)
        pixels.tofile("image.bytes")
        Image.fromarray(pixels.transpose(1, 2, 0)).save("image.png")
        theirs = torchvision.models.resnet50(num_classes=10).state_dict()
        save_file({n: x for n, x in theirs.items() if "num_batches" not in n}, "resnet50.safetensors")
        subprocess.run([program, "write"], check=True)
        ours = numpy.fromfile("logits", dtype=numpy.float32)

        names = {}
        exec(compile(short, readme, "exec"), names)
        for block in blocks[:-1]:
            exec(compile(block, page, "exec"), names)
        logits = names["logits"].numpy().ravel()
        difference = numpy.abs(logits - ours).max()
        print(f"logits {ours} differ by {difference:.2g}; class {names['name']}")
        # Sums of at most 576 terms in 20 layers, each rounded: 1e-4 is far above, and far below a wrong shortcut.
        if not difference <= 1e-4 * numpy.abs(ours).max() or numpy.ptp(ours) < 1e-2:
            sys.exit("docs/python.md gives other logits")
        if names["name"] != ["cat", "dog", "ship"][int(ours.argmax())]:
            sys.exit("docs/python.md names another class")

        torch.save(names["net"].state_dict(), "model.pth")
        exec(compile(blocks[-1], page, "exec"), names)
        subprocess.run([program, "read"], check=True)
        if numpy.fromfile("logits", dtype=numpy.float32).tobytes() != ours.tobytes():
            sys.exit("the converted weights have other logits")
        os.chdir("/")
    print("passed")


main()

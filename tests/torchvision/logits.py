#!/usr/bin/env python3
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""logits.py PROGRAM: torchvision's ResNet-18 and -50 have the logits of PROGRAM (logits.cpp) with the
same weights, from torchvision to us in fp32, fp16 and bf16, and from us to torchvision. Weights and
running statistics are random. Prints "skipped: ..." where Python lacks a module."""
import os
import subprocess
import sys
import tempfile

try:
    import numpy
    import torch
    import torchvision
    from safetensors.torch import load_file, save_file
except ImportError as e:
    print(f"skipped: {e}: pip install -r benchmarks/requirements_torchvision.txt")
    sys.exit(0)

BAR = 1e-4  # of the largest difference between logits, which are of size 1
SAMPLES = 2


def random_network(depth, images):
    """Random parameters, and statistics near those of the images, so that logits are of size 1."""
    torch.manual_seed(depth)
    net = getattr(torchvision.models, f"resnet{depth}")(weights=None)
    with torch.no_grad():
        for module in net.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.weight.uniform_(0.5, 1.5)
                module.bias.normal_(0, 0.2)
                module.momentum = 1.0
        net.fc.bias.normal_(0, 0.2)
        net.train()
        net(images)
        for module in net.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.running_mean += 0.1 * torch.randn_like(module.running_mean)
                module.running_var *= torch.empty_like(module.running_var).uniform_(0.5, 2)
    return net.eval()


def check(what, ours_path, theirs):
    ours = numpy.fromfile(ours_path, dtype=numpy.float32).reshape(SAMPLES, 1000)
    theirs = theirs.numpy()
    difference, size = numpy.abs(ours - theirs).max(), numpy.abs(theirs).max()
    print(f"{what}: logits up to {size:.3g} differ by {difference:.2g} at most")
    if not (difference <= BAR and 0.1 < size < 100 and theirs.std(axis=1).min() > 0.01):
        sys.exit(f"{what}: the bar is {BAR}")



def main():
    program = sys.argv[1]
    torch.set_num_threads(min(4, os.cpu_count() or 1))
    pixels = torch.from_numpy(
        numpy.random.default_rng(7).integers(0, 256, (SAMPLES, 3, 224, 224), dtype=numpy.uint8))
    mean = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
    deviation = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
    images = (pixels.float() / 255 - mean) / deviation
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        path = lambda name: os.path.join(folder, name)
        pixels.numpy().tofile(path("images"))
        for depth in (18, 50):
            net = random_network(depth, images)
            names = set(net.state_dict())
            for kind in (torch.float32, torch.float16, torch.bfloat16):
                state = {name: (x.to(kind) if x.is_floating_point() else x).clone()
                         for name, x in net.state_dict().items()}
                save_file(state, path("theirs"))
                command = [program, str(depth), path("theirs"), path("images"), path("logits")]
                if kind == torch.float32:
                    command += [path("ours"), path("other_logits")]
                subprocess.run(command, check=True)
                rounded = getattr(torchvision.models, f"resnet{depth}")(weights=None)
                rounded.load_state_dict(state)
                check(f"torchvision's resnet{depth} in {kind}, in our network", path("logits"),
                      rounded.eval()(images))
            state = load_file(path("ours"))
            missing = {name for name in names - set(state)
                       if not name.endswith("num_batches_tracked")}
            if missing or set(state) - names:
                sys.exit(f"names differ: {sorted(missing)}, {sorted(set(state) - names)}")
            theirs = getattr(torchvision.models, f"resnet{depth}")(weights=None)
            theirs.load_state_dict(state, strict=True)  # counters that are absent become 0
            check(f"our resnet{depth} in torchvision", path("other_logits"),
                  theirs.eval()(images))
    print("passed")


main()

# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# PyTorch's ResNet-50 on the random images of examples/imagenet_shape.cu: fp16 by autocast with a loss
# scaler, channels_last, cudnn.benchmark, eager or compiled. Prints images per second of the fastest
# step.
import argparse
import time

import torch
import torchvision

options = argparse.ArgumentParser(description=__doc__)
options.add_argument("--batch", type=int, default=256)
options.add_argument("--mode", choices=("eager", "compile"), default="eager")
options.add_argument("--warm", type=int, default=5)
options.add_argument("--steps", type=int, default=20)
o = options.parse_args()

torch.backends.cudnn.benchmark = True
net = torchvision.models.resnet50().cuda().to(memory_format=torch.channels_last)
run = torch.compile(net) if o.mode == "compile" else net
images = torch.randn(o.batch, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
labels = torch.randint(1000, (o.batch,), device="cuda")
rule = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, fused=True)
scaler = torch.amp.GradScaler("cuda")
least = float("inf")
for k in range(o.warm + o.steps):
    torch.cuda.synchronize()
    begin = time.perf_counter()
    rule.zero_grad(set_to_none=True)
    with torch.autocast("cuda", dtype=torch.float16):
        loss = torch.nn.functional.cross_entropy(run(images), labels)
    scaler.scale(loss).backward()
    scaler.step(rule)
    scaler.update()
    torch.cuda.synchronize()
    if k >= o.warm:
        least = min(least, time.perf_counter() - begin)
print(f"{o.batch / least:.1f} images/s, of the quickest of {o.steps} steps")

#!/usr/bin/env python3
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""network_steps.py PROGRAM: the networks of examples/libtorch/networks beside torchvision's, and Network
in Network beside the one below. With the same weights and images PROGRAM (network_steps.cpp) has the
same logits, and the same ones after one update by SGD: on one rank with dropout and stochastic depth,
on two ranks, which share the batch, without. Weights pass through files both ways, with all names.
Prints "skipped: ..." where Python lacks a module."""
import copy
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

SAMPLES, WEIGHT_DECAY = 4, 0.1
# In float; in double it is 0.01. There a change of the images' last bits, as between versions of PyTorch,
# moves GoogLeNet's logits in float by 1e-3, because units of ReLU change sides.
LEARNING_RATES = {"alexnet": 1e-4, "network_in_network": 1e-4, "googlenet": 1e-4,
                  "efficientnet_b0": 1e-2}


class NetworkInNetwork(torch.nn.Module):
    """Caffe's nin_imagenet (train_val.prototxt of "NIN-Imagenet" in its model zoo)."""

    def __init__(self, dropout):
        super().__init__()
        conv, pool = torch.nn.Conv2d, lambda: torch.nn.MaxPool2d(3, 2, ceil_mode=True)
        layers = {"conv1": conv(3, 96, 11, 4), "cccp1": conv(96, 96, 1), "cccp2": conv(96, 96, 1),
                  "pool0": pool(),
                  "conv2": conv(96, 256, 5, padding=2), "cccp3": conv(256, 256, 1),
                  "cccp4": conv(256, 256, 1), "pool2": pool(),
                  "conv3": conv(256, 384, 3, padding=1), "cccp5": conv(384, 384, 1),
                  "cccp6": conv(384, 384, 1), "pool3": pool(), "drop": torch.nn.Dropout(dropout),
                  "conv4-1024": conv(384, 1024, 3, padding=1), "cccp7-1024": conv(1024, 1024, 1),
                  "cccp8-1024": conv(1024, 1000, 1), "pool4": torch.nn.AvgPool2d(6, 1)}
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, x):
        for layer in self.children():
            x = layer(x)
            if isinstance(layer, torch.nn.Conv2d):
                x = torch.relu(x)
        return torch.flatten(x, 1)


def network_of(name, dropout):
    models = torchvision.models
    if name == "alexnet":
        return models.alexnet(dropout=0.5 if dropout else 0)
    if name == "googlenet":
        return models.googlenet(aux_logits=True, transform_input=True, init_weights=False,
                                dropout=0.2 if dropout else 0, dropout_aux=0.7 if dropout else 0)
    if name == "efficientnet_b0":
        return models.efficientnet_b0(dropout=0.2 if dropout else 0,
                                      stochastic_depth_prob=0.2 if dropout else 0)
    return NetworkInNetwork(0.5 if dropout else 0)


def set_random_weights(net, images):
    """Random parameters, and statistics near those of the images, so that logits are of size 1."""
    norms = [m for m in net.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    layers = [m for m in net.modules() if isinstance(m, (torch.nn.Conv2d, torch.nn.Linear))]
    with torch.no_grad():
        for layer in layers:
            torch.nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            if layer.bias is not None:
                layer.bias.normal_(0, 0.2)
        for norm in norms:
            norm.weight.uniform_(0.5, 1.5)
            norm.bias.normal_(0, 0.2)
            norm.momentum = 1.0
        net.train()
        net(images)
        for norm in norms:
            norm.momentum = 0.1
            norm.running_mean += 0.1 * torch.randn_like(norm.running_mean)
            norm.running_var *= torch.empty_like(norm.running_var).uniform_(0.5, 2)
            norm.num_batches_tracked.fill_(7)
        size = logits_of(net, images).abs().max()
        for layer in layers:
            if layer.weight.shape[0] == 1000:
                layer.weight /= size


def loss_of(net, images, labels):
    torch.manual_seed(5)  # the masks of dropout, as in network_steps.cpp
    out, entropy = net(images), torch.nn.functional.cross_entropy
    if isinstance(out, torch.Tensor):
        return entropy(out, labels)
    return (entropy(out.logits, labels) + 0.3 * entropy(out.aux_logits1, labels)
            + 0.3 * entropy(out.aux_logits2, labels))


def step(net, ranks, images, labels, learning_rate):
    """One update of SGD with the mean of the ranks' gradients; batch norm's statistics are the mean."""
    nets = [net] + [copy.deepcopy(net) for _ in range(ranks - 1)]
    for own, x, y in zip(nets, images.chunk(ranks), labels.chunk(ranks)):
        own.train()
        (loss_of(own, x, y) / ranks).backward()
    with torch.no_grad():
        for p, *others in zip(*(own.parameters() for own in nets)):
            for other in others:
                p.grad += other.grad
        for b, *others in zip(*(own.buffers() for own in nets)):
            if b.is_floating_point():
                b.copy_(torch.stack([b, *others]).mean(0))
    decayed = [p for p in net.parameters() if p.dim() > 1]
    others = [p for p in net.parameters() if p.dim() == 1]  # biases, and batch norm's
    torch.optim.SGD([{"params": decayed, "weight_decay": WEIGHT_DECAY}, {"params": others}],
                    lr=learning_rate, momentum=0.9).step()


def logits_of(net, images):
    with torch.no_grad():
        return net.eval()(images)


def check(program, name, ranks, dropout, kind):
    what = (f"{name}, {'double' if kind == torch.float64 else 'float'}, {ranks} rank{'s'[ranks < 2:]}, "
            f"{'with' if dropout else 'without'} dropout")
    rate, limit = (1e-2, 1e-8) if kind == torch.float64 else (LEARNING_RATES[name], 1e-4)
    torch.manual_seed(len(name) + ranks)
    images = torch.randn(SAMPLES, 3, 224, 224).to(kind)
    labels = torch.randint(0, 1000, (SAMPLES,))
    net = network_of(name, dropout).to(kind)
    set_random_weights(net, images)
    with tempfile.TemporaryDirectory() as folder:
        path = lambda file: os.path.join(folder, file)
        save_file({n: x.clone() for n, x in net.state_dict().items()}, path("weights.safetensors"))
        images.numpy().tofile(path("images"))
        labels.numpy().tofile(path("labels"))
        command = [program, name, "double" if kind == torch.float64 else "float", folder, str(ranks),
                   str(int(dropout)), str(rate)]
        printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        count = sum(p.numel() for p in net.parameters())
        before = logits_of(net, images)
        still = copy.deepcopy(net)  # what moves without a gradient
        step(still, ranks, images, labels, 0)
        step(net, ranks, images, labels, rate)
        after = logits_of(net, images)
        theirs = network_of(name, dropout).to(kind)
        theirs.load_state_dict(load_file(path("after.safetensors")), strict=True)
        ours = {file: torch.from_numpy(numpy.fromfile(path(file), dtype=before.numpy().dtype))
                for file in ("before", "after")}
    difference = lambda x, y: (x.reshape(y.shape) - y).abs().max().item()
    differences = [difference(ours["before"], before), difference(ours["after"], after),
                   difference(logits_of(theirs, images), after)]
    size, change = before.abs().max().item(), difference(after, logits_of(still, images))
    print(f"{what}: {printed}; logits up to {size:.2g}, changed by {change:.2g}; differences before "
          "{:.1e}, after {:.1e}, with our weights in torchvision {:.1e}".format(*differences),
          flush=True)
    if not printed.startswith(f"{count} parameters,"):
        sys.exit(f"torchvision's has {count} parameters")
    if not (max(differences) <= limit and 0.1 < size < 10 and change > 50 * limit):
        sys.exit(f"the limit is {limit}, of logits of size 1 that the update changes")


def main():
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, torchvision {torchvision.__version__}")
    for name in sys.argv[2:] or LEARNING_RATES:
        check(sys.argv[1], name, 1, True, torch.float32)
        check(sys.argv[1], name, 2, False, torch.float32)
        check(sys.argv[1], name, 2, False, torch.float64)
    print("passed")


main()

#!/usr/bin/env python3
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""The loader of bench_input in torchvision, for benchmarks/input.sh: lines of `name seconds`.

A DataLoader of worker processes on a folder of photographs: decode_image, then transforms v2 on uint8
tensors, RandomResizedCrop(224, antialias=True) and RandomHorizontalFlip. Seconds per image, minima over
epochs after one for warm-up; `.cpu` is the processor time of all processes. With --make FOLDER it
writes photographs of ImageNet's usual size instead: each is continued by its mirror images to
WIDTH x HEIGHT, so that there are as many details per pixel as in the original.
"""
import argparse
import os
import sys
import time

try:
    import torch
    from torchvision.io import decode_image, read_file
    from torchvision.transforms import v2
except ImportError as reason:
    sys.exit(f"skipped: {reason}: pip install -r benchmarks/requirements_torchvision.txt")


def image_files(folder):
    """Paths and labels, as torchvision's ImageFolder lists them."""
    classes = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
    return [(os.path.join(folder, name, file), label)
            for label, name in enumerate(classes)
            for file in sorted(os.listdir(os.path.join(folder, name)))
            if file.lower().endswith((".jpg", ".jpeg", ".png"))]


class Photographs(torch.utils.data.Dataset):
    def __init__(self, folder):
        self.files = image_files(folder)
        self.transform = v2.Compose([v2.RandomResizedCrop(224, antialias=True),
                                     v2.RandomHorizontalFlip()])

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        path, label = self.files[i]
        return self.transform(decode_image(read_file(path), mode="RGB")), label


def processor_seconds(pids):
    ticks = os.sysconf("SC_CLK_TCK")
    total = time.process_time()
    for pid in pids:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        total += (int(fields[11]) + int(fields[12])) / ticks
    return total


def make(folder, out, width, height, quality):
    import numpy
    from PIL import Image
    size = 0
    for path, _ in image_files(folder):
        pixels = numpy.asarray(Image.open(path).convert("RGB"))
        while pixels.shape[0] < height or pixels.shape[1] < width:
            grow = [min(max(want - have, 0), have)
                    for want, have in zip((height, width), pixels.shape)]
            pixels = numpy.pad(pixels, ((0, grow[0]), (0, grow[1]), (0, 0)), mode="symmetric")
        target = os.path.join(out, os.path.relpath(path, folder))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        Image.fromarray(pixels[:height, :width]).save(target, quality=quality)
        size += os.path.getsize(target)
    count = len(image_files(out))
    print(f"{count} photographs of {width} x {height}, {size / count / 1000:.1f} kB each",
          file=sys.stderr)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--make")
    parser.add_argument("--size", type=int, nargs=2, default=(500, 375))
    parser.add_argument("--quality", type=int, default=92)
    options = parser.parse_args()
    if options.make:
        make(options.folder, options.make, *options.size, options.quality)
        return
    torch.set_num_threads(1)
    loader = torch.utils.data.DataLoader(
        Photographs(options.folder), batch_size=options.batch, shuffle=True, drop_last=True,
        num_workers=options.threads, persistent_workers=True)
    for _ in loader:
        pass
    pids = [worker.pid for worker in loader._iterator._workers]
    wall = processor = float("inf")
    for _ in range(options.epochs):
        count = 0
        wall_begin, processor_begin = time.perf_counter(), processor_seconds(pids)
        for pixels, _ in loader:
            count += len(pixels)
        wall = min(wall, (time.perf_counter() - wall_begin) / count)
        processor = min(processor, (processor_seconds(pids) - processor_begin) / count)
    print(f"torchvision {wall:.9f}\ntorchvision.cpu {processor:.9f}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/support/torchvision_goldens.hpp: what torchvision (v2, uint8 tensors) and Pillow make of noise.

    tests/support/torchvision_goldens.py >tests/support/torchvision_goldens.hpp

The noise is that of support::noise. Results of one parameter set each are given whole, as hexadecimal; those of
all parameters of an augmentation as FNV-1a hashes of (channel, row, column) bytes.
"""
import numpy
import torch
import torchvision
from PIL import Image
from torchvision.transforms import v2
import torchvision.transforms.v2.functional as F


def noise(width, height, channels=3):
    """(channels, height, width), of interleaved pixels."""
    state, values = 1, []
    for _ in range(width * height * channels):
        state = (state * 1664525 + 1013904223) % 2**32
        values.append(state >> 24)
    pixels = torch.tensor(values, dtype=torch.uint8)
    return pixels.reshape(height, width, channels).permute(2, 0, 1)


def hexadecimal(pixels):
    return bytes(pixels.contiguous().numpy().tobytes()).hex()


def fnv(pixels):
    h = 0xcbf29ce484222325
    for byte in pixels.contiguous().numpy().tobytes():
        h = (h ^ byte) * 0x100000001b3 % 2**64
    return f"0x{h:016x}u"


def lines(text, width=92):
    return "\n".join(f'     "{text[i:i + width]}"' for i in range(0, len(text), width))


def resized(source, box, size, window):
    left, top, width, height = box
    image = F.crop(noise(*source), top, left, height, width)
    tensor = F.resize(image, [size[1], size[0]], antialias=True)
    pillow = torch.from_numpy(numpy.array(Image.fromarray(image.permute(1, 2, 0).numpy()).resize(
        size, Image.BILINEAR))).permute(2, 0, 1)
    left, top, width, height = window
    cut = [F.crop(t, top, left, height, width) for t in (tensor, pillow)]
    print(f"    {{{{{source[0]}, {source[1]}}},\n     {{{', '.join(map(str, box))}}},\n"
          f"     {{{size[0]}, {size[1]}}},\n     {{{', '.join(map(str, window))}}},")
    print(lines(hexadecimal(cut[0])) + ",\n" + lines(hexadecimal(cut[1])) + "},")


def evaluation(source, resize, crop):
    image = v2.Compose([v2.Resize(resize, antialias=True), v2.CenterCrop(crop)])(noise(*source))
    print(f"    {{{{{source[0]}, {source[1]}}},\n     {resize},\n     {crop},")
    print(lines(hexadecimal(image)) + "},")


def central_crop(width, height):
    """RandomResizedCrop's fallback: no draw of this scale lies in the image."""
    transform = v2.RandomResizedCrop(8, scale=(4, 5))
    made = transform.make_params([noise(width, height)])
    print(f"    {{{{{width}, {height}}}, {{{made['left']}, {made['top']}, {made['width']}, {made['height']}}}}},")


def main():
    print(f"""// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Made by torchvision_goldens.py with torchvision {torchvision.__version__.split('+')[0]} and Pillow \
{Image.__version__}. Not to be edited.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include <cordee/images/region.hpp>

// clang-format off
namespace support {{

struct resized_golden {{
  cordee::image_size source;
  cordee::region box;
  cordee::image_size resized;
  cordee::region window;
  std::string_view torchvision, pillow;
}};
inline constexpr std::array resized_goldens{{""")
    print("    resized_golden", end="")
    cases = [((61, 47), (7, 5, 40, 31), (16, 16), (0, 0, 16, 16)),
             ((20, 15), (0, 0, 20, 15), (26, 25), (3, 2, 21, 19)),
             ((200, 9), (0, 0, 200, 9), (5, 7), (0, 0, 5, 7)),
             ((90, 120), (1, 2, 88, 117), (12, 10), (1, 1, 10, 9)),
             ((3, 2), (2, 1, 1, 1), (4, 3), (0, 0, 4, 3))]
    first = True
    for case in cases:
        if not first:
            print("    resized_golden", end="")
        first = False
        resized(*case)
    print("""};

struct evaluation_golden {
  cordee::image_size source;
  int resize, crop;
  std::string_view pixels;
};
inline constexpr std::array evaluation_goldens{""")
    for case in [((61, 47), 20, 14), ((31, 50), 13, 12), ((40, 40), 17, 8), ((57, 23), 23, 15)]:
        print("    evaluation_golden", end="")
        evaluation(*case)
    print("""};

struct central_golden {
  cordee::image_size source;
  cordee::region box;
};
inline constexpr std::array central_goldens{""")
    for size in [(100, 20), (20, 100), (100, 90), (33, 11), (11, 33), (1, 50), (50, 1), (90, 67), (67, 90)]:
        print("    central_golden", end="")
        central_crop(*size)
    print("""};

/// Of noise of 5 x 4 pixels, pad_crop_flip with padding 2:
/// [offset down + 2][offset right + 2][flipped].
inline constexpr std::uint64_t pad_crop_flip_goldens[5][5][2] = {""")
    image = noise(5, 4)
    padded = F.pad(image, [2, 2, 2, 2])
    for top in range(5):
        rows = []
        for left in range(5):
            cut = F.crop(padded, top, left, 4, 5)
            rows.append(f"{{{fnv(cut)}, {fnv(F.horizontal_flip(cut))}}}")
        print("    {" + ",\n     ".join(rows) + "},")
    print("""};
/// cutout of 3 pixels, filled with 7: [row of the center][column].
inline constexpr std::uint64_t cutout_goldens[4][5] = {""")
    for y in range(4):
        row = []
        for x in range(5):
            top, left = max(0, y - 1), max(0, x - 1)
            height, width = min(4, y + 2) - top, min(5, x + 2) - left
            fill = torch.full((3, height, width), 7, dtype=torch.uint8)
            row.append(fnv(F.erase(image, top, left, height, width, fill)))
        print("    {" + ",\n     ".join(row) + "},")
    print(f"""}};
inline constexpr std::uint64_t horizontal_flip_golden = {fnv(F.horizontal_flip(image))};

}}  // namespace support
// clang-format on""")


if __name__ == "__main__":
    main()

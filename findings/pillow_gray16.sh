#!/usr/bin/env bash
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Pillow's convert("L") and convert("RGB") clip a gray PNG of 16 bits at 255, so nearly all of a picture becomes white.
#
# Expected: gray of 16 bits becomes 8 bits by its upper byte, as 16-bit RGB does in the same library.
# Seen:     values above 255 become 255; RGB of 16 bits keeps the upper byte.
#
#   pillow 13.0.0, Python 3.11, 2026-11-28
#   of 16 bits    [0, 1, 200, 255, 256, 300, 4660, 32768, 65535]
#   gray, to L    [0, 1, 200, 255, 255, 255, 255, 255, 255]
#   gray, to RGB  [0, 1, 200, 255, 255, 255, 255, 255, 255]
#   RGB, to RGB   [0, 0, 0, 0, 1, 1, 18, 128, 255]
#
# Exits with 1 if the behavior is another one.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check 'pillow==13.0.0'
"$folder/venv/bin/python" - <<'PYTHON'
import io
import struct
import sys
import zlib

import PIL
from PIL import Image

values = [0, 1, 200, 255, 256, 300, 4660, 32768, 65535]


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(color_type, channels):
    row = b"\0" + b"".join(struct.pack(">H", v) * channels for v in values)
    header = struct.pack(">IIBBBBB", len(values), 1, 16, color_type, 0, 0, 0)
    return Image.open(io.BytesIO(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
                                 + chunk(b"IDAT", zlib.compress(row)) + chunk(b"IEND", b"")))


def first_channel(image):
    data = image.tobytes()
    return list(data[::len(data) // len(values)])


gray, rgb = png(0, 1), png(2, 3)
seen = {"gray, to L": first_channel(gray.convert("L")), "gray, to RGB": first_channel(gray.convert("RGB")),
        "RGB, to RGB": first_channel(rgb.convert("RGB"))}
print("pillow", PIL.__version__, "Python", sys.version.split()[0])
print("of 16 bits   ", values)
for name, channel in seen.items():
    print(f"{name:13}", channel)
clipped = [min(v, 255) for v in values]
upper = [v >> 8 for v in values]
sys.exit(0 if list(seen.values()) == [clipped, clipped, upper] else 1)
PYTHON

// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Images of smooth colors and noise, encoded as JPEG and PNG of every kind, and their whole decode
// by the plain calls of libjpeg.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <jpeglib.h>
#include <png.h>

#include <cordee/images/region.hpp>

#include "tests/support/folder.hpp"

namespace support {

/// What is added to the channels of a picture.
using tint = std::array<double, 4>;

/// (height, width, channels): waves, an edge and some noise, so that all coefficients occur.
inline file_bytes picture(int width, int height, int channels = 3, unsigned seed = 1,
                          const tint& added = {}) {
  file_bytes out;
  unsigned noise = seed * 2654435761u + 12345u;
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < channels; ++c) {
        noise = noise * 1664525u + 1013904223u;
        const double wave = 80 * std::sin(0.13 * x + 0.05 * c * y) + 40 * std::cos(0.3 * y + c);
        const double value = 128 + wave + ((x + 2 * y) % 29 < 9 ? 30 : 0) + (noise >> 28) - 8.0 +
                             added[static_cast<std::size_t>(c)];
        out.push_back(static_cast<std::uint8_t>(std::min(255.0, std::max(0.0, value))));
      }
  return out;
}

struct jpeg_kind {
  const char* name;
  int channels = 3;               // 1 gray, 3 YCbCr, 4 CMYK
  std::array<int, 2> luma{1, 1};  // sampling factors, horizontal and vertical
  std::array<int, 2> chroma{1, 1};
  bool progressive = false, arithmetic = false, rgb = false;
  unsigned restart = 0;  // MCUs between markers
  int quality = 80;
  bool ycck = false;  // of 4 channels
};

inline file_bytes encode_jpeg(const jpeg_kind& k, int width, int height, unsigned seed = 1,
                              const tint& added = {}) {
  const file_bytes pixels = picture(width, height, k.channels, seed, added);
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* data = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &data, &size);
  jpeg.image_width = static_cast<JDIMENSION>(width);
  jpeg.image_height = static_cast<JDIMENSION>(height);
  jpeg.input_components = k.channels;
  jpeg.in_color_space = k.channels == 1 ? JCS_GRAYSCALE : k.channels == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&jpeg);
  if (k.rgb) jpeg_set_colorspace(&jpeg, JCS_RGB);
  if (k.ycck) jpeg_set_colorspace(&jpeg, JCS_YCCK);
  jpeg_set_quality(&jpeg, k.quality, TRUE);
  for (int c = 0; c < jpeg.num_components; ++c) {
    jpeg.comp_info[c].h_samp_factor = c == 0 ? k.luma[0] : k.chroma[0];
    jpeg.comp_info[c].v_samp_factor = c == 0 ? k.luma[1] : k.chroma[1];
  }
  jpeg.arith_code = k.arithmetic ? TRUE : FALSE;
  jpeg.restart_interval = k.restart;
  if (k.progressive) jpeg_simple_progression(&jpeg);
  jpeg_start_compress(&jpeg, TRUE);
  const std::size_t stride = static_cast<std::size_t>(width) * static_cast<std::size_t>(k.channels);
  for (std::size_t y = 0; y < static_cast<std::size_t>(height); ++y) {
    JSAMPROW row = const_cast<JSAMPROW>(pixels.data() + y * stride);
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  const file_bytes out(data, data + size);
  jpeg_destroy_compress(&jpeg);
  std::free(data);
  return out;
}

/// CMYK of Adobe's inverted values as Pillow's convert("RGB").
inline void append_rgb_of_cmyk(const std::uint8_t* row, std::size_t width, file_bytes& rgb) {
  for (std::size_t x = 0; x < width; ++x)
    for (std::size_t c = 0; c < 3; ++c)
      rgb.push_back(
          static_cast<std::uint8_t>(std::lround(row[4 * x + c] * row[4 * x + 3] / 255.0)));
}

/// Width and height of the decode, and RGB.
struct decoded {
  cordee::image_size size;
  file_bytes rgb;
};

/// All of a valid JPEG reduced by 1/scale.
inline decoded decode_whole(const file_bytes& file, int scale = 1) {
  jpeg_decompress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&jpeg);
  jpeg_mem_src(&jpeg, file.data(), static_cast<unsigned long>(file.size()));
  jpeg_read_header(&jpeg, TRUE);
  const bool cmyk = jpeg.num_components == 4;
  jpeg.out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
  jpeg.scale_num = 1;
  jpeg.scale_denom = static_cast<unsigned>(scale);
  jpeg.do_block_smoothing = FALSE;  // as images/jpeg.hpp, for progressive images without all bits
  jpeg_start_decompress(&jpeg);
  decoded out{{static_cast<int>(jpeg.output_width), static_cast<int>(jpeg.output_height)}, {}};
  file_bytes row((cmyk ? std::size_t{4} : 3) * jpeg.output_width);
  while (jpeg.output_scanline < jpeg.output_height) {
    JSAMPROW pointer = row.data();
    jpeg_read_scanlines(&jpeg, &pointer, 1);
    if (cmyk)
      append_rgb_of_cmyk(row.data(), jpeg.output_width, out.rgb);
    else
      out.rgb.insert(out.rgb.end(), row.begin(), row.end());
  }
  jpeg_finish_decompress(&jpeg);
  jpeg_destroy_decompress(&jpeg);
  return out;
}

inline file_bytes crop(const decoded& whole, const cordee::region& r) {
  file_bytes out;
  for (int y = 0; y < r.height; ++y) {
    const auto begin =
        whole.rgb.begin() + 3 * (std::ptrdiff_t{r.top + y} * whole.size.width + r.left);
    out.insert(out.end(), begin, begin + 3 * std::ptrdiff_t{r.width});
  }
  return out;
}

struct png_kind {
  const char* name;
  int type = PNG_COLOR_TYPE_RGB;
  int depth = 8;
  bool interlaced = false, transparent = false;  // transparent: a tRNS chunk
};

inline int png_channels(int type) {
  return type == PNG_COLOR_TYPE_RGB          ? 3
         : type == PNG_COLOR_TYPE_RGBA       ? 4
         : type == PNG_COLOR_TYPE_GRAY_ALPHA ? 2
                                             : 1;
}

/// A color of the palette of 2^depth entries.
inline std::array<std::uint8_t, 3> palette_color(int index) {
  return {static_cast<std::uint8_t>(index * 7 + 3), static_cast<std::uint8_t>(255 - index),
          static_cast<std::uint8_t>(index * index)};
}

/// A sample of the encoded image, 0 .. 2^depth - 1.
inline unsigned png_sample(const png_kind& k, int x, int y, int c) {
  const unsigned value = static_cast<unsigned>(x * 977 + y * 3571 + c * 12007) * 40503u >> 7;
  return value & ((1u << k.depth) - 1);
}

/// What the image is in RGB of 8 bits.
inline std::array<std::uint8_t, 3> rgb_of(const png_kind& k, int x, int y) {
  const auto sample = [&](int c) {
    const unsigned s = png_sample(k, x, y, c);
    return static_cast<std::uint8_t>(k.depth == 16 ? s >> 8 : s * (255 / ((1u << k.depth) - 1)));
  };
  if (k.type == PNG_COLOR_TYPE_PALETTE)
    return palette_color(static_cast<int>(png_sample(k, x, y, 0)));
  if (png_channels(k.type) < 3) return {sample(0), sample(0), sample(0)};
  return {sample(0), sample(1), sample(2)};
}

inline file_bytes encode_png(const png_kind& k, int width, int height) {
  png_struct* png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_info* info = png_create_info_struct(png);
  file_bytes out;
  png_set_write_fn(
      png, &out,
      [](png_struct* p, png_byte* data, std::size_t n) {
        auto* const all = static_cast<file_bytes*>(png_get_io_ptr(p));
        all->insert(all->end(), data, data + n);
      },
      nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height),
               k.depth, k.type, k.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (k.type == PNG_COLOR_TYPE_PALETTE) {
    std::vector<::png_color> palette;
    for (int i = 0; i < 1 << k.depth; ++i) {
      const auto c = palette_color(i);
      palette.push_back({c[0], c[1], c[2]});
    }
    png_set_PLTE(png, info, palette.data(), static_cast<int>(palette.size()));
  }
  if (k.transparent) {
    png_byte alpha[] = {0, 100};
    png_color_16 color{};
    png_set_tRNS(png, info, alpha, k.type == PNG_COLOR_TYPE_PALETTE ? 2 : 0, &color);
  }
  png_text comment{};
  comment.compression = PNG_TEXT_COMPRESSION_zTXt;
  char key[] = "Comment", text[] = "a comment that the reader passes over";
  comment.key = key;
  comment.text = text;
  png_set_text(png, info, &comment, 1);
  png_write_info(png, info);
  const int channels = png_channels(k.type);
  std::vector<file_bytes> rows;
  for (int y = 0; y < height; ++y) {
    file_bytes row((static_cast<std::size_t>(width * channels * k.depth) + 7) / 8);
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < channels; ++c) {
        const unsigned s = png_sample(k, x, y, c);
        const auto at = static_cast<std::size_t>((x * channels + c) * k.depth);
        if (k.depth == 16) row[at / 8] = static_cast<std::uint8_t>(s >> 8);
        const std::size_t last = at / 8 + (k.depth == 16 ? 1 : 0);
        const unsigned shift = k.depth < 8 ? 8 - static_cast<unsigned>(k.depth) - at % 8 : 0;
        row[last] = static_cast<std::uint8_t>(row[last] | s << shift);
      }
    rows.push_back(std::move(row));
  }
  std::vector<png_byte*> pointers;
  for (file_bytes& row : rows) pointers.push_back(row.data());
  png_write_image(png, pointers.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return out;
}

}  // namespace support

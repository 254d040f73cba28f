// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Decodes regions of PNG images by libpng: gray, palettes, 16 bits and interlaced ones become RGB
// of 8 bits: transparency is dropped, of 16 bits the upper 8 remain. Pillow's
// convert("RGB") does the same except for gray of 16 bits, whose values above 255 it clips to 255.
//
// libpng reports errors by longjmp, which runs no destructors: see images/jpeg.hpp.
#pragma once

#include <algorithm>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>

#include <png.h>

#include <cordee/core/error.hpp>
#include <cordee/core/pod_vector.hpp>
#include <cordee/images/pass_limit.hpp>
#include <cordee/images/region.hpp>
#include <cordee/images/sample_error.hpp>

namespace cordee::inline CORDEE_ABI::detail::images {

inline constexpr std::size_t png_signature_size = 8;

/// Whether a file begins with PNG's signature.
inline bool is_png(std::span<const std::uint8_t> file) {
  constexpr std::uint8_t signature[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  return file.size() >= png_signature_size &&
         std::equal(signature, signature + png_signature_size, file.begin());
}

class png_reader {
 public:
  explicit png_reader(std::uint64_t most_pixels) : most_pixels_(most_pixels) {}

  image_size size(std::span<const std::uint8_t> file, const std::string& name) const {
    const auto refuse = [&](const char* reason) {
      throw sample_error(concat(name, ": damaged or unsupported PNG: ", reason));
    };
    if (!has_all_chunks(file)) refuse("it is truncated: fetch the file again");
    const std::uint8_t* const header = file.data() + png_signature_size;
    if (word(header) != 13 || std::memcmp(header + 4, "IHDR", 4) != 0)
      refuse("its first chunk is not a header");
    const std::uint32_t width = word(header + 8), height = word(header + 12);
    constexpr std::uint32_t longest = 1u << 20;
    if (width == 0 || height == 0 || width > longest || height > longest)
      refuse("a side is 0 or of more than 2^20 pixels");
    if (std::uint64_t{width} * height > most_pixels_)
      throw sample_error(concat(
          name,
          ": it has more pixels than the decoder's limit: shrink the file, or raise the limit"));
    if (is_interlaced(file) &&
        !passes_fit({static_cast<int>(width), static_cast<int>(height)}, 7, most_pixels_))
      throw sample_error(concat(name, ": ", too_many_passes));
    return {static_cast<int>(width), static_cast<int>(height)};
  }

  void decode(std::span<const std::uint8_t> file, const std::string& name, const region& r,
              detail::core::pod_vector<std::uint8_t>& rgb) {
    const image_size whole = size(file, name);
    expects(lies_in(r, whole), "decoder: the region is not in the image");
    const std::size_t row_bytes = 3 * static_cast<std::size_t>(whole.width);
    rgb.resize(3 * static_cast<std::size_t>(r.width) * static_cast<std::size_t>(r.height));
    // An interlaced image is complete after its last pass: then all of its rows are kept.
    rows_.resize(is_interlaced(file) ? row_bytes * static_cast<std::size_t>(whole.height)
                                     : row_bytes);
    source_ = file.subspan(png_signature_size);
    message_[0] = 0;
    png_struct* const png = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, fail, ignore);
    png_info* info = png != nullptr ? png_create_info_struct(png) : nullptr;
    const bool good = info != nullptr && decode_rows(png, info, r, whole, row_bytes, rgb.data());
    png_struct* owned = png;
    if (png != nullptr) png_destroy_read_struct(&owned, &info, nullptr);
    if (!good)
      throw sample_error(concat(name, ": damaged or unsupported PNG: ",
                                message_[0] != 0 ? message_ : "no memory for libpng"));
  }

 private:
  static std::uint32_t word(const std::uint8_t* p) {
    return std::uint32_t{p[0]} << 24 | std::uint32_t{p[1]} << 16 | std::uint32_t{p[2]} << 8 | p[3];
  }

  /// Requires a whole header.
  static bool is_interlaced(std::span<const std::uint8_t> file) {
    return file[png_signature_size + 20] != 0;
  }

  /// Whether chunks follow one another to the last, IEND: a truncated file is refused whichever
  /// region of it is requested. A chunk is length, name, data, checksum; IHDR has 25 bytes.
  static bool has_all_chunks(std::span<const std::uint8_t> file) {
    constexpr std::size_t frame = 12;
    if (file.size() < png_signature_size + 25) return false;
    for (std::size_t at = png_signature_size; file.size() - at >= frame;) {
      const std::size_t length = word(file.data() + at);
      if (length > file.size() - at - frame) return false;
      if (std::memcmp(file.data() + at + 4, "IEND", 4) == 0) return true;
      at += frame + length;
    }
    return false;
  }

  [[noreturn]] static void fail(png_struct* png, const char* message) {
    auto* const self = static_cast<png_reader*>(png_get_error_ptr(png));
    std::snprintf(self->message_, sizeof self->message_, "%s", message);
    std::longjmp(self->caller_, 1);
  }
  static void ignore(png_struct*, const char*) {}
  static void read_bytes(png_struct* png, png_byte* out, std::size_t n) {
    auto* const self = static_cast<png_reader*>(png_get_io_ptr(png));
    if (n > self->source_.size()) png_error(png, "it ends too early");
    std::memcpy(out, self->source_.data(), n);
    self->source_ = self->source_.subspan(n);
  }

  // Returns false after an error. Requires the memory of rgb and rows_.
  bool decode_rows(png_struct* png, png_info* info, const region& r, const image_size& whole,
                   std::size_t row_bytes, std::uint8_t* rgb) {
    if (setjmp(caller_) != 0) return false;
    read_rows(png, info, r, whole, row_bytes, rgb);
    return true;
  }

  // A function of its own, whose variables setjmp does not concern.
  [[gnu::noinline]] void read_rows(png_struct* png, png_info* info, const region& r,
                                   const image_size& whole, std::size_t row_bytes,
                                   std::uint8_t* rgb) {
    // Comments, color profiles and transparency are not even decompressed.
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_set_user_limits(png, 1u << 20, 1u << 20);
    png_set_read_fn(png, this, read_bytes);
    png_set_sig_bytes(png, static_cast<int>(png_signature_size));
    png_read_info(png, info);
    png_set_strip_16(png);
    png_set_expand(png);
    png_set_strip_alpha(png);
    png_set_gray_to_rgb(png);
    const int passes = png_set_interlace_handling(png);
    png_read_update_info(png, info);
    if (png_get_rowbytes(png, info) != row_bytes) png_error(png, "rows are not of its size");

    const std::size_t bytes = 3 * static_cast<std::size_t>(r.width);
    const std::size_t before = 3 * static_cast<std::size_t>(r.left);
    const auto row = [&](int y) {
      return rows_.data() + (passes > 1 ? row_bytes * static_cast<std::size_t>(y) : 0);
    };
    const auto copy = [&](int y) {
      if (y >= r.top && y < r.top + r.height)
        std::memcpy(rgb + bytes * static_cast<std::size_t>(y - r.top), row(y) + before, bytes);
    };
    for (int pass = 1; pass < passes; ++pass)
      for (int y = 0; y < whole.height; ++y) png_read_row(png, row(y), nullptr);
    const int last = passes > 1 ? whole.height : r.top + r.height;
    for (int y = 0; y < last; ++y) {
      png_read_row(png, row(y), nullptr);
      copy(y);
    }
  }

  std::uint64_t most_pixels_;
  std::span<const std::uint8_t> source_;  // not read yet
  std::jmp_buf caller_{};
  char message_[128] = {};
  detail::core::pod_vector<std::uint8_t> rows_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::images

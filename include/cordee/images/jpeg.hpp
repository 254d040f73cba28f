// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Decodes regions of JPEG images by libjpeg-turbo. CMYK and YCCK become RGB as by Pillow, which
// reads all of them as Adobe's programs write them, inverted: round(c k / 255) of the file's c and
// k.
//
// libjpeg reports errors by longjmp, which runs no destructors. So every function that calls
// setjmp calls the library alone, between functions of this class that own no objects; memory is
// made before, exceptions are thrown after.
#pragma once

#include <algorithm>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>

#include <jpeglib.h>
// libjpeg's numbers of messages.
#include <jerror.h>

#include <cordee/core/error.hpp>
#include <cordee/core/pod_vector.hpp>
#include <cordee/images/pass_limit.hpp>
#include <cordee/images/region.hpp>
#include <cordee/images/sample_error.hpp>

namespace cordee::inline CORDEE_ABI::detail::images {

/// Whether a file begins as a JPEG does: with the marker SOI and another.
inline bool is_jpeg(std::span<const std::uint8_t> file) {
  return file.size() >= 3 && file[0] == 0xff && file[1] == 0xd8 && file[2] == 0xff;
}

/// A decompressor; what it decodes does not depend on the images before.
class jpeg_reader {
 public:
  explicit jpeg_reader(std::uint64_t most_pixels) : most_pixels_(most_pixels) {
    jpeg_.err = jpeg_std_error(&errors_);
    jpeg_.client_data = this;
    errors_.error_exit = [](j_common_ptr jpeg) { give_up(jpeg); };
    errors_.emit_message = [](j_common_ptr jpeg, int level) {
      if (level < 0 && !is_harmless(jpeg->err->msg_code)) give_up(jpeg);
    };
    if (!create()) throw error(concat("libjpeg: ", message_));
    progress_.progress_monitor = [](j_common_ptr jpeg) {
      auto* const self = static_cast<jpeg_reader*>(jpeg->client_data);
      const int scans = self->jpeg_.input_scan_number;
      if (scans <= most_scans &&
          passes_fit(self->header_size(), static_cast<unsigned>(scans), self->most_pixels_))
        return;
      std::snprintf(self->message_, sizeof self->message_, "%s", too_many_passes);
      std::longjmp(self->caller_, 1);
    };
  }
  jpeg_reader(const jpeg_reader&) = delete;
  jpeg_reader& operator=(const jpeg_reader&) = delete;
  ~jpeg_reader() { jpeg_destroy_decompress(&jpeg_); }

  image_size size(std::span<const std::uint8_t> file, const std::string& name) {
    read_header(file, name);
    const image_size size = header_size();
    jpeg_abort_decompress(&jpeg_);
    return size;
  }

  void decode(std::span<const std::uint8_t> file, const std::string& name, const region& r,
              int scale, detail::core::pod_vector<std::uint8_t>& rgb) {
    read_header(file, name);
    const image_size whole = reduced(header_size(), scale);
    if (!lies_in(r, whole)) {
      jpeg_abort_decompress(&jpeg_);
      throw usage_error("decoder: the region is not in the image");
    }
    rgb.resize(3 * static_cast<std::size_t>(r.width) * static_cast<std::size_t>(r.height));
    row_.resize((is_cmyk() ? 4 : 3) * static_cast<std::size_t>(whole.width));
    const bool good = decode_rows(r, scale, rgb.data());
    jpeg_abort_decompress(&jpeg_);
    if (!good) refuse(name);
  }

 private:
  static constexpr int most_scans = 500;
  // Assumed of files of several scans until they are counted, since the memory for all coefficients
  // is made before.
  static constexpr unsigned fewest_scans = 6;
  // Columns beside a region that are decoded, too: the upsampling of a color component reads the
  // neighbors of a pixel, and at the borders of what is decoded it has none.
  static constexpr int margin = 2;

  /// Warnings after which all pixels are as the encoder wrote them.
  static bool is_harmless(int code) {
    return code == JWRN_EXTRANEOUS_DATA || code == JWRN_JFIF_MAJOR || code == JWRN_ADOBE_XFORM ||
           code == JWRN_TOO_MUCH_DATA;
  }

  [[noreturn]] static void give_up(j_common_ptr jpeg) {
    auto* const self = static_cast<jpeg_reader*>(jpeg->client_data);
    jpeg->err->format_message(jpeg, self->message_);
    std::longjmp(self->caller_, 1);
  }
  [[noreturn]] void refuse(const std::string& name) const {
    throw sample_error(concat(name, ": damaged or unsupported JPEG: ", message_));
  }

  // Without tables: libjpeg keeps those of an image for the next one, which may lack its own.
  bool create() {
    if (setjmp(caller_) != 0) return false;
    jpeg_destroy_decompress(&jpeg_);
    jpeg_create_decompress(&jpeg_);
    jpeg_.client_data = this;  // jpeg_create_decompress keeps it; set again for other versions
    return true;
  }

  bool parse_header(std::span<const std::uint8_t> file) {
    if (!create() || setjmp(caller_) != 0) return false;
    jpeg_mem_src(&jpeg_, file.data(), static_cast<unsigned long>(file.size()));
    jpeg_read_header(&jpeg_, TRUE);
    return true;
  }

  void read_header(std::span<const std::uint8_t> file, const std::string& name) {
    if (!parse_header(file)) {
      jpeg_abort_decompress(&jpeg_);
      refuse(name);
    }
    const char* reason = nullptr;
    if (jpeg_.jpeg_color_space == JCS_UNKNOWN)
      reason = "its colors are not RGB, YCbCr, gray or CMYK: convert the file";
    else if (std::uint64_t{jpeg_.image_width} * jpeg_.image_height > most_pixels_)
      reason = "it has more pixels than the decoder's limit: shrink the file, or raise the limit";
    else if (jpeg_has_multiple_scans(&jpeg_) != 0 &&
             !passes_fit(header_size(), fewest_scans, most_pixels_))
      reason = too_many_passes;
    else if (!has_end(file.last(jpeg_.src->bytes_in_buffer)))
      reason = "it is truncated: fetch the file again";
    if (reason == nullptr) return;
    jpeg_abort_decompress(&jpeg_);
    throw sample_error(concat(name, ": ", reason));
  }

  /// Whether the marker EOI follows in the data. Codes contain no such bytes: 0xff is followed by 0
  /// or a marker. So a truncated file is refused whichever region of it is requested.
  static bool has_end(std::span<const std::uint8_t> data) {
    for (std::size_t i = data.size(); i >= 2; --i)
      if (data[i - 2] == 0xff && data[i - 1] == 0xd9) return true;
    return false;
  }

  [[nodiscard]] bool is_cmyk() const {
    return jpeg_.jpeg_color_space == JCS_CMYK || jpeg_.jpeg_color_space == JCS_YCCK;
  }
  [[nodiscard]] image_size header_size() const {
    return {static_cast<int>(jpeg_.image_width), static_cast<int>(jpeg_.image_height)};
  }

  /// For inverted values. Divides by 255 as Pillow does, to the nearest.
  static void cmyk_to_rgb(const std::uint8_t* cmyk, std::uint8_t* rgb, std::size_t bytes) {
    for (std::size_t k = 0; k < bytes; ++k) {
      const std::uint8_t* const pixel = cmyk + 4 * (k / 3);
      const unsigned product = unsigned{pixel[k % 3]} * pixel[3] + 128;
      rgb[k] = static_cast<std::uint8_t>((product + (product >> 8)) >> 8);
    }
  }

  // Returns false after an error. Requires the memory of rgb and row_.
  bool decode_rows(const region& r, int scale, std::uint8_t* rgb) {
    if (setjmp(caller_) != 0) return false;
    read_rows(r, scale, rgb);
    return true;
  }

  // A function of its own, whose variables setjmp does not concern.
  [[gnu::noinline]] void read_rows(const region& r, int scale, std::uint8_t* rgb) {
    jpeg_.out_color_space = is_cmyk() ? JCS_CMYK : JCS_RGB;
    jpeg_.scale_num = 1;
    jpeg_.scale_denom = static_cast<unsigned>(scale);
    jpeg_.dct_method = JDCT_ISLOW;
    // Where a progressive image lacks the last bits, libjpeg would smooth it, and a region in
    // another way than the whole.
    jpeg_.do_block_smoothing = FALSE;
    jpeg_.progress = &progress_;
    jpeg_start_decompress(&jpeg_);

    const auto all = static_cast<int>(jpeg_.output_width);
    const int left = std::max(r.left - margin, 0), right = std::min(r.left + r.width + margin, all);
    JDIMENSION first = 0;  // of the columns that are decoded
    // In a reduced image of which a color component has a quarter of the rows or columns, or less,
    // libjpeg-turbo 2.1 decodes other pixels than without a crop.
    const bool can_crop =
        scale == 1 || (jpeg_.max_h_samp_factor <= 2 && jpeg_.max_v_samp_factor <= 2);
    if (right - left < all && can_crop) {
      first = static_cast<JDIMENSION>(left);
      auto columns = static_cast<JDIMENSION>(right - left);
      jpeg_crop_scanline(&jpeg_, &first, &columns);
    }
    if (r.top > 0) jpeg_skip_scanlines(&jpeg_, static_cast<JDIMENSION>(r.top));

    const auto bytes = 3 * static_cast<std::size_t>(r.width);
    const auto before = static_cast<std::size_t>(r.left) - first;  // pixels
    const bool cmyk = is_cmyk();
    const bool exact = !cmyk && bytes == 3 * static_cast<std::size_t>(jpeg_.output_width);
    for (int y = 0; y < r.height; ++y, rgb += bytes) {
      JSAMPROW row = exact ? rgb : row_.data();
      jpeg_read_scanlines(&jpeg_, &row, 1);
      if (cmyk)
        cmyk_to_rgb(row + 4 * before, rgb, bytes);
      else if (!exact)
        std::memcpy(rgb, row + 3 * before, bytes);
    }
  }

  std::uint64_t most_pixels_;
  jpeg_decompress_struct jpeg_{};
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf caller_{};
  char message_[JMSG_LENGTH_MAX] = {};
  detail::core::pod_vector<std::uint8_t> row_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::images

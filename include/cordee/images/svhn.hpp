// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The cropped digits of SVHN (Netzer et al. 2011), color images of 32x32 pixels, in their MATLAB
// file:
//
//   X    bytes, (row, column, channel, image), the row varies fastest
//   y    1 .. 9, and 10 for the digit 0, in integers or doubles
//
//   train_32x32.mat  73,257     test_32x32.mat  26,032     extra_32x32.mat  531,131
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cordee/core/error.hpp>
#include <cordee/core/extent.hpp>
#include <cordee/data/dataset.hpp>
#include <cordee/images/mat_file.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::images {

struct svhn_digits {
  std::vector<std::uint8_t> pixels, labels;  // as in the file; of 0 .. 9
};

#if defined(CORDEE_HAS_ZLIB)

/// Bytes of an integer or a double, 0 for another type.
inline std::size_t bytes_of_label(std::uint32_t type) {
  switch (type) {
    case mat_array::int8:
    case mat_array::uint8:
      return 1;
    case mat_array::int16:
    case mat_array::uint16:
      return 2;
    case mat_array::int32:
    case mat_array::uint32:
      return 4;
    case mat_array::int64:
    case mat_array::uint64:
    case mat_array::float64:
      return 8;
    default:
      return 0;
  }
}

/// Throws error for a file of other arrays, or of labels that are no digits.
inline svhn_digits read_svhn(const std::string& path) {
  const mat_file file(path);
  svhn_digits digits;
  std::uint64_t count = 0;
  file.with_array("X", [&](mat_array& x) {
    if (x.dimensions.size() != 4 || x.dimensions[0] != 32 || x.dimensions[1] != 32 ||
        x.dimensions[2] != 3 || x.type != mat_array::uint8 ||
        x.size != std::uint64_t{3072} * x.dimensions[3] || x.size == 0)
      refuse_mat(path, "X is not 32 x 32 x 3 x N bytes");
    count = x.dimensions[3];
    digits.pixels = x.read();
  });
  file.with_array("y", [&](mat_array& y) {
    const std::size_t bytes = bytes_of_label(y.type);
    const bool is_line = y.dimensions.size() == 2 && (y.dimensions[0] == 1 || y.dimensions[1] == 1);
    if (bytes == 0 || !is_line || std::max(y.dimensions[0], y.dimensions[1]) != count ||
        y.size != bytes * count)
      refuse_mat(path, concat("y is not ", count, " x 1 integers or doubles"));
    const std::vector<std::uint8_t> values = y.read();
    for (std::size_t i = 0; i < values.size(); i += bytes) {
      double value = 0;
      if (y.type == mat_array::float64)
        std::memcpy(&value, values.data() + i, sizeof value);
      else
        for (std::size_t k = bytes; k-- > 0;) value = 256 * value + values[i + k];
      if (!(value >= 1 && value <= 10) || value != static_cast<int>(value))
        refuse_mat(path, concat("label ", value, " of image ", i / bytes, ", expected 1 to 10"));
      digits.labels.push_back(static_cast<std::uint8_t>(static_cast<int>(value) % 10));
    }
  });
  return digits;
}

#else

[[noreturn]] inline svhn_digits read_svhn(const std::string& path) {
  throw error(concat(
      path, ": this program was built without zlib, and reads no MATLAB files: build with it"));
}

#endif

}  // namespace detail::images

/// SVHN's cropped digits, a Dataset in memory that all copies share.
class svhn {
 public:
  /// Reads a MATLAB file. @throws error for a file that cannot be read or has other arrays or
  /// labels, and in a program built without zlib.
  explicit svhn(const std::string& path)
      : digits_(
            std::make_shared<const detail::images::svhn_digits>(detail::images::read_svhn(path))) {}

  /// 3 x 32 x 32.
  [[nodiscard]] static extent image() { return {3, 32, 32}; }
  [[nodiscard]] static int classes() { return 10; }  ///< 10: the digits.
  /// Images in the file.
  [[nodiscard]] std::size_t size() const { return digits_->labels.size(); }
  /// See Dataset. @throws usage_error for an index of size() or above, or a buffer of another size.
  int read(std::size_t i, std::span<std::uint8_t> pixels) const {
    expects(i < size(), "svhn: the index is beyond the data set");
    expects(pixels.size() == image().size(), "svhn: the buffer is not of the image's size");
    const std::uint8_t* from = digits_->pixels.data() + i * image().size();
    for (std::size_t channel = 0; channel < 3; ++channel)
      for (std::size_t column = 0; column < side; ++column)
        for (std::size_t row = 0; row < side; ++row)
          pixels[(channel * side + row) * side + column] = *from++;
    return digits_->labels[i];
  }
  /// The label that `read` returns. @throws usage_error for an index of size() or above.
  [[nodiscard]] int label(std::size_t i) const {
    expects(i < size(), "svhn: the index is beyond the data set");
    return digits_->labels[i];
  }

 private:
  static constexpr std::size_t side = 32;

  std::shared_ptr<const detail::images::svhn_digits> digits_;
};
static_assert(Dataset<svhn>);

}  // namespace cordee::inline CORDEE_ABI

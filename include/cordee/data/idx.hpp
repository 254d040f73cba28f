// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The idx format of MNIST and Fashion-MNIST, plain or gzipped, of any count and extent.
//
//   images  2051  count  height  width   then one byte per pixel      (big-endian 32-bit words)
//   labels  2049  count                  then one byte per label
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/counted_ptr.hpp>
#include <cordee/core/error.hpp>
#include <cordee/data/dataset.hpp>
#include <cordee/io/gzip.hpp>

namespace cordee::inline CORDEE_ABI {

/// Images and labels in IDX files, in memory that all copies share. If NAME does not exist, reads
/// NAME.gz.
class idx {
 public:
  /// Reads a file of images and a file of their labels. @throws usage_error unless `classes` is 1
  /// to 256; error for a file that cannot be read, has another format, is truncated or too long,
  /// for unequal numbers of labels and images, and for a label of `classes` or above.
  idx(const std::string& images, const std::string& labels, int classes = 10) : classes_(classes) {
    expects(classes > 0 && classes <= 256, "idx: the number of classes must be 1 to 256");
    detail::io::decompressed_file images_file(existing(images)), labels_file(existing(labels));
    const std::string &images_name = images_file.path(), &labels_name = labels_file.path();
    images_file.append_to(files_->images, images_start);
    labels_file.append_to(files_->labels, labels_start);

    const std::size_t count = header(files_->images, images_name, images_magic);
    const std::size_t count_labels = header(files_->labels, labels_name, labels_magic);
    image_ = {1, dimension(files_->images, 8, images_name),
              dimension(files_->images, 12, images_name)};
    append_records(images_file, files_->images, count, image_.size());
    append_records(labels_file, files_->labels, count_labels, 1);
    if (count != count_labels)
      throw error(concat(images_name, " has ", count, " images, ", labels_name, " has ",
                         count_labels, " labels (offset 4); they are not of the same data set"));
    const auto first = files_->labels.begin() + labels_start;
    const auto bad = std::find_if(first, files_->labels.end(), [&](int l) { return l >= classes; });
    if (bad != files_->labels.end())
      throw error(concat(labels_name, ": label ", static_cast<int>(*bad), " at offset ",
                         bad - files_->labels.begin(), ", expected 0 to ", classes - 1,
                         "; pass the number of classes"));
    size_ = count;
  }

  /// 1 x height x width, from the file of images.
  [[nodiscard]] extent image() const { return image_; }
  [[nodiscard]] int classes() const { return classes_; }    ///< As passed to the constructor.
  [[nodiscard]] std::size_t size() const { return size_; }  ///< Number of images in the file.
  /// See Dataset. @throws usage_error for an index of size() or above, or a buffer of another size.
  int read(std::size_t i, std::span<std::uint8_t> pixels) const {
    expects(i < size_, "idx: the index is beyond the data set");
    expects(pixels.size() == image_.size(), "idx: the buffer is not of the image's size");
    std::copy_n(files_->images.data() + images_start + i * image_.size(), image_.size(),
                pixels.data());
    return files_->labels[labels_start + i];
  }

 private:
  static constexpr std::uint32_t images_magic = 2051, labels_magic = 2049;
  static constexpr std::size_t images_start = 16, labels_start = 8;
  using file_bytes = std::vector<std::uint8_t>;

  struct contents {
    file_bytes images, labels;
  };

  static std::string existing(const std::string& path) {
    if (detail::io::is_readable(path)) return path;
    if (detail::io::is_readable(path + ".gz")) return path + ".gz";
    throw error(concat("cannot read ", path, " or ", path,
                       ".gz: check the path, or fetch the data with scripts/get-data"));
  }

  static std::uint32_t word(const file_bytes& bytes, std::size_t offset, const std::string& name) {
    if (bytes.size() < offset + 4)
      throw error(concat(name, ": truncated: expected a header word at offset ", offset,
                         ", found the end of the file at offset ", bytes.size()));
    return std::uint32_t{bytes[offset]} << 24 | std::uint32_t{bytes[offset + 1]} << 16 |
           std::uint32_t{bytes[offset + 2]} << 8 | std::uint32_t{bytes[offset + 3]};
  }

  // Checks the magic number, returns the count.
  static std::size_t header(const file_bytes& bytes, const std::string& name, std::uint32_t magic) {
    const std::uint32_t found = word(bytes, 0, name);
    const char* hint = "is it an idx file of bytes?";
    if (found == labels_magic && magic == images_magic)
      hint = "these are labels, not images: are the two paths swapped?";
    if (found == images_magic && magic == labels_magic)
      hint = "these are images, not labels: are the two paths swapped?";
    if (found != magic)
      throw error(concat(name, ": expected the magic number ", magic, " at offset 0, found ", found,
                         "; ", hint));
    return word(bytes, 4, name);
  }

  static int dimension(const file_bytes& bytes, std::size_t offset, const std::string& name) {
    const std::uint32_t n = word(bytes, offset, name);
    constexpr std::uint32_t largest = 1u << 15;  // no product overflows
    if (n == 0 || n > largest)
      throw error(concat(name, ": expected a side of 1 to ", largest, " pixels at offset ", offset,
                         ", found ", n));
    return static_cast<int>(n);
  }

  // Appends the records that the header announces, and nothing beyond them.
  static void append_records(detail::io::decompressed_file& file, file_bytes& bytes,
                             std::size_t count, std::size_t each) {
    const std::size_t expected = bytes.size() + count * each;
    const auto refuse = [&](const char* reason, const std::string& found) {
      throw error(concat(file.path(), ": ", reason, ": expected ", count,
                         " records to end at offset ", expected, ", found ", found,
                         "; fetch the file again"));
    };
    const auto end_at = [](std::uint64_t size) { return concat("the end at offset ", size); };
    if (!file.is_compressed() && file.file_size() != expected)
      refuse(file.file_size() < expected ? "truncated" : "too long", end_at(file.file_size()));
    file.append_to(bytes, expected);
    if (bytes.size() < expected) refuse("truncated", end_at(bytes.size()));
    if (!file.at_end()) refuse("too long", "more bytes there");
  }

  extent image_;
  int classes_ = 0;
  std::size_t size_ = 0;
  detail::core::counted_ptr<contents> files_ = detail::core::counted_ptr<contents>::make();
};
static_assert(Dataset<idx>);

}  // namespace cordee::inline CORDEE_ABI

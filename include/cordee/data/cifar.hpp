// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The binary version of CIFAR-10 and CIFAR-100 (Krizhevsky 2009): color images of 32x32 pixels.
//
//   CIFAR-10     label         3072 bytes     data_batch_1.bin .. data_batch_5.bin, test_batch.bin
//   CIFAR-100    coarse fine   3072 bytes     train.bin, test.bin
//
// Pixels of a record are in (channel, row, column) order, as in batches.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/counted_ptr.hpp>
#include <cordee/core/error.hpp>
#include <cordee/data/dataset.hpp>
#include <cordee/io/file.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::data {

/// The parts of a published data set: cifar10::train, cifar10::test.
struct cifar_parts {
  /// Which part to read.
  enum part {
    train,  ///< data_batch_1.bin to data_batch_5.bin, or train.bin.
    test    ///< test_batch.bin, or test.bin.
  };
};

/// The records of the files in one folder, in memory that all copies share.
class cifar_records {
 public:
  static constexpr extent image{3, 32, 32};
  /// Numbers of classes of the label bytes before the pixels, in order.
  using limits = std::vector<int>;

  cifar_records() = default;
  cifar_records(const std::string& folder, std::initializer_list<const char*> names,
                const limits& label_limits, const std::string& set)
      : labels_(label_limits.size()) {
    for (const char* name : names) {
      const std::string path = folder + "/" + name;
      if (!detail::io::is_readable(path))
        throw error(concat("cannot read ", path,
                           ": check the folder, or fetch the data with scripts/get-data ", set));
      const auto file = detail::io::read_file(path);
      check(file, path, label_limits, set);
      bytes_->insert(bytes_->end(), file.begin(), file.end());
    }
    size_ = bytes_->size() / record();
  }

  [[nodiscard]] std::size_t size() const { return size_; }
  /// Copies the pixels of record i, returns its label byte `label`.
  int read(std::size_t i, std::size_t label, std::span<std::uint8_t> pixels) const {
    expects(i < size_, "cifar: the index is beyond the data set");
    expects(pixels.size() == image.size(), "cifar: the buffer is not of the image's size");
    const std::uint8_t* const record_bytes = bytes_->data() + i * record();
    std::copy_n(record_bytes + labels_, image.size(), pixels.data());
    return record_bytes[label];
  }

 private:
  [[nodiscard]] std::size_t record() const { return labels_ + image.size(); }

  /// A file has any number of whole records, so that a part of a published one can be read too.
  void check(std::span<const std::uint8_t> file, const std::string& path,
             const limits& label_limits, const std::string& set) const {
    if (file.empty())
      throw error(concat(path, ": empty: expected records of ", record(),
                         " bytes at offset 0; fetch ", "the file again with scripts/get-data ",
                         set));
    if (const std::size_t over = file.size() % record(); over != 0)
      throw error(concat(path, ": truncated, or not a binary file of ", set,
                         ": expected whole records ", "of ", record(), " bytes, found ", over,
                         " bytes at offset ", file.size() - over,
                         "; fetch it again with scripts/get-data ", set));
    for (std::size_t at = 0; at < file.size(); at += record())
      for (std::size_t k = 0; k < labels_; ++k)
        if (file[at + k] >= label_limits[k])
          throw error(concat(path, ": label ", static_cast<int>(file[at + k]), " at offset ",
                             at + k, ", expected 0 to ", label_limits[k] - 1,
                             "; if this is not a file of ", set,
                             ", fetch it with scripts/get-data ", set));
  }

  std::size_t labels_ = 1, size_ = 0;
  core::counted_ptr<std::vector<std::uint8_t>> bytes_ =
      core::counted_ptr<std::vector<std::uint8_t>>::make();
};

}  // namespace detail::data

/// CIFAR-10: 10 classes, 50,000 training and 10,000 test images.
class cifar10 : public detail::data::cifar_parts {
 public:
  /// Reads the files of a part from `folder` into memory that all copies share. @throws error for a
  /// file that cannot be read, is empty, is not a whole number of records, or has a label of 10 or
  /// above.
  explicit cifar10(const std::string& folder, part files = train)
      : records_(files == train
                     ? detail::data::cifar_records(
                           folder,
                           {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                            "data_batch_4.bin", "data_batch_5.bin"},
                           {10}, "cifar-10")
                     : detail::data::cifar_records(folder, {"test_batch.bin"}, {10}, "cifar-10")) {}

  /// 3 x 32 x 32.
  [[nodiscard]] static extent image() { return detail::data::cifar_records::image; }
  [[nodiscard]] static int classes() { return 10; }  ///< 10.
  /// Number of images read, which may be fewer than published.
  [[nodiscard]] std::size_t size() const { return records_.size(); }
  /// See Dataset. @throws usage_error for an index of size() or above, or a buffer of another size.
  int read(std::size_t i, std::span<std::uint8_t> pixels) const {
    return records_.read(i, 0, pixels);
  }

 private:
  detail::data::cifar_records records_;
};
static_assert(Dataset<cifar10>);

/// CIFAR-100: 100 fine classes in 20 coarse ones, 50,000 training and 10,000 test images.
class cifar100 : public detail::data::cifar_parts {
 public:
  /// Which of an image's two labels to read.
  enum labels {
    fine,   ///< 100 classes.
    coarse  ///< 20 classes of five fine ones each.
  };

  /// Reads the file of a part from `folder`, as cifar10 does; `kind` chooses the label. @throws
  /// error as cifar10, for a coarse label of 20 or above, or a fine one of 100 or above.
  explicit cifar100(const std::string& folder, part files = train, labels kind = fine)
      : records_(folder, {files == train ? "train.bin" : "test.bin"}, {20, 100}, "cifar-100"),
        labels_(kind) {}

  /// 3 x 32 x 32.
  [[nodiscard]] static extent image() { return detail::data::cifar_records::image; }
  /// 100, or 20 with coarse labels.
  [[nodiscard]] int classes() const { return labels_ == fine ? 100 : 20; }
  /// Number of images read, as for cifar10.
  [[nodiscard]] std::size_t size() const { return records_.size(); }
  /// See Dataset. @throws usage_error as cifar10.
  int read(std::size_t i, std::span<std::uint8_t> pixels) const {
    return records_.read(i, labels_ == fine ? 1 : 0, pixels);
  }

 private:
  detail::data::cifar_records records_;
  labels labels_;
};
static_assert(Dataset<cifar100>);

}  // namespace cordee::inline CORDEE_ABI

// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The binary form of CIFAR-10 and CIFAR-100 (Krizhevsky, 2009): colour images of 32x32 pixels.
//
//   CIFAR-10     label         3072 bytes     data_batch_1.bin .. data_batch_5.bin, test_batch.bin
//   CIFAR-100    coarse fine   3072 bytes     train.bin, test.bin
//
// A record's pixels are red, green, blue, each by rows: our own order of bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <cordee/core/error.hpp>
#include <cordee/data/dataset.hpp>
#include <cordee/io/file.hpp>

namespace cordee::inline CORDEE_ABI {

/// Which half of a published data set.
enum class part { train, test };

namespace detail {

/// Records of files in one folder, in memory, shared by all copies.
class cifar_records {
 public:
  static constexpr extent image{3, 32, 32};
  /// The limits of the label bytes before the pixels, in order.
  using limits = std::vector<int>;

  cifar_records() = default;
  cifar_records(const std::string& folder, std::initializer_list<const char*> names,
                const limits& label_limits, const std::string& set)
      : labels_(label_limits.size()) {
    auto bytes = std::make_shared<std::vector<std::uint8_t>>();
    for (const char* name : names) {
      const std::string path = folder + "/" + name;
      if (!readable(path))
        throw error(text("there is no ", path,
                         " to read; check the folder, or fetch the data with ", "scripts/get-data ",
                         set));
      const auto file = read_file(path);
      check(file, path, label_limits, set);
      bytes->insert(bytes->end(), file.begin(), file.end());
    }
    size_ = bytes->size() / record();
    bytes_ = std::move(bytes);
  }

  [[nodiscard]] std::size_t size() const { return size_; }
  /// Copies the pixels of record i, returns its label number `which`.
  int read(std::size_t i, std::size_t which, std::span<std::uint8_t> pixels) const {
    expects(i < size_, "cifar: there is no such example");
    expects(pixels.size() == image.size(), "cifar: the room is not that of one image");
    const std::uint8_t* const at = bytes_->data() + i * record();
    std::copy_n(at + labels_, image.size(), pixels.data());
    return at[which];
  }

 private:
  [[nodiscard]] std::size_t record() const { return labels_ + image.size(); }

  /// A file is any number of whole records, so that a part of a published one can be read too.
  void check(std::span<const std::uint8_t> file, const std::string& path,
             const limits& label_limits, const std::string& set) const {
    if (file.empty())
      throw error(text(path, ": empty: expected records of ", record(),
                       " bytes at offset 0; fetch ", "the file again with scripts/get-data ", set));
    if (const std::size_t over = file.size() % record(); over != 0)
      throw error(text(path, ": truncated, or no binary file of ", set, ": expected whole records ",
                       "of ", record(), " bytes, found ", over, " bytes at offset ",
                       file.size() - over, "; fetch it again with scripts/get-data ", set));
    for (std::size_t at = 0; at < file.size(); at += record())
      for (std::size_t k = 0; k < labels_; ++k)
        if (file[at + k] >= label_limits[k])
          throw error(text(path, ": label ", static_cast<int>(file[at + k]), " at offset ", at + k,
                           ", expected 0 to ", label_limits[k] - 1, "; is this a file of ", set,
                           "? Fetch it again with scripts/get-data ", set));
  }

  std::size_t labels_ = 1, size_ = 0;
  std::shared_ptr<const std::vector<std::uint8_t>> bytes_;
};

}  // namespace detail

/// CIFAR-10: ten classes, 50,000 images to train on and 10,000 to test.
class cifar10 {
 public:
  explicit cifar10(const std::string& folder, part which = part::train)
      : records_(
            which == part::train
                ? detail::cifar_records(folder,
                                        {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                         "data_batch_4.bin", "data_batch_5.bin"},
                                        {10}, "cifar-10")
                : detail::cifar_records(folder, {"test_batch.bin"}, {10}, "cifar-10")) {}

  [[nodiscard]] static extent image() { return detail::cifar_records::image; }
  [[nodiscard]] static int classes() { return 10; }
  [[nodiscard]] std::size_t size() const { return records_.size(); }
  int read(std::size_t i, std::span<std::uint8_t> pixels) const {
    return records_.read(i, 0, pixels);
  }

 private:
  detail::cifar_records records_;
};
static_assert(Dataset<cifar10>);

/// CIFAR-100: a hundred classes in twenty families, 50,000 images to train on and 10,000 to test.
class cifar100 {
 public:
  /// Which of an image's two labels is read: its class, or that one's family.
  enum labels { fine, coarse };

  explicit cifar100(const std::string& folder, part which = part::train, labels say = fine)
      : records_(folder, {which == part::train ? "train.bin" : "test.bin"}, {20, 100}, "cifar-100"),
        say_(say) {}

  [[nodiscard]] static extent image() { return detail::cifar_records::image; }
  [[nodiscard]] int classes() const { return say_ == fine ? 100 : 20; }
  [[nodiscard]] std::size_t size() const { return records_.size(); }
  int read(std::size_t i, std::span<std::uint8_t> pixels) const {
    return records_.read(i, say_ == fine ? 1 : 0, pixels);
  }

 private:
  detail::cifar_records records_;
  labels say_;
};
static_assert(Dataset<cifar100>);

}  // namespace cordee::inline CORDEE_ABI

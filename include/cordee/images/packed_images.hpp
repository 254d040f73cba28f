// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Images decoded and resized in advance, in one file that is mapped into memory:
//
//   "CORDEEPK"  version                          16 bytes
//   images, one after another                    each as in images/raw_pixels.hpp
//   index                                        40 bytes an image: offset, size, name's offset,
//                                                label, checksum of the image, 8 bytes of zero
//   names                                        each ended by a zero byte
//   count, index's offset, size of names, classes, checksum of index and names,
//   checksum of this tail, 4 bytes of zero, "CORDEEPK"                            48 bytes
//
// Numbers are little-endian, of 8 bytes except labels, classes and checksums (CRC-32C) of 4. Sizes
// are checked when the file is opened, an image's checksum when it is read.
#pragma once

#include <array>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cordee/core/error.hpp>
#include <cordee/images/encoded_dataset.hpp>
#include <cordee/images/raw_pixels.hpp>
#include <cordee/images/region.hpp>
#include <cordee/images/sample_error.hpp>
#include <cordee/io/atomic_file.hpp>
#include <cordee/io/crc32c.hpp>
#include <cordee/io/file.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::images {

static_assert(std::endian::native == std::endian::little, "packed images are little-endian");

struct packed_head {
  std::array<char, 8> magic{'C', 'O', 'R', 'D', 'E', 'E', 'P', 'K'};
  std::uint64_t version = 1;

  friend bool operator==(const packed_head&, const packed_head&) = default;
};
struct packed_entry {
  std::uint64_t offset = 0, size = 0, name = 0;
  std::int32_t label = 0;
  std::uint32_t checksum = 0;
  std::uint64_t zero = 0;
};
struct packed_tail {
  std::uint64_t count = 0, index = 0, names = 0;
  std::int32_t classes = 0;
  std::uint32_t checksum = 0;       // of index and names
  std::uint32_t tail_checksum = 0;  // of this struct with 0 here
  std::uint32_t zero = 0;
  std::array<char, 8> magic = packed_head{}.magic;
};
static_assert(sizeof(packed_head) == 16 && sizeof(packed_entry) == 40 && sizeof(packed_tail) == 48);

template <class T>
std::span<const std::uint8_t> bytes_of(const T& value) {
  return {reinterpret_cast<const std::uint8_t*>(&value), sizeof(T)};
}

inline std::uint32_t checksum_of(packed_tail tail) {
  tail.tail_checksum = 0;
  return detail::io::crc32c(bytes_of(tail));
}

/// Writes a packed file, which has its name only after finish().
class packed_writer {
 public:
  explicit packed_writer(const std::string& path) : file_(path) { write(bytes_of(packed_head{})); }

  /// rgb: (size.height, size.width, 3).
  void add(const image_size& size, std::span<const std::uint8_t> rgb, int label,
           const std::string& name) {
    std::array<std::uint8_t, raw_pixels::header_size> head;
    raw_pixels::write_header(size, head);
    const std::uint32_t checksum =
        ~detail::io::crc32c_remainder(detail::io::crc32c_remainder(~0u, head), rgb);
    index_.push_back({at_, head.size() + rgb.size(), names_.size(), label, checksum, 0});
    names_.append(name.c_str(), name.size() + 1);
    write(head);
    write(rgb);
  }

  /// Throws error; then there is no new file.
  void finish(int classes) {
    packed_tail tail{index_.size(), at_, names_.size(), classes, 0, 0, 0};
    const std::span index(reinterpret_cast<const std::uint8_t*>(index_.data()),
                          index_.size() * sizeof(packed_entry));
    const std::span names(reinterpret_cast<const std::uint8_t*>(names_.data()), names_.size());
    tail.checksum = ~detail::io::crc32c_remainder(detail::io::crc32c_remainder(~0u, index), names);
    tail.tail_checksum = checksum_of(tail);
    write(index);
    write(names);
    write(bytes_of(tail));
    file_.commit();
  }

 private:
  void write(std::span<const std::uint8_t> bytes) {
    file_.write(std::as_bytes(bytes));
    at_ += bytes.size();
  }

  detail::io::atomic_file file_;
  std::uint64_t at_ = 0;
  std::vector<packed_entry> index_;
  std::string names_;
};

/// A file in memory, read by the system as it is used.
class mapped_file {
 public:
  explicit mapped_file(const std::string& path) {
    const detail::io::input_file file(path);
    size_ = static_cast<std::size_t>(file.size());
    if (size_ == 0) return;
    void* const data = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.descriptor_number(), 0);
    if (data == MAP_FAILED) refuse(path);
    data_ = static_cast<const std::uint8_t*>(data);
  }
  mapped_file(const mapped_file&) = delete;
  mapped_file& operator=(const mapped_file&) = delete;
  ~mapped_file() {
    if (data_ != nullptr) ::munmap(const_cast<std::uint8_t*>(data_), size_);
  }

  [[nodiscard]] std::span<const std::uint8_t> bytes() const { return {data_, size_}; }

 private:
  [[noreturn]] static void refuse(const std::string& path) {
    throw error(concat("cannot map ", path, ": ", detail::io::error_message(errno)));
  }

  const std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace detail::images

/// Images of a file written by `pack`, usable like the original data set: the decoder copies their
/// pixels. Copies share the mapped file, which must not be changed while in use.
class packed_images {
 public:
  /// Maps the file and checks its index. @throws error for a file that cannot be mapped, has
  /// another format or version, or whose index is truncated or damaged.
  explicit packed_images(std::string path)
      : path_(std::move(path)), file_(std::make_shared<detail::images::mapped_file>(path_)) {
    using namespace detail::images;
    const std::span<const std::uint8_t> bytes = file_->bytes();
    packed_head head;
    if (bytes.size() < sizeof head + sizeof tail_) refuse("it is too short");
    std::memcpy(&head, bytes.data(), sizeof head);
    std::memcpy(&tail_, bytes.data() + bytes.size() - sizeof tail_, sizeof tail_);
    if (head.magic != packed_head{}.magic) refuse("it is no file of packed images");
    if (head != packed_head{})
      throw error(concat(path_, ": its version is ", head.version,
                         ", and this library reads version ", packed_head{}.version,
                         "; pack the images again"));
    if (tail_.magic != head.magic || tail_.tail_checksum != checksum_of(tail_))
      refuse("its end is missing or damaged");
    const std::uint64_t end = bytes.size() - sizeof tail_;
    if (tail_.index < sizeof head || tail_.index > end || tail_.names > end - tail_.index ||
        (end - tail_.index - tail_.names) % sizeof(packed_entry) != 0 ||
        (end - tail_.index - tail_.names) / sizeof(packed_entry) != tail_.count)
      refuse("the sizes in it are not its own");
    const auto last = bytes.subspan(static_cast<std::size_t>(tail_.index),
                                    static_cast<std::size_t>(end - tail_.index));
    if (detail::io::crc32c(last) != tail_.checksum) refuse("its index is damaged");
    if (tail_.names > 0 && last.back() != 0) refuse("a name in it does not end");
    for (std::size_t i = 0; i < size(); ++i) {
      const packed_entry e = entry(i);
      if (e.offset < sizeof head || e.offset > tail_.index || e.size > tail_.index - e.offset ||
          e.label < 0 || e.label >= tail_.classes || e.name >= tail_.names)
        refuse(concat("image ", i, " is not within it"));
    }
  }

  /// Classes of the original data set.
  [[nodiscard]] int classes() const { return tail_.classes; }
  /// Images in the file.
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(tail_.count); }

  /// See EncodedDataset. @throws usage_error for an index of size() or above; sample_error for a
  /// wrong checksum.
  int read(std::size_t i, std::vector<std::uint8_t>& bytes) const {
    expects(i < size(), "packed_images: the index is beyond the data set");
    const detail::images::packed_entry e = entry(i);
    const auto image = file_->bytes().subspan(static_cast<std::size_t>(e.offset),
                                              static_cast<std::size_t>(e.size));
    bytes.assign(image.begin(), image.end());
    if (detail::io::crc32c(bytes) != e.checksum)
      throw sample_error(concat(name(i), ": its checksum is wrong; pack the images again"));
    return e.label;
  }

  /// The label that `read` returns, from the index. @throws usage_error for an index of size() or
  /// above.
  [[nodiscard]] int label(std::size_t i) const {
    expects(i < size(), "packed_images: the index is beyond the data set");
    return entry(i).label;
  }
  /// The file, and the image's original name. @throws usage_error for an index of size() or above.
  [[nodiscard]] std::string name(std::size_t i) const {
    expects(i < size(), "packed_images: the index is beyond the data set");
    const std::uint64_t begin = tail_.index + tail_.count * sizeof(detail::images::packed_entry);
    const std::uint8_t* const first = file_->bytes().data() + begin + entry(i).name;
    return concat(path_, ", ", reinterpret_cast<const char*>(first));
  }

  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat(size(), " packed images in ", classes(), " classes in ", path_, ", ",
                  file_->bytes().size() >> 20, " MiB");
  }

 private:
  [[nodiscard]] detail::images::packed_entry entry(std::size_t i) const {
    detail::images::packed_entry e;
    std::memcpy(&e, file_->bytes().data() + tail_.index + i * sizeof e, sizeof e);
    return e;
  }
  [[noreturn]] void refuse(const std::string& reason) const {
    throw error(concat(path_, ": ", reason, "; pack the images again"));
  }

  std::string path_;
  std::shared_ptr<const detail::images::mapped_file> file_;
  detail::images::packed_tail tail_;
};
static_assert(EncodedDataset<packed_images>);

}  // namespace cordee::inline CORDEE_ABI

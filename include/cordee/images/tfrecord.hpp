// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Images in TFRecord files, such as TensorFlow's and MLPerf's ImageNet: records of
// tf.train.Example,
//
//   length                          8 bytes, little-endian
//   masked CRC-32C of the length    4
//   data                            length
//   masked CRC-32C of the data      4
//
// Shards are indexed by reading only the framing, 12 bytes a record, and a label by reading what is
// beside the image. Every rank indexes and opens all shards; in an update it reads a contiguous
// range of the order (images/shard_order.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <cordee/core/error.hpp>
#include <cordee/data/dataset.hpp>
#include <cordee/images/encoded_dataset.hpp>
#include <cordee/images/file_range.hpp>
#include <cordee/images/sample_error.hpp>
#include <cordee/images/shard_names.hpp>
#include <cordee/images/shard_order.hpp>
#include <cordee/images/tf_example.hpp>
#include <cordee/io/crc32c.hpp>
#include <cordee/io/file.hpp>

namespace cordee::inline CORDEE_ABI {

/// Contents of the records. The defaults are those of ImageNet as written by TensorFlow and MLPerf.
struct tfrecord_options {
  int classes = 1000;  ///< Number of classes. Range: 1 or more, else usage_error.
  /// Label in the files that becomes 0; ImageNet's are 1 to 1000. Range: any.
  int first_label = 1;
  std::string image = "image/encoded";  ///< Feature of the Example that holds the encoded image.
  std::string label = "image/class/label";  ///< Feature that holds the label.
  /// Length of the shuffle buffer; 0 reads each shard in order. Unit: samples. Range: any.
  std::size_t shuffle_buffer = 1000;
};

namespace detail::images {

/// Where the data of a record are.
struct record_place {
  std::uint64_t offset = 0, length = 0;
};

/// The bytes of a record around its data.
struct record_frame {
  static constexpr std::size_t head = 12, tail = 4;

  static std::uint64_t word(const std::uint8_t* p, int bytes) {
    std::uint64_t value = 0;
    for (int k = bytes; k-- > 0;) value = value << 8 | p[k];
    return value;
  }
};

/// The records of a file. Throws error if the framing is damaged: what follows cannot be found
/// then.
inline std::vector<record_place> index_records(const detail::io::input_file& file) {
  if (file.size() == 0)
    throw error(concat(file.path(), ": 0 bytes, no record; fetch it again, or take it out of the ",
                       "names of the shards if it was written so"));
  std::vector<record_place> records;
  std::array<std::uint8_t, record_frame::head> head;
  for (std::uint64_t at = 0; at < file.size();) {
    const std::uint64_t left = file.size() - at;
    const auto refuse = [&](const std::string& reason) {
      throw error(
          concat(file.path(), ": ", reason, " at offset ", at, ", record ", records.size(),
                 "; it is truncated, damaged, compressed or no TFRecord file: fetch it again"));
    };
    if (left < record_frame::head + record_frame::tail) refuse(concat("only ", left, " bytes"));
    file.read_at(at, head);
    const std::uint64_t length = record_frame::word(head.data(), 8);
    if (detail::io::masked_crc(detail::io::crc32c(std::span(head).first(8))) !=
        record_frame::word(head.data() + 8, 4))
      refuse("the checksum of a record's length is wrong");
    if (length > left - record_frame::head - record_frame::tail)
      refuse(concat("a record of ", length, " bytes, of which ", left, " are there"));
    records.push_back({at + record_frame::head, length});
    at += record_frame::head + length + record_frame::tail;
  }
  return records;
}

}  // namespace detail::images

/// Images in TFRecord files. A record with damaged data throws sample_error when read. An intact
/// one that lacks the features, or has a label out of range, throws error: the options do not fit.
class tfrecord {
 public:
  /// Opens and indexes all shards. `shards` is a pattern such as "train-{00000..01023}-of-01024"
  /// (images/shard_names.hpp). @throws usage_error for .classes below 1 or more than a million
  /// shards; error for a file that cannot be read, is empty, or whose framing is damaged.
  explicit tfrecord(const std::string& shards, tfrecord_options options = {})
      : options_(std::move(options)) {
    expects(options_.classes > 0, "tfrecord: .classes must be at least 1");
    auto all = std::make_shared<contents>();
    for (const std::string& path : detail::images::shard_names(shards)) {
      all->files.emplace_back(path);
      const auto records = detail::images::index_records(all->files.back());
      all->records.insert(all->records.end(), records.begin(), records.end());
      all->ends.push_back(all->records.size());
    }
    contents_ = std::move(all);
  }

  [[nodiscard]] int classes() const { return options_.classes; }  ///< `classes` of the options.
  /// Records of all shards.
  [[nodiscard]] std::size_t size() const { return contents_->records.size(); }

  /// See EncodedDataset. @throws usage_error for an index of size() or above; sample_error for
  /// damaged data; error for missing features or a label out of range.
  int read(std::size_t i, std::vector<std::uint8_t>& bytes) const {
    expects(i < size(), "tfrecord: the index is beyond the data set");
    const detail::images::record_place& place = contents_->records[i];
    const detail::io::input_file& file = contents_->files[shard_of(i)];
    const std::uint64_t size = place.length + detail::images::record_frame::tail;
    detail::io::resize_for(bytes, size, file.path());
    file.read_at(place.offset, bytes);
    const std::span<const std::uint8_t> data = std::span(bytes).first(bytes.size() - 4);
    if (detail::io::masked_crc(detail::io::crc32c(data)) !=
        detail::images::record_frame::word(bytes.data() + data.size(), 4))
      throw sample_error(
          concat(name(i), ": the checksum of its data is wrong; fetch the file again"));
    const detail::images::tf_example example(data);
    const int label = checked_label(example, i);
    const auto image = example.bytes(options_.image);
    if (!image) refuse_features(i);
    const auto begin = image->data() - bytes.data();
    bytes.erase(bytes.begin() + begin + std::ssize(*image), bytes.end());
    bytes.erase(bytes.begin(), bytes.begin() + begin);
    return label;
  }

  /// The label that `read` returns, read without the image and hence without the checksum: for a
  /// damaged record it may differ, or throw sample_error.
  [[nodiscard]] int label(std::size_t i) const {
    expects(i < size(), "tfrecord: the index is beyond the data set");
    const detail::images::record_place& place = contents_->records[i];
    detail::images::file_block block(contents_->files[shard_of(i)]);
    const auto label =
        detail::images::tf_example(detail::images::file_range(block, place.offset, place.length))
            .integer(options_.label);
    if (label && is_label(*label)) return static_cast<int>(*label - options_.first_label);
    std::vector<std::uint8_t> bytes;
    return read(i, bytes);  // throws what is wrong: the record or the options
  }

  /// The shard's path and the record's index in it. @throws usage_error for an index of size() or
  /// above.
  [[nodiscard]] std::string name(std::size_t i) const {
    expects(i < size(), "tfrecord: the index is beyond the data set");
    const std::size_t s = shard_of(i);
    return concat(contents_->files[s].path(), ", record ",
                  i - (s == 0 ? 0 : contents_->ends[s - 1]));
  }

  /// Shuffled shards, their records through a shuffle buffer (images/shard_order.hpp).
  [[nodiscard]] std::vector<std::uint32_t> order(std::uint64_t seed, std::int64_t epoch) const {
    return detail::images::shard_order(contents_->ends, options_.shuffle_buffer, seed, epoch);
  }

  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat(size(), " records in ", contents_->files.size(), " TFRecord files, ", classes(),
                  " classes; shards shuffled, and their records in a buffer of ",
                  options_.shuffle_buffer);
  }

 private:
  struct contents {
    std::vector<detail::io::input_file> files;
    std::vector<detail::images::record_place> records;
    std::vector<std::size_t> ends;  // of each file's records
  };

  [[nodiscard]] bool is_label(std::int64_t label) const {
    const std::int64_t first = options_.first_label;
    return label >= first && label <= first + options_.classes - 1;
  }
  [[nodiscard]] int checked_label(const detail::images::tf_example<>& example,
                                  std::size_t i) const {
    const auto label = example.integer(options_.label);
    if (!label) refuse_features(i);
    const std::int64_t first = options_.first_label;
    if (!is_label(*label))
      throw error(concat(name(i), ": label ", *label, ", expected ", first, " to ",
                         first + options_.classes - 1, "; set .classes and .first_label"));
    return static_cast<int>(*label - first);
  }
  [[noreturn]] void refuse_features(std::size_t i) const {
    throw error(concat(name(i), ": not a tf.train.Example with the features ", options_.image,
                       " and ", options_.label,
                       "; set .image and .label to the names in these files"));
  }

  [[nodiscard]] std::size_t shard_of(std::size_t i) const {
    const auto& ends = contents_->ends;
    return static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), i) - ends.begin());
  }

  tfrecord_options options_;
  std::shared_ptr<const contents> contents_;
};
static_assert(EncodedDataset<tfrecord> && detail::data::Ordered<tfrecord> &&
              detail::data::Labelled<tfrecord>);

}  // namespace cordee::inline CORDEE_ABI

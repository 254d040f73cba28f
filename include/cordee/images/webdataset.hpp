// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Images in tar shards by WebDataset's convention: consecutive members with the same name up to the
// first dot are a sample,
//
//   train-000.tar:   n01/17.jpg   n01/17.cls   n01/17.json   n01/18.jpg   n01/18.cls ...
//
// an image (.jpg, .jpeg or .png) and its label as decimal text (.cls). Other members are ignored
// and counted by their endings. `0.4.jpg` belongs to sample 0, and its ending is 4.jpg: it is
// ignored beside the sample's own image, as a mask a.seg.png is; but if that made a sample vanish,
// as with 0.4.jpg and 0.4.cls, it is refused.
//
// Every rank indexes and opens all shards, reading only headers and labels, and reads images at
// their offsets. In an update it reads a contiguous range of the order (images/shard_order.hpp), so
// its reads are nearly sequential, and no sample is lost or used twice for any number of ranks.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cordee/core/error.hpp>
#include <cordee/data/dataset.hpp>
#include <cordee/images/encoded_dataset.hpp>
#include <cordee/images/reason_counts.hpp>
#include <cordee/images/sample_error.hpp>
#include <cordee/images/shard_names.hpp>
#include <cordee/images/shard_order.hpp>
#include <cordee/images/tar_shard.hpp>
#include <cordee/io/file.hpp>

namespace cordee::inline CORDEE_ABI {

/// Contents of the shards, and how members that fit no sample are handled.
struct webdataset_options {
  /// Number of classes; 0: as many as the largest label needs. Range: 0 or more, else usage_error;
  /// if not 0, above the largest label, else error.
  int classes = 0;
  /// Label in the files that becomes 0; 1 if labels are 1 to classes. Range: 0 or more, else
  /// usage_error.
  int first_label = 0;
  /// Length of the shuffle buffer; 0 reads each shard in order. Unit: samples. Range: any.
  std::size_t shuffle_buffer = 1000;
  /// How to handle links, devices, absolute paths and paths with .., samples without image or
  /// label, second images or labels of a sample, and names with two dots that would make a sample
  /// vanish. A damaged or compressed shard is always an error. For images that cannot be decoded
  /// see decoding_options::broken.
  broken_image broken = broken_image::refuse;
};

namespace detail::images {

struct tar_sample {
  std::uint64_t offset = 0, size = 0;
  std::int32_t label = -1;
  std::size_t name = 0;  // offset in tar_samples::names
};

/// Samples of all shards, and what was left out.
class tar_samples {
 public:
  std::vector<detail::io::input_file> files;
  std::vector<tar_sample> samples;
  std::vector<std::size_t> ends;  // of each file's samples
  std::string names;              // of images, each ended by a zero byte
  reason_counts left_out, passed_over;
  std::string unused_labels;  // classes without samples, if their number is not an option

  /// Adds the samples of one more shard.
  void add(const std::string& path, const webdataset_options& options) {
    files.emplace_back(path);
    broken_ = options.broken;
    first_label_ = options.first_label;
    for (const tar_member& member : index_tar(files.back())) {
      const std::size_t slash = member.name.rfind('/') + 1;  // 0 if there is none
      const std::size_t dot = member.name.find('.', slash);
      if (!member.refusal.empty())
        leave_out(member.name, member.refusal);
      else if (dot == member.name.npos || dot == slash)
        pass_over(member.name, dot == slash ? "hidden files" : "members without an ending");
      else
        add(member, dot);
    }
    finish();
    ends.push_back(samples.size());
  }

 private:
  void add(const tar_member& member, std::size_t dot) {
    const std::string_view key = std::string_view(member.name).substr(0, dot);
    std::string ending = member.name.substr(dot + 1);
    for (char& c : ending)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
    const std::size_t last_dot = ending.rfind('.') + 1;  // 0 if there is none
    const std::string_view last = std::string_view(ending).substr(last_dot);
    const bool is_image = last == "jpg" || last == "jpeg" || last == "png";
    if (!is_image && last != "cls") return pass_over(member.name, concat("members .", ending));
    if (key != key_) finish();
    key_ = key;
    if (last_dot != 0) {
      dotted_.push_back({member.name, ending, is_image});
    } else if (is_image && image_.empty()) {
      image_ = member.name;
      sample_.offset = member.offset;
      sample_.size = member.size;
    } else if (!is_image && !has_label_) {
      has_label_ = true;
      sample_.label = label_of(member);
      if (sample_.label < 0)
        leave_out(member.name, "it is no label, a decimal number from 0 to 2147483646");
      else if (sample_.label < first_label_)
        throw error(concat(files.back().path(), ", ", member.name, ": label ", sample_.label,
                           ", expected ", first_label_, " or more; set .first_label"));
      else
        sample_.label -= first_label_;
    } else {
      leave_out(member.name, "a second image or label of one sample");
    }
  }

  /// Members with two dots: passed over beside image and label of the sample, unless they are an
  /// image and a label themselves.
  void finish_dotted() {
    const bool whole = !image_.empty() && has_label_;
    std::set<std::pair<std::string_view, bool>> found;
    for (const dotted_member& m : dotted_) found.insert({m.infix(), m.is_image});
    for (const dotted_member& m : dotted_)
      if (whole && !found.contains({m.infix(), !m.is_image}))
        pass_over(m.name, concat("members .", m.ending));
      else
        leave_out(m.name,
                  "a sample's name ends at the first dot, so this is neither image nor label of "
                  "one; write the name with no dot but that before jpg, jpeg, png or cls");
    dotted_.clear();
  }

  /// Ends the sample whose members have been added.
  void finish() {
    if (!image_.empty() && !has_label_)
      leave_out(image_, "an image without a label (.cls) beside it");
    else if (image_.empty() && sample_.label >= 0)
      leave_out(concat(key_, ".cls"), "a label without an image (.jpg, .jpeg, .png) beside it");
    else if (sample_.label >= 0) {
      sample_.name = names.size();
      names.append(image_.c_str(), image_.size() + 1);
      samples.push_back(sample_);
    }
    finish_dotted();
    key_.clear();
    image_.clear();
    has_label_ = false;
    sample_ = {};
  }

  /// -1 unless the member is a decimal number, perhaps between white space, to which 1 can
  /// be added: the number of classes.
  [[nodiscard]] std::int32_t label_of(const tar_member& member) const {
    std::array<std::uint8_t, 32> bytes{};
    if (member.size > bytes.size()) return -1;
    files.back().read_at(member.offset,
                         std::span(bytes).first(static_cast<std::size_t>(member.size)));
    std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                          static_cast<std::size_t>(member.size));
    constexpr std::string_view white = " \t\r\n";
    text.remove_prefix(std::min(text.find_first_not_of(white), text.size()));
    text = text.substr(0, text.find_last_not_of(white) + 1);
    std::int32_t label = -1;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), label);
    const bool is_number = code == std::errc() && end == text.data() + text.size();
    return is_number && label < std::numeric_limits<std::int32_t>::max() ? label : -1;
  }

  void leave_out(const std::string& member, const std::string& reason) {
    const std::string name = concat(files.back().path(), ", ", member);
    if (broken_ == broken_image::refuse)
      throw error(concat(name, ": ", reason,
                         "; make the shard again, or set .broken = broken_image::skip"));
    left_out.add(reason, name);
  }
  void pass_over(const std::string& member, const std::string& reason) {
    passed_over.add(reason, member);
  }

  /// A member whose ending, all behind the first dot, has another dot before jpg, cls ...
  struct dotted_member {
    std::string name, ending;
    bool is_image = false;

    [[nodiscard]] std::string_view infix() const {
      return std::string_view(ending).substr(0, ending.rfind('.'));
    }
  };

  broken_image broken_ = broken_image::refuse;
  std::int32_t first_label_ = 0;
  std::vector<dotted_member> dotted_;  // of the sample whose members are being added
  std::string key_, image_;            // of the sample whose members are being added
  bool has_label_ = false;
  tar_sample sample_;
};

}  // namespace detail::images

/// Images in tar shards. Copies share the index and the open files, one per shard for the process
/// (ulimit -n).
class webdataset {
 public:
  /// Opens and indexes all shards. `shards` is a pattern such as "train-{000..127}.tar"
  /// (images/shard_names.hpp). @throws usage_error for a negative .classes or .first_label or more
  /// than a million shards; error for a shard that cannot be read or is damaged, a refused member,
  /// a label out of range, and if there are no samples.
  explicit webdataset(const std::string& shards, webdataset_options options = {})
      : options_(options) {
    expects(options.classes >= 0, "webdataset: .classes is negative");
    expects(options.first_label >= 0, "webdataset: .first_label is negative");
    auto all = std::make_shared<detail::images::tar_samples>();
    for (const std::string& path : detail::images::shard_names(shards)) all->add(path, options);
    if (all->samples.empty())
      throw error(concat(shards, ": no samples, which are an image and a .cls file of one name",
                         all->left_out.total() > 0 ? "; left out: " : "", all->left_out.describe(),
                         all->passed_over.total() > 0 ? "; passed over: " : "",
                         all->passed_over.describe()));
    const auto by_label = [](const auto& a, const auto& b) { return a.label < b.label; };
    const auto last = std::max_element(all->samples.begin(), all->samples.end(), by_label);
    const auto first = std::min_element(all->samples.begin(), all->samples.end(), by_label);
    if (options_.classes == 0 && first->label > 0)
      all->unused_labels = concat("; no label is below ", options_.first_label + first->label,
                                  ": set .first_label, or .classes");
    contents_ = std::move(all);
    if (options_.classes == 0) options_.classes = last->label + 1;
    if (last->label >= options_.classes)
      throw error(concat(name(static_cast<std::size_t>(last - contents_->samples.begin())),
                         ": label ", options_.first_label + last->label, ", expected ",
                         options_.first_label, " to ", options_.first_label + options_.classes - 1,
                         "; set .classes, or .first_label = 1 where labels begin at 1"));
  }

  /// `classes` of the options, or what the labels need.
  [[nodiscard]] int classes() const { return options_.classes; }
  /// Samples of all shards.
  [[nodiscard]] std::size_t size() const { return contents_->samples.size(); }

  /// See EncodedDataset. @throws usage_error for an index of size() or above; error for a shard
  /// that cannot be read.
  int read(std::size_t i, std::vector<std::uint8_t>& bytes) const {
    expects(i < size(), "webdataset: the index is beyond the data set");
    const detail::images::tar_sample& sample = contents_->samples[i];
    const detail::io::input_file& file = contents_->files[shard_of(i)];
    detail::io::resize_for(bytes, sample.size, file.path());
    file.read_at(sample.offset, bytes);
    return sample.label;
  }

  /// The label that `read` returns, from the index. @throws usage_error for an index of size() or
  /// above.
  [[nodiscard]] int label(std::size_t i) const {
    expects(i < size(), "webdataset: the index is beyond the data set");
    return contents_->samples[i].label;
  }
  /// The shard's path and the member. @throws usage_error for an index of size() or above.
  [[nodiscard]] std::string name(std::size_t i) const {
    expects(i < size(), "webdataset: the index is beyond the data set");
    return concat(contents_->files[shard_of(i)].path(), ", ",
                  contents_->names.data() + contents_->samples[i].name);
  }

  /// Shuffled shards, their samples through a shuffle buffer (images/shard_order.hpp).
  [[nodiscard]] std::vector<std::uint32_t> order(std::uint64_t seed, std::int64_t epoch) const {
    return detail::images::shard_order(contents_->ends, options_.shuffle_buffer, seed, epoch);
  }

  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    const auto counted = [](const detail::images::reason_counts& counts, const char* verb) {
      return counts.total() == 0
                 ? std::string()
                 : concat("; ", counts.total(), " members are ", verb, ": ", counts.describe());
    };
    return concat(size(), " samples in ", contents_->files.size(), " tar shards, ", classes(),
                  " classes; shards shuffled, and their samples in a buffer of ",
                  options_.shuffle_buffer, counted(contents_->left_out, "left out"),
                  counted(contents_->passed_over, "passed over"), contents_->unused_labels);
  }

 private:
  [[nodiscard]] std::size_t shard_of(std::size_t i) const {
    const auto& ends = contents_->ends;
    return static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), i) - ends.begin());
  }

  webdataset_options options_;
  std::shared_ptr<const detail::images::tar_samples> contents_;
};
static_assert(EncodedDataset<webdataset> && detail::data::Ordered<webdataset> &&
              detail::data::Labelled<webdataset>);

}  // namespace cordee::inline CORDEE_ABI

// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A table of parameter tensors known only at run time: name, shape, kind.
//
// Offsets in the arena's planes follow the order in which tensors are added, which is that of the
// forward pass: gradients are exchanged from the last tensor to the first.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/counted_ptr.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/segment.hpp>

namespace cordee::inline CORDEE_ABI {

/// The tensors of a custom model.
class parameter_list {
 public:
  /// Appends a tensor; statistics follow the trainable ones. The kind decides weight decay and
  /// layer-wise rates. An empty shape is one number. @throws usage_error for an empty or duplicate
  /// name, a side below 1, more than 6 sides, or more numbers than fit memory.
  parameter_list& add(std::string name, std::span<const std::int64_t> shape,
                      kind of = kind::weight) {
    expects(!name.empty(), "parameter_list: a tensor needs a name");
    for (const segment& s : table_)
      if (s.name == name)
        throw usage_error(concat("parameter_list: two tensors are named \"", name, "\""));
    segment s{};
    s.kind = of;
    s.size = 1;
    if (shape.size() > s.shape.size())
      throw usage_error(concat("parameter_list: \"", name, "\" has ", shape.size(),
                               " sides: at most ", s.shape.size(), " are supported"));
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] < 1 || shape[d] > std::numeric_limits<int>::max() ||
          s.size > most_numbers / static_cast<std::size_t>(shape[d]))
        throw usage_error(concat("parameter_list: side ", d, " of \"", name, "\" is ", shape[d],
                                 ": expected a number from 1 on, and a tensor that fits memory"));
      s.shape[d] = static_cast<int>(shape[d]);
      s.size *= static_cast<std::size_t>(shape[d]);
    }
    names_.push_back(shared_name::make(name));
    s.name = *names_.back();
    const auto place =
        of == kind::statistic ? table_.size() : detail::core::count_trainable(table_);
    table_.insert(table_.begin() + static_cast<std::ptrdiff_t>(place), s);
    for (std::size_t offset = 0; segment & t : table_)
      t.offset = std::exchange(offset, offset + detail::core::align_up(t.size));
    return *this;
  }
  /// Same, with the sides in braces: `add("fc.weight", {10, 784})`.
  parameter_list& add(std::string name, std::initializer_list<std::int64_t> shape,
                      kind of = kind::weight) {
    return add(std::move(name), std::span(shape.begin(), shape.size()), of);
  }

  /// The tensors, trainable ones first, with their offsets in the planes; valid until the next
  /// `add`.
  [[nodiscard]] std::span<const segment> segments() const { return table_; }
  /// Index of a tensor in segments(). @throws usage_error for an unknown name.
  [[nodiscard]] std::size_t index(std::string_view name) const {
    for (std::size_t k = 0; k < table_.size(); ++k)
      if (table_[k].name == name) return k;
    std::string names;
    for (std::size_t k = 0; k < std::min<std::size_t>(table_.size(), 8); ++k)
      names += concat(k == 0 ? "" : ", ", table_[k].name);
    throw usage_error(concat("parameter_list: no tensor is named \"", name, "\"; there are ", names,
                             table_.size() > 8 ? ", ..." : ""));
  }
  /// Numbers of all tensors, including the planes' padding.
  [[nodiscard]] std::size_t plane_size() const {
    return table_.empty() ? 0 : table_.back().offset + detail::core::align_up(table_.back().size);
  }

  /// "2 tensors: weight 40 in 1, bias 4 in 1": numbers and tensors of each kind.
  [[nodiscard]] std::string describe() const {
    std::string text = concat(table_.size(), " tensors");
    std::string_view separator = ": ";
    for (std::size_t bit = 0; bit < detail::core::kind_names.size(); ++bit) {
      std::size_t numbers = 0, tensors = 0;
      for (const segment& s : table_)
        if (static_cast<unsigned>(s.kind) == 1U << bit) numbers += s.size, ++tensors;
      if (tensors > 0)
        text += concat(std::exchange(separator, ", "), detail::core::kind_names[bit], " ",
                       detail::core::grouped(numbers), " in ", tensors);
    }
    return text;
  }

 private:
  using shared_name = detail::core::counted_ptr<const std::string>;
  static constexpr std::size_t most_numbers = std::numeric_limits<std::size_t>::max() / 64;

  std::vector<segment> table_;
  std::vector<shared_name> names_;  // of the segments; stay where they are
};

}  // namespace cordee::inline CORDEE_ABI

// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Text that every trainer has and few programs use: what is known of its data. The members of
// std::string, and of a std::vector of strings, would be compiled with every program
// (docs/compile_time.md).
#pragma once

#include <concepts>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cordee/core/pod_vector.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

/// Characters that are appended to and read.
class plain_text {
 public:
  plain_text() = default;
  template <std::convertible_to<std::string_view> Text>
  plain_text(const Text& text) {
    append(text);
  }
  [[gnu::cold, gnu::noinline]] plain_text(const plain_text& other) { append(other.view()); }
  plain_text(plain_text&&) noexcept = default;
  plain_text& operator=(plain_text other) noexcept {
    characters_ = std::move(other.characters_);
    return *this;
  }
  ~plain_text() = default;

  [[gnu::cold, gnu::noinline]] void append(std::string_view text) {
    const std::size_t before = characters_.size();
    characters_.resize(before + text.size());
    if (!text.empty()) std::memcpy(characters_.data() + before, text.data(), text.size());
  }
  [[nodiscard]] bool empty() const { return characters_.empty(); }
  [[nodiscard]] std::string_view view() const { return {characters_.data(), characters_.size()}; }

 private:
  core::pod_vector<char> characters_;
};

/// Names of classes in one text, each with a NUL behind it. Requires that no name has one.
class name_list {
 public:
  name_list() = default;
  name_list(std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names) add(name);
  }

  [[gnu::cold, gnu::noinline]] void add(std::string_view name) {
    text_.append(name);
    text_.append({"\0", 1});
  }
  [[nodiscard]] bool empty() const { return text_.empty(); }
  /// For take(), while the list is as it is.
  [[nodiscard]] std::string_view text() const { return text_.view(); }
  /// Takes the first name off the text of a list, which is not empty.
  [[nodiscard, gnu::cold, gnu::noinline]] static std::string_view take(std::string_view& rest) {
    const std::string_view name = rest.substr(0, rest.find('\0'));
    rest.remove_prefix(name.size() + 1);
    return name;
  }
  [[nodiscard]] std::size_t size() const {
    std::size_t count = 0;
    for (const char c : text()) count += c == '\0' ? 1 : 0;
    return count;
  }
  bool operator==(const name_list& other) const { return text() == other.text(); }

 private:
  plain_text text_;
};

/// By label. A template, so that only programs that call it compile a vector of strings.
[[nodiscard, gnu::cold]] std::vector<std::string> to_vector(
    const std::same_as<name_list> auto& names) {
  std::vector<std::string> all;
  for (std::string_view rest = names.text(); !rest.empty();)
    all.emplace_back(name_list::take(rest));
  return all;
}

}  // namespace cordee::inline CORDEE_ABI::detail::train

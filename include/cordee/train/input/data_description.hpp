// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What weights were trained on: the names of their classes, in the order of the outputs, and the
// normalization of their images. `fit` takes it from the loader, files of weights and checkpoints
// carry it, and what a run is given later is compared with it.
//
// In files of weights it is metadata, of numbers in units of 0 to 1:
//
//   "mean": "0.4914 0.4822 0.4465"    "deviation": "0.247 0.2435 0.2616"    "classes": "cat\ndog"
#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/extent.hpp>
#include <cordee/core/math.hpp>
#include <cordee/core/min_max.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/data/dataset.hpp>
#include <cordee/io/utf8.hpp>
#include <cordee/train/input/feed.hpp>
#include <cordee/train/input/name_list.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

struct data_description {
  name_list class_names{};  // empty: not known
  bool has_normalization = false;
  cordee::normalization normalization{};
  plain_text source{};  // for messages: a file; empty: the training data

  [[nodiscard]] std::string_view describe_source() const {
    return source.empty() ? "the training data" : source.view();
  }
};

/// Up to four names, and how many there are.
[[gnu::cold]] inline std::string describe_names(const name_list& names) {
  std::string out;
  std::string_view rest = names.text();
  for (std::size_t k = 0; !rest.empty() && k < 4; ++k)
    out += concat(k == 0 ? "" : ", ", name_list::take(rest));
  return concat(out, rest.empty() ? "" : ", ...", " (", names.size(), ")");
}

/// Throws error, naming both, if two known lists of class names differ.
[[gnu::cold]] inline void expect_same_classes(const data_description& known, const name_list& names,
                                              const char* owner, const char* remedy) {
  if (known.class_names.empty() || names.empty() || known.class_names == names) return;
  const auto take = [](std::string_view& rest) {
    return rest.empty() ? std::string("missing") : concat("\"", name_list::take(rest), "\"");
  };
  std::string_view own_rest = names.text(), known_rest = known.class_names.text();
  std::string own, expected;
  std::size_t k = 0;
  while ((own = take(own_rest)) == (expected = take(known_rest))) ++k;
  throw error(concat(owner, " has the classes ", describe_names(names), "; ",
                     known.describe_source(), ": ", describe_names(known.class_names), ". Class ",
                     k, " is ", own, ", not ", expected, ": ", remedy));
}

/// Whether no byte becomes numbers that differ by more than rounded constants, or those of another
/// part of the same data, would explain: a twentieth of a deviation.
[[gnu::cold]] inline bool same_normalization(const normalization& a, const normalization& b,
                                             int channels) {
  const auto number = [](const normalization& n, std::size_t c, float x) {
    return (x - n.mean[c]) * n.scale[c];
  };
  for (std::size_t c = 0; c < static_cast<std::size_t>(channels) && c < a.mean.size(); ++c)
    for (const float x : {0.0f, 1.0f})
      if (core::abs(number(a, c, x) - number(b, c, x)) > 0.05f) return false;
  return true;
}

/// "mean 0.5, deviation 0.25", with the numbers of each channel.
[[gnu::cold, gnu::noinline]] inline void add_normalization(core::message& m, const normalization& n,
                                                           int channels) {
  const char* before = "mean ";
  for (int c = 0; c < channels; ++c, before = " ") {
    m.add(before);
    m.add(n.mean[static_cast<std::size_t>(c)]);
  }
  before = ", deviation ";
  for (int c = 0; c < channels; ++c, before = " ") {
    m.add(before);
    m.add(1 / static_cast<double>(n.scale[static_cast<std::size_t>(c)]));
  }
}

/// Reports, naming both, another normalization than the one that is known, or throws it as error.
[[gnu::cold, gnu::noinline]] inline void compare_normalization(const data_description& known,
                                                               const normalization& n, int channels,
                                                               const char* owner, bool throws) {
  if (!known.has_normalization || same_normalization(known.normalization, n, channels)) return;
  core::message m;  // at most 4 channels: 7 + 4 * 4 * 2 parts
  m.add(owner);
  m.add(throws ? ": images are normalized by "
               : ": images are normalized otherwise than before, by ");
  add_normalization(m, n, channels);
  m.add("; ");
  m.add(known.describe_source());
  m.add(": ");
  add_normalization(m, known.normalization, channels);
  m.add(throws ? ": give the normalization that the weights were trained with" : "\n");
  const std::string text = m.text();
  if (throws) throw error(text);
  std::fputs(text.c_str(), stderr);
}

/// Files store the names as JSON, and so in UTF-8. In a name that is not UTF-8, as a folder may
/// have, bytes beyond ASCII are written as "\xe9"; so is a NUL.
[[gnu::cold]] name_list in_utf8(const std::convertible_to<std::vector<std::string>> auto& names) {
  name_list all;
  for (const std::string& name : std::vector<std::string>(names)) {
    const bool is_utf8 = io::is_utf8(name);
    constexpr std::string_view digits = "0123456789abcdef";
    std::string escaped;
    for (const char c : name)
      if (const auto byte = static_cast<unsigned char>(c); is_utf8 ? byte != 0 : byte < 0x80)
        escaped += c;
      else
        escaped += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
    all.add(escaped);
  }
  return all;
}

/// A loader that has names for its classes, or whose data set has.
template <class F>
concept NamesClassesOfFeed =
    requires(const F& feed) { feed.class_names(); } || requires(const F& feed) {
      requires data::NamesClasses<std::remove_cvref_t<decltype(feed.dataset())>>;
    };

/// The class names of a data set or of a loader's; empty if they are not known.
template <class F>
[[gnu::cold]] name_list class_name_list(const F& feed) {
  if constexpr (requires { feed.class_names(); })
    return in_utf8(feed.class_names());
  else if constexpr (NamesClassesOfFeed<F>)
    return in_utf8(feed.dataset().class_names());
  else
    return {};
}

/// Makes `d`, of before in the same run, that of the training data. Throws error for another
/// normalization where the run is `resumed`; else that is reported.
[[gnu::cold, gnu::noinline]] inline void describe_training(data_description& d,
                                                           const normalization& n, int channels,
                                                           bool resumed, bool reports) {
  if (resumed || reports) compare_normalization(d, n, channels, "fit", resumed);
  d.has_normalization = true;
  d.normalization = n;
  d.source = {};
}

/// The same for `feed` when fit begins. Throws error for other classes as well; then `d` is as it
/// was.
template <class F>
[[gnu::cold]] void describe_feed(data_description& d, F& feed, bool resumed, bool reports) {
  if constexpr (!ImageFeed<F>) {
    return;  // batches of one's own have no classes that could be compared
  } else if constexpr (NamesClassesOfFeed<F>) {
    name_list names = class_name_list(feed);
    expect_same_classes(d, names, "fit: the training data",
                        "give the classes in that order, or, for other classes, load the weights "
                        "without their classifier: load(path, {.classifier = false})");
    describe_training(d, feed.normalization(), extent(feed.image()).channels, resumed, reports);
    if (!names.empty()) d.class_names = std::move(names);
  } else {
    describe_training(d, feed.normalization(), extent(feed.image()).channels, resumed, reports);
  }
}

/// The numbers of each channel or, if `inverse`, 1 over each, as files have them.
[[gnu::cold]] std::string describe_channels(const auto& numbers, int channels, bool inverse) {
  std::string out;
  for (int c = 0; c < channels; ++c) {
    const auto x = static_cast<double>(numbers[static_cast<std::size_t>(c)]);
    out += concat(c == 0 ? "" : " ", inverse ? 1 / x : x);
  }
  return out;
}

/// `metadata` with those of the description that it has not. Templates, so that programs that save
/// no weights do not compile them.
[[gnu::cold]] auto with_description(auto metadata, const data_description& of, int channels) {
  const auto add = [&](const char* key, std::string value) {
    for (const auto& m : metadata)
      if (m.first == key) return;
    metadata.emplace_back(key, std::move(value));
  };
  if (of.has_normalization) {
    add("mean", describe_channels(of.normalization.mean, channels, false));
    add("deviation", describe_channels(of.normalization.scale, channels, true));
  }
  if (of.has_normalization || !of.class_names.empty()) {
    std::string names;
    for (std::string_view rest = of.class_names.text(); !rest.empty();)
      names += concat(names.empty() ? "" : "\n", name_list::take(rest));
    add("classes", std::move(names));
  }
  return metadata;
}

/// So many numbers, separated by blanks, or none if `text` is something else.
[[gnu::cold]] std::vector<double> numbers_in(const std::convertible_to<std::string_view> auto& text,
                                             int count) {
  std::vector<double> out;
  const std::string_view all(text);
  for (const char *at = all.data(), *const end = at + all.size(); at != end;) {
    double x = 0;
    const auto [next, failure] = std::from_chars(at, end, x);
    if (failure != std::errc() || (next != end && *next != ' ')) return {};
    out.push_back(x);
    at = next == end ? end : next + 1;
  }
  return out.size() == static_cast<std::size_t>(count) ? out : std::vector<double>();
}

/// The lines of `text`, which is not empty.
[[gnu::cold]] name_list names_in(const std::convertible_to<std::string_view> auto& text) {
  name_list out;
  for (std::string_view rest(text);; rest.remove_prefix(rest.find('\n') + 1)) {
    out.add(rest.substr(0, rest.find('\n')));
    if (rest.find('\n') == rest.npos) return out;
  }
}

/// Reads a file's metadata. Values that do not match the network's `channels` and `classes` are
/// reported and left out; class names are ignored if the classifier was not loaded.
[[gnu::cold]] data_description read_description(const auto& metadata, int channels, int classes,
                                                bool classifier, const std::string& path) {
  data_description out{.source = concat("the file ", path)};
  std::vector<double> mean, deviation;
  const auto report = [&](const char* key, const char* expected, int count) {
    std::fprintf(stderr, "load: %s: its metadata \"%s\" are not %d %s, and not compared\n",
                 path.c_str(), key, count, expected);
  };
  for (const auto& [key, value] : metadata) {
    if (key == "mean" || key == "deviation") {
      auto& numbers = key == "mean" ? mean : deviation;
      numbers = numbers_in(value, channels);
      if (numbers.empty()) report(key.c_str(), "numbers, one a channel", channels);
    } else if (key == "classes" && classifier && !value.empty()) {
      out.class_names = names_in(value);
      if (out.class_names.size() == static_cast<std::size_t>(classes)) continue;
      report("classes", "names, one a line", classes);
      out.class_names = {};
    }
  }
  out.has_normalization = !mean.empty() && !deviation.empty();
  for (std::size_t c = 0; out.has_normalization && c < mean.size() && c < 4; ++c) {
    out.normalization.mean[c] = static_cast<float>(mean[c]);
    out.normalization.scale[c] = static_cast<float>(1 / deviation[c]);
  }
  return out;
}

}  // namespace cordee::inline CORDEE_ABI::detail::train

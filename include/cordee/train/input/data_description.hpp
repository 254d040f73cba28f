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

#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/extent.hpp>
#include <cordee/core/math.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/data/dataset.hpp>
#include <cordee/io/json.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

struct data_description {
  std::vector<std::string> class_names{};  // empty: not known
  bool has_normalization = false;
  cordee::normalization normalization{};
  std::string source{};  // for messages: the training data, a file
};

/// Up to four names, and how many there are.
[[gnu::cold]] inline std::string describe_names(const std::vector<std::string>& names) {
  std::string out;
  for (std::size_t k = 0; k < names.size() && k < 4; ++k)
    out += concat(k == 0 ? "" : ", ", names[k]);
  return concat(out, names.size() > 4 ? ", ..." : "", " (", names.size(), ")");
}

/// Throws error, naming both, if two known lists of class names differ.
[[gnu::cold]] inline void expect_same_classes(const data_description& known,
                                              const std::vector<std::string>& names,
                                              const char* owner, const char* remedy) {
  if (known.class_names.empty() || names.empty() || known.class_names == names) return;
  std::size_t k = 0;
  while (k < names.size() && k < known.class_names.size() && names[k] == known.class_names[k]) ++k;
  const auto at = [k](const std::vector<std::string>& of) {
    return k < of.size() ? concat("\"", of[k], "\"") : std::string("missing");
  };
  throw error(concat(owner, " has the classes ", describe_names(names), "; ", known.source, ": ",
                     describe_names(known.class_names), ". Class ", k, " is ", at(names), ", not ",
                     at(known.class_names), ": ", remedy));
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

/// The numbers of each channel, as files have them.
[[gnu::cold]] inline std::string describe_mean(const normalization& n, int channels) {
  std::string out;
  for (std::size_t c = 0; c < static_cast<std::size_t>(channels); ++c)
    out += concat(c == 0 ? "" : " ", n.mean[c]);
  return out;
}
[[gnu::cold]] inline std::string describe_deviation(const normalization& n, int channels) {
  std::string out;
  for (std::size_t c = 0; c < static_cast<std::size_t>(channels); ++c)
    out += concat(c == 0 ? "" : " ", 1 / static_cast<double>(n.scale[c]));
  return out;
}

[[gnu::cold]] inline std::string describe_difference(const data_description& known,
                                                     const normalization& n, int channels) {
  return concat("mean ", describe_mean(n, channels), ", deviation ",
                describe_deviation(n, channels), "; ", known.source, ": mean ",
                describe_mean(known.normalization, channels), ", deviation ",
                describe_deviation(known.normalization, channels));
}

/// Throws error, naming both, for another normalization than the one of training.
[[gnu::cold]] inline void expect_same_normalization(const data_description& known,
                                                    const normalization& n, int channels,
                                                    const char* owner) {
  if (known.has_normalization && !same_normalization(known.normalization, n, channels))
    throw error(concat(owner, ": images are normalized by ",
                       describe_difference(known, n, channels),
                       ": give the normalization that the weights were trained with"));
}

/// Files have the names as JSON, so in UTF-8. Of another name, as a folder may have, the bytes
/// beyond ASCII are written as "\xe9".
[[gnu::cold]] inline std::vector<std::string> in_utf8(std::vector<std::string> names) {
  for (std::string& name : names) {
    if (io::is_utf8(name)) continue;
    constexpr std::string_view digits = "0123456789abcdef";
    std::string escaped;
    for (const char c : name)
      if (const auto byte = static_cast<unsigned char>(c); byte < 0x80)
        escaped += c;
      else
        escaped += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
    name = std::move(escaped);
  }
  return names;
}

/// The class names of a data set, or of a loader's; empty if they are not known.
template <class F>
[[gnu::cold]] std::vector<std::string> class_names_of_feed(const F& feed) {
  if constexpr (requires { feed.class_names(); })
    return in_utf8(feed.class_names());
  else if constexpr (requires { feed.dataset().size(); })
    return in_utf8(data::class_names_of(feed.dataset()));
  else
    return {};
}

/// Of `feed` when fit begins, after `before` of the same run. Throws error for other classes and,
/// where the run is `resumed`, for another normalization; else that is reported.
template <class F>
[[gnu::cold]] data_description description_of(F& feed, const data_description& before, bool resumed,
                                              bool reports) {
  const int channels = extent(feed.image()).channels;
  data_description own{class_names_of_feed(feed), true, feed.normalization(), "the training data"};
  expect_same_classes(before, own.class_names, "fit: the training data",
                      "give the classes in that order, or, for other classes, load the weights "
                      "without their classifier: load(path, {.classifier = false})");
  if (resumed)
    expect_same_normalization(before, own.normalization, channels, "fit");
  else if (reports && before.has_normalization &&
           !same_normalization(before.normalization, own.normalization, channels))
    std::fprintf(stderr, "fit: images are normalized otherwise than before, by %s\n",
                 describe_difference(before, own.normalization, channels).c_str());
  if (own.class_names.empty()) own.class_names = before.class_names;
  return own;
}

/// `metadata` with those of the description that it has not. Templates, so that programs that save
/// no weights do not compile them.
[[gnu::cold]] auto with_description(auto metadata, const data_description& of, int channels) {
  const auto add = [&](const char* key, std::string value) {
    const auto same = [&](const auto& m) { return m.first == key; };
    if (std::none_of(metadata.begin(), metadata.end(), same))
      metadata.emplace_back(key, std::move(value));
  };
  if (of.has_normalization) {
    add("mean", describe_mean(of.normalization, channels));
    add("deviation", describe_deviation(of.normalization, channels));
  }
  if (of.has_normalization || !of.class_names.empty()) {
    std::string names;
    for (const std::string& name : of.class_names) names += (names.empty() ? "" : "\n") + name;
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

/// Of a file's metadata. What is there and is not of the network's `channels` and `classes` is
/// reported and left out; class names are not of the run where the classifier was not read.
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
      for (std::size_t at = 0; at <= value.size();) {
        const std::size_t end = std::min(value.find('\n', at), value.size());
        out.class_names.push_back(value.substr(at, end - at));
        at = end + 1;
      }
      if (out.class_names.size() == static_cast<std::size_t>(classes)) continue;
      report("classes", "names, one a line", classes);
      out.class_names.clear();
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

// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Settings that must be equal on all ranks, as lines of text, and what differs. Those of a trainer
// are in same_trainers.hpp, those of a loader in same_loaders.hpp.
//
// The comparison itself is a fingerprint of 64 bits; texts are exchanged only where it differs.
// Functions are templates even where one type is meant (`auto`), so that a program of a single rank
// does not compile them.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <cordee/comm/reducers/collectives.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/decimal.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/min_max.hpp>
#include <cordee/core/pod_vector.hpp>
#include <cordee/train/input/name_list.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

/// "name\tvalue\n" for each setting, in one order on all ranks.
class settings {
 public:
  [[gnu::cold, gnu::noinline]] void add(std::string_view name, std::string_view value) {
    lines_.append(name);
    lines_.append("\t");
    for (const char c : value)
      lines_.append(c == '\n' || c == '\t' || c == '\0' ? " " : std::string_view(&c, 1));
    lines_.append("\n");
  }
  /// With as many digits as give the number back.
  [[gnu::cold, gnu::noinline]] void add(std::string_view name, double value) {
    add(name, std::string_view(decimal::shortest(value)));
  }
  [[nodiscard]] std::string_view lines() const { return lines_.view(); }

  /// FNV-1a, 64 bits.
  [[nodiscard, gnu::cold, gnu::noinline]] std::uint64_t fingerprint() const {
    std::uint64_t hash = 0xcbf29ce484222325u;
    for (const char c : lines()) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    return hash;
  }

 private:
  plain_text lines_;
};

/// "the seed of the loader: rank 0 has 1, rank 2 has 2: ..." of the first line that differs.
[[nodiscard, gnu::cold]] std::string first_difference(std::string_view first,
                                                      std::string_view other,
                                                      std::integral auto other_rank) {
  const auto cut_line = [](std::string_view& rest) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    return line;
  };
  std::string_view a, b;
  do {
    a = cut_line(first);
    b = cut_line(other);
  } while (a == b && !(first.empty() && other.empty()));
  constexpr std::size_t longest = 200;  // of a value in the message
  // A long description begins at the phrase that differs.
  std::size_t same = 0, phrase = 0;  // behind the last ',' or ';' and blank; 0: none
  for (; same < a.size() && same < b.size() && a[same] == b[same]; ++same)
    if (a[same] == ' ' && same > 0 && (a[same - 1] == ',' || a[same - 1] == ';')) phrase = same;
  const std::string_view named = a.empty() ? b : a, name = named.substr(0, named.find('\t'));
  const bool cuts = same > longest / 2 && phrase > name.size();
  const auto value = [&](std::string_view line) -> std::string_view {
    if (line.empty()) return "none";
    return line.substr(cuts ? phrase : line.find('\t') + 1, longest);
  };
  const std::string_view dots = cuts ? "..." : "";
  return concat(name, " differs: rank 0 has ", dots, value(a), ", rank ", other_rank, " has ", dots,
                value(b), ": give every rank the same");
}

/// 64 bits as two numbers of 32, which a double holds.
constexpr std::array<double, 2> halves_of(std::uint64_t hash) {
  return {static_cast<double>(hash >> 32), static_cast<double>(hash & 0xffffffffu)};
}

/// Every rank's `values`, (ranks, n). Collective.
template <class Communicator>
[[gnu::cold]] std::vector<double> gather(const Communicator& comm, std::span<const double> values) {
  if (comm.size() == 1) return std::vector<double>(values.data(), values.data() + values.size());
  return comm::gather_host(comm, values);
}

/// The first row of `rows`, (ranks, n), that differs from row 0; 0 if none does.
std::size_t first_other_row(std::span<const double> rows, std::same_as<std::size_t> auto n) {
  for (std::size_t at = n; at < rows.size(); at += n)
    if (!std::equal(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(n),
                    rows.begin() + static_cast<std::ptrdiff_t>(at)))
      return at / n;
  return 0;
}

[[gnu::cold]] std::vector<double> letters_of(std::string_view text,
                                             std::same_as<std::size_t> auto n) {
  std::vector<double> letters(n);
  for (std::size_t i = 0; i < std::min(n, text.size()); ++i)
    letters[i] = static_cast<unsigned char>(text[i]);
  return letters;
}
[[gnu::cold]] std::string text_of(const std::same_as<std::span<const double>> auto& letters) {
  core::pod_vector<char> text;
  for (std::size_t i = 0; i < letters.size() && letters[i] > 0; ++i)
    text.push_back(static_cast<char>(static_cast<unsigned char>(letters[i])));
  return std::string(text.data(), text.size());
}

/// The texts of rank 0 and rank `other`, of which `longest` letters are exchanged. Collective.
template <class Communicator>
[[gnu::cold]] std::array<std::string, 2> gather_texts(const Communicator& comm,
                                                      std::string_view own, std::size_t other,
                                                      std::size_t longest) {
  const std::vector<double> letters = gather(comm, letters_of(own, longest));  // (ranks, longest)
  const std::span<const double> all(letters.data(), letters.size());
  return {text_of(all.first(longest)), text_of(all.subspan(other * longest, longest))};
}

/// What differs between the settings of rank 0 and of rank `other`. Collective.
template <class Communicator>
[[gnu::cold]] std::string describe_other_setting(const Communicator& comm, const settings& own,
                                                 std::size_t other) {
  const double length = static_cast<double>(own.lines().size());
  std::size_t longest = 0;
  for (const double n : gather(comm, std::span<const double>(&length, 1)))
    longest = std::max(longest, static_cast<std::size_t>(n));
  const auto [first, second] = gather_texts(comm, own.lines(), other, longest);
  return first_difference(first, second, other);
}

/// Throws on every rank, "fit: ...", with the first setting that differs. Collective.
template <class Communicator>
[[gnu::cold]] void expect_same_settings(const Communicator& comm, const settings& own,
                                        std::string_view where) {
  const std::array<double, 2> halves = halves_of(own.fingerprint());
  if (const std::size_t other = first_other_row(gather(comm, halves), std::size_t{2}); other != 0)
    throw error(concat(where, ": ", describe_other_setting(comm, own, other)));
}

}  // namespace cordee::inline CORDEE_ABI::detail::train

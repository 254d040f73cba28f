// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Which processes are the ranks of an elastic run, and which of them may form its next world.
//
// A generation is one world: a number, a random nonce, and its members by rank. A process that
// joins a new generation first adds it to its history as promised, and never takes that back. When
// the new world is complete, every member has promised it, and it is formed: older ones are
// forgotten. Processes may form the next generation only if they are a quorum of the newest
// generation that one of them knows to be formed, and of every newer one that one of them has
// promised. Two quorums of a generation share a member, and that one's promise binds the other
// set: so of all worlds that are formed from one, each has the one before it as its only
// predecessor, and a network that is cut in two never has two worlds that train.
//
// A quorum is more than half of the members, or half with rank 0.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <cordee/comm/transports/bootstrap/socket_address.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

/// A process of the run, and where it answers the others while it lives.
struct member {
  std::uint64_t id = 0;  // random
  std::string address{};
  int port = 0;
};

/// Reads numbers and words that spaces divide, of another process: nothing is believed.
class word_reader {
 public:
  explicit word_reader(std::string_view text) : rest_(text) {}

  [[nodiscard]] std::optional<std::string_view> word() {
    const std::size_t end = std::min(rest_.find(' '), rest_.size());
    const std::string_view first = rest_.substr(0, end);
    rest_.remove_prefix(std::min(rest_.size(), end + 1));
    return first.empty() ? std::nullopt : std::optional(first);
  }
  /// Of `lowest` to `highest`.
  template <class Integer>
  [[nodiscard]] std::optional<Integer> number(Integer lowest, Integer highest) {
    const auto text = word();
    Integer n{};
    if (!text) return {};
    const auto [end, status] = std::from_chars(text->data(), text->data() + text->size(), n);
    const bool is_whole = status == std::errc{} && end == text->data() + text->size();
    return is_whole && n >= lowest && n <= highest ? std::optional(n) : std::nullopt;
  }
  [[nodiscard]] std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

/// "7 127.0.0.1 29500 "
[[nodiscard, gnu::cold]] inline std::string serialize(const member& m) {
  return concat(m.id, " ", m.address, " ", m.port, " ");
}
[[nodiscard, gnu::cold]] inline std::optional<member> parse_member(word_reader& in) {
  const auto id = in.number<std::uint64_t>(1, ~std::uint64_t{});
  const auto address = in.word();
  const auto port = in.number<int>(1, 65535);
  if (!id || !address || !port || address->size() >= address_text_size) return {};
  return member{*id, std::string(*address), *port};
}

/// One world of the run.
struct generation {
  static constexpr std::int64_t most = std::int64_t{1} << 40;
  static constexpr int most_members = 1 << 20;

  std::int64_t number = 0;  // 0: none
  std::uint64_t nonce = 0;
  std::vector<member> members{};  // by rank

  friend bool operator==(const generation& a, const generation& b) {
    return a.number == b.number && a.nonce == b.nonce;
  }
  /// The rank of a member, or -1.
  [[nodiscard]] int rank_of(std::uint64_t id) const {
    const auto found = std::ranges::find(members, id, &member::id);
    return found == members.end() ? -1 : static_cast<int>(found - members.begin());
  }
  /// Whether the processes are more than half of the members, or half with rank 0.
  [[nodiscard]] bool has_quorum(std::span<const std::uint64_t> ids) const {
    std::size_t count = 0;
    bool has_first = false;
    for (const std::uint64_t id : ids) {
      const int rank = rank_of(id);
      count += rank >= 0;
      has_first = has_first || rank == 0;
    }
    return 2 * count > members.size() || (2 * count == members.size() && has_first);
  }
  [[nodiscard, gnu::cold]] std::string serialize() const {
    std::string text = concat(number, " ", nonce, " ", members.size(), " ");
    for (const member& m : members) text += comm::serialize(m);
    return text;
  }
  /// Empty for what serialize() does not write. Each member is one once.
  [[nodiscard, gnu::cold]] static std::optional<generation> parse(word_reader& in) {
    const auto number = in.number<std::int64_t>(1, most);
    const auto nonce = in.number<std::uint64_t>(0, ~std::uint64_t{});
    const auto count = in.number<int>(1, most_members);
    if (!number || !nonce || !count) return {};
    generation g{*number, *nonce, {}};
    std::vector<std::uint64_t> ids;
    for (int rank = 0; rank < *count; ++rank) {
      auto m = parse_member(in);
      if (!m) return {};
      ids.push_back(m->id);
      g.members.push_back(std::move(*m));
    }
    std::ranges::sort(ids);
    if (std::ranges::adjacent_find(ids) != ids.end()) return {};
    return g;
  }
};

/// What a process knows of the run's worlds: the last one that it has seen complete, and those that
/// it has promised since.
class generation_history {
 public:
  generation_history() = default;
  explicit generation_history(generation formed) : formed_(std::move(formed)) {}

  [[nodiscard]] const generation& formed() const { return formed_; }
  [[nodiscard]] std::span<const generation> promised() const { return promised_; }
  [[nodiscard]] std::int64_t newest() const {
    std::int64_t number = formed_.number;
    for (const generation& g : promised_) number = std::max(number, g.number);
    return number;
  }
  /// Whether a proposed world is newer than all that are known, as a promise demands.
  [[nodiscard]] bool may_promise(const generation& g) const { return g.number > newest(); }
  void promise(generation g) { promised_.push_back(std::move(g)); }
  /// The promised world is complete.
  void form(const generation& g) {
    formed_ = g;
    forget_older();
  }
  /// Adds what another process knows.
  [[gnu::cold]] void merge(const generation_history& other) {
    if (other.formed_.number > formed_.number) formed_ = other.formed_;
    for (const generation& g : other.promised_)
      if (std::ranges::find(promised_, g) == promised_.end()) promised_.push_back(g);
    forget_older();
  }
  /// The first generation of which the processes are no quorum; null where they may form the next.
  [[nodiscard, gnu::cold]] const generation* without_quorum(
      std::span<const std::uint64_t> ids) const {
    if (!formed_.has_quorum(ids)) return &formed_;
    for (const generation& g : promised_)
      if (!g.has_quorum(ids)) return &g;
    return nullptr;
  }
  /// All members of the generations, each once; those of the formed one first, by rank.
  [[nodiscard, gnu::cold]] std::vector<member> members() const {
    std::vector<member> all = formed_.members;
    for (const generation& g : promised_)
      for (const member& m : g.members)
        if (std::ranges::find(all, m.id, &member::id) == all.end()) all.push_back(m);
    return all;
  }
  [[nodiscard, gnu::cold]] std::string serialize() const {
    std::string text = formed_.serialize() + concat(promised_.size(), " ");
    for (const generation& g : promised_) text += g.serialize();
    return text;
  }
  [[nodiscard, gnu::cold]] static std::optional<generation_history> parse(word_reader& in) {
    auto formed = generation::parse(in);
    const auto count = in.number<int>(0, 1 << 10);
    if (!formed || !count) return {};
    generation_history h(std::move(*formed));
    for (int k = 0; k < *count; ++k) {
      auto g = generation::parse(in);
      if (!g) return {};
      h.promised_.push_back(std::move(*g));
    }
    return h;
  }

 private:
  void forget_older() {
    std::erase_if(promised_, [this](const generation& g) { return g.number <= formed_.number; });
  }

  generation formed_;
  std::vector<generation> promised_;
};

/// Worlds of the same ranks that have failed one after the other, as one process has seen them.
struct failed_worlds {
  std::vector<member> members{};  // by rank
  int count = 0;
  std::string cause{};  // of the last one

  /// One more has failed. `has_trained`: it lasted, so that those before it do not count.
  [[gnu::cold]] void note(std::vector<member> of, const std::string& why, bool has_trained) {
    count = has_trained ? 0 : are(of) ? count + 1 : 1;
    members = std::move(of);
    cause = why;
  }
  [[nodiscard]] bool are(const std::vector<member>& others) const {
    return std::ranges::equal(members, others, {}, &member::id, &member::id);
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm

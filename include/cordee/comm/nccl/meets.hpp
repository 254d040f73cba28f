// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Where the ranks of nccl::launch meet: rank 0 listens on a port, and says where by a file that all
// can read, by a link they have already, or at the address that everybody was told.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <cordee/comm/launch.hpp>
#include <cordee/comm/transport.hpp>
#include <cordee/device/cpu.hpp>

namespace cordee::inline CORDEE_ABI {

/// "29500 17 node1 10.0.0.1": a port, the run's number, and by what names its machine may be known.
struct meeting_point {
  int port = 0;
  std::uint64_t run = 0;
  std::vector<std::string> names{};

  [[nodiscard]] std::string str() const {
    std::string all = text(port, " ", run);
    for (const std::string& name : names) all += " " + name;
    return all;
  }
  /// Nothing if the words are not whole.
  static std::optional<meeting_point> read(const std::string& words) {
    std::istringstream from(words);
    meeting_point here;
    if (!(from >> here.port >> here.run)) return {};
    for (std::string name; from >> name;) here.names.push_back(name);
    if (here.names.empty()) return {};
    return here;
  }
};

/// here(): which rank this is. port(): where rank 0 listens, 0 if any will do. On rank 0 publish(),
/// elsewhere find(), which has nothing to say for a while, and is asked until rank 0 answers there.
template <class W>
concept Meets = requires(W w, const meeting_point& at) {
  { w.here() } -> std::same_as<standing>;
  { w.port() } -> std::same_as<int>;
  { w.publish(at) } -> std::same_as<void>;
  { w.find() } -> std::same_as<std::optional<meeting_point>>;
};

namespace detail {
inline standing standing_of_this_process() {
  const auto told = told_standing([](const char* name) { return std::getenv(name); });
  return told ? *told : standing{0, 1, "no launcher"};
}
}  // namespace detail

/// What everybody was told: MASTER_ADDR and MASTER_PORT, as torchrun sets them, or an address of
/// your own. A rank that is alone needs none.
struct by_address {
  std::optional<address> at = told_address([](const char* name) { return std::getenv(name); });

  [[nodiscard]] static standing here() { return detail::standing_of_this_process(); }
  [[nodiscard]] int port() const { return told().port; }
  void publish(const meeting_point&) const {}
  [[nodiscard]] std::optional<meeting_point> find() const {
    return meeting_point{told().port, 0, {told().name}};
  }

 private:
  [[nodiscard]] address told() const {
    if (at) return *at;
    if (here().size == 1) return {"127.0.0.1", 0};
    throw error(
        "nobody says where the ranks meet: start them by torchrun, set MASTER_ADDR and "
        "MASTER_PORT, or give nccl::launch by_file{\"a path that all of them see\"} or by_link{a "
        "link of mpi}");
  }
};

/// A path in a folder that all ranks see; the port is chosen by rank 0's system. What an earlier
/// run left there does no harm: nobody answers it.
struct by_file {
  std::string path;

  [[nodiscard]] static standing here() { return detail::standing_of_this_process(); }
  [[nodiscard]] static int port() { return 0; }
  void publish(const meeting_point& at) const {
    const std::string half = text(path, ".", at.run);
    if (!(std::ofstream(half) << at.str() << "\n"
                              << std::flush) ||
        std::rename(half.c_str(), path.c_str()) != 0)
      throw error(text("by_file: ", path,
                       " cannot be written: ranks meet in a folder that all of "
                       "them see and may write to"));
  }
  [[nodiscard]] std::optional<meeting_point> find() const {
    std::string words;
    std::getline(std::ifstream(path), words);
    return meeting_point::read(words);
  }
};

/// A link between the same ranks, such as mpi's.
template <class Link>
  requires TransportOn<Link, cpu>
struct by_link {
  Link link;
  std::optional<meeting_point> heard{};

  [[nodiscard]] standing here() const { return {link.rank(), link.size(), "the link"}; }
  [[nodiscard]] static int port() { return 0; }
  void publish(const meeting_point& at) const {
    std::array<char, 1024> words{};
    at.str().copy(words.data(), words.size() - 1);
    std::vector<to<cpu>> out;
    for (int peer = 1; peer < link.size(); ++peer)
      out.push_back({peer, {reinterpret_cast<const std::byte*>(words.data()), words.size()}});
    tell(out, {});
  }
  [[nodiscard]] std::optional<meeting_point> find() {
    if (heard) return heard;
    std::array<char, 1024> words{};
    tell({}, {{0, {reinterpret_cast<std::byte*>(words.data()), words.size()}}});
    return heard = meeting_point::read(words.data());
  }

 private:
  void tell(const std::vector<to<cpu>>& out, const std::vector<from<cpu>>& in) const {
    link.lane(agree_lane)
        .exchange(std::span<const to<cpu>>(out), std::span<const from<cpu>>(in), cpu::stream{});
  }
};
template <class Link>
by_link(Link) -> by_link<Link>;

}  // namespace cordee::inline CORDEE_ABI

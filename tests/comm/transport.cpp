// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Archetypes of the concepts: one that is as small as can be, and that one short of each thing.
#include <string>

#include <doctest/doctest.h>

#include <cordee/comm/threads.hpp>
#include <cordee/comm/transport.hpp>
#include <cordee/device/cpu.hpp>

#include "tests/support/slowed.hpp"

using namespace cordee;
using support::slowed;

namespace {

/// The least that is a transport.
template <class Self>
struct least_of {
  static constexpr bool blocks_host = true;
  int rank() const { return 0; }
  int size() const { return 1; }
  Self lane(int) const { return {}; }
  template <class D>
  void exchange(std::span<const to<D>>, std::span<const from<D>>, typename D::stream) const {}
};
struct least : least_of<least> {};

struct no_host_word : least_of<no_host_word> {
 private:
  static constexpr bool blocks_host = true;
};
struct rank_of_another_type : least_of<rank_of_another_type> {
  std::size_t rank() const { return 0; }
};
struct lane_of_another_type : least_of<least> {};
struct no_size : least_of<no_size> {
 private:
  int size() const;
};
struct exchange_that_answers : least_of<exchange_that_answers> {
  template <class D>
  bool exchange(std::span<const to<D>>, std::span<const from<D>>, typename D::stream) const {
    return true;
  }
};
struct exchange_that_changes : least_of<exchange_that_changes> {
  template <class D>
  void exchange(std::span<const to<D>>, std::span<const from<D>>, typename D::stream) {}
};
struct adding_floats : least_of<adding_floats> {
  template <std::same_as<float> Real, class D>
  void exchange_add(std::span<const to<D>>, std::span<const from<D>>, typename D::stream) const {}
};
struct telling : least_of<telling> {
  std::string* heard = nullptr;
  void abandon(const char* why) const { *heard = why; }
};

}  // namespace

static_assert(TransportOn<least, cpu> && !TransportOn<least, int>);
static_assert(!TransportOn<no_host_word, cpu> && !TransportOn<no_size, cpu>);
static_assert(!TransportOn<rank_of_another_type, cpu> && !TransportOn<lane_of_another_type, cpu>);
static_assert(!TransportOn<exchange_that_answers, cpu> && !TransportOn<exchange_that_changes, cpu>);
static_assert(AddsOn<adding_floats, float, cpu> && !AddsOn<adding_floats, double, cpu> &&
              !AddsOn<least, float, cpu>);
static_assert(AddsOn<threads, float, cpu> && AddsOn<threads, double, cpu> &&
              !AddsOn<slowed<threads>, float, cpu>);
static_assert(Abandons<telling> && Abandons<threads> && !Abandons<least>);

TEST_CASE("transport: peers are told why where the transport can, and otherwise nothing happens") {
  std::string heard;
  telling link;
  link.heard = &heard;
  abandon(link, "the sensor fell off");
  CHECK(heard == "the sensor fell off");
  abandon(least{}, "nobody hears this");
  CHECK(heard == "the sensor fell off");
}

TEST_CASE("transport: lanes are four, and each is somebody's own") {
  const int lanes[] = {reducer_lane, agree_lane, request_lane, answer_lane};
  for (int i = 0; i < 4; ++i) {
    CHECK(lanes[i] == i);
    CHECK(lanes[i] < lane_count);
  }
}

TEST_CASE("transport: a peer beyond the ranks is misuse, with both numbers") {
  for (const int peer : {-1, 3}) {
    std::string said;
    try {
      detail::expects_peer("a link", peer, 3);
    } catch (const misuse& e) {
      said = e.what();
    }
    CHECK(said == text("a link: no such peer: rank ", peer, ", where ranks are 0 to 2"));
  }
  detail::expects_peer("a link", 2, 3);
}

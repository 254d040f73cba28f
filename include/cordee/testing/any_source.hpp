// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The law of a transport that hears whoever comes first: everybody as often as they spoke, and in
// their order. It is one of transport_laws.hpp.
#pragma once

#include <exception>
#include <thread>
#include <vector>

#include <cordee/comm/transport.hpp>
#include <cordee/testing/verdict.hpp>
#include <cordee/testing/words.hpp>

namespace cordee::inline CORDEE_ABI::detail {

// All ranks, rank 0 among them, say three words to rank 0, which hears whoever comes first.
template <class Link>
void any_source_is_heard(const Link& link, verdict& v) {
  const int p = link.size(), r = link.rank();
  const auto said = [](int rank, int k) { return word{static_cast<float>(100 * rank + k)}; };
  const Link requests = link.lane(request_lane);
  const auto speak = [&] {
    for (int k = 0; k < 3; ++k) exchange(requests, {tell(0, said(r, k))}, {});
  };
  if (r != 0) return speak();
  std::thread beside([&] {
    try {
      speak();
    } catch (const std::exception& e) {
      abandon(link, e.what());
    }
  });
  std::vector<int> times(static_cast<std::size_t>(p));
  try {
    for (int k = 0; k < 3 * p; ++k) {
      std::vector<int> due;
      for (int rank = 0; rank < p; ++rank)
        if (times[static_cast<std::size_t>(rank)] < 3) due.push_back(rank);
      const int first = requests.next(due);
      word heard(1);
      exchange(requests, {}, {hear(first, heard)});
      int& t = times[static_cast<std::size_t>(first)];
      v.law(heard == said(first, t++), "rank ", first, " was to come first, and was not heard so");
    }
  } catch (...) {
    beside.join();
    throw;
  }
  beside.join();
  for (const int t : times) v.law(t == 3, "somebody said three words and was heard ", t, " times");
}

}  // namespace cordee::inline CORDEE_ABI::detail

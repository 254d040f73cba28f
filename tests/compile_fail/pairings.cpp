// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Which rules and reducers go together is known when the program compiles.
#include <cordee/comm/gossip.hpp>
#include <cordee/comm/narrow.hpp>
#include <cordee/comm/ring.hpp>
#include <cordee/comm/server.hpp>
#include <cordee/comm/threads.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/local.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/quadratic.hpp"

using namespace cordee;
using namespace support;

// A wire that rounds, by neighbours; and a transport that hears only whom it asks.
template <class Link>
struct rounding : gossip<Link> {
  static constexpr bool lossless = false;
};
struct deaf {
  static constexpr bool blocks_host = true;
  threads link;
  [[nodiscard]] int rank() const { return link.rank(); }
  [[nodiscard]] int size() const { return link.size(); }
  [[nodiscard]] deaf lane(int k) const { return {link.lane(k)}; }
  template <Device D>
  void exchange(std::span<const to<D>> out, std::span<const from<D>> in,
                typename D::stream s) const {
    link.exchange(out, in, s);
  }
};

void compose(threads link) {
  quadratic<fp32> model;
  constexpr auto rate = [](double) { return 0.1; };
#if defined(DIRECTION_OF_NOTHING)
  trainer run{model, decentlam_over{decentlam{}}, rate, gossip{link}};
  run.step({}, 0);
#elif defined(GRADIENTS_OVER_MIXING)
  trainer run{model, sgd{}, rate, gossip{link}};
#elif defined(POSITIONS_OVER_LOOSE)
  trainer run{model, decentlam{}, rate, server{link, asynchronous{}}};
#elif defined(GRADIENTS_OVER_LOOSE)
  trainer run{model, sgd{}, rate, server{link, asynchronous{}}};
#elif defined(SERVER_OVER_DEAF)
  trainer run{model, local{sgd{}, 1}, rate, server{deaf{link}, asynchronous{}}};
#elif defined(POSITIONS_OVER_LOSSY)
  trainer run{model, decentlam{}, rate, rounding<threads>{{link}}};
#elif defined(POSITIONS_OVER_NARROW)
  trainer run{model, decentlam{}, rate, narrow{ring{link}, fp16{}}};
#else
  trainer exact{model, sgd{}, rate, ring{link}};
  trainer mixing{model, decentlam{}, rate, gossip{link}};
  trainer over{model, decentlam_over{lars{}}, rate, gossip{link, symmetric_exponential{}}};
  trainer averaging{model, local{sgd{}, 1}, rate, gossip{link}};
  trainer more_than_needed{model, decentlam{}, rate, ring{link}};
  trainer loose{model, local{sgd{}, 8}, rate, server{link, asynchronous{}}};
  trainer served{model, sgd{}, rate, server{deaf{link}}};
  trainer rounded{model, sgd{}, rate, narrow{ring{link}, fp16{}}};
#endif
}

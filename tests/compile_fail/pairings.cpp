// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// An invalid pairing of optimizer and reducer does not compile.
#include <cordee/comm/reducers/compressed.hpp>
#include <cordee/comm/reducers/gossip.hpp>
#include <cordee/comm/reducers/majority_vote.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/server.hpp>
#include <cordee/comm/reducers/sharded.hpp>
#include <cordee/comm/transports/threads.hpp>
#include <cordee/optim/adamp.hpp>
#include <cordee/optim/clip.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/on_host.hpp>
#include <cordee/optim/one_bit_adam.hpp>
#include <cordee/optim/outer_momentum.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/optim/zero_one_adam.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/quadratic.hpp"

using namespace cordee;
using namespace support;

// A lossy reducer that mixes, and a transport that cannot receive from any source.
template <class Communicator>
struct lossy_gossip : gossip<Communicator> {
  static constexpr bool lossless = false;
};
struct exchange_only {
  static constexpr bool blocks_host = true;
  threads comm;
  [[nodiscard]] int rank() const { return comm.rank(); }
  [[nodiscard]] int size() const { return comm.size(); }
  [[nodiscard]] exchange_only duplicate(int k) const { return {comm.duplicate(k)}; }
  template <Device D>
  void exchange(std::span<const send_op<D>> out, std::span<const recv_op<D>> in,
                typename D::stream s) const {
    comm.exchange(out, in, s);
  }
};

void compose(threads comm) {
  quadratic<fp32> model;
  constexpr auto learning_rate = [](double) { return 0.1; };
#if defined(DIRECTION_OF_DECENTLAM)
  trainer run{model, decentlam_over{decentlam{}}, learning_rate, gossip{comm}};
  run.step({}, 0);
#elif defined(GRADIENTS_OVER_MIXING)
  trainer run{model, sgd{}, learning_rate, gossip{comm}};
#elif defined(WEIGHTS_OVER_LOOSE)
  trainer run{model, decentlam{}, learning_rate, server{comm, asynchronous{}}};
#elif defined(GRADIENTS_OVER_LOOSE)
  trainer run{model, sgd{}, learning_rate, server{comm, asynchronous{}}};
#elif defined(ASYNCHRONOUS_SERVER_WITHOUT_ANY_SOURCE)
  trainer run{model, local_steps{sgd{}, 1}, learning_rate,
              server{exchange_only{comm}, asynchronous{}}};
#elif defined(WEIGHTS_OVER_LOSSY)
  trainer run{model, decentlam{}, learning_rate, lossy_gossip<threads>{{comm}}};
#elif defined(LOCAL_STEPS_OVER_SHARDED)
  trainer run{model, local_steps{sgd{}, 8}, learning_rate, sharded{ring{comm}}};
#elif defined(MOMENTA_OVER_SHARDED)
  trainer run{model, clip{one_bit_adam{}}, learning_rate, sharded{ring{comm}}};
#elif defined(WHOLE_ROWS_OVER_SHARDED)
  trainer run{model, clip{adamp{}}, learning_rate, sharded{ring{comm}}};
#elif defined(ON_HOST_OF_A_CPU)
  trainer run{model, on_host{sgd{}}, learning_rate, ring{comm}};
#elif defined(ON_HOST_INSIDE)
  trainer run{model, clip{on_host{sgd{}}}, learning_rate, ring{comm}};
#elif defined(ON_HOST_OF_LOCAL_STEPS)
  trainer run{model, on_host{local_steps{sgd{}, 8}}, learning_rate, ring{comm}};
#elif defined(ON_HOST_OVER_SHARDED)
  trainer run{model, on_host{sgd{}}, learning_rate, sharded{ring{comm}}};
#elif defined(DIFFERENCES_OVER_SIGNS)
  trainer run{model, outer_momentum{local_steps{sgd{}, 8}}, learning_rate, majority_vote{comm}};
#elif defined(FIRST_STAGE_OVER_COMPRESSED)
  trainer run{model, clip{one_bit_adam{}}, learning_rate, compressed{ring{comm}, fp16{}}};
#elif defined(EXACT_STEPS_OVER_COMPRESSED)
  trainer run{model, clip{zero_one_adam{}}, learning_rate, compressed{ring{comm}, fp16{}}};
#elif defined(LOCAL_STEPS_OF_MOMENTA)
  trainer run{model, local_steps{clip{one_bit_adam{}}, 8}, learning_rate, ring{comm}};
#elif defined(GROUPS_OF_MOMENTA)
  trainer run{model, parameter_groups{one_bit_adam{}, parameter_group{"w", one_bit_adam{}}},
              learning_rate, ring{comm}};
#elif defined(WEIGHTS_OVER_COMPRESSED)
  trainer run{model, decentlam{}, learning_rate, compressed{ring{comm}, fp16{}}};
#else
  trainer exact{model, sgd{}, learning_rate, ring{comm}};
  trainer mixing{model, decentlam{}, learning_rate, gossip{comm}};
  trainer adapted{model, decentlam_over{lars{}}, learning_rate,
                  gossip{comm, topologies::symmetric_exponential{}}};
  trainer averaging{model, local_steps{sgd{}, 1}, learning_rate, gossip{comm}};
  trainer exact_mixing{model, decentlam{}, learning_rate, ring{comm}};
  trainer loose{model, local_steps{sgd{}, 8}, learning_rate, server{comm, asynchronous{}}};
  trainer synchronous_server{model, sgd{}, learning_rate, server{exchange_only{comm}}};
  trainer lossy_gradients{model, sgd{}, learning_rate, compressed{ring{comm}, fp16{}}};
#endif
}

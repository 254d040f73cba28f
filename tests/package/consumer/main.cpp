// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include <cordee/cordee.hpp>
using engine = cordee::direct;

#ifdef WITH_IMAGES
#include <cordee/images/decoder.hpp>
#include <cordee/images/image_folder.hpp>
bool reads_images() {
  cordee::detail::images::decoder decoder;
  try {
    decoder.size({}, "empty");
  } catch (const cordee::sample_error&) {
    return cordee::EncodedDataset<cordee::image_folder>;
  }
  return false;
}
#else
bool reads_images() { return true; }
#endif

#ifdef WITH_CHECKPOINT
#include <cordee/checkpoint/checkpoint.hpp>
template <class Run, class Feed>
void train(Run& run, Feed& feed) {
  run.resume("checkpoints");
  run.fit(feed, 1, cordee::checkpoint{.folder = "checkpoints"});
}
#else
template <class Run, class Feed>
void train(Run& run, Feed& feed) {
  run.fit(feed, 1);
}
#endif

#ifdef WITH_SIMULATED
#include <cordee/comm/simulated.hpp>
bool simulates() {
  int ranks = 0;
  cordee::simulated::launch(100, [&](cordee::simulated) { ++ranks; });
  return ranks == 100;
}
#else
bool simulates() { return true; }
#endif

#ifdef WITH_ZEROMQ
#include <cordee/comm/zeromq.hpp>
using communicator_type = cordee::zeromq;
template <class F>
void launch(const F& f) {
  cordee::zeromq::launch(f);
}
#elif defined(WITH_MPI)
#include <cordee/comm/mpi.hpp>
using communicator_type = cordee::mpi;
template <class F>
void launch(const F& f) {
  cordee::mpi::launch(f);
}
#else
using communicator_type = cordee::threads;
template <class F>
void launch(const F& f) {
  cordee::threads::launch(2, f);
}
#endif

int parameters_in_other_unit();

int main() {
  using namespace cordee;
  using net_type = resnet<8, fp32, cpu, resnet_options{.image = {1, 8, 8}}, engine>;
  const synthetic data{.extent = {1, 8, 8}, .classes = 10, .samples = 64, .seed = 1};
  launch([&](communicator_type comm) {
    net_type net;
    loader feed{data, comm, {.global_batch = 32, .seed = 1}};
    trainer run{net, lars{}, constant{.learning_rate = 0.1}, ring{comm}};
    train(run, feed);
  });
  std::printf("cordee %s trained %d parameters\n", std::string(version).c_str(),
              parameters_in_other_unit());
  return parameters_in_other_unit() == net_type::parameters() && reads_images() && simulates() ? 0
                                                                                               : 1;
}

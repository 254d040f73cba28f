// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include <cordee/cordee.hpp>
#ifdef WITH_ONEDNN
#include <cordee/ops/convolution_onednn.hpp>
using engine = cordee::onednn;
#else
using engine = cordee::direct;
#endif

#ifdef WITH_MPI
#include <cordee/comm/mpi.hpp>
using link_type = cordee::mpi;
template <class F>
void launch(const F& f) {
  cordee::mpi::launch(f);
}
#else
using link_type = cordee::threads;
template <class F>
void launch(const F& f) {
  cordee::threads::launch(2, f);
}
#endif

int parameters_seen_from_elsewhere();

int main() {
  using namespace cordee;
  using net_type = resnet<8, fp32, cpu, shape{.image = {1, 8, 8}}, engine>;
  const synthetic data{.extent = {1, 8, 8}, .classes = 10, .samples = 64, .seed = 1};
  launch([&](link_type link) {
    net_type net;
    loader feed{data, link, {.global_batch = 32, .seed = 1}};
    trainer run{net, lars{}, constant{.rate = 0.1}, ring{link}};
    run.fit(feed, 1);
  });
  std::printf("cordee %s trained %d parameters\n", std::string(version).c_str(),
              parameters_seen_from_elsewhere());
  return parameters_seen_from_elsewhere() == net_type::parameters() ? 0 : 1;
}

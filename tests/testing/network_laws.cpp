// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <doctest/doctest.h>

#include <cordee/nn/linear.hpp>
#include <cordee/nn/network.hpp>
#include <cordee/nn/offload_weights.hpp>
#include <cordee/nn/pooling.hpp>
#include <cordee/nn/recompute.hpp>
#include <cordee/nn/residual.hpp>
#include <cordee/testing/network_laws.hpp>

#include "tests/nn/network_fixture.hpp"

using namespace cordee;

namespace {

template <class Stem, class Last>
using net_of =
    network<sequential<Stem, global_average_pool, Last>, fp32, cpu, reference, extent{3, 8, 8}, 5>;
using stem = sequential<convolution<8>, batch_norm<relu>>;
using plain = net_of<stem, linear<5>>;
using named = net_of<stage<convolution<8>, batch_norm<relu>>, linear<5>>;

/// Of Base, with one fault.
template <class Base, int Fault>
struct faulty : Base {
  using Base::Base;
  template <class Ready>
  void backward(const typename Base::packed_parameters& in, span_on<float, cpu> gradients,
                write_mode mode, Ready&& ready, cpu::stream s) {
    Base::backward(in, gradients, mode, ready, s);
    if (Fault == 0) gradients[0] += 1;
  }
  void forward(const typename Base::packed_parameters& in, span_on<float, cpu> plane,
               const batch<cpu>& b, phase p, cpu::stream s) {
    if (Fault == 1 && p == phase::evaluate) return;  // the loss of the pass before
    Base::forward(in, plane, b, p, s);
    if (Fault == 2 && p == phase::train)
      Base::forward(in, plane, b, p, s);  // statistics move twice
  }
};

template <class Other>
std::string law_with() {
  const network_fixture<plain> f(4);
  plain a{cpu(1)};
  Other b{cpu(1)};
  return same_passes(a, b, f.samples(0, 4, 4), {});
}

}  // namespace

TEST_CASE("same_passes: networks with their numbers elsewhere obey the law, on the CPU") {
  CHECK(law_with<plain>() == "");
  CHECK(law_with<net_of<recompute<stem>, linear<5>>>() == "");
  CHECK(law_with<net_of<offload_weights<recompute<stem>>, offload_weights<linear<5>>>>() == "");
}

TEST_CASE("same_passes: each planted fault is found") {
  CHECK(law_with<faulty<plain, 0>>() == "the gradient \"conv1.weight\" of step 1 has other bits");
  CHECK(law_with<faulty<plain, 1>>() == "the loss of step 1 has other bits");
  CHECK(law_with<faulty<plain, 2>>() == "the tensor \"bn1.running_mean\" of step 1 has other bits");
  CHECK(law_with<named>() == "the networks have tensors of other names or places");
}

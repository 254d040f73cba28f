// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/nn/batch_norm.hpp>
#include <cordee/nn/convolution.hpp>
#include <cordee/nn/linear.hpp>
#include <cordee/nn/network.hpp>
#include <cordee/nn/parameter_packing.hpp>
#include <cordee/nn/pooling.hpp>
#include <cordee/nn/sequential.hpp>
#include <cordee/ops/engines/reference/gpu.hpp>
#include <cordee/ops/engines/tensor_core/engine.hpp>
#include <cordee/ops/gpu/batch_norm.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/filter_layout.hpp>
#include <cordee/ops/gpu/linear.hpp>
#include <cordee/ops/gpu/loss.hpp>
#include <cordee/ops/gpu/packed_table.hpp>
#include <cordee/ops/gpu/pooling.hpp>
#include <cordee/ops/gpu/quantize.hpp>
#include <cordee/ops/gpu/quantized_table.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/precision/int8.hpp>

#include "tests/support/emulated.hpp"

using namespace cordee;
using namespace support;

namespace {

/// Convolutions are those of the reference, which this test does not run; weights are packed as
/// (K', R, S, C') with eight channels at least.
template <bool ByTable>
struct krsc_engine : reference {
  static constexpr bool packs_by_table = ByTable, packs_gradients = ByTable;

  template <class N>
  static constexpr int block(int channels) {
    return (channels + 7) / 8 * 8;
  }
  template <class N>
  static std::size_t packed_size(const convolution_problem& p) {
    return static_cast<std::size_t>(block<N>(p.filters) * p.window * p.window *
                                    block<N>(p.in.channels));
  }
  template <class N, class Real, class S>
  static void pack(const convolution_problem& p, const Real* master, N* packed, S s) {
    pack_krsc(p, block<N>(p.in.channels), block<N>(p.filters), master, packed, s);
  }
  template <class N, class S>
  static void wgrad_packed(const convolution_problem&, int, const N*, const N*, N*, S) {}
};

constexpr extent image{3, 8, 8};
using layers = sequential<convolution<12, 3>, batch_norm<relu>, convolution<5, 1>, batch_norm<>,
                          global_average_pool, linear<5>>;
template <bool ByTable>
using net_of = network<layers, fp16, emulated, krsc_engine<ByTable>, image, 5>;

struct tensor_core_by_layer : tensor_core {
  static constexpr bool packs_by_table = false, packs_bytes_by_table = false;
};

/// Whether two networks with the same table pack the same bytes.
template <class A, class B>
bool pack_alike() {
  const emulated device(1);
  A by_table{device};
  B by_layer{device};
  buffer<float, emulated> plane(device, A::plane_size());
  by_layer.initialize(plane.span(), 3);
  auto a = by_table.make_packed_parameters(), b = by_layer.make_packed_parameters();
  by_table.pack_parameters(plane.span(), a, emulated::stream(1));
  by_layer.pack_parameters(plane.span(), b, emulated::stream(1));
  REQUIRE(a.size() == b.size());
  return std::equal(a.span().data, a.span().data + a.size(), b.span().data);
}

}  // namespace

TEST_CASE("parameter_packing: a network packs the same bytes by its table as layer by layer") {
  CHECK(pack_alike<net_of<true>, net_of<false>>());
}

TEST_CASE_TEMPLATE("parameter_packing: so does one of both orders, and of bytes", P, fp16, int8) {
  CHECK(pack_alike<network<layers, P, emulated, tensor_core, image, 5>,
                   network<layers, P, emulated, tensor_core_by_layer, image, 5>>());
}

static_assert(detail::nn::HasPackedGradients<net_of<true>>);
static_assert(!detail::nn::HasPackedGradients<net_of<false>>);
static_assert(
    !detail::nn::HasPackedGradients<network<layers, fp16, emulated, tensor_core, image, 5>>);

TEST_CASE("parameter_packing: memory of packed gradients is freed with that of the passes") {
  const emulated device(1);
  net_of<true> net{device};
  buffer<float, emulated> gradients(device, net.plane_size());
  const std::size_t before = emulated::allocated;
  const auto unpack = [&] {
    net.unpack_gradients(gradients.span(), 0, net.tensors(), write_mode::overwrite, nullptr,
                         emulated::stream(1));
  };
  for (int pass = 0; pass < 2; ++pass) {
    unpack();
    CHECK(emulated::allocated > before);
    net.release_activations();
    CHECK(emulated::allocated == before);
  }
}

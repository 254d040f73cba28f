// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/tensor_core/dgrad.hpp>

#include "tests/ops/engines/tensor_core/tiled.hpp"

using namespace support;

namespace {

struct counting_stream : emulated::stream {
  int* launches;

  template <class Kernel>
  void launch_kernel(std::size_t blocks, const Kernel& kernel) const {
    if (blocks != 0) ++*launches;
    emulated::stream::launch_kernel(blocks, kernel);
  }
};
static_assert(GpuStream<counting_stream>);

struct layer {
  convolution_problem p;
  int launches;  // of dgrad
};
const layer layers[] = {{{{5, 6, 5}, 9, 3, 1, 1}, 1},  {{{12, 6, 5}, 9, 1, 1, 0}, 1},
                        {{{5, 7, 6}, 9, 3, 2, 1}, 1},  {{{12, 7, 6}, 9, 1, 2, 0}, 1},
                        {{{5, 9, 8}, 9, 5, 3, 2}, 3},  // nine remainders, four a launch
                        {{{40, 7, 6}, 9, 3, 2, 1}, 1}, {{{72, 5, 6}, 9, 3, 2, 1}, 1}};

std::vector<double> doubles_of(const std::vector<half>& x) {
  std::vector<double> out;
  for (const half value : x) out.push_back(value.exact());
  return out;
}

}  // namespace

TEST_CASE("dgrad: one launch has the bits of one GEMM for each remainder of the stride") {
  for (const auto& [p, launches] : layers) {
    INFO(describe(p));
    tiled_fixture<> fixture;
    fixture.p = p;
    fixture.samples = 3;
    fixture.w = short_numbers<half>(p.weights(), 2);
    const auto dy = fixture.in_memory(short_numbers<half>(3 * p.out().size(), 3), p.out()),
               dx0 = fixture.in_memory(short_numbers<half>(3 * p.in.size(), 4), p.in),
               weights = fixture.packed();
    const half* const crsk = weights.data() + weights.size() / 2;
    for (const write_mode mode : {write_mode::overwrite, write_mode::add}) {
      auto one_by_one = dx0, together = dx0;
      for (int row = 0; row < p.stride; ++row)
        for (int column = 0; column < p.stride; ++column) {
          const detail::ops::correlation_kernel<half, detail::ops::tensor_core_tile<32, 4>,
                                                detail::ops::identity_prologue,
                                                detail::ops::store_epilogue<half>, false, true>
              kernel{detail::ops::dgrad_gemm<half>(p, 3, row, column),
                     dy.data(),
                     crsk,
                     {},
                     {one_by_one.data(), mode}};
          fixture.at.s.launch_kernel(kernel.blocks(), kernel);
        }
      int count = 0;
      const detail::ops::unpack_filters_kernel<float, float>* const no_sums = nullptr;
      detail::ops::launch_dgrad(p, 3, dy.data(), crsk,
                                detail::ops::store_epilogue<half>{together.data(), mode}, no_sums,
                                counting_stream{fixture.at.s, &count});
      CHECK(doubles_of(together) == doubles_of(one_by_one));
      CHECK(count == (mode == write_mode::add && p.window == 1 ? 1 : launches));
    }
  }
}

TEST_CASE("dgrad: sums of partial weight gradients take no launch of their own") {
  for (const auto& [p, launches] : layers) {
    INFO(describe(p));
    tiled_fixture<> fixture;
    fixture.p = p;
    fixture.samples = 3;
    fixture.w = short_numbers<half>(p.weights(), 2);
    const auto dy = fixture.in_memory(short_numbers<half>(3 * p.out().size(), 3), p.out()),
               weights = fixture.packed();
    auto dx = fixture.in_memory(std::vector<double>(3 * p.in.size()), p.in);
    const detail::ops::krsc_layout layout(p, tensor_core::block<half>(p.in.channels),
                                          tensor_core::block<half>(p.filters));
    const std::vector<float> partial(2 * layout.size(), 1.5f);
    std::vector<float> dw(p.weights(), 4.0f);
    const detail::ops::unpack_filters_kernel<float, float> sums(layout, partial.data(), 2,
                                                                dw.data(), write_mode::add);
    int count = 0;
    detail::ops::launch_dgrad(p, 3, dy.data(), weights.data() + weights.size() / 2,
                              detail::ops::store_epilogue<half>{dx.data()}, &sums,
                              counting_stream{fixture.at.s, &count});
    CHECK(dw == std::vector<float>(p.weights(), 7.0f));
    CHECK(count == launches);
  }
}

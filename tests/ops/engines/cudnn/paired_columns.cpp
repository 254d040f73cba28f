// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A ResNet's stem by pairs of columns has the bits of the same convolution of images of four
// channels, over a double of cuDNN. Numbers are small integers, so that all sums are exact.
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/device_vectors.hpp"
#include "tests/support/fused_run.hpp"

using namespace cordee;
using namespace support;

namespace {

std::vector<half> small_integers(std::size_t n, std::uint64_t seed) {
  random_sequence random(seed, purpose::synthetic, 0, 0);
  std::vector<half> out(n);
  for (half& one : out)
    one = half::nearest(static_cast<float>(static_cast<int>(random.below(5)) - 2));
  return out;
}
/// Rows behind two pixels of zeros.
std::vector<half> with_margin(const std::vector<half>& x, const extent& e) {
  std::vector<half> out;
  const auto row = static_cast<std::size_t>(4 * e.width);
  for (std::size_t from = 0; from < x.size(); from += row) {
    out.insert(out.end(), 8, half{});
    out.insert(out.end(), x.begin() + static_cast<std::ptrdiff_t>(from),
               x.begin() + static_cast<std::ptrdiff_t>(from + row));
  }
  return out;
}

}  // namespace

TEST_CASE("cudnn: pairs of columns are for a stem of 7x7 on three or four channels, fused") {
  const convolution_problem stem{{3, 16, 12}, 10, 7, 2, 3};
  const auto margin = [&](const auto& change) {
    convolution_problem p = stem;
    change(p);
    return fusing_cudnn::image_margin<half>(p);
  };
  CHECK(margin([](auto&) {}) == 2);
  CHECK(margin([](auto& p) { p.in.channels = 4; }) == 2);
  CHECK(margin([](auto& p) { p.in.channels = 5; }) == 0);
  CHECK(margin([](auto& p) { p.in.width = 13; }) == 0);
  CHECK(margin([](auto& p) { p.stride = 1; }) == 0);
  CHECK(margin([](auto& p) { p.window = 3, p.padding = 1; }) == 0);
  CHECK(fusing_cudnn::image_margin<float>(stem) == 0);
  CHECK(fusing_cudnn::image_margin<bfloat>(stem) == 2);
  CHECK(plain_cudnn::image_margin<half>(stem) == 0);
}

TEST_CASE("cudnn: a stem by pairs of columns has the bits of one of four channels") {
  constexpr int samples = 2;
  begin_double();
  const host_cuda device;
  const auto s = device.make_stream();
  for (const extent& e : {extent{3, 16, 12}, extent{4, 9, 16}, extent{3, 7, 8}}) {
    const convolution_problem p{e, 10, 7, 2, 3};
    convolution_problem paired = p;
    paired.margin = 2;
    const extent out = p.out();
    const auto x = small_integers(samples * e.pixels() * 4, 1);
    const std::size_t outputs = samples * out.pixels() * 16, weights = 16 * 49 * 4;
    using memory = device_vector<half, host_cuda>;
    memory images(device, s, x), pairs(device, s, with_margin(x, e)),
        w(device, s, small_integers(weights, 2)), y(device, s, std::vector<half>(outputs)),
        y_paired(device, s, std::vector<half>(outputs)), dw(device, s, std::vector<half>(weights)),
        dw_paired(device, s, std::vector<half>(weights));
    fusing_cudnn::fprop(p, samples, images.data(), w.data(), y.data(), s);
    fusing_cudnn::fprop(paired, samples, pairs.data(), w.data(), y_paired.data(), s);
    CHECK(to_doubles(y.read()) == to_doubles(y_paired.read()));
    memory gradient(device, s, small_integers(outputs, 3));
    fusing_cudnn::wgrad_packed(p, samples, images.data(), gradient.data(), dw.data(), s);
    fusing_cudnn::wgrad_packed(paired, samples, pairs.data(), gradient.data(), dw_paired.data(), s);
    CHECK(to_doubles(dw.read()) == to_doubles(dw_paired.read()));
    CHECK_THROWS_AS(fusing_cudnn::dgrad(paired, samples, y.data(), w.data(), images.data(),
                                        write_mode::overwrite, s),
                    usage_error);
  }
}

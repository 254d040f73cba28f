// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Each layer of an integer network on a GPU, emulated, beside its definition.
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/infer/gpu/layers.hpp>

#include "tests/infer/blocked.hpp"
#include "tests/support/device_fixture.hpp"
#include "tests/support/emulated.hpp"

using namespace cordee;
using namespace cordee::detail::infer;
using cordee::detail::ops::fast_divisor;
using support::device_fixture, support::drawn, support::emulated;

namespace {

using definition = integer_reference<>;
constexpr std::size_t samples = 3;

/// Samples (C, H, W) as (H, W, C'), padded with `padding`.
template <class T>
std::vector<T> channels_last(const extent& e, const std::vector<T>& x, T padding = 0) {
  const auto lanes = static_cast<std::size_t>(padded_channels(e.channels));
  std::vector<T> y(x.size() / e.size() * e.pixels() * lanes, padding);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t n = i / e.size(), c = i / e.pixels() % static_cast<std::size_t>(e.channels);
    y[(n * e.pixels() + i % e.pixels()) * lanes + c] = x[i];
  }
  return y;
}
/// f(x, y) of each sample.
template <class Out, class In, class F>
std::vector<Out> of_samples(const extent& in, const extent& out, const std::vector<In>& x,
                            const F& f) {
  std::vector<Out> y(samples * out.size());
  for (std::size_t n = 0; n < samples; ++n) f(x.data() + n * in.size(), y.data() + n * out.size());
  return y;
}
const device_fixture on{emulated{4}};

/// Launches make(x, y) over n numbers of `each`; returns y, of `size` numbers.
template <class Out, class In, class Make>
std::vector<Out> launched(const std::vector<In>& x, std::size_t size, std::size_t each,
                          const Make& make) {
  const auto there = on.put(x);
  auto y = on.put(std::vector<Out>(size, Out{77}));
  for_each(on.s, size / each, make(there.span().data, y.span().data));
  return on.get(y);
}

template <class A>
void check_max_pool(const detail::ops::max_pool_problem& p) {
  const extent out = p.out();
  const auto x = drawn<A>(samples * p.in.size(), sizeof(A) == 1 ? 8 : 24, 1);
  const auto wanted =
      of_samples<A>(p.in, out, x, [&](const A* from, A* to) { definition::max_pool(p, from, to); });
  constexpr A least = std::numeric_limits<A>::min();
  const auto padded = channels_last(out, wanted, least);
  using op = integer_max_pool_op<A>;
  using groups = channel_groups<op::group>;
  CHECK(launched<A>(channels_last(p.in, x, least), padded.size(), op::group,
                    [&](const A* from, A* to) {
                      return op{p, groups(p.in), groups(out), from, to};
                    }) == padded);
}
void check_subsample(const detail::ops::subsample_problem& p) {
  using A = std::int32_t;
  const auto x = drawn<A>(samples * p.in.size(), 24, 2);
  const auto wanted = channels_last(p.out, of_samples<A>(p.in, p.out, x, [&](const A* from, A* to) {
                                      definition::subsample(p, from, to);
                                    }));
  CHECK(
      launched<A>(channels_last(p.in, x, A{55}), wanted.size(), 1, [&](const A* from, A* to) {
        return integer_subsample_op{p, channel_groups<1>(p.in), channel_groups<1>(p.out), from, to};
      }) == wanted);
}
template <class Out>
void check_batch_norm(bool adds) {
  integer_batch_norm n;
  n.in = {21, 3, 5};
  n.shift = 20;
  n.residual_factor = {1500000000, -3};
  n.offset = sizeof(Out) == 1 ? 9 : 0;
  n.low = sizeof(Out) == 1 ? 2 : -wide_limit;
  n.high = sizeof(Out) == 1 ? 250 : wide_limit;
  for (const std::int32_t k : drawn<std::int32_t>(21, 18, 3)) {
    n.multiplier.push_back(std::int64_t{k} * (sizeof(Out) == 1 ? 1 : 50));
    n.addend.push_back(-std::int64_t{k} * 777 + 100'000'000);
  }
  const auto x = drawn<std::int32_t>(samples * n.in.size(), 16, 4),
             r = drawn<std::int32_t>(x.size(), adds ? 12 : 1, 5);
  std::vector<Out> wanted(x.size());
  for (std::size_t i = 0; i < x.size(); i += n.in.size())
    definition::batch_norm(n, x.data() + i, adds ? r.data() + i : nullptr, wanted.data() + i);
  std::vector<norm_factor> factors(32);
  for (std::size_t c = 0; c < 21; ++c) factors[c] = {n.multiplier[c], n.addend[c]};
  const auto there = on.put(factors);
  const auto residual = on.put(channels_last(n.in, r));
  const auto padding = static_cast<Out>(std::max(n.low, n.offset));
  const auto padded = channels_last(n.in, wanted, padding);
  CHECK(launched<Out>(channels_last(n.in, x), padded.size(), 4,
                      [&](const std::int32_t* from, Out* to) {
                        return integer_batch_norm_op<Out>{
                            fast_divisor(8),
                            n.shift,
                            there.span().data,
                            output_form::of(n, adds ? residual.span().data : nullptr),
                            from,
                            to};
                      }) == padded);
}

}  // namespace

TEST_CASE("GPU layers of integers, emulated: images by the table, 1 to 4 channels") {
  for (const int channels : {1, 3, 4}) {
    const extent e{channels, 5, 7};
    const auto table = drawn<std::uint8_t>(static_cast<std::size_t>(channels) * 256, 8, 6),
               images = drawn<std::uint8_t>(samples * e.size(), 8, 7);
    std::vector<std::uint8_t> wanted(images.size());
    for (std::size_t i = 0; i < images.size(); ++i)
      wanted[i] = table[i / e.pixels() % static_cast<std::size_t>(channels) * 256 + images[i]];
    const auto there = on.put(table);
    const auto padded = channels_last(e, wanted);
    CHECK(launched<std::uint8_t>(images, padded.size(), 16,
                                 [&](const std::uint8_t* from, std::uint8_t* to) {
                                   return read_image_op{.channels = channels,
                                                        .pixels = e.pixels(),
                                                        .table = there.span().data,
                                                        .images = from,
                                                        .q = to};
                                 }) == padded);
  }
}

TEST_CASE("GPU layers of integers, emulated: bytes of an input of 32 bits") {
  integer_convolution c;
  c.zero_point = 17;
  c.input_factor = {1234567890, -13};
  const auto x = drawn<std::int32_t>(400, 24, 8);
  std::vector<std::uint8_t> wanted;
  for (const std::int32_t v : x)
    wanted.push_back(static_cast<std::uint8_t>(c.byte_of<std::int64_t>(v)));
  CHECK(launched<std::uint8_t>(x, x.size(), 4, [&](const std::int32_t* from, std::uint8_t* to) {
          return to_bytes_op{c.input_factor, c.zero_point, from, to};
        }) == wanted);
}

TEST_CASE("GPU layers of integers, emulated: max pools of bytes and of 32 bits") {
  for (const detail::ops::max_pool_problem& p : {detail::ops::max_pool_problem{{20, 9, 7}, 3, 2, 1},
                                                 {{3, 6, 6}, 2, 2, 0},
                                                 {{16, 5, 8}, 3, 1, 1}}) {
    check_max_pool<std::uint8_t>(p);
    check_max_pool<std::int32_t>(p);
  }
}

TEST_CASE("GPU layers of integers, emulated: subsampling adds channels of zeros") {
  for (const detail::ops::subsample_problem& p :
       {detail::ops::subsample_problem{{16, 9, 7}, {32, 5, 4}, 2}, {{5, 4, 4}, {20, 4, 4}, 1}}) {
    check_subsample(p);
  }
}

TEST_CASE("GPU layers of integers, emulated: batch norms to bytes and to 32 bits") {
  for (const bool adds : {false, true}) {
    check_batch_norm<std::uint8_t>(adds);
    check_batch_norm<std::int32_t>(adds);
  }
}

TEST_CASE("GPU layers of integers, emulated: means round halves up, below zero too") {
  for (const extent& in : {extent{20, 7, 7}, extent{3, 2, 1}, extent{16, 1, 1}}) {
    const extent out{in.channels, 1, 1};
    auto x = drawn<std::int32_t>(samples * in.size(), 24, 9);
    if (in.pixels() == 2) x[0] = 4, x[1] = 5, x[2] = -4, x[3] = -5;  // 4.5 and -4.5
    const auto wanted = of_samples<std::int32_t>(
        in, out, x,
        [&](const std::int32_t* from, std::int32_t* to) { definition::mean(in, from, to); });
    if (in.pixels() == 2) CHECK((wanted[0] == 5 && wanted[1] == -4));
    const auto padded = channels_last(out, wanted);
    CHECK(launched<std::int32_t>(channels_last(in, x), padded.size(), 1,
                                 [&](const std::int32_t* from, std::int32_t* to) {
                                   return integer_mean_op{.pixels = static_cast<int>(in.pixels()),
                                                          .lanes = padded_channels(in.channels),
                                                          .x = from,
                                                          .y = to};
                                 }) == padded);
  }
}

TEST_CASE("GPU layers of integers, emulated: classifiers, with sums of more than 32 bits") {
  struct classifier_size {
    std::size_t features, classes;
  };
  for (const auto [features, classes] : {classifier_size{64, 10}, {21, 70}, {3, 1}, {200, 32}}) {
    integer_classifier c;
    c.features = features;
    c.classes = classes;
    c.shift = features == 3 ? 0 : 15;
    for (const auto w : drawn<std::int16_t>(features * classes, 15, 10))
      c.weights.push_back(w == -largest_weight - 1 ? std::int16_t{0} : w);
    for (const std::int32_t b : drawn<std::int32_t>(classes, 30, 11)) c.bias.push_back(b);
    for (std::size_t k = 0; k < classes; ++k)
      c.factors.push_back({(1 << 30) + static_cast<std::int32_t>(k) * 1'000'003, 0});
    const extent in{static_cast<int>(features), 1, 1}, out{static_cast<int>(classes), 1, 1};
    const auto x = drawn<std::int32_t>(samples * features, features == 3 ? 14 : 24, 12);
    const auto wanted = of_samples<std::int32_t>(
        in, out, x,
        [&](const std::int32_t* from, std::int32_t* to) { definition::classifier(c, from, to); });
    std::vector<std::int16_t> transposed(c.weights.size());
    std::vector<class_rescaling> rescale;
    for (std::size_t k = 0; k < classes; ++k) {
      rescale.push_back({c.bias[k], c.factors[k]});
      for (std::size_t f = 0; f < features; ++f)
        transposed[f * classes + k] = c.weights[k * features + f];
    }
    const auto there = on.put(channels_last(in, x, 99));
    const auto w = on.put(transposed);
    const auto by = on.put(rescale);
    auto logits = on.put(std::vector<std::int32_t>(samples * classes));
    const integer_classifier_kernel kernel{static_cast<int>(features),
                                           padded_channels(in.channels),
                                           static_cast<int>(classes),
                                           c.shift,
                                           there.span().data,
                                           w.span().data,
                                           by.span().data,
                                           logits.span().data};
    on.s.launch_kernel(samples * kernel.tiles(), kernel);
    CHECK(on.get(logits) == wanted);
  }
}

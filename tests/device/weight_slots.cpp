// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/device/weight_slots.hpp>

#include "tests/support/counted_uploads.hpp"

using namespace cordee;
using namespace support;
using detail::device::pinned_weights;
using detail::device::weight_slots;

namespace {

using byte_vector = std::vector<std::byte>;

struct fixture {
  static constexpr std::size_t sizes[] = {256, 1024, 0, 512, 1024};

  counted_uploads device;
  deferred::stream s;
  pinned_weights<counted_uploads> weights;
  std::vector<std::size_t> ends;
  weight_slots<counted_uploads> slots;

  explicit fixture(std::uint64_t seed, std::size_t blocks = 5,
                   missing_wait missing = missing_wait::none)
      : device(seed),
        s(device.make_compute_stream()),
        weights(device, size_of(blocks)),
        slots(device, ends_of(blocks)) {
    device.counted().missing = missing;
  }
  static std::size_t size_of(std::size_t blocks) {
    std::size_t sum = 0;
    for (std::size_t k = 0; k < blocks; ++k) sum += sizes[k];
    return sum;
  }
  static detail::core::pod_vector<std::size_t> ends_of(std::size_t blocks) {
    detail::core::pod_vector<std::size_t> ends;
    for (std::size_t k = 1; k <= blocks; ++k) ends.push_back(size_of(k));
    return ends;
  }
  /// Work that writes other weights, as pack_parameters does.
  void pack(std::uint8_t step) {
    s.submit([to = weights.span(), step] {
      for (std::size_t i = 0; i < to.size; ++i)
        to.data[i] = static_cast<std::byte>(step * 31 + i * 7 + i / 251);
    });
  }
  /// Work that copies block k from its slot to the end of `out`, in the order of the stream.
  void read(std::size_t k, byte_vector& out) {
    const std::byte* const from = slots.enter(k, s) + size_of(k);
    s.submit([=, &out] { out.insert(out.end(), from, from + sizes[k]); });
    slots.leave(k, s);
  }
};

/// Whether three steps of a forward and a backward pass read what was packed.
bool reads_its_weights(std::uint64_t seed, std::size_t blocks, missing_wait missing) {
  byte_vector out, expected;
  fixture f(seed, blocks, missing);
  for (std::uint8_t step = 0; step < 3; ++step) {
    f.pack(step);
    f.slots.begin_forward(f.weights.span().data, f.s);
    for (std::size_t k = 0; k < blocks; ++k) f.read(k, out);
    f.slots.end(f.s);
    f.slots.begin_backward(f.weights.span().data, f.s);
    for (std::size_t k = blocks; k-- > 0;) f.read(k, out);
    f.slots.end(f.s);
  }
  f.device.finish(f.s);
  for (std::uint8_t step = 0; step < 3; ++step) {
    f.pack(step);
    f.device.finish(f.s);
    const std::byte* const w = f.weights.span().data;
    expected.insert(expected.end(), w, w + f.weights.size());
    for (std::size_t k = blocks; k-- > 0;)
      expected.insert(expected.end(), w + fixture::size_of(k), w + fixture::size_of(k + 1));
  }
  return out == expected;
}

}  // namespace

TEST_CASE(
    "weight slots: forth and back, each block is read as it was packed, in any order of work") {
  for (const std::size_t blocks : {1u, 2u, 3u, 5u})
    for (std::uint64_t seed = 0; seed < 16; ++seed)
      CHECK(reads_its_weights(seed, blocks, missing_wait::none));
}

TEST_CASE("weight slots: a wait that is left out is seen") {
  const auto seen = [](missing_wait missing) {
    for (std::uint64_t seed = 0; seed < 16; ++seed)
      if (!reads_its_weights(seed, 5, missing)) return true;
    return false;
  };
  CHECK(seen(missing_wait::of_compute));  // for the upload of a block
  CHECK(seen(missing_wait::of_others));   // for the work that reads the block before in the slot
}

TEST_CASE("weight slots: the next block is uploaded before this one has been computed") {
  byte_vector out;
  fixture f(0);
  f.slots.begin_forward(f.weights.span().data, f.s);
  f.read(0, out);
  CHECK(f.device.counted().uploaded == fixture::size_of(2));
  f.device.wait(f.device.counted().last_of_others);  // the upload of block 1
  CHECK(out.empty());                                // block 0 has not run
  f.read(1, out);
  f.device.wait(f.device.counted().last_of_others);  // block 2 takes the slot of block 0,
  CHECK(out.size() == fixture::sizes[0]);            // which has been read, but not yet block 1
}

TEST_CASE("weight slots: two slots of the largest block, and bytes as they are stated") {
  byte_vector out;
  fixture f(0);
  CHECK(f.device.counted().device == 2 * 1024);
  CHECK(f.slots.bytes() == 2 * 1024);
  CHECK(f.device.counted().pinned == fixture::size_of(5));
  f.slots.begin_forward(f.weights.span().data, f.s);
  for (std::size_t k = 0; k < 5; ++k) f.read(k, out);
  CHECK(f.device.counted().uploaded == f.slots.forward_bytes());
  CHECK(f.slots.forward_bytes() == fixture::size_of(5));
  f.slots.begin_backward(f.weights.span().data, f.s);
  for (std::size_t k = 5; k-- > 0;) f.read(k, out);
  CHECK(f.device.counted().uploaded == f.slots.forward_bytes() + f.slots.backward_bytes());
  CHECK(f.slots.backward_bytes() == fixture::size_of(3));
}

TEST_CASE("weight slots: each pass uploads what it reads, of bytes that one of both alone reads") {
  // Block 1 is 256 .. 1280: 256 .. 512 for both, then for forward, then for backward. Block 3 is
  // 1280 .. 1792, its first half for backward, the other for both.
  const auto list = [](std::initializer_list<std::size_t> numbers) {
    detail::core::pod_vector<std::size_t> out;
    for (const std::size_t n : numbers) out.push_back(n);
    return out;
  };
  const auto forward_only = list({512, 768}), backward_only = list({768, 1280, 1280, 1536});
  fixture f(0);
  weight_slots<counted_uploads> slots(f.device, fixture::ends_of(5), forward_only, backward_only);
  CHECK(slots.forward_bytes() == fixture::size_of(5) - 768);
  CHECK(slots.backward_bytes() == fixture::size_of(5) - 256);
  f.pack(1);
  f.device.finish(f.s);
  const std::byte* const w = f.weights.span().data;
  const auto walk = [&](bool forward, const auto& excluded) {
    const std::size_t before = f.device.counted().uploaded;
    if (forward)
      slots.begin_forward(w, f.s);
    else
      slots.begin_backward(w, f.s);
    for (std::size_t step = 0; step < 5; ++step) {
      const std::size_t k = forward ? step : 4 - step;
      const std::byte* const from = slots.enter(k, f.s);
      f.device.finish(f.s);
      for (std::size_t i = fixture::size_of(k); i < fixture::size_of(k + 1); ++i) {
        bool read = true;
        for (std::size_t j = 0; j < excluded.size(); j += 2)
          read = read && (i < excluded[j] || i >= excluded[j + 1]);
        if (read) REQUIRE(from[i] == w[i]);
      }
      slots.leave(k, f.s);
    }
    return f.device.counted().uploaded - before;
  };
  CHECK(walk(true, backward_only) == slots.forward_bytes());
  CHECK(walk(false, forward_only) == slots.backward_bytes());
}

TEST_CASE("weight slots: a pass that ends early has ended its uploads") {
  byte_vector out;
  fixture f(0);
  f.slots.begin_forward(f.weights.span().data, f.s);
  f.read(0, out);
  f.slots.end(f.s);
  f.device.finish(f.s);
  CHECK(f.device.left() == 0);
}

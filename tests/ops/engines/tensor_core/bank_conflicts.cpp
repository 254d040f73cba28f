// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Bank conflicts of the tensor-core kernels, by a model of shared memory: 32 banks of 4 bytes give
// a wavefront one word each. Eight lanes of 16 bytes, 16 of 8 or 32 of 4 are served together; so
// are the eight rows of an ldmatrix matrix.
#include <map>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/tensor_core/correlation.hpp>
#include <cordee/ops/engines/tensor_core/weight_gradient.hpp>

#include "tests/ops/engines/tensor_core/tiled.hpp"

using namespace support;

namespace {

struct wavefronts {
  std::size_t made = 0, ideal = 0;

  /// One request: the offset of each lane's `bytes`, in the order of lanes.
  void add(const std::vector<std::uintptr_t>& offsets, std::size_t bytes) {
    const std::size_t together = 128 / bytes;
    for (std::size_t first = 0; first < offsets.size(); first += together) {
      std::map<std::uintptr_t, std::set<std::uintptr_t>> words;  // of each bank
      for (std::size_t lane = first; lane < std::min(first + together, offsets.size()); ++lane)
        for (std::uintptr_t at = offsets[lane] / 4; at < (offsets[lane] + bytes) / 4; ++at)
          words[at % 32].insert(at);
      std::size_t most = 0;
      for (const auto& [bank, different] : words) most = std::max(most, different.size());
      made += most;
      ++ideal;
    }
  }
  [[nodiscard]] double ratio() const {
    return static_cast<double>(made) / static_cast<double>(ideal);
  }
};

/// The asynchronous copies and ldmatrix rows of an emulated launch.
class shared_memory_observer : public kernel_observer {
 public:
  shared_memory_observer() { observer = this; }
  ~shared_memory_observer() override { observer = nullptr; }

  /// The copies of each warp's lanes, in the order in which a lane makes them.
  [[nodiscard]] wavefronts copies() const {
    wavefronts sum;
    for (auto warp = lanes_.begin(); warp != lanes_.end();) {
      std::vector<const std::vector<std::uintptr_t>*> lanes;
      for (const auto first = warp;
           warp != lanes_.end() && warp->first.first == first->first.first &&
           warp->first.second / 32 == first->first.second / 32;
           ++warp)
        lanes.push_back(&warp->second);
      for (std::size_t i = 0; i < lanes[0]->size(); ++i) {
        std::vector<std::uintptr_t> offsets;
        for (const auto* lane : lanes) offsets.push_back((*lane)[i]);
        sum.add(offsets, 16);
      }
    }
    return sum;
  }
  wavefronts loads;

  void add_memory(const void*, std::size_t) override {}
  void define_memory(const void*, std::size_t) override {}
  void begin_launch(const std::type_info&, std::size_t, int, const void*, std::size_t) override {}
  void end_launch() override {}
  void leave_launch() noexcept override {}
  void begin_block(std::size_t, std::size_t block, const void* shared, std::size_t) override {
    block_ = block;
    shared_ = reinterpret_cast<std::uintptr_t>(shared);
  }
  void add_shared(const void*, std::size_t) override {}
  void arrive(std::size_t, const void*, bool) override {}
  void barrier(std::size_t) override {}
  void enter_thread(std::size_t, int thread, const void*, std::size_t) override {
    thread_ = thread;
  }
  bool set_kernel_code(bool) override { return false; }
  void copy_async(const void* to, const void*) override {
    lanes_[{block_, thread_}].push_back(reinterpret_cast<std::uintptr_t>(to) - shared_);
  }
  void complete_copy(const void*) override {}
  void ldmatrix(int, const std::byte* const (&rows)[32]) override {
    std::vector<std::uintptr_t> offsets;
    for (const std::byte* row : rows)
      offsets.push_back(reinterpret_cast<std::uintptr_t>(row) - shared_);
    loads.add(offsets, 16);
  }

 private:
  std::map<std::pair<std::size_t, int>, std::vector<std::uintptr_t>> lanes_;
  std::size_t block_ = 0;
  std::uintptr_t shared_ = 0;
  int thread_ = 0;
};

constexpr double most = 1.1;  // of the fewest wavefronts

template <class Tile>
void check_stages() {
  INFO("tile of ", Tile::columns);
  tiled_fixture<half, Tile> fixture;
  fixture.p = {{32, 4, 8}, Tile::columns, 3, 1, 1};
  fixture.samples = 4;  // 128 pixels: one block
  fixture.x = short_numbers<half>(size(fixture.samples) * fixture.p.in.size(), 1);
  fixture.w = short_numbers<half>(fixture.p.weights(), 2);
  auto y = fixture.output();
  {
    const shared_memory_observer seen;
    fixture.fprop(detail::ops::identity_prologue{}, detail::ops::store_epilogue<half>{y.data()});
    CHECK(seen.copies().ideal > 0);
    CHECK(seen.copies().ratio() <= most);
    CHECK(seen.loads.ideal > 0);
    CHECK(seen.loads.ratio() <= most);
  }
  const auto x = fixture.in_memory(fixture.x, fixture.p.in);
  const auto g = detail::ops::fprop_gemm<half>(fixture.p, fixture.samples);
  std::vector<float> partial(size(g.depth()) * size(g.filters));
  const detail::ops::weight_gradient_kernel<half, Tile, detail::ops::identity_prologue> kernel{
      g, x.data(), y.data(), {}, partial.data(), 4};
  const shared_memory_observer seen;
  fixture.at.s.launch_kernel(1, kernel);
  CHECK(seen.copies().ideal > 0);
  CHECK(seen.copies().ratio() <= most);
  CHECK(seen.loads.ideal > 0);
  CHECK(seen.loads.ratio() <= most);
}

/// C between the products and the epilogue: each thread stores two adjacent accumulators at once,
/// and loads its vector four at a time.
template <class Tile, int Width>
void check_accumulators() {
  INFO("tile of ", Tile::columns, ", vectors of ", Width);
  using layout = detail::ops::accumulator_layout<Tile, Width>;
  using warp_tile = detail::ops::warp_tile<Tile, detail::device::mma_f16>;
  std::vector<std::vector<std::uintptr_t>> stores;  // by instruction of the warp
  wavefronts stored, loaded;
  std::set<int> places;
  for (int warp = 0; warp < Tile::threads / 32; ++warp) {
    stores.clear();
    for (int lane = 0; lane < 32; ++lane) {
      const warp_tile tile(warp * 32 + lane);
      std::size_t i = 0;
      const int first = layout::offset(tile.first_row(), tile.first_column());
      tile.for_each_pair([&](int down, int across, const float(&)[2]) {
        const int at = first + layout::distance(down, across), row = tile.first_row() + down,
                  column = tile.first_column() + across;
        CHECK(at == layout::offset(row, column));
        CHECK(at + 1 == layout::offset(row, column + 1));
        CHECK(at % 2 == 0);
        places.insert({at, at + 1});
        if (i == stores.size()) stores.emplace_back();
        stores[i++].push_back(4 * static_cast<std::uintptr_t>(at));
      });
    }
    for (const auto& request : stores) stored.add(request, 8);
    for (int pass = 0; pass < layout::passes; ++pass)
      for (int part = 0; part < layout::parts; ++part) {
        std::vector<std::uintptr_t> request;
        for (int t = warp * 32; t < warp * 32 + 32; ++t)
          request.push_back(4 * static_cast<std::uintptr_t>(
                                    layout::offset(layout::row_of(t) + pass * layout::rows_per_pass,
                                                   layout::column_of(t) + 4 * part)));
        loaded.add(request, 16);
      }
  }
  CHECK(places.size() == Tile::rows * Tile::columns);
  CHECK(*places.rbegin() < static_cast<int>(layout::bytes / 4));
  CHECK(stored.ratio() <= most);
  CHECK(loaded.ratio() <= most);
}
template <class Tile>
void check_tile() {
  check_stages<Tile>();
  check_accumulators<Tile, 4>();
  check_accumulators<Tile, 8>();
}

}  // namespace

TEST_CASE("bank_conflicts: the model counts") {
  wavefronts ideal, pitch_80, same;
  std::vector<std::uintptr_t> lanes;
  for (std::uintptr_t t = 0; t < 32; ++t) lanes.push_back(16 * t);
  ideal.add(lanes, 16);
  CHECK(ideal.made == 4);
  for (std::uintptr_t t = 0; t < 32; ++t) lanes[t] = t / 4 * 80 + t % 4 * 16;
  pitch_80.add(lanes, 16);
  CHECK(pitch_80.made == 8);
  same.add(std::vector<std::uintptr_t>(32, 64), 4);
  CHECK(same.made == 1);
}

TEST_CASE("bank_conflicts: every vector of a tile belongs to one thread, in one pass") {
  using layout = detail::ops::accumulator_layout<detail::ops::tensor_core_tile<32, 4>, 8>;
  std::set<std::pair<int, int>> vectors;
  for (int t = 0; t < 128; ++t)
    for (int pass = 0; pass < layout::passes; ++pass)
      vectors.insert({layout::row_of(t) + pass * layout::rows_per_pass, layout::column_of(t)});
  CHECK(vectors.size() == 128 * 4);
  CHECK(vectors.rbegin()->first == 127);
}

TEST_CASE("bank_conflicts: copies, fragments and sums use each bank once per wavefront") {
  check_tile<detail::ops::tensor_core_tile<32, 4>>();
  check_tile<detail::ops::tensor_core_tile<64, 2>>();
  check_tile<detail::ops::tensor_core_tile<128, 2>>();
}

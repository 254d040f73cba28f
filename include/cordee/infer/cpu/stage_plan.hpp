// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// How workers share the steps of one image: consecutive steps in stages, of as many parts as are
// worth it, by an estimate of each step's time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <variant>
#include <vector>

#include <cordee/infer/program/integer_program.hpp>
#include <cordee/ops/engines/amx/tiles/tile_unit.hpp>
#include <cordee/ops/engines/direct/int8/byte_tile.hpp>

namespace cordee::inline CORDEE_ABI::detail::infer {

/// In picoseconds. A stage takes 0.3 to 0.4 us more than its longest part (two workers on two cores
/// of a Zen 3), more with more workers; a part is to take a few times as long.
struct stage_costs {
  std::int64_t stage = 350'000, least_part = 1'000'000;
};

class stage_plan {
 public:
  /// Steps first .. last-1, of which -1 reads the image; several only if they are one part.
  struct stage {
    int first, last;
    std::size_t parts;
  };

  stage_plan(const integer_program& program, std::size_t workers, const stage_costs& costs = {})
      : workers_(workers), costs_(costs) {
    add(-1, 1000 * static_cast<std::int64_t>(program.image.size()));
    for (std::size_t k = 0; k < program.steps.size(); ++k)
      add(static_cast<int>(k), picoseconds(program.steps[k]));
  }

  [[nodiscard]] const std::vector<stage>& stages() const { return stages_; }

  /// How many of `images` workers compute alone, each its own; all workers then share the others,
  /// one after another. The remainder of a round of all workers is shared if that takes at most 4/5
  /// of one worker's time for an image, by an estimate that ignores caches and unequal parts.
  [[nodiscard]] std::size_t alone(std::size_t images) const {
    const std::size_t left = images % workers_;
    return 5 * static_cast<std::int64_t>(left) * shared_ <= 4 * alone_ ? images - left : images;
  }

 private:
  /// Rounded figures of one core: ResNet-20 and ResNet-50 with VNNI (Zen 5) and with AVX2 (Zen 3);
  /// layers without products take 0.4 to 1.4 ns for each number that they read. With AMX modelled,
  /// with requantization (tests/ops/engines/amx/int8/byte_counts.cpp), not timed.
  [[nodiscard]] static std::int64_t picoseconds(const integer_step& s) {
    constexpr bool by_tiles = !std::is_same_v<ops::default_tile_unit, ops::tile_model>;
    constexpr std::int64_t products_per_nanosecond = by_tiles ? 1000 : ops::byte_dots ? 400 : 45;
    return std::visit(
        []<class Layer>(const Layer& layer) -> std::int64_t {
          if constexpr (std::is_same_v<Layer, integer_convolution>)
            return 1000 * static_cast<std::int64_t>(layer.problem.macs()) / products_per_nanosecond;
          else if constexpr (std::is_same_v<Layer, integer_classifier>)
            return 8000 * static_cast<std::int64_t>(layer.weights.size()) / products_per_nanosecond;
          else
            return 1000 * static_cast<std::int64_t>(layer.in.size());
        },
        s.layer);
  }
  void add(int step, std::int64_t time) {
    const std::int64_t parts =
        std::clamp<std::int64_t>(time / std::max<std::int64_t>(costs_.least_part, 1), 1,
                                 static_cast<std::int64_t>(workers_));
    alone_ += time;
    shared_ += time / parts;
    if (parts == 1 && !stages_.empty() && stages_.back().parts == 1) {
      ++stages_.back().last;
      return;
    }
    stages_.push_back({step, step + 1, static_cast<std::size_t>(parts)});
    shared_ += costs_.stage;
  }

  std::size_t workers_;
  stage_costs costs_;
  std::vector<stage> stages_;
  std::int64_t alone_ = 0, shared_ = 0;  // picoseconds of an image; integers, as all of a call
};

}  // namespace cordee::inline CORDEE_ABI::detail::infer

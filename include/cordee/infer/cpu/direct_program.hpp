// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Runs an integer program on SIMD registers. Each worker takes its samples in groups: one by one
// through the first steps, whose activations fill the cache; then step by step, so that the larger
// weights of a step are read once for a group, and the classifier's once for several groups. Steps
// that are a chain (packed_steps.hpp) run some rows at a time, for one sample after another.
// Samples that are left when all workers have as many are shared: all workers run the parts of a
// step before any begins the next one. All memory is made beforehand.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <cordee/device/buffer.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/device/stages.hpp>
#include <cordee/infer/cpu/direct_layers.hpp>
#include <cordee/infer/cpu/packed_batch_norm.hpp>
#include <cordee/infer/cpu/packed_classifier.hpp>
#include <cordee/infer/cpu/packed_steps.hpp>
#include <cordee/infer/cpu/stage_plan.hpp>
#include <cordee/infer/program/integer_program.hpp>

namespace cordee::inline CORDEE_ABI::detail::infer {

/// Correlation: with the functions of ops::byte_correlation.
template <int V, class Correlation = ops::default_byte_correlation<V>>
class direct_program {
  using layers = direct_layers<V>;
  template <int W>
  using packed_classifier = infer::packed_classifier<W, Correlation>;

 public:
  /// Keeps references to the program's steps.
  direct_program(const integer_program& program, const cpu& device, const stage_costs& costs = {})
      : steps_(program.steps.data(), program.steps.size()),
        table_(program.table),
        image_(program.image),
        classes_(program.classes()),
        device_(device),
        packed_(program),
        plan_(program, packed_.sizes(), packed_.last_of_chain()),
        workers_(static_cast<std::size_t>(device_.workers())),
        stage_plan_(program, workers_, costs),
        stages_(workers_) {
    for (std::size_t k = 0; k < steps_.size(); ++k) {
      const integer_step& s = steps_[k];
      if (const auto* const n = std::get_if<integer_batch_norm>(&s.layer)) {
        norms_.resize(steps_.size());
        norms_[k].emplace(*n, s.residual < 0 ? 0 : wide_limit);
      } else if (const auto* const last = std::get_if<integer_classifier>(&s.layer)) {
        classifier_.emplace(*last);
      }
    }
    size_ = plan_.size * group;
    memory_ = buffer<std::byte, cpu>(device_, size_ * workers_ + (workers_ > 1 ? plan_.size : 0));
    scratch_.resize(workers_);
    for (auto& memory : scratch_) reserve(memory);
    device_.make_stream().workers->run([](int) {});  // makes the threads
  }

  /// Allocates nothing.
  void run(std::size_t samples, const std::uint8_t* images, std::int32_t* logits) {
    const std::size_t alone = stage_plan_.alone(samples);
    stages_.reset();
    device_.make_stream().workers->run([&](int worker) {
      const core::equal_part own{static_cast<std::size_t>(worker), workers_};
      std::byte* const memory = memory_.span().data + own.index * size_;
      const workspace all{memory, &scratch_[own.index]};
      for (std::size_t n = own.first(alone), next; n < own.last(alone); n = next) {
        next = std::min(n + classified, own.last(alone));
        run_alone(next - n, all, images + n * image_.size(), logits + n * classes_);
      }
      device::stages::worker shared(stages_, own.index);
      for (std::size_t n = alone; n < samples; ++n)
        run_shared(shared, images + n * image_.size(), logits + n * classes_);
    });
  }

 private:
  /// Samples that share each reading of the larger weights, and of the classifier's.
  static constexpr std::size_t group = 4, classified = 16;
  static constexpr int chained_pixels = 112, pixels_behind = 224, pooled_rows = 4;
  using scratch = typename packed_classifier<V>::memory;  // of one worker, of all layers

  /// Activations of samples, and the scratch of the worker that computes them.
  struct workspace {
    std::byte* samples;
    scratch* of_worker;
  };
  void reserve(scratch& memory) const {
    packed_.reserve(memory.kernel, group);
    if (classifier_) classifier_->reserve(memory, classified);
  }

  [[nodiscard]] int last_of_chain(int step) const {
    return packed_.last_of_chain()[static_cast<std::size_t>(step)];
  }
  [[nodiscard]] int bytes_of(int step) const {
    return step < 0 ? 1 : steps_[static_cast<std::size_t>(step)].bytes;
  }
  /// The output of a step, -1 for the image, in one sample's memory.
  template <class T>
  [[nodiscard]] T* at(std::byte* sample, int step) const {
    return reinterpret_cast<T*>(sample + plan_.offsets[static_cast<std::size_t>(step + 1)]);
  }

  /// One sample, on all workers.
  void run_shared(device::stages::worker& shared, const std::uint8_t* image, std::int32_t* logits) {
    std::byte* const sample = memory_.span().data + workers_ * size_;
    const workspace memory{sample, &scratch_[shared.number()]};
    const auto& stages = stage_plan_.stages();
    for (std::size_t i = 0; i < stages.size(); ++i) {
      const stage_plan::stage& stage = stages[i];
      const std::size_t chained = chained_stages(i);
      shared.run(stage.parts, [&](core::equal_part part) {
        if (chained > 1)
          return run_rows(stage.first, stages[i + chained - 1].first, sample, *memory.of_worker,
                          part);
        for (int k = stage.first; k < stage.last; ++k)
          if (k < 0)
            read_image(image, sample, part);
          else
            run_step(k, 1, memory, logits, part);
      });
      i += chained - 1;
    }
  }
  /// How many stages from one on are a chain whose rows can be divided equally.
  [[nodiscard]] std::size_t chained_stages(std::size_t i) const {
    const auto& stages = stage_plan_.stages();
    const auto [first, last, parts] = stages[i];
    if (first < 0 || last != first + 1 || parts == 1) return 1;
    const int end = packed_.last_pointwise(first);
    if (!packed_.is_pointwise(end) || static_cast<std::size_t>(packed_[first].rows()) % parts != 0)
      return 1;
    std::size_t count = 1;
    while (i + count < stages.size() && stages[i + count].first <= end &&
           stages[i + count].last == stages[i + count].first + 1 &&
           stages[i + count].parts == parts)
      ++count;
    return count;
  }
  /// At most `classified` samples: in groups up to the classifier, which then reads all features.
  void run_alone(std::size_t count, const workspace& memory, const std::uint8_t* images,
                 std::int32_t* logits) {
    const int features = steps_.back().input;
    for (std::size_t first = 0; first < count; first += group) {
      const std::size_t some = std::min(group, count - first);
      run_group(some, memory, images + first * image_.size());
      for (std::size_t n = 0; n < some; ++n)
        classifier_->take(*memory.of_worker, first + n,
                          at<const std::int32_t>(memory.samples + n * plan_.size, features));
    }
    classifier_->run_taken(*memory.of_worker, count,
                           [&](std::size_t n) { return logits + n * classes_; });
  }
  /// The steps before the classifier.
  void run_group(std::size_t count, const workspace& memory, const std::uint8_t* images) {
    const int last = static_cast<int>(steps_.size()) - 1,
              grouped = std::min(packed_.first_grouped(), last);
    for (std::size_t n = 0; n < count; ++n) {
      const workspace sample{memory.samples + n * plan_.size, memory.of_worker};
      read_image(images + n * image_.size(), sample.samples);
      for (int k = 0; k < grouped;) k = run_chain(k, 1, sample);
    }
    for (int k = grouped; k < last;) k = run_chain(k, count, memory);
  }
  /// The step, or the chain that begins with it. Returns the next one.
  int run_chain(int k, std::size_t count, const workspace& memory) {
    const int last = last_of_chain(k);
    if (last == k) {
      run_step(k, count, memory, nullptr);
    } else {
      for (std::size_t n = 0; n < count; ++n) {
        std::byte* const sample = memory.samples + n * plan_.size;
        if (!packed_.is_by_rows(last))
          run_pooled(k, sample, *memory.of_worker);
        else if (packed_.last_pointwise(k) == last)
          run_rows(k, last, sample, *memory.of_worker, {});
        else
          run_behind(k, last, sample, *memory.of_worker);
      }
    }
    return last + 1;
  }
  /// A convolution and the max pool behind it.
  void run_pooled(int k, std::byte* sample, scratch& own) const {
    const auto& pool =
        std::get<ops::max_pool_problem>(steps_[static_cast<std::size_t>(k + 1)].layer);
    const int rows = packed_[k].rows(), pooled = pool.out().height;
    with_memory_of(k, sample, [&]<class Out>(const auto* x, const std::int32_t* added, Out* y) {
      for (int i = 0, row = 0; i < pooled;) {
        const int next = std::min(pooled, i + pooled_rows);
        const int read = (next - 1) * pool.stride - pool.padding + pool.window,
                  end = next == pooled ? rows : std::min(rows, read);
        if (end > row)
          packed_[k].run_rows(own.kernel, x, added, y, packed_.copy_of(k), std::exchange(row, end),
                              end);
        layers::template max_pool_rows<Out>(pool, y, at<Out>(sample, k + 1), std::exchange(i, next),
                                            next);
      }
    });
  }
  /// A chain of one sample, some rows at a time: each step as many rows ahead of the last one as
  /// the windows behind it read.
  void run_behind(int first, int last, std::byte* sample, scratch& own) const {
    const int rows = packed_[last].rows(),
              at_once = std::max(1, pixels_behind / packed_[last].row_pixels());
    for (int row = 0; row < rows; row += at_once)
      for (int k = first; k <= last; ++k) {
        const int ahead = packed_.rows_ahead(k), from = row == 0 ? 0 : std::min(rows, row + ahead),
                  to = std::min(rows, row + at_once + ahead);
        if (from < to)
          with_memory_of(k, sample, [&](const auto* x, const std::int32_t* added, auto* y) {
            packed_[k].run_rows(own.kernel, x, added, y, packed_.copy_of(k), from, to);
          });
      }
  }
  /// A part of the rows of a chain, of one sample.
  void run_rows(int first, int last, std::byte* sample, scratch& own, core::equal_part part) const {
    const auto rows = static_cast<std::size_t>(packed_[first].rows());
    const int end = static_cast<int>(part.last(rows)),
              at_once = std::max(1, chained_pixels / packed_[first].row_pixels());
    for (int row = static_cast<int>(part.first(rows)); row < end; row += at_once)
      for (int k = first; k <= last; ++k)
        with_memory_of(k, sample, [&](const auto* x, const std::int32_t* added, auto* y) {
          packed_[k].run_rows(own.kernel, x, added, y, packed_.copy_of(k), row,
                              std::min(end, row + at_once));
        });
  }
  void read_image(const std::uint8_t* image, std::byte* sample, core::equal_part part = {}) const {
    layers::read_image(image_, table_.data(), image, at<std::uint8_t>(sample, -1), part);
  }
  void run_step(int k, std::size_t count, const workspace& memory, std::int32_t* logits,
                core::equal_part part = {}) {
    const integer_step& step = steps_[static_cast<std::size_t>(k)];
    if (std::holds_alternative<integer_convolution>(step.layer)) {
      with_memory_of(k, memory.samples, [&](const auto* x, const std::int32_t* added, auto* y) {
        packed_[k].run(memory.of_worker->kernel, x, added, y, count, plan_.size, packed_.copy_of(k),
                       part);
      });
    } else if (std::holds_alternative<integer_classifier>(step.layer)) {
      classifier_->run(
          *memory.of_worker, count,
          [&](std::size_t n) {
            return at<const std::int32_t>(memory.samples + n * plan_.size, step.input);
          },
          [&](std::size_t n) { return logits + n * classes_; }, part);
    } else {
      for (std::size_t n = 0; n < count; ++n) run_layer(k, memory.samples + n * plan_.size, part);
    }
  }
  /// A layer that is not a convolution or the classifier, of one sample.
  void run_layer(int k, std::byte* sample, core::equal_part part) {
    const integer_step& step = steps_[static_cast<std::size_t>(k)];
    std::visit(
        [&]<class Layer>(const Layer& layer) {
          if constexpr (std::same_as<Layer, ops::max_pool_problem>) {
            with_activation(step.bytes, [&]<class A>(A*) {
              layers::max_pool(layer, at<const A>(sample, step.input), at<A>(sample, k), part);
            });
          } else if constexpr (std::same_as<Layer, integer_batch_norm>) {
            with_activation(step.bytes, [&]<class Out>(Out*) {
              norms_[static_cast<std::size_t>(k)]->run(at<const std::int32_t>(sample, step.input),
                                                       added_by(step, sample), at<Out>(sample, k),
                                                       part);
            });
          } else if constexpr (std::same_as<Layer, ops::subsample_problem>) {
            with_activation(step.bytes, [&]<class A>(A*) {
              layers::subsample(layer, at<const A>(sample, step.input), at<A>(sample, k), part);
            });
          } else if constexpr (std::same_as<Layer, mean_problem>) {
            layers::mean(layer.in, at<const std::int32_t>(sample, step.input),
                         at<std::int32_t>(sample, k), part);
          }
        },
        step.layer);
  }
  /// Calls f(x, what is added, y) with a convolution's memory in the first sample's.
  template <class F>
  void with_memory_of(int k, std::byte* memory, const F& f) const {
    const integer_step& step = steps_[static_cast<std::size_t>(k)];
    const auto run = [&]<class In>(const In* x) {
      with_activation(step.bytes,
                      [&]<class Out>(Out*) { f(x, added_by(step, memory), at<Out>(memory, k)); });
    };
    if (bytes_of(step.input) == 1) return run(at<const std::uint8_t>(memory, step.input));
    const auto* const x = at<const std::int32_t>(memory, step.input);
    if (packed_.has_copy(step.input, packed_[k].layer()))
      run(reinterpret_cast<const std::uint8_t*>(
          x + layers::size_of(steps_[static_cast<std::size_t>(step.input)].out())));
    else
      run(x);
  }
  /// What a step adds, in the first sample's memory; or null.
  [[nodiscard]] const std::int32_t* added_by(const integer_step& step, std::byte* memory) const {
    return step.residual < 0 ? nullptr : at<const std::int32_t>(memory, step.residual);
  }

  std::span<const integer_step> steps_;
  std::vector<std::uint8_t> table_;
  extent image_;
  std::size_t classes_;
  cpu device_;
  packed_steps<V, Correlation> packed_;
  memory_plan plan_;
  std::size_t workers_;
  stage_plan stage_plan_;
  device::stages stages_;
  std::vector<std::optional<packed_batch_norm<V>>> norms_;  // none of none
  std::optional<packed_classifier<V>> classifier_;
  std::size_t size_ = 0;                       // of a worker's memory
  buffer<std::byte, cpu> memory_{device_, 0};  // of the workers, then of a sample that they share
  std::vector<scratch> scratch_;               // of the workers
};

}  // namespace cordee::inline CORDEE_ABI::detail::infer

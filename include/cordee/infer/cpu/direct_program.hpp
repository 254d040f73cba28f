// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Runs an integer program on SIMD registers. Each worker takes its samples in groups: one by one
// through the first steps, whose activations fill the cache; then step by step, so that the larger
// weights of a step are read once for a group. Samples that are left when all workers have as many
// are shared: all workers run the parts of a step before any begins the next one. All memory is
// made beforehand.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <variant>
#include <vector>

#include <cordee/device/buffer.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/device/stages.hpp>
#include <cordee/infer/cpu/direct_layers.hpp>
#include <cordee/infer/cpu/packed_batch_norm.hpp>
#include <cordee/infer/cpu/packed_classifier.hpp>
#include <cordee/infer/cpu/packed_convolution.hpp>
#include <cordee/infer/cpu/stage_plan.hpp>
#include <cordee/infer/program/integer_program.hpp>

namespace cordee::inline CORDEE_ABI::detail::infer {

/// Correlation: with the functions of ops::byte_correlation.
template <int V, class Correlation = ops::default_byte_correlation<V>>
class direct_program {
  using layers = direct_layers<V>;
  template <int W>
  using packed_convolution = infer::packed_convolution<W, Correlation>;
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
        copy_readers_(copy_readers(program)),
        plan_(program, blocked_sizes(program, copy_readers_)),
        first_grouped_(first_grouped(program, blocked_sizes(program, copy_readers_))),
        workers_(static_cast<std::size_t>(device_.workers())),
        stage_plan_(program, workers_, costs),
        stages_(workers_) {
    for (const integer_step& s : steps_) {
      packed_.emplace_back();
      if (const auto* const c = std::get_if<integer_convolution>(&s.layer)) {
        const int added = s.residual < 0 ? 0 : steps_[static_cast<std::size_t>(s.residual)].bytes;
        packed_.back().emplace(*c, added == 0 ? 0 : wide_limit);
      } else if (const auto* const n = std::get_if<integer_batch_norm>(&s.layer)) {
        norms_.resize(steps_.size());
        norms_[packed_.size() - 1].emplace(*n, s.residual < 0 ? 0 : wide_limit);
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
      for (std::size_t n = own.first(alone); n < own.last(alone); n += group)
        run_group(std::min(group, own.last(alone) - n), {memory, &scratch_[own.index]},
                  images + n * image_.size(), logits + n * classes_);
      device::stages::worker shared(stages_, own.index);
      for (std::size_t n = alone; n < samples; ++n)
        run_shared(shared, images + n * image_.size(), logits + n * classes_);
    });
  }

 private:
  static constexpr std::size_t group = 4;
  using scratch = typename packed_classifier<V>::memory;  // of one worker, of all layers

  /// Activations of samples, and the scratch of the worker that computes them.
  struct workspace {
    std::byte* samples;
    scratch* of_worker;
  };
  void reserve(scratch& memory) const {
    for (const auto& c : packed_)
      if (c) c->reserve(memory.kernel, group);
    if (classifier_) classifier_->reserve(memory, group);
  }

  /// Of each step: the first convolution that reads an output of 32 bits of a convolution, which
  /// has a copy in that one's bytes behind it; -1 if there is none.
  static std::vector<int> copy_readers(const integer_program& program) {
    const auto is_convolution = [](const integer_step& s) {
      return std::holds_alternative<integer_convolution>(s.layer);
    };
    std::vector<int> readers(program.steps.size(), -1);
    for (std::size_t k = program.steps.size(); k-- > 0;) {
      const integer_step& s = program.steps[k];
      if (!is_convolution(s) || s.input < 0) continue;
      const auto from = static_cast<std::size_t>(s.input);
      if (program.steps[from].bytes > 1 && is_convolution(program.steps[from]))
        readers[from] = static_cast<int>(k);
    }
    return readers;
  }
  static std::vector<std::size_t> blocked_sizes(const integer_program& program,
                                                std::span<const int> copies) {
    std::vector<std::size_t> sizes{layers::size_of(program.image)};
    for (std::size_t k = 0; k < program.steps.size(); ++k) {
      const integer_step& s = program.steps[k];
      sizes.push_back(layers::size_of(s.out()) *
                      (static_cast<std::size_t>(s.bytes) + (copies[k] < 0 ? 0 : 1)));
    }
    return sizes;
  }
  /// The first step with more bytes of weights than of outputs that it reads and writes.
  static int first_grouped(const integer_program& program, std::span<const std::size_t> sizes) {
    const auto weighs_more = [&](const integer_step& s) {
      const auto* const c = std::get_if<integer_convolution>(&s.layer);
      const auto size = [&](int step) { return sizes[static_cast<std::size_t>(step + 1)]; };
      return c != nullptr &&
             c->weights.size() > size(s.input) + size(static_cast<int>(&s - program.steps.data()));
    };
    return static_cast<int>(std::find_if(program.steps.begin(), program.steps.end(), weighs_more) -
                            program.steps.begin());
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
    for (const stage_plan::stage& stage : stage_plan_.stages())
      shared.run(stage.parts, [&](core::equal_part part) {
        for (int k = stage.first; k < stage.last; ++k)
          if (k < 0)
            read_image(image, sample, part);
          else
            run_step(k, 1, memory, logits, part);
      });
  }
  void run_group(std::size_t count, const workspace& memory, const std::uint8_t* images,
                 std::int32_t* logits) {
    for (std::size_t n = 0; n < count; ++n) {
      const workspace sample{memory.samples + n * plan_.size, memory.of_worker};
      read_image(images + n * image_.size(), sample.samples);
      for (int k = 0; k < first_grouped_; ++k) run_step(k, 1, sample, logits + n * classes_);
    }
    for (int k = first_grouped_; k < static_cast<int>(steps_.size()); ++k)
      run_step(k, count, memory, logits);
  }
  void read_image(const std::uint8_t* image, std::byte* sample, core::equal_part part = {}) const {
    layers::read_image(image_, table_.data(), image, at<std::uint8_t>(sample, -1), part);
  }
  void run_step(int k, std::size_t count, const workspace& memory, std::int32_t* logits,
                core::equal_part part = {}) {
    const integer_step& step = steps_[static_cast<std::size_t>(k)];
    if (std::holds_alternative<integer_convolution>(step.layer)) {
      convolution(k, count, memory, part);
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
  void convolution(int k, std::size_t count, const workspace& own, core::equal_part part) {
    std::byte* const memory = own.samples;
    const integer_step& step = steps_[static_cast<std::size_t>(k)];
    const packed_convolution<V>& c = packed(k);
    const int reader = copy_readers_[static_cast<std::size_t>(k)];
    const auto run = [&]<class In>(const In* x) {
      with_activation(step.bytes, [&]<class Out>(Out*) {
        c.run(own.of_worker->kernel, x, added_by(step, memory), at<Out>(memory, k), count,
              plan_.size, reader < 0 ? nullptr : &packed(reader).to_bytes(), part);
      });
    };
    if (bytes_of(step.input) == 1) return run(at<const std::uint8_t>(memory, step.input));
    const auto* const x = at<const std::int32_t>(memory, step.input);
    if (has_copy(step.input, c.layer()))
      run(reinterpret_cast<const std::uint8_t*>(
          x + layers::size_of(steps_[static_cast<std::size_t>(step.input)].out())));
    else
      run(x);
  }
  /// Whether an output of 32 bits has a copy in the bytes of this convolution.
  [[nodiscard]] bool has_copy(int step, const integer_convolution& c) const {
    const int reader = copy_readers_[static_cast<std::size_t>(step)];
    if (reader < 0) return false;
    const integer_convolution& copied = packed(reader).layer();
    return copied.input_factor == c.input_factor && copied.zero_point == c.zero_point;
  }
  [[nodiscard]] const packed_convolution<V>& packed(int k) const {
    return *packed_[static_cast<std::size_t>(k)];
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
  std::vector<int> copy_readers_;
  memory_plan plan_;
  int first_grouped_;
  std::size_t workers_;
  stage_plan stage_plan_;
  device::stages stages_;
  std::vector<std::optional<packed_convolution<V>>> packed_;
  std::vector<std::optional<packed_batch_norm<V>>> norms_;  // none of none
  std::optional<packed_classifier<V>> classifier_;
  std::size_t size_ = 0;                       // of a worker's memory
  buffer<std::byte, cpu> memory_{device_, 0};  // of the workers, then of a sample that they share
  std::vector<scratch> scratch_;               // of the workers
};

}  // namespace cordee::inline CORDEE_ABI::detail::infer

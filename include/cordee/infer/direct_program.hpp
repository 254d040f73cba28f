// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Runs an integer program by direct_layers: each worker takes its samples in groups, step by step,
// so that the weights of a step are read once for a group. All memory is made beforehand.
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
#include <cordee/infer/direct_layers.hpp>
#include <cordee/infer/integer_program.hpp>
#include <cordee/infer/packed_convolution.hpp>

namespace cordee::inline CORDEE_ABI::detail::infer {

template <int V>
class direct_program {
  using layers = direct_layers<V>;

 public:
  /// Keeps references to the program's steps.
  direct_program(const integer_program& program, const cpu& device)
      : steps_(program.steps.data(), program.steps.size()),
        table_(program.table),
        image_(program.image),
        classes_(program.classes()),
        device_(device),
        plan_(program, blocked_sizes(program)) {
    for (const integer_step& s : steps_) {
      packed_.emplace_back();
      const auto* const c = std::get_if<integer_convolution>(&s.layer);
      if (c == nullptr) continue;
      const int added = s.residual < 0 ? 0 : steps_[static_cast<std::size_t>(s.residual)].bytes;
      packed_.back().emplace(*c, added == 0 ? 0 : added == 2 ? 32768 : wide_limit);
    }
    size_ = plan_.size * group;
    const auto workers = static_cast<std::size_t>(device::workers_of(device_.make_stream()));
    memory_ = buffer<std::byte, cpu>(device_, size_ * workers);
    // Makes the threads, and the scratch memory that convolutions keep for each.
    const std::vector<std::uint8_t> images(workers * image_.size());
    std::vector<std::int32_t> logits(workers * classes_);
    run(workers, images.data(), logits.data());
  }

  void run(std::size_t samples, const std::uint8_t* images, std::int32_t* logits) {
    const cpu::stream s = device_.make_stream();
    const auto workers = static_cast<std::size_t>(device::workers_of(s));
    const auto work = [&](int worker) {
      const auto w = static_cast<std::size_t>(worker);
      const std::size_t last = samples * (w + 1) / workers;
      std::byte* const memory = memory_.span().data + w * size_;
      for (std::size_t n = samples * w / workers; n < last; n += group)
        run_group(std::min(group, last - n), memory, images + n * image_.size(),
                  logits + n * classes_);
    };
    if (workers == 1)
      work(0);
    else
      s.workers->run(work);
  }

 private:
  static constexpr std::size_t group = 4;

  static std::vector<std::size_t> blocked_sizes(const integer_program& program) {
    std::vector<std::size_t> sizes{layers::size_of(program.image)};
    for (const integer_step& s : program.steps)
      sizes.push_back(layers::size_of(s.out()) * static_cast<std::size_t>(s.bytes));
    return sizes;
  }
  [[nodiscard]] int bytes_of(int step) const {
    return step < 0 ? 1 : steps_[static_cast<std::size_t>(step)].bytes;
  }
  /// The output of a step, -1 for the image, in one sample's memory.
  template <class T>
  [[nodiscard]] T* at(std::byte* sample, int step) const {
    return reinterpret_cast<T*>(sample + plan_.offsets[static_cast<std::size_t>(step + 1)]);
  }

  void run_group(std::size_t count, std::byte* memory, const std::uint8_t* images,
                 std::int32_t* logits) {
    for (std::size_t n = 0; n < count; ++n)
      layers::read_image(image_, table_.data(), images + n * image_.size(),
                         at<std::uint8_t>(memory + n * plan_.size, -1));
    for (int k = 0; k < static_cast<int>(steps_.size()); ++k)
      for (std::size_t n = 0; n < count; ++n)
        run_step(k, memory + n * plan_.size, logits + n * classes_);
  }
  void run_step(int k, std::byte* sample, std::int32_t* logits) {
    const integer_step& step = steps_[static_cast<std::size_t>(k)];
    std::visit(
        [&]<class Layer>(const Layer& layer) {
          if constexpr (std::same_as<Layer, integer_convolution>) {
            convolution(k, sample);
          } else if constexpr (std::same_as<Layer, ops::max_pool_problem>) {
            with_activation(step.bytes, [&]<class A>(A*) {
              layers::max_pool(layer, at<const A>(sample, step.input), at<A>(sample, k));
            });
          } else if constexpr (std::same_as<Layer, ops::subsample_problem>) {
            layers::subsample(layer, at<const std::int16_t>(sample, step.input),
                              at<std::int16_t>(sample, k));
          } else if constexpr (std::same_as<Layer, mean_problem>) {
            layers::mean(layer.in, at<const std::int32_t>(sample, step.input),
                         at<std::int32_t>(sample, k));
          } else {
            layers::classifier(layer, at<const std::int32_t>(sample, step.input), logits);
          }
        },
        step.layer);
  }
  void convolution(int k, std::byte* sample) {
    const integer_step& step = steps_[static_cast<std::size_t>(k)];
    const packed_convolution<V>& c = *packed_[static_cast<std::size_t>(k)];
    with_activation(bytes_of(step.input), [&]<class In>(In*) {
      with_activation(bytes_of(step.residual), [&]<class Residual>(Residual*) {
        with_activation(step.bytes, [&]<class Out>(Out*) {
          // Numbers of 32 bits are no convolution's input, and bytes are not added.
          if constexpr (sizeof(In) < 4)
            c.run(at<const In>(sample, step.input),
                  step.residual < 0 ? nullptr : at<const wider<Residual>>(sample, step.residual),
                  at<Out>(sample, k));
        });
      });
    });
  }
  template <class T>
  using wider = std::conditional_t<sizeof(T) == 1, std::int16_t, T>;

  std::span<const integer_step> steps_;
  std::vector<std::uint8_t> table_;
  extent image_;
  std::size_t classes_;
  cpu device_;
  memory_plan plan_;
  std::vector<std::optional<packed_convolution<V>>> packed_;
  std::size_t size_ = 0;  // of a worker's memory
  buffer<std::byte, cpu> memory_{device_, 0};
};

}  // namespace cordee::inline CORDEE_ABI::detail::infer

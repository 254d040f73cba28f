// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Makes the adversarial copies of nn/adversarial.hpp, in a thread beside the step before.
//
//   begin        before step t, by its weights: the thread makes the copies of step t + 1's images
//   copies_of    in step t + 1: of those; makes them in the caller's thread where `begin` was not
//                called, or for other images, weights or options
//
// Copies are a function of images, labels, weights, options, seed, step and position, so both ways
// have the same bits, whatever the timing. The thread has a network, workers and copies of the
// images of its own; it reads nothing else but the weights. There is no deadline: nothing that it
// waits for is another rank's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <utility>
#include <vector>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/random.hpp>
#include <cordee/core/thread.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/nn/adversarial_image.hpp>
#include <cordee/nn/batch_check.hpp>

namespace cordee::inline CORDEE_ABI::detail::nn {

/// Options of the attack that makes adversarial copies.
struct adversarial_options {
  /// Largest change of a pixel. Unit: grey levels. Range: 1 <= epsilon <= 255, else usage_error.
  int epsilon = 9;
  /// Change of a pixel by one step; at least epsilon / steps, rounded down, is used. Unit: grey
  /// levels. Range: 1 <= step_size <= 255, else usage_error.
  int step_size = 9;
  /// Steps of the attack. Range: 1 or more, else usage_error.
  int steps = 1;
  /// Probability that an update's attack begins at noise within epsilon around the images, instead
  /// of at these. Range: 0 <= random_start <= 1, else usage_error.
  double random_start = 0.8;
  /// Whether the attack uses the weights of the step before, which lets a thread make the copies
  /// beside that step; else those of the step itself.
  bool stale = true;

  bool operator==(const adversarial_options&) const = default;
  /// Throws usage_error.
  [[gnu::cold]] void check() const {
    expects(epsilon > 0 && epsilon <= 255, "adversarial: .epsilon is within 1 .. 255 grey levels");
    expects(step_size > 0 && step_size <= 255,
            "adversarial: .step_size is within 1 .. 255 grey levels");
    expects(steps > 0, "adversarial: .steps is a number of steps of the attack, 1 or more");
    expects(random_start >= 0 && random_start <= 1,
            "adversarial: .random_start is a probability, within 0 .. 1");
  }
  [[nodiscard]] int used_step_size() const { return std::max(step_size, epsilon / steps); }
};

/// A network that also computes the gradient of its input.
template <class Net>
class input_gradient_network : public Net {
 public:
  using Net::Net;

  /// The gradient of the last forward's loss by the normalized images, as the engine lays out its
  /// input, until the next pass. Computes no gradient of weights; layers of one's own may write
  /// theirs to `scratch`, a plane.
  auto input_gradient(const typename Net::packed_parameters& in, auto scratch,
                      typename Net::device::stream s) {
    static constexpr auto all_frozen = [] {
      std::array<std::uint8_t, Net::tensors()> flags{};
      flags.fill(1);
      return flags;
    }();
    return this->run_backward(
        in, scratch, write_mode::add, [](std::size_t) {}, s, nullptr, all_frozen.data());
  }
};

/// Weights for an attack; equal versions are equal weights.
template <class Net>
struct attack_weights {
  const typename Net::packed_parameters* packed = nullptr;
  std::int64_t version = -1;
};

/// Makes adversarial copies on the CPU, in a thread.
template <class Net>
class adversary {
  using D = typename Net::device;
  using real = typename Net::precision::master;
  using weights = attack_weights<Net>;

 public:
  explicit adversary(const D& device)
      : network_(D(device.workers())), scratch_(device, Net::plane_size()) {}
  adversary(const adversary&) = delete;
  adversary& operator=(const adversary&) = delete;
  ~adversary() { finish(); }

  /// Begins the copies for step `step`'s micro-batches; those begun before, for the step in
  /// progress, remain. Requires that `by` does not change before finish(). Rethrows what the thread
  /// threw.
  void begin(const adversarial_options& options, const weights& by,
             std::span<const batch<D>> update, std::uint64_t seed, std::int64_t step) {
    for (const batch<D>& b : update) check_batch(b, Net::input.size(), phase::train);
    wait();
    std::swap(made_, begun_);
    begun_.attack = {options, by, seed, step};
    begun_.count = 0;
    for (const batch<D>& b : update) begun_.add(b);
    thread_ = core::start_thread<&adversary::make_begun>(*this);
  }
  /// The copies of b's images, (count, channels, height, width), until the next call of this or
  /// `begin`. Throws what the thread has thrown, if it waits for it.
  std::span<const std::uint8_t> copies_of(const adversarial_options& options, const weights& by,
                                          const batch<D>& b) {
    const attack_on attack{options, by, b.seed, b.info.empty() ? 0 : b.info[0].step};
    if (const copies* c = made_.find(attack, b)) return c->images;
    wait();
    if (const copies* c = begun_.find(attack, b)) return c->images;
    ++made_late_;
    late_.attack = attack;
    late_.count = 0;
    make(late_.add(b), attack);
    return late_.all.front().images;
  }
  /// Blocks until the thread reads no weights, at once if it reads others than these.
  void finish(const typename Net::packed_parameters& weights_to_change) {
    if (begun_.attack.by.packed == &weights_to_change) finish();
  }
  void finish() {
    if (thread_.joinable()) thread_.join();
  }
  /// Micro-batches whose copies copies_of() has made itself.
  [[nodiscard]] std::int64_t made_late() const { return made_late_; }

 private:
  struct attack_on {
    adversarial_options options;
    weights by;
    std::uint64_t seed = 0;
    std::int64_t step = 0;
  };
  struct copies {
    batch<D> of;  // of the copies and the classes that the attack aims at
    std::vector<std::uint8_t> before, images;
    std::vector<std::int32_t> labels, targets;
  };
  struct update_copies {
    attack_on attack{};
    std::vector<copies> all;  // of `count` micro-batches; further ones are memory for the next
    std::size_t count = 0;

    copies& add(const batch<D>& b) {
      if (all.size() == count) all.emplace_back();
      copies& c = all[count++];
      c.before.assign(b.pixels.begin(), b.pixels.end());
      c.labels.assign(b.labels.begin(), b.labels.end());
      c.images.resize(c.before.size());
      c.targets.resize(c.labels.size());
      c.of = b;  // but for what is not this object's
      c.of.info = {};
      c.of.other_labels = {};
      c.of.label_weights = {};
      c.of.device_loss_scale = {};
      c.of.pixels = {c.images.data(), c.images.size()};
      c.of.labels = {c.targets.data(), c.targets.size()};
      c.of.loss_scale = 128;  // gradients of 16 bits; a power of two changes no sign
      c.of.epoch = 0;
      return c;
    }
    /// Null if there are none of this attack on these images.
    [[nodiscard]] const copies* find(const attack_on& a, const batch<D>& b) const {
      if (a.options != attack.options || a.by.version != attack.by.version ||
          a.seed != attack.seed || a.step != attack.step)
        return nullptr;
      const auto same = [](const auto& x, const auto& y) {
        return std::equal(x.begin(), x.end(), y.begin(), y.end());
      };
      for (const copies& c : std::span(all).first(count))
        if (b.first_sample == c.of.first_sample && b.normalization == c.of.normalization &&
            same(b.pixels, c.before) && same(b.labels, c.labels))
          return &c;
      return nullptr;
    }
  };

  void wait() {
    finish();
    if (failure_ == nullptr) return;
    begun_.count = 0;
    std::rethrow_exception(std::exchange(failure_, nullptr));
  }
  void make_begun() {
    try {
      for (copies& c : std::span(begun_.all).first(begun_.count)) make(c, begun_.attack);
    } catch (...) {
      failure_ = std::current_exception();
    }
  }
  void make(copies& c, const attack_on& attack) {
    if (c.of.count == 0) return;
    const auto& [options, by, seed, of_step] = attack;
    const auto step = static_cast<std::uint64_t>(of_step);
    random_sequence coin(seed, purpose::adversary, step, ~std::uint64_t{0});
    if (coin.uniform() < options.random_start)
      add_uniform_noise(Net::input, c.of.count, c.before.data(), options.epsilon, seed, step,
                        c.of.first_sample, c.images.data());
    else
      std::copy(c.before.begin(), c.before.end(), c.images.begin());
    draw_target_classes(Net::classes, c.labels, seed, step, c.of.first_sample, c.targets.data());
    const auto s = network_.get_device().make_stream();
    for (int k = 0; k < options.steps; ++k) {
      network_.forward(*by.packed, scratch_.span(), c.of, phase::train, s);
      const auto* const gradient = network_.input_gradient(*by.packed, scratch_.span(), s);
      using number = std::remove_cvref_t<decltype(*gradient)>;
      attack_bytes<Net::engine::template block<number>(Net::input.channels)>(
          Net::input, c.of.count, gradient, c.before.data(), options.epsilon,
          options.used_step_size(), c.images.data());
    }
  }

  input_gradient_network<Net> network_;
  buffer<real, D> scratch_;            // a plane, which passes may overwrite
  update_copies made_, begun_, late_;  // of this step, of the next; made by copies_of()
  std::int64_t made_late_ = 0;
  std::exception_ptr failure_;
  core::thread thread_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::nn

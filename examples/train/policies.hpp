// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Policies that are chosen when the program runs, so that a trainer is compiled once for all of
// them: a loss, a schedule, an exact reducer, and callbacks that may be absent.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include <cordee/cordee.hpp>

#include "settings.hpp"

namespace train {

using namespace cordee;

struct chosen_loss {
  std::variant<cross_entropy, binary_cross_entropy, mean_squared_error> method;

  struct sample_loss {
    double value;
    std::variant<cross_entropy::sample_loss, binary_cross_entropy::sample_loss,
                 mean_squared_error::sample_loss>
        loss;

    [[nodiscard]] double gradient(double z, double y) const {
      return std::visit([&](const auto& l) { return l.gradient(z, y); }, loss);
    }
    [[nodiscard]] double probability(double z) const {
      return std::visit([&](const auto& l) { return l.probability(z); }, loss);
    }
  };
  template <class Sample>
  sample_loss operator()(const Sample& s) const {
    const auto of = [&](const auto& loss) {
      const auto l = loss(s);
      return sample_loss{l.value, l};
    };
    return std::visit(of, method);
  }
  [[nodiscard]] chosen_loss in_evaluation() const {
    const auto of = [](const auto& loss) {
      return chosen_loss{std::remove_cvref_t<decltype(loss)>{}};
    };
    return std::visit(of, method);
  }
  [[nodiscard]] std::string describe() const {
    return std::visit([](const auto& loss) { return loss.describe(); }, method);
  }
  bool operator==(const chosen_loss&) const = default;
};

inline chosen_loss make_loss(const settings& s) {
  if (s.loss == "binary_cross_entropy")
    return {binary_cross_entropy{s.label_smoothing, s.target_threshold}};
  if (s.loss == "mean_squared_error") return {mean_squared_error{}};
  return {cross_entropy{s.label_smoothing}};
}

struct chosen_schedule {
  std::function<double(double)> curve;
  std::string text;

  double operator()(double epoch) const { return curve(epoch); }
  [[nodiscard]] std::string describe() const { return text; }
};

template <Schedule S>
chosen_schedule chosen(const S& s) {
  return {s, cordee::describe(s)};
}

/// Schedules whose shape has the warm-up in it.
inline bool has_warmup(const std::string& schedule) {
  return schedule == "one_cycle" || schedule == "mlperf_poly2";
}

/// Warm-up, then the schedule, with learning rates for the reference batch scaled to this one.
inline chosen_schedule make_schedule(const settings& s, std::int64_t global_batch) {
  const auto scaled = [&](const auto& base) -> chosen_schedule {
    const double ramp = has_warmup(s.schedule) || s.optimizer == "rmsprop_warmup" ? 0 : s.warmup;
    const auto warmed = [&](const auto& curve) {
      return ramp > 0 ? chosen(warmup{ramp, curve}) : chosen(curve);
    };
    if (s.scaling == "none") return warmed(base);
    if (s.scaling == "linear") return warmed(linear_scaled{base, s.reference_batch, global_batch});
    if (s.scaling == "sqrt") return warmed(sqrt_scaled{base, s.reference_batch, global_batch});
    return chosen(legw{ramp, base, s.reference_batch, global_batch});
  };
  const double peak = s.learning_rate, epochs = s.epochs;
  if (s.schedule == "constant") return scaled(constant{peak});
  if (s.schedule == "multistep")
    return scaled(multistep{.learning_rate = peak,
                            .milestones = {epochs / 3, epochs * 2 / 3, epochs * 8 / 9}});
  if (s.schedule == "exponential")
    return scaled(exponential{.learning_rate = peak, .factor = std::pow(0.01, 1 / epochs)});
  if (s.schedule == "polynomial")
    return scaled(polynomial{.peak = peak, .epochs = epochs, .power = 2});
  if (s.schedule == "one_cycle")
    return scaled(one_cycle{.peak = peak, .epochs = epochs, .rise = s.warmup / epochs});
  if (s.schedule == "mlperf_poly2")
    return scaled(mlperf_poly2{.peak = peak, .warmup_epochs = s.warmup, .epochs = epochs});
  if (s.schedule == "akiba_slow_start") return scaled(akiba_slow_start{peak});
  return scaled(cosine{.peak = peak, .epochs = epochs});
}

/// An exact mean by one of several methods.
template <class Communicator>
struct exact_reducer : reducer_base<Communicator> {
  using C = Communicator;
  static constexpr agreement offers = agreement::exact;

  std::variant<ring<C>, tree<C>, double_tree<C>, butterfly<C>, halving_doubling<C>> method;

  exact_reducer(const C& comm, const std::string& name)
      : reducer_base<C>{comm}, method(make(comm, name)) {}

  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return std::visit([&](const auto& m) { return m.template scratch<Real>(n); }, method);
  }
  template <class Real, Device D>
  void mix(bucket_view<Real, D, 0> b, const step_info& info, typename D::stream s) const {
    std::visit([&](const auto& m) { m.mix(b, info, s); }, method);
  }
  [[nodiscard]] std::string describe() const {
    return std::visit([](const auto& m) { return m.describe(); }, method);
  }

 private:
  static decltype(method) make(const C& comm, const std::string& name) {
    if (name == "tree") return tree{comm};
    if (name == "double_tree") return double_tree{comm};
    if (name == "butterfly") return butterfly{comm};
    if (name == "halving_doubling") return halving_doubling{comm};
    return ring{comm};
  }
};

/// Mixup, cutmix or neither.
struct chosen_mixing {
  cordee::mixup mixup;
  cordee::cutmix cutmix;

  [[nodiscard]] bool active() const { return mixup.active() || cutmix.active(); }
  float operator()(const extent& e, std::span<std::uint8_t> a, std::span<std::uint8_t> b,
                   random_sequence random) const {
    return cutmix.active() ? cutmix(e, a, b, random) : mixup(e, a, b, random);
  }
  [[nodiscard]] std::string describe() const {
    return cutmix.active() ? cutmix.describe() : mixup.describe();
  }
};

/// A callback of fit that may be absent.
template <class C>
struct optional_callback {
  std::unique_ptr<C> callback;

  void begin(const run_plan& p)
    requires requires(C c) { c.begin(p); }
  {
    if (callback) callback->begin(p);
  }
  void step(const step_record& r)
    requires requires(C c) { c.step(r); }
  {
    if (callback) callback->step(r);
  }
  void begin_validation(const step_record& r)
    requires requires(C c) { c.begin_validation(r); }
  {
    if (callback) callback->begin_validation(r);
  }
  void epoch(const epoch_record& e)
    requires requires(C c) { c.epoch(e); }
  {
    if (callback) callback->epoch(e);
  }
  void end(const run_summary& s)
    requires requires(C c) { c.end(s); }
  {
    if (callback) callback->end(s);
  }
  [[nodiscard]] std::string rank_settings() const
    requires requires(const C c) { c.rank_settings(); }
  {
    return callback ? callback->rank_settings() : "none";
  }
  template <class Run>
  void check_on_all_ranks(Run& run, double epoch)
    requires requires(C c) { c.check_on_all_ranks(run, epoch); }
  {
    if (callback) callback->check_on_all_ranks(run, epoch);
  }
  template <class Run>
  void begin_on_all_ranks(Run& run, double epoch)
    requires requires(C c) { c.begin_on_all_ranks(run, epoch); }
  {
    if (callback) callback->begin_on_all_ranks(run, epoch);
  }
  template <class Run>
  bool step_on_all_ranks(Run& run, double epoch)
    requires requires(C c) { c.step_on_all_ranks(run, epoch); }
  {
    return callback && callback->step_on_all_ranks(run, epoch);
  }
  template <class Run>
  bool epoch_on_all_ranks(Run& run, const epoch_record& e)
    requires requires(C c) { c.epoch_on_all_ranks(run, e); }
  {
    return callback && callback->epoch_on_all_ranks(run, e);
  }
  template <class Run>
  void end_on_all_ranks(Run& run)
    requires requires(C c) { c.end_on_all_ranks(run); }
  {
    if (callback) callback->end_on_all_ranks(run);
  }
};

/// The callback that make() returns if `present`.
template <class F>
auto callback_if(bool present, const F& make) {
  using C = decltype(make());
  return optional_callback<C>{std::unique_ptr<C>(present ? new C(make()) : nullptr)};
}

}  // namespace train

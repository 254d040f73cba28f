// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Policies that are chosen when the program runs, so that a trainer is compiled once for all of
// them: a schedule, an exact reducer, and callbacks that may be absent.
#pragma once

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

/// Warm-up, then the schedule, with learning rates for the reference batch scaled to this one.
inline chosen_schedule make_schedule(const settings& s, std::int64_t global_batch) {
  const auto scaled = [&](const auto& base) -> chosen_schedule {
    if (s.scaling == "none") return chosen(warmup{s.warmup, base});
    if (s.scaling == "linear")
      return chosen(warmup{s.warmup, linear_scaled{base, s.reference_batch, global_batch}});
    if (s.scaling == "sqrt")
      return chosen(warmup{s.warmup, sqrt_scaled{base, s.reference_batch, global_batch}});
    return chosen(legw{s.warmup, base, s.reference_batch, global_batch});
  };
  if (s.schedule == "constant") return scaled(constant{s.learning_rate});
  if (s.schedule == "multistep")
    return scaled(multistep{.learning_rate = s.learning_rate,
                            .milestones = {s.epochs / 3, s.epochs * 2 / 3, s.epochs * 8 / 9}});
  if (s.schedule == "polynomial")
    return scaled(polynomial{.peak = s.learning_rate, .epochs = s.epochs, .power = 2});
  return scaled(cosine{.peak = s.learning_rate, .epochs = s.epochs});
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

// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Reducers with the same traits are wrapped in one type here, and so are optimizers that need an
// exact mean, so that only one trainer is compiled for each kind of both;
// tests/train/combinations*.cpp instantiate trainers with their own types.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <cordee/comm/reducers/reducer.hpp>
#include <cordee/comm/reducers/sharded.hpp>
#include <cordee/comm/reducers/two_stage.hpp>
#include <cordee/comm/transports/threads.hpp>
#include <cordee/optim/optimizer.hpp>
#include <cordee/train/checks/pairing.hpp>
#include <cordee/train/step/shard.hpp>

namespace matrix {

using namespace cordee;

/// Any optimizer that needs an exact mean, of four slots and two numbers of a segment at most.
struct any_exact {
  static constexpr agreement needs = agreement::exact;
  static constexpr int slots = 4, segment_numbers = 2;
  static constexpr norms_needed norms = norms_needed::before_accept;

  /// Its passes over the views of a device; none of parts where the optimizer needs whole tensors.
  template <class D>
  struct passes {
    using view = optimizer_view<float, D, slots>;
    std::function<void(const view&, const step_info&, typename D::stream)> step;
    std::function<void(const view&, typename D::stream)> start;
  };
  using shard_device = cordee::detail::train::shard_device<cordee::cpu>;
  passes<cpu> whole;
  passes<shard_device> parts;

  template <class O>
  explicit any_exact(const O& optimizer) {
    static_assert(O::needs == agreement::exact && cordee::detail::optim::is_eager<O> &&
                  O::slots <= slots &&
                  cordee::detail::optim::segment_numbers_of<O>() <= segment_numbers);
    set(optimizer, whole);
    if constexpr (!cordee::detail::train::needs_whole_tensors<O>()) set(optimizer, parts);
  }
  void initialize(const passes<cpu>::view& v, cpu::stream s) const { whole.start(v, s); }
  void initialize(const passes<shard_device>::view& v, shard_device::stream s) const {
    parts.start(v, s);
  }
  void accept(const passes<cpu>::view& v, const step_info& info, cpu::stream s) const {
    whole.step(v, info, s);
  }
  void accept(const passes<shard_device>::view& v, const step_info& info,
              shard_device::stream s) const {
    parts.step(v, info, s);
  }

 private:
  template <class O, class D>
  static void set(const O& optimizer, passes<D>& to) {
    using view = typename passes<D>::view;
    const auto own = [](const view& v) { return cordee::detail::optim::inner_view<O::slots>(v); };
    to.step = [=](const view& v, const step_info& info, typename D::stream s) {
      optimizer.accept(own(v), info, s);
    };
    to.start = [=](const view& v, typename D::stream s) {
      cordee::detail::optim::initialize_slots(optimizer, own(v), s);
    };
  }
};

/// The spectral radius of a reducer that mixes; others have none.
template <agreement Offers>
struct any_radius {};
template <>
struct any_radius<agreement::mixing> {
  std::function<double(momentum_form)> radius_of{};

  [[nodiscard]] double spectral_radius(momentum_form form) const { return radius_of(form); }
};

/// Any reducer with these traits.
template <class Communicator, agreement Offers, bool Lossless, int Slots, bool SignsOnly = false>
struct any_reducer : any_radius<Offers> {
  using communicator_type = Communicator;
  static constexpr agreement offers = Offers;
  static constexpr bool lossless = Lossless;
  static constexpr int slots = Slots;
  static constexpr bool signs_only = SignsOnly;

  Communicator comm;
  std::function<std::size_t(std::size_t)> scratch_size;
  std::function<void(bucket_view<float, cpu, Slots>, const step_info&)> mix_bucket;
  std::function<std::vector<std::string>(momentum_form)> remedies{};

  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return scratch_size(n);
  }
  void mix(bucket_view<float, cpu, Slots> m, const step_info& info, cpu::stream) const {
    mix_bucket(m, info);
  }
};

/// A reducer with slots gets two, of which it uses its own.
template <class R>
auto wrapped(const R& r) {
  static_assert(ReducerOn<R, float, cpu>);
  if constexpr (cordee::detail::comm::InitializableOn<R, float, cpu>) {
    return r;  // the only one with these traits
  } else {
    any_reducer<typename R::communicator_type, R::offers, R::lossless, R::slots == 0 ? 0 : 2,
                requires { requires R::signs_only; }>
        any{{},
            r.comm,
            [r](std::size_t n) { return r.template scratch<float>(n); },
            [r](const auto& m, const step_info& info) {
              bucket_view<float, cpu, R::slots> own{m.layout, m.values, {}, m.scratch};
              std::copy_n(m.slots.begin(), own.slots.size(), own.slots.begin());
              own.exact = m.exact;
              r.mix(own, info, cpu::stream{});
            }};
    if constexpr (cordee::detail::comm::HasSpectralRadius<R>) {
      any.radius_of = [r](momentum_form c) { return r.spectral_radius(c); };
      any.remedies = [r](momentum_form c) { return r.remedies(c); };
    }
    return any;
  }
}

/// Any two_stage.
struct any_two_stage : any_reducer<threads, agreement::exact, false, 2> {
  struct {
  } compressed;
  double start_epoch;
};
template <class Warmup, class Compressed>
  requires(Compressed::slots > 0)
auto wrapped(const two_stage<Warmup, Compressed>& r) {
  return any_two_stage{wrapped<two_stage<Warmup, Compressed>>(r), {}, r.start_epoch};
}

/// Any sharded reducer.
struct any_sharded {
  using communicator_type = threads;
  static constexpr agreement offers = agreement::exact;
  static constexpr bool lossless = true, shards_update = true;
  static constexpr int slots = 0;

  threads comm;
  bool masters;
  std::function<std::size_t(std::size_t)> scratch_size;
  std::function<cordee::detail::comm::number_range(std::size_t)> range_of;
  std::function<void(bucket_view<float, cpu, 0>, const step_info&)> mix_bucket;
  std::function<void(span_on<float, cpu>)> gather_ranges;

  template <class R>
  explicit any_sharded(const sharded<R>& r)
      : comm(r.comm),
        masters(r.masters),
        scratch_size([r](std::size_t n) { return r.template scratch<float>(n); }),
        range_of([r](std::size_t n) { return r.own_range(n); }),
        mix_bucket([r](const auto& m, const step_info& info) { r.mix(m, info, cpu::stream{}); }),
        gather_ranges([r](span_on<float, cpu> x) { r.gather(x, cpu::stream{}); }) {}
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return scratch_size(n);
  }
  [[nodiscard]] auto own_range(std::size_t n) const { return range_of(n); }
  void mix(bucket_view<float, cpu, 0> m, const step_info& info, cpu::stream) const {
    mix_bucket(m, info);
  }
  template <class Real, Device D>
  void gather(span_on<float, cpu> x, cpu::stream) const {
    gather_ranges(x);
  }
};
template <class R>
auto wrapped(const sharded<R>& r) {
  return any_sharded(r);
}

/// Makes a reducer of a communicator.
template <class R>
using maker = std::function<R(typename R::communicator_type)>;
template <class Communicator = threads, class Make>
auto over(const Make& make) {
  using R = decltype(wrapped(make(std::declval<Communicator>())));
  return maker<R>([make](Communicator comm) { return wrapped(make(comm)); });
}

/// The letter of the static_assert of require_compatible that fails; scripts/matrix has a test of
/// tests/compile_fail for each, whose message it copies from the compiler.
constexpr char letter_of(cordee::detail::train::pairing_error error) {
  switch (error) {
    case cordee::detail::train::pairing_error::gradients_not_averaged:
      return 'a';
    case cordee::detail::train::pairing_error::weights_rounded:
      return 'b';
    case cordee::detail::train::pairing_error::magnitudes_lost:
      return 'd';
    case cordee::detail::train::pairing_error::mixing_not_doubly_stochastic:
      return 'c';
    case cordee::detail::train::pairing_error::update_not_divisible:
      return 'e';
    case cordee::detail::train::pairing_error::momentum_not_divisible:
      return 'f';
    case cordee::detail::train::pairing_error::exact_steps_rounded:
      return 'g';
    default:
      return ' ';
  }
}

}  // namespace matrix

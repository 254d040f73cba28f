// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Compile-time check of a reducer, member by member: one sentence for each that is missing, has
// another signature or is misspelled. The table of members is in reducer.hpp.
#pragma once

#include <concepts>
#include <cstddef>
#include <string>

#include <cordee/comm/reducers/reducer.hpp>
#include <cordee/core/member_names.hpp>
#include <cordee/device/cpu.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

/// Names of optional members, and misspellings of members.
struct reducer_names {
  int describe, initialize, sources, spectral_radius, remedies, scratch_as, mix_as, state, restore,
      enqueue;
  int initialise, single_mesage, single_messages, source, remedy, losless, loss_less, slot, offer,
      captureable, is_capturable, residual_slot, description, describes, to_string, spectralradius,
      spectral_radii, enqueues;
};

template <class R>
using names_of = core::member_names<R, reducer_names>;

template <class R, class Real, class D>
concept MixesOn =
    requires(const R r, bucket_view<Real, D, R::slots> m, step_info info, typename D::stream s) {
      { r.mix(m, info, s) } -> std::same_as<void>;
    };

/// A member `enqueue` that cannot be called as the table has it, and not because its constraints
/// refuse this device or transport: it is no template, it can be called in another way, or the
/// transport enqueues means.
template <class R, class Real, class D>
concept MistypesEnqueue =
    !EnqueuableOn<R, Real, D> && !requires { &names_of<R>::enqueue; } &&
    (
        requires { &R::enqueue; } || EnqueuedMeanOn<typename R::communicator_type, Real, D> ||
        requires(R r, bucket_view<Real, D, R::slots> m, step_info info, typename D::stream s) {
          r.enqueue(m, info, s);
        } ||
        requires(R r, bucket_view<Real, D, R::slots> m, step_info info) { r.enqueue(m, info); } ||
        requires(R r, bucket_view<Real, D, R::slots> m, typename D::stream s) { r.enqueue(m, s); });

template <class R>
struct reducer_spelling {
  using names = names_of<R>;
  static_assert(
      requires { &names::initialise; }, "reducer: `initialise` is not read: name it `initialize`");
  static_assert(
      requires {
        &names::single_mesage;
        &names::single_messages;
      }, "reducer: a member is named almost like `single_message`: name it so");
  static_assert(
      requires { &names::source; }, "reducer: `source` is not read: name it `sources`");
  static_assert(
      requires { &names::remedy; }, "reducer: `remedy` is not read: name it `remedies`");
  static_assert(
      requires {
        &names::losless;
        &names::loss_less;
      }, "reducer: a member is named almost like `lossless`: name it so");
  static_assert(
      requires { &names::slot; }, "reducer: `slot` is not read: name it `slots`");
  static_assert(
      requires { &names::offer; }, "reducer: `offer` is not read: name it `offers`");
  static_assert(
      requires {
        &names::captureable;
        &names::is_capturable;
      }, "reducer: a member is named almost like `capturable`: name it so");
  static_assert(
      requires { &names::residual_slot; },
      "reducer: `residual_slot` is not read: name it `residual_slots`");
  static_assert(
      !requires { &names::describe; } ||
          requires {
            &names::description;
            &names::describes;
            &names::to_string;
          },
      "reducer: a member is named almost like `describe`: name it so");
  static_assert(
      requires {
        &names::spectralradius;
        &names::spectral_radii;
      }, "reducer: a member is named almost like `spectral_radius`: name it so");
  static_assert(
      requires { &names::enqueues; }, "reducer: `enqueues` is not read: name it `enqueue`");
  static_assert(
      requires(const R r) {
        { r.describe() } -> std::convertible_to<std::string>;
      } || requires { &names::describe; },
      "reducer: `describe` must be: std::string describe() const");
  static_assert(
      HasSources<R> || requires { &names::sources; },
      "reducer: `sources` must be: std::vector<int> sources(const step_info&) const");
  static_assert(
      HasSpectralRadius<R> || requires { &names::spectral_radius; },
      "reducer: `spectral_radius` must be: double spectral_radius(momentum_form) const");
  static_assert(
      HasRemedies<R> || requires { &names::remedies; },
      "reducer: `remedies` must be: std::vector<std::string> remedies(momentum_form) "
      "const");
  static_assert(
      requires { &names::scratch_as; } == requires { &names::mix_as; },
      "reducer: `scratch_as` and `mix_as` belong together: declare both or neither");
  static constexpr bool holds = true;
};

/// Effects: fails to compile unless every member of R is as the table of reducer.hpp has it, for
/// numbers of type Real on device D.
template <class R, class Real, class D>
struct reducer_check {
  static_assert(std::copyable<R>, "reducer: it must be copyable");
  static_assert(
      requires { typename R::communicator_type; },
      "reducer: communicator_type is missing, the type of the transport that it works over");
  static_assert(
      requires { requires TransportOn<typename R::communicator_type, D>; },
      "reducer: communicator_type must model TransportOn (comm/transports/transport.hpp) on the "
      "device of the "
      "model");
  static_assert(
      requires(const R r) {
        { r.comm } -> std::convertible_to<const typename R::communicator_type&>;
      }, "reducer: comm is missing, its communicator, of type communicator_type");
  static_assert(
      requires {
        { R::offers } -> std::convertible_to<agreement>;
      },
      "reducer: offers is missing: static constexpr agreement offers = agreement::exact, mixing "
      "or loose");
  static_assert(
      requires {
        { R::lossless } -> std::convertible_to<bool>;
      },
      "reducer: lossless is missing: static constexpr bool lossless, false where the wire rounds "
      "(reducer_base has true)");
  static_assert(
      requires {
        { R::slots } -> std::convertible_to<int>;
      },
      "reducer: slots is missing: static constexpr int slots, the planes of memory that outlive "
      "a step (reducer_base has 0)");
  static_assert(
      requires(const R r, std::size_t n) {
        { r.template scratch<Real>(n) } -> std::same_as<std::size_t>;
      },
      "reducer: scratch is missing: template <class Real> std::size_t scratch(std::size_t n) "
      "const, bytes for a message of n numbers");
  static_assert(
      MixesOn<R, Real, D> || D::host_memory || !MixesOn<R, Real, cpu>,
      "reducer: its mix works on the CPU only (adasum and gathered do over any transport): name "
      "another reducer, or train on the CPU");
  static_assert(
      MixesOn<R, Real, D> || (!D::host_memory && MixesOn<R, Real, cpu>),
      "reducer: mix is missing, or the transport cannot do what it asks of it: void "
      "mix(bucket_view<Real, D, slots> m, const step_info& info, typename D::stream s) const");
  static_assert(ReducerOn<R, Real, D>, "reducer: it does not model ReducerOn");
  static constexpr bool holds = [] {
    static_assert(
        InitializableOn<R, Real, D> || requires { &names_of<R>::initialize; },
        "reducer: `initialize` must be: void initialize(bucket_view<Real, D, slots> m, "
        "typename D::stream s) const");
    static_assert(
        HasReducerState<R, Real> ||
            requires {
              &names_of<R>::state;
              &names_of<R>::restore;
            },
        "reducer: `state` and `restore` belong together and must be: template <class Real> "
        "reducer_state state() const; template <class Real> void restore(const reducer_state&) "
        "const");
    static_assert(!MistypesEnqueue<R, Real, D>,
                  "reducer: `enqueue` must be: void enqueue(bucket_view<Real, D, slots> m, const "
                  "step_info& info, typename D::stream s) const");
    return reducer_spelling<R>::holds;
  }();
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm

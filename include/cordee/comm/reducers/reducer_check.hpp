// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Compile-time check of a reducer, member by member: one sentence for each that is missing, has
// another type or is likely misspelt. The table of members is in reducer.hpp.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <cordee/comm/reducers/reducer.hpp>
#include <cordee/core/member_check.hpp>
#include <cordee/core/member_names.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/device/cpu.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

/// Names of optional members that are templates whose arguments are not deduced.
struct reducer_names {
  int scratch_as, mix_as, state, restore;
};

template <class R, class Real, class D>
concept MixesOn =
    requires(const R r, bucket_view<Real, D, R::slots> m, step_info info, typename D::stream s) {
      { r.mix(m, info, s) } -> std::same_as<void>;
    };

/// True, or a compile error that states the member to add or to correct.
template <class R, class Real, class D, int slots>
auto check_functions(const R& object, bucket_view<Real, D, slots> m, const step_info& info,
                     typename D::stream s, momentum_form form) {
  static_assert(
      MixesOn<R, Real, D> || D::host_memory || !MixesOn<R, Real, cpu>,
      "reducer: its mix works on the CPU only (as adasum's and that of gathered with top_k): name "
      "another reducer, or train on the CPU");
  static_assert(
      MixesOn<R, Real, D> || (!D::host_memory && MixesOn<R, Real, cpu>),
      "reducer: mix is missing, or the transport cannot do what it asks of it: void "
      "mix(bucket_view<Real, D, slots> m, const step_info& info, typename D::stream s) const");
  static_assert(
      requires(const R r, std::size_t n) {
        { r.template scratch<Real>(n) } -> std::same_as<std::size_t>;
      },
      "reducer: `scratch` must be: template <class Real> std::size_t scratch(std::size_t n) const, "
      "bytes for a message of n numbers");
  CORDEE_MEMBER(optional, "reducer", R, void, enqueue,
                (bucket_view<Real, D, slots>, const step_info&, typename D::stream) const,
                (m, info, s), enqueues);
  CORDEE_MEMBER(optional, "reducer", R, void, initialize,
                (bucket_view<Real, D, slots>, typename D::stream) const, (m, s), initialise);
  CORDEE_MEMBER(optional, "reducer", R, std::string, describe, () const, (), description, describes,
                to_string);
  CORDEE_MEMBER(optional, "reducer", R, void, check, (std::span<const segment>) const,
                (std::span<const segment>{}), checks, check_table);
  CORDEE_MEMBER(optional, "reducer", R, std::vector<int>, sources, (const step_info&) const, (info),
                source);
  CORDEE_MEMBER(optional, "reducer", R, double, spectral_radius, (momentum_form) const, (form),
                spectralradius, spectral_radii);
  CORDEE_MEMBER(optional, "reducer", R, std::vector<std::string>, remedies, (momentum_form) const,
                (form), remedy);
  using names = core::member_names<R, reducer_names>;
  static_assert(
      HasReducerState<R, Real> ||
          requires {
            &names::state;
            &names::restore;
          },
      "reducer: `state` and `restore` belong together and must be: template <class Real> "
      "reducer_state state() const; template <class Real> void restore(const reducer_state&) "
      "const");
  static_assert(
      requires { &names::scratch_as; } == requires { &names::mix_as; },
      "reducer: `scratch_as` and `mix_as` belong together: declare both or neither");
}

/// True, or a compile error that states the member to add or to correct, for numbers of type Real
/// on device D.
template <class R, class Real, class D>
consteval bool has_reducer_members() {
  static_assert(std::copyable<R>, "reducer: it must be copyable");
  static_assert(
      requires { requires TransportOn<typename R::communicator_type, D>; },
      "reducer: communicator_type must be the type of the transport that it works over, which "
      "models TransportOn (comm/transports/transport.hpp) on the device of the model");
  static_assert(
      requires(const R r) {
        { r.comm } -> std::convertible_to<const typename R::communicator_type&>;
      }, "reducer: comm is missing, its communicator, of type communicator_type");
  CORDEE_CONSTANT(required, "reducer", R, agreement, offers, offer);
  CORDEE_CONSTANT(required, "reducer", R, bool, lossless, losless, loss_less);
  CORDEE_CONSTANT(required, "reducer", R, int, slots, slot);
  CORDEE_CONSTANT(optional, "reducer", R, bool, single_message, single_mesage, single_messages);
  CORDEE_CONSTANT(optional, "reducer", R, bool, capturable, captureable, is_capturable);
  CORDEE_CONSTANT(optional, "reducer", R, bool, residual_slots, residual_slot);
  CORDEE_CONSTANT(optional, "reducer", R, bool, can_shard, can_shards, shardable);
  if constexpr (CORDEE_HAS_CONSTANT(R, int, slots))
    static_assert(core::compiles<decltype(&check_functions<R, Real, D, R::slots>)> &&
                  ReducerOn<R, Real, D>);
  return true;
}

}  // namespace cordee::inline CORDEE_ABI::detail::comm

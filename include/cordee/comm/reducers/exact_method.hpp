// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Makes a reducer, plain (wire.hpp) and compressed (encoded_wire.hpp), from a method that specifies
// which chunks are sent between which ranks:
//
//   template <class Communicator>
//   struct my_reducer : exact_method<my_reducer<Communicator>, Communicator> {
//     int chunks(std::size_t n) const;                            // of a message of n numbers
//     template <class Real> std::size_t scratch(std::size_t n) const;
//     template <class Wire> void run(Wire w) const;               // w.add, average, pass, flush
//     static constexpr bool can_pipeline = true;                  // optional, see below
//   };
//   template <class C>
//   my_reducer(C) -> my_reducer<C>;                               // for my_reducer{comm}
#pragma once

#include <cordee/comm/reducers/encoded_wire.hpp>
#include <cordee/comm/reducers/reducer.hpp>
#include <cordee/comm/reducers/wire.hpp>

namespace cordee::inline CORDEE_ABI {

/// Base of a reducer that is a schedule of hops. Options of a method, as in my_reducer{comm, 3},
/// are members set by a constructor.
template <class Self, class Communicator>
struct exact_method : reducer_base<Communicator> {
  using communicator_type = Communicator;  ///< See ReducerOn.
  /// The mean, with the same bits on every rank.
  static constexpr agreement offers = agreement::exact;
  /// Whether run() accepts any multiple of chunks() as w.count(), and processes groups of chunks()
  /// one after the other with the same bits.
  static constexpr bool can_pipeline = false;

  /// Bytes of scratch that mix_as() needs for a message of n numbers.
  template <Precision P>
  [[nodiscard]] std::size_t scratch_as(std::size_t n) const {
    return detail::comm::encoded_scratch<P>(n, self().chunks(n));
  }
  /// Runs the method on plain numbers; with one rank nothing is exchanged.
  template <class Real, Device D>
  void mix(bucket_view<Real, D, 0> m, const step_info&, typename D::stream s) const {
    if (this->comm.size() == 1) return;
    int count = self().chunks(m.values.size);
    if constexpr (Self::can_pipeline && D::host_memory &&
                  detail::comm::FusedAddOn<communicator_type, Real, D>)
      count *= pipeline_depth(m.values.size);
    self().run(detail::comm::plain_wire<communicator_type, Real, D>{this->comm, m.values, m.scratch,
                                                                    count, s});
  }
  /// Runs the method with every hop encoded in P; adds this rank's encoding error to `lost`, in
  /// units of its own numbers.
  template <Precision P, class Real, Device D>
  void mix_as(bucket_view<Real, D, 0> m, span_on<Real, D> lost, const step_info&,
              typename D::stream s) const {
    if (this->comm.size() == 1) return;
    const int count = self().chunks(m.values.size);
    self().run(detail::comm::encoded_wire<P, communicator_type, Real, D>{
        this->comm, m.layout, m.values, m.scratch, lost, count, s});
  }

 private:
  /// Between ranks of one process a message costs little, and a chunk that stays in cache from its
  /// first sum to its last copy crosses the memory once.
  static int pipeline_depth(std::size_t n) { return static_cast<int>(1 + n / (1u << 16)); }

  [[nodiscard]] const Self& self() const { return static_cast<const Self&>(*this); }
};

}  // namespace cordee::inline CORDEE_ABI

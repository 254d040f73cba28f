// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One type for every exact reducer over a communicator, so that their laws are compiled once for
// it. The law of a transport without fused add is left to the laws over threads.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>

#include <cordee/testing/reducer_laws.hpp>

namespace support {

using namespace cordee;

template <class Communicator>
struct any_exact : reducer_base<Communicator> {
  static constexpr agreement offers = agreement::exact;

  std::function<std::size_t(std::size_t, std::size_t)>
      scratch_bytes;  // of n numbers of so many bytes
  std::function<void(bucket_view<float, cpu, 0>)> mix_floats;
  std::function<void(bucket_view<double, cpu, 0>)> mix_doubles;

  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return scratch_bytes(n, sizeof(Real));
  }
  void mix(bucket_view<float, cpu, 0> m, step_info, cpu::stream) const { mix_floats(m); }
  void mix(bucket_view<double, cpu, 0> m, step_info, cpu::stream) const { mix_doubles(m); }
};

template <class Communicator>
struct any_maker {
  std::function<any_exact<Communicator>(const Communicator&)> make;

  any_exact<Communicator> operator()(const Communicator& comm) const { return make(comm); }
  struct no_reducer {};
  no_reducer operator()(const counting_communicator<Communicator>&) const { return {}; }
};

/// The violations of the laws by the reducer that make(comm) returns.
template <class Communicator, class Make, class Launch>
std::string reducer_violations(const Make& make, const reducer_law_options& options,
                               const Launch& launch) {
  const any_maker<Communicator> any{[&make](const Communicator& comm) {
    const auto r = make(comm);
    static_assert(r.offers == agreement::exact && r.lossless);
    return any_exact<Communicator>{
        {comm},
        [r](std::size_t n, std::size_t number_bytes) {
          return number_bytes == sizeof(float) ? r.template scratch<float>(n)
                                               : r.template scratch<double>(n);
        },
        [r](bucket_view<float, cpu, 0> m) { r.mix(m, step_info{}, cpu::stream{}); },
        [r](bucket_view<double, cpu, 0> m) { r.mix(m, step_info{}, cpu::stream{}); }};
  }};
  return reducer_laws<Communicator>(any, options, launch);
}

}  // namespace support

// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The mean of encoded vectors, one from each rank, with error feedback (Seide et al. 2014; Stich et
// al. 2018; Karimireddy et al. 2019): gathered{comm, top_k{.fraction = 0.01}}, or gathered{comm,
// scaled_sign{}}.
//
//   x <- x + e;   q = code(x);   e <- x - q;   x <- mean of q over ranks
//
//   top_k         the largest |x| of each tensor, with their indices
//   scaled_sign   the signs of each tensor, one bit a number, times its mean |x|
//
// Every rank sends its code to all others, p - 1 messages, and adds them in rank order. Encoding
// partial sums would lose precision at every hop; `compressed` does that with narrower numbers. A
// NaN or infinity is sent, by top_k as the largest, so all ranks skip the step alike. A single rank
// sends and loses nothing. top_k runs on the CPU only.
#pragma once

#include <concepts>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>

#include <cordee/comm/reducers/encoded_wire.hpp>
#include <cordee/comm/reducers/one_shot.hpp>
#include <cordee/comm/reducers/reducer.hpp>
#include <cordee/core/algorithm.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/math.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/device/gpu_kernel.hpp>
#include <cordee/device/phantom.hpp>

namespace cordee::inline CORDEE_ABI {

/// A code: the numbers of largest magnitude in each tensor, with their indices.
struct top_k {
  /// Fraction of a tensor's numbers that is sent, rounded up to a whole number. Range: 0 < fraction
  /// <= 1, else usage_error.
  double fraction = 0.01;

  /// How many of n numbers are sent.
  /// @throws usage_error for a fraction outside its range.
  [[nodiscard]] std::size_t count(std::size_t n) const {
    expects(fraction > 0 && fraction <= 1, "top_k: .fraction must be above 0 and at most 1");
    return static_cast<std::size_t>(detail::core::ceil(fraction * static_cast<double>(n)));
  }
  /// Length of the code of n numbers: a 32-bit index and a value for each number sent.
  template <class Real>
  [[nodiscard]] std::size_t bytes(std::size_t n) const {
    return count(n) * (sizeof(std::uint32_t) + sizeof(Real));
  }
  /// Bytes of memory that encode() needs beside the code.
  /// @throws usage_error for more than 2^32 numbers.
  [[nodiscard]] static constexpr std::size_t workspace(std::size_t n) {
    expects(
        n <= most_numbers,
        "top_k: a place has 32 bits, so that a bucket has at most 2^32 numbers: choose a smaller "
        "trainer_options::bucket_bytes or, for a tensor of that size, scaled_sign");
    return n * sizeof(std::uint32_t);
  }
  /// Writes the code of x, in no particular order. NaN counts as the largest, then infinity; among
  /// equal magnitudes the first is sent. Requires bytes<Real>(n) bytes at `code` and workspace(n)
  /// bytes at `workspace`, aligned as std::uint32_t.
  template <class Real>
  void encode(std::size_t n, const Real* x, std::byte* code, std::byte* workspace) const {
    const std::span places(reinterpret_cast<std::uint32_t*>(workspace), n);
    for (std::uint32_t i = 0; std::uint32_t & place : places) place = i++;
    const auto k = static_cast<std::ptrdiff_t>(count(n));
    // NaN before infinity before numbers; of equal ones the first.
    const auto larger = [x](std::uint32_t i, std::uint32_t j) {
      const Real a = detail::comm::largest_magnitude<Real>(x + i, 1),
                 b = detail::comm::largest_magnitude<Real>(x + j, 1);
      if (detail::core::isnan(a) || detail::core::isnan(b))
        return detail::core::isnan(a) && (!detail::core::isnan(b) || i < j);
      return a > b || (a == b && i < j);
    };
    std::nth_element(places.begin(), places.begin() + std::max<std::ptrdiff_t>(k - 1, 0),
                     places.end(), larger);
    for (auto i = places.begin(); i != places.begin() + k; ++i) {
      std::memcpy(code, &*i, sizeof *i);
      std::memcpy(code + sizeof *i, x + *i, sizeof(Real));
      code += sizeof *i + sizeof(Real);
    }
  }
  /// Adds the numbers of a code to x, which has n.
  /// @throws error for an index outside x.
  template <class Real>
  void add(std::size_t n, const std::byte* code, Real* x) const {
    for (std::size_t k = 0; k < count(n); ++k) {
      std::uint32_t place = 0;
      Real value = 0;
      std::memcpy(&place, code, sizeof place);
      std::memcpy(&value, code + sizeof place, sizeof value);
      if (place >= n)
        throw error(concat("top_k: a rank has sent place ", place, " of a tensor of ", n,
                           " numbers: has it another model, or another version of cordee?"));
      x[place] += value;
      code += sizeof place + sizeof value;
    }
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("the largest ", 100 * fraction, " % of each tensor");
  }

 private:
  static constexpr std::size_t most_numbers = std::size_t{1} << 32;
};

/// A code: the sign of each number, and the mean magnitude of each tensor.
struct scaled_sign {
  static constexpr bool has_gpu_kernels = true;  ///< See gathered.

  /// Length of the code of n numbers: the mean, and a bit for each.
  template <class Real>
  [[nodiscard]] std::size_t bytes(std::size_t n) const {
    return n == 0 ? 0 : sizeof(Real) + (n + 7) / 8;
  }
  /// Writes the code of x. A zero is sent as the mean, with its own sign; a NaN or infinity makes
  /// the whole tensor NaN or infinite.
  template <class Real>
  void encode(std::size_t n, const Real* x, std::byte* code) const {
    if (n == 0) return;
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += detail::core::abs(static_cast<double>(x[i]));
    const auto scale = static_cast<Real>(sum / static_cast<double>(n));
    std::memcpy(code, &scale, sizeof scale);
    std::memset(code + sizeof scale, 0, (n + 7) / 8);
    for (std::size_t i = 0; i < n; ++i)
      if (detail::core::signbit(x[i])) code[sizeof scale + i / 8] |= std::byte{1} << (i % 8);
  }
  /// Adds the numbers of a code to x, which has n.
  template <class Real>
  void add(std::size_t n, const std::byte* code, Real* x) const {
    if (n == 0) return;
    Real scale = 0;
    std::memcpy(&scale, code, sizeof scale);
    for (std::size_t i = 0; i < n; ++i) {
      const bool negative = (code[sizeof scale + i / 8] >> (i % 8) & std::byte{1}) != std::byte{};
      x[i] += negative ? -scale : scale;
    }
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return "signs times the mean magnitude of a tensor";
  }
};

/// Mean of the ranks' codes, which are all-gathered, with error feedback. Codes that say
/// `has_gpu_kernels` (scaled_sign) run on GPUs, too.
template <class Communicator, class Code>
struct gathered {
  using communicator_type = Communicator;  ///< See ReducerOn.
  /// All ranks add the same codes in the same order.
  static constexpr agreement offers = agreement::exact;
  static constexpr bool lossless = false;        ///< A code loses numbers.
  static constexpr int slots = 1;                ///< The residual e.
  static constexpr bool residual_slots = true;   ///< The next vector is sent with e.
  static constexpr bool single_message = false;  ///< Each bucket has its own codes.

  Communicator comm;  ///< The ranks that average.
  Code code{};        ///< How a rank's tensors are encoded: `top_k` or `scaled_sign`.

  /// Scratch for the code's workspace and every rank's code, for any number of tensors, which begin
  /// at multiples of 64 numbers.
  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    const std::size_t tensors = n / detail::core::segment_alignment + 1;
    return workspace(n) +
           static_cast<std::size_t>(comm.size()) *
               (code.template bytes<Real>(n) + tensors * code.template bytes<Real>(1));
  }

  /// Encodes the segments of the bucket one by one; without a layout the bucket is one tensor.
  template <class Real, Device D>
    requires(D::host_memory || std::same_as<D, phantom> ||
             (GpuStream<typename D::stream> && requires { Code::has_gpu_kernels; }))
  void mix(bucket_view<Real, D, 1> m, const step_info&, typename D::stream s) const {
    if constexpr (GpuStream<typename D::stream>) return mix_on_gpu(m, s);
    const int p = comm.size();
    std::size_t size = 0;  // of a code
    for_each_tensor(
        m, [&](std::size_t, std::size_t count) { size += code.template bytes<Real>(count); });
    const detail::comm::rank_rows<std::byte, D> codes{m.scratch.data + workspace(m.values.size),
                                                      size, p};  // (p, size)
    if constexpr (D::host_memory) encode(m, codes(comm.rank()).data);
    if (p == 1) return;
    detail::comm::exchange_with_all<D>(
        comm, [&](int) { return codes(comm.rank()); }, codes, s);
    if constexpr (D::host_memory) add(m, codes);
  }

  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("mean over ", comm.size(), " ranks of ", code.describe(),
                  ", gathered, with error feedback");
  }

 private:
  static constexpr bool has_workspace = requires { Code::workspace(std::size_t{}); };
  // Workspace in front of the codes, for the largest tensor that n numbers can be.
  [[nodiscard]] static constexpr std::size_t workspace(std::size_t n) {
    if constexpr (has_workspace)
      return Code::workspace(n);
    else
      return 0;
  }

  // For a GPU: all tensors at once (ops/gpu/sign_codes.hpp, by argument-dependent lookup).
  template <class Real, Device D>
  void mix_on_gpu(const bucket_view<Real, D, 1>& m, typename D::stream s) const {
    const int p = comm.size();
    const std::size_t n = m.values.size;
    Real *const x = m.values.data, *const e = m.slots[0].data;
    take_residual(n, x, e, s);
    if (p == 1) return;
    const segment all{"", kind::weight, 0, n, {}};
    const std::span<const segment> tensors =
        m.layout == nullptr ? std::span(&all, 1) : std::span<const segment>(m.layout->segments);
    constexpr std::size_t width = sizeof(Real);  // of which a code is a multiple
    const detail::comm::rank_rows<std::byte, D> codes{
        m.scratch.data, width * (tensors.size() + (n + 8 * width - 1) / (8 * width)), p};
    encode_signs(tensors, x, e, codes(comm.rank()).data, s);
    detail::comm::exchange_with_all<D>(
        comm, [&](int) { return codes(comm.rank()); }, codes, s);
    decode_signs(tensors, codes.data, codes.n, p, x, s);
  }

  // x <- 0, and e <- x + e - code(x + e), of which the codes are written to `to`; of one rank x
  // <- x + e
  template <class View>
  void encode(const View& m, std::byte* to) const {
    const std::size_t n = m.values.size;
    auto *const x = m.values.data, *const e = m.slots[0].data;
    using Real = std::remove_pointer_t<decltype(m.values.data)>;
    for (std::size_t i = 0; i < n; ++i) x[i] += e[i];
    std::fill_n(e, n, Real{});
    if (comm.size() == 1) return;
    for_each_tensor(m, [&](std::size_t first, std::size_t count) {
      if constexpr (has_workspace)
        code.encode(count, x + first, to, m.scratch.data);
      else
        code.encode(count, x + first, to);
      code.add(count, to, e + first);
      to += code.template bytes<Real>(count);
    });
    for (std::size_t i = 0; i < n; ++i) {
      e[i] = x[i] - e[i];
      x[i] = 0;
    }
  }
  // x <- the mean of all ranks' codes
  template <class View, class Rows>
  void add(const View& m, const Rows& codes) const {
    using Real = std::remove_pointer_t<decltype(m.values.data)>;
    for (int rank = 0; rank < codes.ranks; ++rank) {
      const std::byte* from = codes(rank).data;
      for_each_tensor(m, [&](std::size_t first, std::size_t count) {
        code.add(count, from, m.values.data + first);
        from += code.template bytes<Real>(count);
      });
    }
    for (std::size_t i = 0; i < m.values.size; ++i)
      m.values.data[i] /= static_cast<Real>(codes.ranks);
  }

  // f(first number, numbers) of each tensor in the bucket, or of all numbers where it has none.
  template <class View, class F>
  static void for_each_tensor(const View& m, const F& f) {
    if (m.layout == nullptr) return f(0, m.values.size);
    for (const segment& part : m.layout->segments) f(part.offset - m.layout->offset, part.size);
  }
};
template <class Communicator, class Code>
gathered(Communicator, Code) -> gathered<Communicator, Code>;

}  // namespace cordee::inline CORDEE_ABI

// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Different settings for some of the parameters, as PyTorch's parameter groups:
//
//   parameter_groups{sgd{.momentum = 0.9, .weight_decay = 5e-4},
//                    parameter_group{"fc.", sgd{.momentum = 0.9}, 10},     // ten times the rate
//                    parameter_group{"", sgd{.momentum = 0.9}, 1, kind::bias | kind::scale}}
//
// For decay and trust ratios by kind only, `decay_on` and `adapt_on` of an optimizer do the same
// without the launches needed here for each run of segments of one group.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include <cordee/core/concat.hpp>
#include <cordee/device/gpu_kernel.hpp>
#include <cordee/ops/cpu/elementwise.hpp>
#include <cordee/optim/describe_kinds.hpp>
#include <cordee/optim/optimizer.hpp>

namespace cordee::inline CORDEE_ABI {

/// Settings of the segments of some kinds that share a name prefix.
template <class Optimizer>
struct parameter_group {
  /// Prefix of the segments' names; "": all names. Range: the group has at least one trainable
  /// segment, else usage_error.
  std::string_view prefix;
  Optimizer optimizer{};  ///< Optimizer of these segments, of the same type as the others'.
  /// Factor of the schedule's learning rate; 0: the segments stay unchanged. Range: finite, 0 or
  /// more, else usage_error.
  double learning_rate_factor = 1;
  kinds on = detail::core::trainable;  ///< Kinds of segments in the group.

  /// Whether the segment's name and kind match the group.
  [[nodiscard]] bool operator()(const segment& s) const {
    return on(s.kind) && s.name.starts_with(prefix);
  }
};
template <class Optimizer, class... Options>
parameter_group(std::string_view, Optimizer, Options...) -> parameter_group<Optimizer>;

namespace detail::optim {

/// `count` segments of a view from the one of index `first`.
template <class Real, class D, int Slots>
optimizer_view<Real, D, Slots> part_of(const optimizer_view<Real, D, Slots>& v, std::size_t first,
                                       std::size_t count) {
  const auto segments = v.segments.subspan(first, count);
  const std::size_t start = segments.front().offset - v.segments.front().offset,
                    size = segments.back().offset + core::align_up(segments.back().size) -
                           segments.front().offset;
  optimizer_view<Real, D, Slots> part = v;
  part.segments = segments;
  part.weights = v.weights.subspan(start, size);
  part.grads = v.grads.subspan(start, size);
  for (std::size_t k = 0; k < v.slots.size(); ++k) part.slots[k] = v.slots[k].subspan(start, size);
  part.squared_weight_norms = v.squared_weight_norms.subspan(first, count);
  part.squared_grad_norms = v.squared_grad_norms.subspan(first, count);
  part.sums = v.sums.subspan(first, count);
  const std::size_t each = v.numbers.size / v.segments.size();
  part.numbers = v.numbers.subspan(first * each, count * each);
  return part;
}

inline CORDEE_HOST_DEVICE step_info with_factor(step_info info, double factor) {
  info.learning_rate *= factor;
  info.previous_learning_rate *= factor;
  return info;
}
/// *to <- *info at `factor` times its learning rates
struct scale_info_op {
  const step_info* info;
  double factor;
  step_info* to;

  CORDEE_HOST_DEVICE void operator()(std::size_t) const { *to = with_factor(*info, factor); }
};

/// f(view, info) at `factor` times the learning rates, for the host and for kernels.
template <class Real, class D, int Slots, class F>
void at_learning_rate(optimizer_view<Real, D, Slots> v, const step_info& info, double factor,
                      typename D::stream s, const F& f) {
  if (factor == 1) return f(v, info);
  if constexpr (D::host_memory) {
    f(v, with_factor(info, factor));
  } else {
    const device::stream_buffer<step_info, typename D::stream> scaled(s, 1);
    // for a GPU by argument-dependent lookup: device/gpu_kernel.hpp
    launch_single(s, scale_info_op{v.info.data, factor, scaled.data()});
    v.info = {scaled.data(), 1};
    f(v, with_factor(info, factor));
  }
}

}  // namespace detail::optim

/// An optimizer with different settings for each group. A segment belongs to the first group that
/// matches its kind and the prefix of its name.
template <class Optimizer, std::size_t Groups>
struct parameter_groups {
  static_assert(Optimizer::needs == agreement::exact,
                "parameter_groups: wrap the groups, as in local_steps{parameter_groups{...}, 8}");
  static_assert(!detail::optim::compresses_momentum<Optimizer>(),
                "parameter_groups: one_bit_adam and its like decide for a whole bucket whether it "
                "is compressed: use one for the whole model, with .decay_on for what must not "
                "decay, or groups of adamw");
  static constexpr agreement needs = agreement::exact;  ///< Steps on the mean gradient.
  static constexpr bool eager = detail::optim::is_eager<Optimizer>;          ///< That of `others`.
  static constexpr int slots = Optimizer::slots;                             ///< That of `others`.
  static constexpr norms_needed norms = detail::optim::norms_of<Optimizer>;  ///< That of `others`.
  static constexpr bool capturable = detail::optim::Capturable<Optimizer>;   ///< That of `others`.

  /// Optimizer of the segments in no group. Range: needs an exact mean, else a compile error.
  Optimizer others{};
  /// The groups. The first match wins, so put longer prefixes before shorter ones.
  std::array<parameter_group<Optimizer>, Groups> groups{};

  /// Proposes as `others`.
  template <class Real, class D>
  span_on<Real, D> propose(const optimizer_view<Real, D, slots>& v, const step_info& info,
                           typename D::stream s) const {
    return detail::optim::proposal(others, v, info, s);
  }
  /// Steps on each run of segments of one group with its optimizer and learning rate.
  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>& v, const step_info& info,
              typename D::stream s) const {
    for (std::size_t first = 0, last = 0; first < v.segments.size(); first = last) {
      const std::size_t group = group_of(v.segments[first]);
      while (last < v.segments.size() && group_of(v.segments[last]) == group) ++last;
      const double factor = factor_of(group);
      const Optimizer& optimizer = optimizer_of(group);
      if (factor == 0) continue;
      detail::optim::at_learning_rate(
          detail::optim::part_of(v, first, last - first), info, factor, s,
          [&](const auto& part, const step_info& at) { optimizer.accept(part, at, s); });
    }
  }

  /// Calls f(optimizer, learning rate) for the segment's group, unless its factor is 0.
  template <class F>
  void for_optimizer_of(const segment& s, double learning_rate, const F& f) const {
    const std::size_t group = group_of(s);
    if (factor_of(group) != 0) f(optimizer_of(group), factor_of(group) * learning_rate);
  }

  /// Throws usage_error for a factor or an option of an optimizer outside its range.
  [[gnu::cold]] void check() const {
    detail::optim::check_optimizer(others);
    for (const auto& group : groups) {
      detail::optim::check_optimizer(group.optimizer);
      detail::optim::expects_not_negative("parameter_groups", "learning_rate_factor",
                                          group.learning_rate_factor);
    }
  }
  /// Throws usage_error for a group without segments in the table.
  void check_segments(std::span<const segment> table) const {
    for (std::size_t k = 0; k < Groups; ++k) {
      bool found = false;
      for (const segment& s : table) found = found || group_of(s) == k;
      if (!found)
        throw usage_error(concat("parameter_groups: no parameter belongs to group ", k, ", \"",
                                 groups[k].prefix, "\"", kinds_of(groups[k]), ": names begin as \"",
                                 table.front().name,
                                 "\", and a group comes "
                                 "before those that contain it"));
    }
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    std::string text = detail::core::describe_policy(others);
    for (const auto& group : groups)
      text += concat("; parameters \"", group.prefix, "\"", kinds_of(group), " at ",
                     group.learning_rate_factor,
                     " times the learning rate: ", detail::core::describe_policy(group.optimizer));
    return text;
  }

 private:
  [[nodiscard]] double factor_of(std::size_t group) const {
    return group == Groups ? 1 : groups[group].learning_rate_factor;
  }
  [[nodiscard]] const Optimizer& optimizer_of(std::size_t group) const {
    return group == Groups ? others : groups[group].optimizer;
  }
  static std::string kinds_of(const parameter_group<Optimizer>& group) {
    if (group.on == detail::core::trainable) return {};
    return group.on == kind::weight ? " of kind weight"
                                    : detail::optim::describe_kinds("of kind", group.on);
  }
  [[nodiscard]] std::size_t group_of(const segment& s) const {
    std::size_t k = 0;
    while (k < Groups && !groups[k](s)) ++k;
    return k;
  }
};
template <class Optimizer, class... Group>
parameter_groups(Optimizer, Group...) -> parameter_groups<Optimizer, sizeof...(Group)>;

}  // namespace cordee::inline CORDEE_ABI

// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The concept of a trainable model.
//
// Master weights, gradients and running statistics are in planes of the trainer's arena; kernels
// read packed parameters, which pack_parameters makes from any plane, so an averaged or stale copy
// of the weights can be evaluated too.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include <cordee/core/extent.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/device/arena.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/precision/precision.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::nn {

/// What one micro-batch of a model is: M::batch_type, or by default a batch of images.
template <class M>
struct batch_type_of : std::type_identity<batch<typename M::device>> {};
template <class M>
  requires requires { typename M::batch_type; }
struct batch_type_of<M> : std::type_identity<typename M::batch_type> {};
template <class M>
using batch_of = typename batch_type_of<M>::type;

}  // namespace detail::nn

/// What the trainer can train: a network of images, or a model of other data, whose `batch_type` is
/// that of its micro-batches (data_batch).
///   segments      in forward order, statistics after the trainable segments; the same in every
///                 call, for the model's lifetime
///   forward       in training, updates the running statistics in `plane`, for an empty batch only
///                 if other ranks share theirs, and multiplies each sample's loss by the batch's
///                 loss_weight()
///   backward      adds the gradients of the last forward, or overwrites every trainable number,
///                 which the trainer requests in the first micro-batch on a GPU; calls ready(i) for
///                 every trainable segment i, in descending order, as soon as its gradient is done
///                 and, for a weight, the layer's input gradient (nn/layer.hpp)
///   read_metrics  of the last forward; may block the host
template <class M>
concept Model = std::movable<M> && Precision<typename M::precision> && Device<typename M::device> &&
                requires(M m, span_on<typename M::precision::master, typename M::device> plane,
                         typename M::packed_parameters packed, const detail::nn::batch_of<M> b,
                         phase p, typename M::device::stream s, void (*ready)(std::size_t)) {
                  { m.segments() } -> std::convertible_to<std::span<const segment>>;
                  { m.initialize(plane, std::uint64_t{}) } -> std::same_as<void>;
                  { m.make_packed_parameters() } -> std::same_as<typename M::packed_parameters>;
                  { m.pack_parameters(plane, packed, s) } -> std::same_as<void>;
                  { m.forward(packed, plane, b, p, s) } -> std::same_as<void>;
                  { m.backward(packed, plane, write_mode::add, ready, s) } -> std::same_as<void>;
                  { m.read_metrics(s) } -> std::same_as<metrics>;
                  { m.get_device() } -> std::convertible_to<typename M::device>;
                };

namespace detail::nn {

/// A model of images in classes, whose `input` and `classes` are constants: what loaders of images,
/// evaluation on data sets and prediction need.
template <class M>
concept ImageModel = Model<M> && std::same_as<batch_of<M>, batch<typename M::device>> && requires {
  { M::input } -> std::convertible_to<extent>;
  { M::classes } -> std::convertible_to<int>;
};

// Optional members of a model, of which nn/adversarial.hpp has all:
//   look_ahead(packed, batches, seed, step)   before each step, the micro-batches of the next one
//   pack_anew(plane, packed, s)               packs weights that do not follow from those before
//   state(packed), restore(packed, numbers, s)    what a checkpoint saves beside the planes
//   overwrites_gradients                      true: backward of a step's first micro-batch gets
//                                             write_mode::overwrite on a CPU, too
// A network may also have:
//   freeze(flags)                             from now on passes leave these segments as they are
//   skips_frozen_gradients                    true, and a backward that takes a plane_part: frozen
//                                             gradients need no memory

template <class M>
concept LooksAhead =
    requires(M m, const typename M::packed_parameters& packed, std::span<const batch_of<M>> next) {
      m.look_ahead(packed, next, std::uint64_t{}, std::int64_t{});
    };
template <class M>
concept TakesPlanePart =
    requires { requires M::skips_frozen_gradients; } &&
    requires(M m, device::plane_part<typename M::precision::master, typename M::device> part,
             typename M::packed_parameters packed, typename M::device::stream s,
             void (*ready)(std::size_t)) {
      m.backward(packed, part, write_mode::add, ready, s);
      requires !requires { m.backward_packed(packed, part.numbers, write_mode::add, ready, s); } ||
                   requires { m.backward_packed(packed, part, write_mode::add, ready, s); };
    };
template <class M>
concept HasModelState = requires(const M m, const typename M::packed_parameters& packed) {
  { m.state(packed) } -> std::same_as<std::vector<double>>;
};

/// A model whose metrics are in its device's memory after forward, so that they can be copied from
/// there without blocking the host.
template <class M>
concept HasDeviceMetrics = requires(const M m) {
  { m.metrics_of(*m.device_metrics().data) } -> std::same_as<metrics>;
};
/// A model that has another part of its metrics on the host, of the last pass.
template <class M>
concept HasHostMetrics = requires(const M m) {
  { m.host_metrics() } -> std::same_as<metrics>;
};

/// Packs the weights of an average, or the run's own again.
template <class M, class Plane, class Packed, class Stream>
void pack_anew(const M& model, const Plane& plane, Packed& packed, Stream s) {
  if constexpr (requires { model.pack_anew(plane, packed, s); })
    model.pack_anew(plane, packed, s);
  else
    model.pack_parameters(plane, packed, s);
}
/// Packs the weights of a run that continues with `state`, which is empty if there is none.
template <class M, class Plane, class Packed, class Stream>
void pack_restored(M& model, const Plane& plane, Packed& packed, const std::vector<double>& state,
                   Stream s) {
  pack_anew(model, plane, packed, s);
  if constexpr (HasModelState<M>) model.restore(packed, state, s);
}

}  // namespace detail::nn

}  // namespace cordee::inline CORDEE_ABI

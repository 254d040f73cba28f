// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The memory of a run's gradients: a plane of the arena, or memory beside it.
//
// It is beside the arena where the reducer's transport wants it, and where layers are frozen. If
// all layers of the network skip frozen gradients (nn/layer.hpp), it is from the first trained
// segment to the last one. With layers of one's own that may write the others it is whole; then the
// CPU takes pages for what is written alone.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include <cordee/comm/reducers/reducer.hpp>
#include <cordee/device/arena.hpp>
#include <cordee/nn/model.hpp>
#include <cordee/train/step/frozen_layers.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

/// Which frozen gradients backward of a model may write: all; those of the group of the first
/// trained segment, and behind it; none.
enum class frozen_gradients { all, from_first_group, none };

template <class M>
inline constexpr frozen_gradients frozen_gradients_of =
    !FreezesLayers<M>       ? frozen_gradients::all
    : nn::TakesPlanePart<M> ? frozen_gradients::none
                            : frozen_gradients::from_first_group;

/// What backward of the model M gets of a run's planes.
template <class M, class Planes>
auto gradients_for(Planes& planes) {
  if constexpr (nn::TakesPlanePart<M>)
    return planes.held_grads();
  else
    return planes.grads();
}

template <class Real, Device D>
class gradient_plane {
 public:
  using segments = std::span<const segment>;

  /// `unfrozen`: empty where none is frozen; else `called` is not null. `registered`: of the
  /// transport, or null.
  [[gnu::cold]] gradient_plane(const D& device, segments table, segments unfrozen,
                               frozen_gradients written, device::external_memory&& registered,
                               const frozen_functions* called = nullptr)
      : offset_(written == frozen_gradients::none && !unfrozen.empty() ? unfrozen[0].offset : 0),
        size_(size_of(table, unfrozen, written)),
        first_written_(written == frozen_gradients::all || unfrozen.empty()
                           ? 0
                           : called->first_group(table, unfrozen)),
        memory_(std::move(registered)) {
    if (memory_.get() != nullptr) {
      const typename D::stream s{};
      device.clear(memory_.get(), size_ * sizeof(Real), s);
      device.finish(s);
    } else if (!unfrozen.empty()) {
      memory_ = allocate(device, size_, written, called->allocate_zeros);
    }
  }

  /// Memory from the reducer's transport, or null.
  template <class R>
  [[nodiscard, gnu::cold]] static device::external_memory allocate_registered(
      const R& reducer, const D& device, segments table, const frozen_layers& frozen,
      frozen_gradients written) {
    const auto unfrozen = frozen.unfrozen_segments(table);
    return comm::allocate_registered<Real>(reducer, device,
                                           size_of(table, unfrozen.span(), written));
  }
  [[nodiscard]] bool is_in_arena() const { return memory_.get() == nullptr; }
  /// Requires that it is beside the arena.
  [[nodiscard]] device::plane_part<Real, D> part() const {
    return {{static_cast<Real*>(memory_.get()), size_}, offset_};
  }
  [[nodiscard]] std::size_t size() const { return size_; }
  /// In front of it no gradient is written.
  [[nodiscard]] std::size_t first_written() const {
    return first_written_ < offset_ ? offset_ : first_written_;
  }

 private:
  [[nodiscard, gnu::cold]] static std::size_t size_of(segments table, segments unfrozen,
                                                      frozen_gradients written) {
    if (written != frozen_gradients::none || unfrozen.empty())
      return arena<Real, D>::size_of_plane(table);
    return arena<Real, D>::size_of_plane(unfrozen) - unfrozen[0].offset;
  }
  // Zeros; null: of the arena.
  [[nodiscard, gnu::cold]] static device::external_memory allocate(const D& device, std::size_t n,
                                                                   frozen_gradients written,
                                                                   host_zeros zeros) {
    if constexpr (requires { D::allocate_zeros(n); }) {
      return zeros(n * sizeof(Real));
    } else {
      if (written != frozen_gradients::none) return nullptr;
      auto* const memory = new buffer<Real, D>(device, n);
      return {memory->span().data, memory, free_buffer};
    }
  }

  static void free_buffer(void* memory) { delete static_cast<buffer<Real, D>*>(memory); }

  std::size_t offset_, size_, first_written_;
  device::external_memory memory_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::train

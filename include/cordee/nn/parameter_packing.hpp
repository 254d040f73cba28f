// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The parameters of a network as a table in the device's memory (ops/packed_table.hpp), by which
// one launch packs all of them, and one unpacks the gradients of a bucket.
#pragma once

#include <cstddef>
#include <utility>

#include <cordee/core/error.hpp>
#include <cordee/core/pod_vector.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/nn/layer.hpp>
#include <cordee/ops/packed_table.hpp>

namespace cordee::inline CORDEE_ABI {
namespace detail::nn {

/// A model whose gradients may stay packed until a bucket is complete.
template <class M>
concept HasPackedGradients =
    requires(M m, span_on<typename M::precision::master, typename M::device> plane,
             typename M::device::stream s) {
      m.unpack_gradients(plane, std::size_t{}, std::size_t{}, write_mode::add, nullptr, s);
    };

/// For backends whose layers pack their own parameters.
template <class B, bool = B::packs_by_table>
class parameter_packing {
 public:
  parameter_packing(const typename B::device&, layout_builder&) {}
  [[nodiscard]] std::size_t bytes() const { return 0; }
  [[nodiscard]] std::size_t table_bytes() const { return 0; }
  void release_gradients() {}
};

template <class B>
class parameter_packing<B, true> {
  using number = typename B::number;
  using real = typename B::real;
  using stream = typename B::stream;

 public:
  /// Takes the list of the layout, which has one entry for each trainable segment.
  [[gnu::cold]] parameter_packing(const typename B::device& device, layout_builder& layout)
      : packed_size_(layout.packed_size),
        tensors_(std::move(layout.tensors)),
        on_device_(device, tensors_.size()),
        gradients_(device, 0) {
    expects(tensors_.size() == layout.next_segment, "network: a layer has not listed its tensors");
    const stream s{};
    device.copy(on_device_.span().data, tensors_.data(), tensors_.size() * sizeof(tensors_[0]), s);
    device.finish(s);
  }

  /// What a captured launch depends on.
  [[nodiscard]] std::size_t bytes() const { return gradients_.size(); }
  /// Memory of the table.
  [[nodiscard]] std::size_t table_bytes() const {
    return on_device_.size() * sizeof(ops::packed_tensor);
  }
  /// Frees the memory of packed gradients until the next pass that has some.
  void release_gradients() { gradients_ = {}; }
  void pack(const real* plane, std::byte* packed, stream s) const {
    // for a GPU by argument-dependent lookup: ops/gpu/{packed_table,quantized_table}.hpp
    if constexpr (Quantized<typename B::precision>)
      pack_quantized_table(on_device_.span().data, tensors_.size(), tensors_.back(), plane,
                           reinterpret_cast<typename B::engine::byte_gradient*>(packed), s);
    else
      pack_table(on_device_.span().data, tensors_.size(), tensors_.back(), plane,
                 reinterpret_cast<number*>(packed), s);
  }
  /// Packs `count` segments from `first` on, whose weights are `numbers`, rounded masters, and
  /// whose vectors are in `plane`. Both are where number 0 of the table would be.
  void pack_numbers(const number* numbers, const real* plane, std::size_t first, std::size_t count,
                    std::byte* packed, stream s) const {
    // for a GPU by argument-dependent lookup: ops/gpu/packed_table.hpp
    const std::size_t begin = tensors_[first].blocks_before;
    pack_numbers_table(
        on_device_.span().data, tensors_.size(), begin,
        tensors_[first + count - 1].followed_by(ops::packed_tensor()).blocks_before - begin,
        numbers, plane, reinterpret_cast<number*>(packed), s);
  }
  /// pack_slice packs multiples of this many numbers of a segment, and backward writes it in slices
  /// of them where it is asked to (device/arena.hpp); 0: all or none.
  [[nodiscard]] std::size_t slice_of(std::size_t segment) const {
    const ops::packed_tensor& t = tensors_[segment];
    return t.gradient_is_packed && !t.has_crsk ? t.tile.filters * t.size() / t.tile.layout.filters
                                               : 0;
  }
  /// pack_numbers of a slice of one segment: of multiples of slice_of(segment) numbers, but for the
  /// last slice.
  void pack_slice(const number* numbers, const real* plane, std::size_t segment, std::size_t first,
                  std::size_t size, std::byte* packed, stream s) const {
    const ops::packed_tensor& t = tensors_[segment];
    const std::size_t rows = slice_of(segment), begin = first / rows * t.tile.across;
    const bool is_last = first + size >= t.size();
    // for a GPU by argument-dependent lookup: ops/gpu/packed_table.hpp
    pack_numbers_table(on_device_.span().data, tensors_.size(), t.blocks_before + begin,
                       is_last ? t.tile.blocks() - begin : size / rows * t.tile.across, numbers,
                       plane, reinterpret_cast<number*>(packed), s);
  }
  /// Memory for packed gradients, at the offsets of the packed parameters.
  [[nodiscard]] std::byte* gradients() {
    gradients_.reserve(packed_size_);
    return gradients_.span().data;
  }
  /// See network::unpack_gradients.
  void unpack(real* plane, std::size_t first, std::size_t count, write_mode mode,
              const float* factor, stream s) {
    const number* const packed = reinterpret_cast<const number*>(gradients());
    // for a GPU by argument-dependent lookup: ops/gpu/packed_table.hpp
    unpack_table(on_device_.span().data, tensors_.size(), tensors_[first],
                 tensors_[first + count - 1], packed, plane, factor, mode, s);
  }

 private:
  std::size_t packed_size_;
  detail::core::pod_vector<detail::ops::packed_tensor> tensors_;
  buffer<detail::ops::packed_tensor, typename B::device> on_device_;
  buffer<std::byte, typename B::device> gradients_;
};

}  // namespace detail::nn
}  // namespace cordee::inline CORDEE_ABI

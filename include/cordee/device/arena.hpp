// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One allocation of parallel planes: master weights, gradients, the slots of optimizer and reducer.
// It stores everything that a training run changes, except gradients kept apart
// (train/step/gradient_plane.hpp); a parameter has the same offset in every whole plane.
#pragma once

#include <string_view>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/device/buffer.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::device {

[[noreturn, gnu::cold, gnu::noinline]] inline void refuse_whole_plane(std::string_view name,
                                                                      std::string_view call) {
  throw usage_error(
      concat("trainer: frozen layers have no ", name, ": ", call, " is those of the others"));
}

/// Where numbers first .. first + size - 1 of a segment's gradient are written.
template <class Real>
struct gradient_slice {
  Real* numbers = nullptr;
  std::size_t first = 0, size = 0;
};

/// Where gradients are written that have no plane on the device: place(context, segment) is where
/// a trainable segment's are, from then on until the run takes them away. Large segments may be cut
/// into slices, each of which is taken away when the next one is asked for.
template <class Real>
struct gradient_places {
  void* context = nullptr;
  Real* (*place)(void* context, std::size_t segment) = nullptr;
  /// Slice k, counted from the segment's end; behind the last one an empty one.
  gradient_slice<Real> (*slice)(void* context, std::size_t segment, std::size_t k) = nullptr;
  bool (*cut)(void* context, std::size_t segment) = nullptr;  ///< Null: no segment is.

  [[nodiscard]] Real* of(std::size_t segment) const { return place(context, segment); }
  [[nodiscard]] bool is_cut(std::size_t segment) const {
    return cut != nullptr && cut(context, segment);
  }
  /// f(slice) writes a slice, for all of a segment that is cut.
  template <class F>
  void for_each_slice(std::size_t segment, const F& f) const {
    std::size_t k = 0;
    for (auto x = slice(context, segment, 0); x.size > 0; x = slice(context, segment, ++k)) f(x);
  }
};

/// Some numbers of a plane: `numbers` begins at number `offset` of the table. A span is a whole
/// plane.
template <class Real, class D>
struct plane_part {
  span_on<Real, D> numbers;
  std::size_t offset = 0;
  /// Where gradients are instead of in `numbers`; null: in `numbers`.
  const gradient_places<Real>* places = nullptr;

  plane_part(span_on<Real, D> some, std::size_t at = 0)  // NOLINT(google-explicit-constructor)
      : numbers(some), offset(at) {}
  plane_part(Real* data, std::size_t size) : numbers{data, size} {}  // {data, size} is a span
  explicit plane_part(const gradient_places<Real>& elsewhere) : numbers{}, places(&elsewhere) {}

  [[nodiscard]] bool has(const segment& s) const {
    return s.offset >= offset && s.end() <= offset + numbers.size;
  }
  /// All `size` numbers of the plane. Throws usage_error where there are fewer.
  [[nodiscard]] span_on<Real, D> whole(std::size_t size, std::string_view name,
                                       std::string_view call) const {
    if (numbers.size != size) refuse_whole_plane(name, call);
    return numbers;
  }
  /// Where number 0 of the table would be, from which offsets count. Only numbers of this part may
  /// be accessed.
  [[nodiscard]] Real* origin() const { return numbers.data - offset; }
  /// Number k of the table, which is of this part.
  [[nodiscard]] Real& operator[](std::size_t k) const { return numbers[k - offset]; }
  /// Numbers of the table, which are of this part.
  [[nodiscard]] span_on<Real, D> of(std::size_t begin, std::size_t size) const {
    return numbers.subspan(begin - offset, size);
  }
  /// A segment's numbers. Throws usage_error where they are not of this part.
  [[nodiscard]] span_on<Real, D> of(const segment& s) const {
    if (!has(s)) throw usage_error(concat("trainer: \"", s.name, "\" is frozen: it has no memory"));
    return of(s.offset, s.size);
  }
};

}  // namespace detail::device

/// Planes of numbers of type Real on a device, or in another kind of memory that it can read;
/// movable, not copyable.
template <class Real, Device D, class Memory = buffer<Real, D>>
class arena {
 public:
  /// `planes` planes for the table's segments, initially zero.
  arena(const D& device, std::span<const segment> table, int planes)
      : arena(device, table, planes, planes, 0) {}
  /// `planes` planes, the first `whole` for the table's segments and the others of `part` numbers
  /// each; initially zero.
  [[gnu::cold, gnu::noinline]] arena(const D& device, std::span<const segment> table, int planes,
                                     int whole, std::size_t part)
      : plane_size_(size_of_plane(table)),
        part_(part),
        planes_(planes),
        whole_(whole),
        memory_(device, begin_of(planes)) {}

  /// Numbers in a plane for these segments.
  [[nodiscard]] static std::size_t size_of_plane(std::span<const segment> table) {
    return table.empty() ? 0 : table.back().offset + detail::core::align_up(table.back().size);
  }
  /// Number of planes.
  [[nodiscard]] int planes() const { return planes_; }
  /// Numbers in a whole plane, including padding.
  [[nodiscard]] std::size_t plane_size() const { return plane_size_; }
  /// Plane `index`, 0 .. planes() - 1. @throws usage_error for another index.
  [[nodiscard]] span_on<Real, D> plane(int index) {
    expects(index >= 0 && index < planes_, "arena: the index of a plane is 0 .. planes() - 1");
    return memory_.span().subspan(begin_of(index), index < whole_ ? plane_size_ : part_);
  }
  /// Numbers in all planes.
  [[nodiscard]] std::size_t size() const { return begin_of(planes_); }
  /// All planes. Between steps they may be elsewhere, and this memory empty
  /// (train/swapped_trainer.hpp); then plane() must not be called.
  [[nodiscard]] Memory& memory() { return memory_; }

 private:
  [[nodiscard, gnu::noinline]] std::size_t begin_of(int index) const {
    const int whole = index < whole_ ? index : whole_;
    return static_cast<std::size_t>(whole) * plane_size_ +
           static_cast<std::size_t>(index - whole) * part_;
  }

  std::size_t plane_size_, part_;
  int planes_, whole_;
  Memory memory_;
};

}  // namespace cordee::inline CORDEE_ABI

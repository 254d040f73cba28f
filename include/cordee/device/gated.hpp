// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A device whose kernels look at a flag first: where it is raised when their turn comes they leave
// everything as it is. So the host may hand over work before anybody knows whether it is wanted.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include <cordee/core/span_on.hpp>
#include <cordee/device/grid.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {

template <class Body>
struct independence {};
template <class Body>
  requires(Body::independent)
struct independence<Body> {
  static constexpr bool independent = true;
};

template <class Body>
struct gated_body : independence<Body> {
  static constexpr int threads = Body::threads;
  Body body;
  const std::int32_t* closed;

  gated_body(const Body& what, const std::int32_t* flag) : body(what), closed(flag) {}
  [[nodiscard]] std::size_t shared_bytes() const { return cordee::shared_bytes(body); }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    if (closed == nullptr || *closed == 0) body(b);
  }
};

}  // namespace detail

/// D, with streams of its own. The flag is in D's memory; copies are made whatever it says.
template <class D>
  requires GridStream<typename D::stream>
struct gated : D {
  struct stream : D::stream {
    const std::int32_t* closed = nullptr;

    stream() = default;
    stream(const typename D::stream& s, const std::int32_t* flag) : D::stream(s), closed(flag) {}
    template <class Body>
    void launch(std::size_t blocks, const Body& body) const {
      D::stream::launch(blocks, detail::gated_body<Body>(body, closed));
    }
  };
  [[nodiscard]] stream open() const { return {D::open(), nullptr}; }
};

}  // namespace cordee::inline CORDEE_ABI

// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A link that counts what one rank sends, and offers `exchange` alone: over it, reducers take the
// path of a transport that can neither add nor average by itself.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>

#include <cordee/comm/transport.hpp>

namespace cordee::inline CORDEE_ABI {

struct traffic {
  std::size_t messages = 0, bytes = 0;
};

template <class Link>
struct counted {
  static constexpr bool blocks_host = Link::blocks_host;

  Link link;
  traffic* sent;  // of this rank; must outlive the link

  [[nodiscard]] int rank() const { return link.rank(); }
  [[nodiscard]] int size() const { return link.size(); }
  [[nodiscard]] counted lane(int k) const { return {link.lane(k), sent}; }
  void abandon(const char* why) const { cordee::abandon(link, why); }

  template <Device D>
  void exchange(std::span<const to<D>> out, std::span<const from<D>> in,
                typename D::stream s) const {
    std::atomic_ref(sent->messages) += out.size();  // lanes may be used side by side
    for (const auto& message : out) std::atomic_ref(sent->bytes) += message.bytes.size;
    link.exchange(out, in, s);
  }
};
template <class Link>
counted(Link, traffic*) -> counted<Link>;

}  // namespace cordee::inline CORDEE_ABI

// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Compiled once for each network, with its number as NETWORK.
#include "session.hpp"

namespace train {

template <>
network_entry entry_of<NETWORK>() {
  using entry = std::tuple_element_t<NETWORK, networks>;
  using net = entry::type;
  return {concat("resnet", entry::depth), std::string(net::precision::name), net::input,
          net::classes, launch_session<net::with_loss<chosen_loss>>};
}

}  // namespace train

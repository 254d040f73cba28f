// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// GPU memory that is registered with an NCCL communicator: NCCL then transfers from where it is,
// without a copy through its own buffers. Since NCCL 2.19; before, nothing is registered.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include <nccl.h>

#include <cordee/comm/nccl/context.hpp>
#include <cordee/comm/nccl/world.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

/// Of a rank's memory, while this exists, which keeps the run alive. Requires that it is destroyed
/// by the thread that uses the context, while no graph is replayed that uses the memory.
class nccl_registration {
 public:
  nccl_registration() = default;
  nccl_registration(std::shared_ptr<nccl_world> world, int context, void* data, std::size_t size)
      : world_(std::move(world)),
        context_(context),
        handle_(world_->context(context).register_memory(data, size)) {}
  nccl_registration(nccl_registration&& other) noexcept
      : world_(std::move(other.world_)),
        context_(other.context_),
        handle_(std::exchange(other.handle_, nullptr)) {}
  nccl_registration& operator=(nccl_registration&& other) noexcept {
    std::swap(world_, other.world_);
    std::swap(context_, other.context_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~nccl_registration() {
    if (handle_ != nullptr) world_->context(context_).deregister(handle_);
  }

  /// Whether NCCL has registered it.
  [[nodiscard]] bool exists() const { return handle_ != nullptr; }

 private:
  std::shared_ptr<nccl_world> world_;
  int context_ = 0;
  void* handle_ = nullptr;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm

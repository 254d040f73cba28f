// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// GPU memory that is registered with an NCCL communicator: NCCL then transfers from where it is,
// without a copy through its own buffers, and where the switch can, it sums there (NVLS), but does
// not average.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include <cordee/comm/transports/nccl/communicator.hpp>
#include <cordee/comm/transports/nccl/context.hpp>
#include <cordee/comm/transports/nccl/world.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

/// Registered memory of one rank; keeps the run alive. NCCL requires that in a collective every
/// rank's memory is registered, or none's, at the same offset to its head. Destroyed by the thread
/// that uses the context, while no graph is replayed that uses the memory: when the GPU is idle it
/// is deregistered and freed, or kept for the next of its size (nccl_communicator::release).
class nccl_registered_memory {
 public:
  /// So many bytes, not zero, of undefined content.
  nccl_registered_memory(std::shared_ptr<nccl_world> world, int context, std::size_t size)
      : world_(std::move(world)),
        context_(world_->context(context)),
        data_(context_.communicator().allocate(size)) {
    try {
      handle_ = context_.communicator().register_memory(data_, size);
    } catch (...) {
      context_.communicator().release(data_);
      throw;
    }
  }
  nccl_registered_memory(const nccl_registered_memory&) = delete;
  nccl_registered_memory& operator=(const nccl_registered_memory&) = delete;
  ~nccl_registered_memory() {
    nccl_communicator& comm = context_.communicator();
    if (handle_ != nullptr) comm.deregister(handle_);
    comm.release(data_);
  }

  [[nodiscard]] void* data() const { return data_; }

 private:
  std::shared_ptr<nccl_world> world_;
  nccl_context& context_;
  void* data_;
  void* handle_ = nullptr;  // null where this NCCL registers none
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm

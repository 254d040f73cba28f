// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What NCCL answered: nothing, or an error that names the call and what NCCL says of it.
#pragma once

#include <string_view>

#include <nccl.h>

#include <cordee/core/error.hpp>
#include <cordee/core/text.hpp>

namespace cordee::inline CORDEE_ABI::detail {

[[noreturn, gnu::cold]] inline void nccl_failed(ncclResult_t status, std::string_view call,
                                                ncclComm_t about = nullptr) {
  const char* more = about == nullptr ? nullptr : ncclGetLastError(about);
  throw error(text("nccl: ", call, ": ", ncclGetErrorString(status),
                   more == nullptr || *more == '\0' ? "" : ": ", more == nullptr ? "" : more,
                   "; NCCL_DEBUG=INFO makes it say more"));
}
/// What is in progress is no failure.
inline void nccl_check(ncclResult_t status, std::string_view call, ncclComm_t about = nullptr) {
  if (status != ncclSuccess && status != ncclInProgress) nccl_failed(status, call, about);
}

}  // namespace cordee::inline CORDEE_ABI::detail

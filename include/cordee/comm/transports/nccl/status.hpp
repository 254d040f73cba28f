// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// NCCL's status codes as errors that name the call and NCCL's own text.
#pragma once

#include <string_view>

#include <nccl.h>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

[[noreturn, gnu::cold]] inline void throw_nccl_error(ncclResult_t status, std::string_view call,
                                                     ncclComm_t comm = nullptr) {
  const char* detail = comm == nullptr ? nullptr : ncclGetLastError(comm);
  throw error(concat("nccl: ", call, ": ", ncclGetErrorString(status),
                     detail == nullptr || *detail == '\0' ? "" : ": ",
                     detail == nullptr ? "" : detail, "; set NCCL_DEBUG=INFO for more"));
}
/// ncclInProgress is no failure.
inline void nccl_check(ncclResult_t status, std::string_view call, ncclComm_t comm = nullptr) {
  if (status != ncclSuccess && status != ncclInProgress) throw_nccl_error(status, call, comm);
}

}  // namespace cordee::inline CORDEE_ABI::detail::comm

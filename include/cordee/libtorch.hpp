// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Component libtorch by name: models of PyTorch's C++ library, trained by Cordee.
#pragma once

#include <cordee/libtorch/torch_batches.hpp>
#include <cordee/libtorch/torch_model.hpp>

// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// benchmarks/tensor_cores.cpp compiled for a GPU, with cuDNN.
#include "tensor_cores.cpp"

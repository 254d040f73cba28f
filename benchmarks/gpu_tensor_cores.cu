// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The same program for a GPU, where there is a cuDNN.
#include "tensor_cores.cpp"

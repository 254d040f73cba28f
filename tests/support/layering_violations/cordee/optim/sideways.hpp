// A breach of the laws of inclusion, for the test that must see it. Numbers are on [0, 1);

#include <vector>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/ops/kernels.cuh>

#include "../nn/model.hpp"

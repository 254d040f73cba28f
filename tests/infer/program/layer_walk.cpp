// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <doctest/doctest.h>

#include <cordee/core/concat.hpp>
#include <cordee/infer/program/layer_walk.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/ops/engines/direct/engine.hpp>
#include <cordee/ops/engines/reference/engine.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/precision/int8.hpp>

using namespace cordee;
using namespace cordee::detail;

namespace {

/// Writes the layers as an expression, with the tensors that each one takes.
struct printer {
  using value = std::string;

  static std::string names(const infer::layer_tensors& t) {
    std::string out(t.name);
    for (const segment& s : t.trainable) out += " " + std::string(s.name.substr(t.name.size()));
    for (const segment& s : t.statistics) out += " " + std::string(s.name.substr(t.name.size()));
    return out;
  }
  value convolution(const convolution_problem& p, const infer::layer_tensors& t, const value& x) {
    return concat("conv(", x, ", ", names(t), ", ", describe(p.in), " by ", p.window, "/", p.stride,
                  ")");
  }
  value batch_norm(const extent& in, const infer::layer_tensors& t, const value& x) {
    return concat("norm(", x, ", ", names(t), ", ", describe(in), ")");
  }
  value relu(const extent&, const value& x) { return concat("relu(", x, ")"); }
  value add(const extent&, const value& x, const value& y) { return concat("(", x, " + ", y, ")"); }
  value max_pool(const ops::max_pool_problem& p, const value& x) {
    return concat("max(", x, ", ", p.window, "/", p.stride, ")");
  }
  value global_average_pool(const extent& in, const value& x) {
    return concat("mean(", x, ", ", describe(in), ")");
  }
  value subsample_pad(const ops::subsample_problem& p, const value& x) {
    return concat("pad(", x, ", ", describe(p.out), ")");
  }
  value linear(const extent&, const infer::layer_tensors& t, const value& x) {
    return concat("linear(", x, ", ", names(t), ")");
  }
};

template <class Root, class P, extent In, int Classes>
std::string walked() {
  using model_type = network<Root, P, cpu, direct, In, Classes>;
  const model_type model{cpu(1)};
  printer p;
  return infer::walk_layers(p, model, "x");
}

}  // namespace

TEST_CASE("layer_walk: layers in order, each with its tensors and extents") {
  using block = residual<convolution<4, 3, 2>, batch_norm<>, projection<4>>;
  CHECK(walked<sequential<convolution<2, 3>, batch_norm<relu>, max_pool<3, 2>, stage<block>,
                          global_average_pool, dropout, linear<3>>,
               fp32, extent{3, 8, 8}, 3>() ==
        "linear(mean(relu((norm(conv(max(relu(norm(conv(x, conv1 .weight, 3x8x8 by 3/1), "
        "bn1 .weight .bias .running_mean .running_var, 2x8x8)), 3/2), layer1.0.conv1 .weight, "
        "2x4x4 by 3/2), layer1.0.bn1 .weight .bias .running_mean .running_var, 4x2x2) + "
        "norm(conv(max(relu(norm(conv(x, conv1 .weight, 3x8x8 by 3/1), "
        "bn1 .weight .bias .running_mean .running_var, 2x8x8)), 3/2), layer1.0.downsample.0 "
        ".weight, 2x4x4 by 1/2), layer1.0.downsample.1 .weight .bias .running_mean .running_var, "
        "4x2x2))), 4x2x2), fc .weight .bias)");
}

TEST_CASE("layer_walk: repeated blocks, option A, ranges of int8") {
  using block = residual<convolution<2, 1>, batch_norm<>>;
  CHECK(walked<sequential<repeat<2, block>, subsample_pad<4>, relu, global_average_pool, linear<2>>,
               int8, extent{2, 4, 4}, 2>() ==
        "linear(mean(relu(pad(relu((norm(conv(relu((norm(conv(x, 0.conv1 .weight .input_min "
        ".input_max, 2x4x4 by 1/1), 0.bn1 .weight .bias .running_mean .running_var, 2x4x4) + x)), "
        "1.conv1 .weight .input_min .input_max, 2x4x4 by 1/1), 1.bn1 .weight .bias .running_mean "
        ".running_var, 2x4x4) + relu((norm(conv(x, 0.conv1 .weight .input_min .input_max, 2x4x4 by "
        "1/1), 0.bn1 .weight .bias .running_mean .running_var, 2x4x4) + x)))), 4x2x2)), 4x2x2), "
        "fc .weight .bias)");
}

TEST_CASE("layer_walk: layers of a memory policy are those inside") {
  using stem = sequential<convolution<2, 3>, batch_norm<relu>>;
  const std::string
      plain = walked<sequential<stem, global_average_pool, linear<2>>, fp32, extent{3, 8, 8}, 2>(),
      by_block = walked<sequential<offload_weights<recompute<stem>>, global_average_pool,
                                   offload_weights<linear<2>>>,
                        fp32, extent{3, 8, 8}, 2>();
  CHECK(plain == by_block);
}

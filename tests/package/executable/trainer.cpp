// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// trainer [LOSS]: trains, prints the instruction set and the loss, and fails if it is not LOSS.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <cordee/comm/reducers/solo.hpp>
#include <cordee/comm/transports/self_comm.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/data/synthetic.hpp>
#include <cordee/nn/linear.hpp>
#include <cordee/nn/network.hpp>
#include <cordee/nn/pooling.hpp>
#include <cordee/nn/sequential.hpp>
#include <cordee/ops/engines/reference/engine.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/describe.hpp>
#include <cordee/train/trainer.hpp>
using namespace cordee;

int main(int argc, char** argv) {
  const synthetic data{.extent = {1, 8, 8}, .classes = 10, .samples = 64, .seed = 1};
  network<sequential<global_average_pool, linear<10>>, fp32, cpu, reference, extent{1, 8, 8}, 10>
      net;
  loader feed{data, self_comm{}, {.global_batch = 16, .seed = 1}};
  trainer run{net, sgd{}, constant{.learning_rate = 0.1}, solo{}};
  const std::string lines = describe(run, feed, 1);
  const auto begin = lines.find("precision");
  const double loss = run.fit(feed, 1).last.train.loss;
  std::printf("%s%s\nloss %.9g\n", argc == 1 ? "" : "again, ",
              lines.substr(begin, lines.find('\n', begin) - begin).c_str(), loss);
  return argc == 1 || std::abs(loss - std::atof(argv[1])) <= 1e-5 * loss ? 0 : 1;
}

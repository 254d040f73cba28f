// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A step of a module of LibTorch with 25 million parameters: by a trainer over MPI, and on one rank
// beside LibTorch's own loop with its fused SGD, in processor time as well, for busy machines.
// Milliseconds, minima over the repetitions; over ranks a step lasts as long as its slowest one.
// benchmarks/torch_ddp.py is the same network under PyTorch's DistributedDataParallel, to be run in
// turn with this program.
//
//   mpirun -n 2 bench_libtorch_step --batch 32 --reps 20
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <limits>
#include <memory>
#include <vector>

#include <cordee/comm/mpi.hpp>
#include <cordee/cordee.hpp>
#include <cordee/libtorch.hpp>

#include "examples/options.hpp"

using namespace cordee;

namespace {

// torch_ddp.py's network: 1024 -> 4096 -> 4096 -> 1024 -> 10
torch::nn::Sequential make_network() {
  torch::manual_seed(1);
  torch::nn::Sequential net;
  std::int64_t width = 1024;
  for (const std::int64_t next : {4096, 4096, 1024}) {
    net->push_back(torch::nn::Linear(width, next));
    net->push_back(torch::nn::ReLU());
    width = next;
  }
  net->push_back(torch::nn::Linear(width, 10));
  return net;
}

using example = torch::data::Example<>;
torch::Tensor loss_of(torch::nn::SequentialImpl& net, const example& b) {
  return torch::nn::functional::cross_entropy(net.forward(b.data), b.target);
}

/// LibTorch's loop. Its C++ optimizers have no fused update; the operator is there from 2.4 on.
class plain_loop {
 public:
  plain_loop() : parameters_(net_->parameters()) {
    for (const auto& p : parameters_) momentum_.push_back(torch::zeros_like(p));
  }
  void step(const example& b) {
    for (auto& p : parameters_) p.mutable_grad().reset();
    loss_of(*net_, b).backward();
    const torch::NoGradGuard no_grad;
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
    std::vector<torch::Tensor> gradients;
    for (const auto& p : parameters_) gradients.push_back(p.grad());
    at::_fused_sgd_(parameters_, gradients, momentum_, 1e-4, 0.9, 1e-3, 0, false, false, first_);
    first_ = false;
#else
    for (std::size_t k = 0; k < parameters_.size(); ++k) {
      momentum_[k].mul_(0.9).add_(parameters_[k].grad().add(parameters_[k], 1e-4));
      parameters_[k].add_(momentum_[k], -1e-3);
    }
#endif
  }

 private:
  torch::nn::Sequential net_ = make_network();
  std::vector<torch::Tensor> parameters_, momentum_;
  [[maybe_unused]] bool first_ = true;
};

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv, "libtorch_step: a step of a module of LibTorch");
    const int batch = o.positive("batch", 32, "samples of a rank");
    const int reps = o.positive("reps", 20, "repetitions");
    o.done();
    torch::set_num_threads(1);
    mpi::launch([&](mpi comm) {
      torch::manual_seed(static_cast<std::uint64_t>(comm.rank()) + 7);
      const example b{torch::randn({batch, 1024}), torch::randint(0, 10, {batch})};
      auto net = make_network().ptr();
      torch_model model{net, loss_of};
      trainer run{model, sgd{.momentum = 0.9, .weight_decay = 1e-4},
                  constant{.learning_rate = 1e-3}, halving_doubling{comm}};
      const auto slowest = [&](double x) {
        std::array value{x};
        allreduce_host(comm, value, reduce_op::max);
        return value[0];
      };
      const auto timed = [&](double& least, double& least_work, const auto& f) {
        slowest(0);  // synchronises the ranks
        const auto start = std::chrono::steady_clock::now();
        const std::clock_t work = std::clock();
        f();
        least_work = std::min(least_work, 1e3 * static_cast<double>(std::clock() - work) /
                                              static_cast<double>(CLOCKS_PER_SEC));
        const std::chrono::duration<double, std::milli> t =
            std::chrono::steady_clock::now() - start;
        least = std::min(least, slowest(t.count()));
      };
      constexpr double infinity = std::numeric_limits<double>::infinity();
      double own = infinity, plain = infinity, own_work = infinity, plain_work = infinity;
      std::unique_ptr<plain_loop> loop;
      if (comm.size() == 1) loop = std::make_unique<plain_loop>();
      const std::int64_t samples = std::int64_t{batch} * comm.size();
      for (int k = -2; k < reps; ++k) {  // the first two are not counted
        if (k == 0) own = plain = own_work = plain_work = infinity;
        timed(own, own_work, [&] { run.step(b, batch, 0, samples); });
        if (loop) timed(plain, plain_work, [&] { loop->step(b); });
      }
      if (comm.rank() != 0) return;
      std::printf("cordee over MPI, %d ranks x %d: %.2f ms\n", comm.size(), batch, own);
      if (!loop) return;
      std::printf("LibTorch's loop: %.2f ms, ratio %.3f\n", plain, own / plain);
      std::printf("processor time: %.2f ms, LibTorch's loop %.2f ms, ratio %.3f\n", own_work,
                  plain_work, own_work / plain_work);
    });
  });
}

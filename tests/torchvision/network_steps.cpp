// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// PROGRAM NETWORK float|double FOLDER RANKS DROPOUT LEARNING_RATE: reads
// FOLDER/weights.safetensors, FOLDER/images (N x 3 x 224 x 224) and labels (64-bit, N); writes the
// logits, and the logits and weights after one update of sgd over a ring. network_steps.py compares
// them with torchvision's.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/transports/threads.hpp>
#include <cordee/core/error.hpp>
#include <cordee/libtorch/torch_model.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/precision/fp64.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/trainer.hpp>
#include <cordee/train/weights.hpp>

#include "examples/libtorch/networks/alexnet.hpp"
#include "examples/libtorch/networks/efficientnet_b0.hpp"
#include "examples/libtorch/networks/googlenet.hpp"
#include "examples/libtorch/networks/network_in_network.hpp"

using namespace cordee;

namespace {

using example = torch::data::Example<>;

template <class T>
torch::Tensor read(const std::string& path, torch::ScalarType type,
                   const std::vector<std::int64_t>& shape) {
  std::vector<T> numbers(std::filesystem::file_size(path) / sizeof(T));
  std::ifstream(path, std::ios::binary)
      .read(reinterpret_cast<char*>(numbers.data()),
            static_cast<std::streamsize>(numbers.size() * sizeof(T)));
  return torch::from_blob(numbers.data(), shape, type).clone();
}
void write(const std::string& path, const torch::Tensor& x) {
  const torch::Tensor numbers = x.contiguous();
  std::ofstream(path, std::ios::binary)
      .write(static_cast<const char*>(numbers.data_ptr()),
             static_cast<std::streamsize>(numbers.nbytes()));
}

template <class Net>
torch::Tensor logits_of(Net& net, const torch::Tensor& images) {
  if constexpr (std::is_same_v<Net, networks::googlenet>)
    return net.forward(images).logits;
  else
    return net.forward(images);
}
template <class Net>
torch::Tensor loss_of(Net& net, const example& batch) {
  const auto entropy = [&](const torch::Tensor& logits) {
    return torch::nn::functional::cross_entropy(logits, batch.target);
  };
  torch::manual_seed(5);  // the masks of dropout
  if constexpr (std::is_same_v<Net, networks::googlenet>) {
    const auto out = net.forward(batch.data);
    return out.auxiliary1.defined()
               ? entropy(out.logits) + 0.3 * entropy(out.auxiliary1) + 0.3 * entropy(out.auxiliary2)
               : entropy(out.logits);
  } else {
    return entropy(net.forward(batch.data));
  }
}

struct task {
  std::string folder;
  int ranks;
  double learning_rate;
};

template <class P, class Net>
void step(const task& t, const auto& options) {
  const std::string& folder = t.folder;
  constexpr torch::ScalarType type =
      std::is_same_v<typename P::master, double> ? torch::kDouble : torch::kFloat;
  const auto samples = static_cast<std::int64_t>(std::filesystem::file_size(folder + "/labels") /
                                                 sizeof(std::int64_t));
  const torch::Tensor images =
      read<typename P::master>(folder + "/images", type, {samples, 3, 224, 224});
  const torch::Tensor labels = read<std::int64_t>(folder + "/labels", torch::kLong, {samples});
  const auto logits_to = [&](const char* name, Net& net) {
    net.eval();
    const torch::NoGradGuard no_grad;
    write(folder + name, logits_of(net, images));
  };
  // On a busy machine the others wait minutes while rank 0 computes logits; ctest limits the test.
  const threads::options patient{.deadline = std::chrono::minutes(10)};
  const auto train = [&](threads comm) {
    auto net = std::make_shared<Net>(options);
    net->to(type);
    torch_model<example, P> model{net, loss_of<Net>};
    trainer run{model, sgd{.momentum = 0.9, .weight_decay = 0.1}, constant{t.learning_rate},
                ring{comm}};
    run.load(folder + "/weights.safetensors");
    if (comm.rank() == 0) logits_to("/before", *net);
    const std::int64_t part = samples / t.ranks, first = comm.rank() * part;
    run.step(example{images.slice(0, first, first + part), labels.slice(0, first, first + part)},
             part, 0);
    run.with_mean_model([&] {
      if (comm.rank() == 0) logits_to("/after", *net);
      return 0;
    });
    run.save(folder + "/after.safetensors");
    if (comm.rank() == 0) {
      std::int64_t parameters = 0;
      for (const auto& p : net->parameters()) parameters += p.numel();
      std::printf("%lld parameters, LibTorch %s\n", static_cast<long long>(parameters),
                  TORCH_VERSION);
    }
  };
  threads::launch(t.ranks, train, patient);
}

template <class P>
void step(std::string_view network, const task& t, bool drops) {
  const auto without_dropout = [&](auto o) {
    if (!drops) o.dropout = 0;
    return o;
  };
  if (network == "alexnet") {
    step<P, networks::alexnet>(t, without_dropout(networks::alexnet_options{}));
  } else if (network == "network_in_network") {
    step<P, networks::network_in_network>(t,
                                          without_dropout(networks::network_in_network_options{}));
  } else if (network == "googlenet") {
    auto o = without_dropout(networks::googlenet_options{.transform_input = true});
    if (!drops) o.auxiliary_dropout = 0;
    step<P, networks::googlenet>(t, o);
  } else if (network == "efficientnet_b0") {
    auto o = without_dropout(networks::efficientnet_b0_options{});
    if (!drops) o.stochastic_depth = 0;
    step<P, networks::efficientnet_b0>(t, o);
  } else {
    throw usage_error(concat("there is no network ", network));
  }
}

}  // namespace

int main(int argc, char** argv) try {
  expects(argc == 7, "usage: PROGRAM NETWORK float|double FOLDER RANKS DROPOUT LEARNING_RATE");
  const task t{.folder = argv[3], .ranks = std::stoi(argv[4]), .learning_rate = std::stod(argv[6])};
  const bool drops = std::string_view(argv[5]) == "1";
  torch::set_num_threads(1);
  if (std::string_view(argv[2]) == "double")
    step<fp64>(argv[1], t, drops);
  else
    step<fp32>(argv[1], t, drops);
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "error: %s\n", e.what());
  return 1;
}

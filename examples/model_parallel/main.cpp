// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Model parallelism, the contrast to this library: a network of three layers is trained by one
// rank, by ranks that have a part of every layer's filters (split_layers.hpp), and by two ranks
// that have one part of the layers each, through which micro-batches travel (a pipeline: Huang et
// al., 2019). All do the same arithmetic on the same images; weights are compared. No more than
// this example exists: trainers divide the batch, not the network.
#include <cmath>
#include <cstdio>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include <cordee/cordee.hpp>

#include "../options.hpp"
#include "split_layers.hpp"

using namespace examples;

namespace {

constexpr extent image{1, 14, 14};
constexpr convolution_problem first{image, 24, 3, 2, 1};
constexpr convolution_problem second{{static_cast<int>(first.out().size()), 1, 1}, 48, 1, 1, 0};
constexpr convolution_problem third{{48, 1, 1}, 24, 1, 1, 0};
constexpr int batch = 24, steps = 10;
constexpr double learning_rate = 0.05;

struct samples {
  numbers images;
  std::vector<int> labels;

  explicit samples(int step) : images(batch * image.size()) {
    std::mt19937_64 random(static_cast<std::uint64_t>(step) + 1);
    std::normal_distribution<double> normal;
    for (int n = 0; n < batch; ++n) {
      const int label = static_cast<int>(random() % 8);
      labels.push_back(label);
      for (std::size_t i = 0; i < image.size(); ++i)
        images[static_cast<std::size_t>(n) * image.size() + i] =
            normal(random) + std::sin(0.1 * (label + 1) * static_cast<double>(i));
    }
  }
  /// `count` of them, from sample `from` on.
  [[nodiscard]] numbers part(int from, int count) const {
    const auto begin = images.begin() + from * static_cast<std::ptrdiff_t>(image.size());
    return {begin, begin + count * static_cast<std::ptrdiff_t>(image.size())};
  }
  [[nodiscard]] std::span<const int> labels_of(int from, int count) const {
    return std::span(labels).subspan(static_cast<std::size_t>(from),
                                     static_cast<std::size_t>(count));
  }
};

struct outcome {
  std::vector<double> losses{};
  numbers weights{};  // of all layers, in their order
};

/// Layers that are whole, or split: a step is the same.
template <class Layer>
double step(Layer& one, Layer& two, Layer& three, const samples& s) {
  numbers a, b, logits, db, da, dx;
  one.forward(s.images, a);
  relu_forward(a);
  two.forward(a, b);
  relu_forward(b);
  three.forward(b, logits);
  const double loss = softmax_cross_entropy(logits, s.labels, batch);
  three.backward(b, logits, db);
  relu_backward(b, db);
  two.backward(a, db, da);
  relu_backward(a, da);
  one.backward(s.images, da, dx);
  for (Layer* layer : {&one, &two, &three}) layer->update(learning_rate);
  return loss;
}

outcome by_one_rank() {
  layer one(first, batch), two(second, batch), three(third, batch);
  outcome o;
  for (int k = 0; k < steps; ++k) o.losses.push_back(step(one, two, three, samples(k)));
  for (const layer* l : {&one, &two, &three})
    o.weights.insert(o.weights.end(), l->w.begin(), l->w.end());
  return o;
}

outcome by_split_layers(int ranks) {
  std::vector<outcome> of(static_cast<std::size_t>(ranks));
  std::vector<std::vector<numbers>> parts(static_cast<std::size_t>(ranks));
  threads::launch(ranks, [&](threads comm) {
    split_over one(comm, first, batch), two(comm, second, batch), three(comm, third, batch);
    const auto rank = static_cast<std::size_t>(comm.rank());
    for (int k = 0; k < steps; ++k) of[rank].losses.push_back(step(one, two, three, samples(k)));
    parts[rank] = {one.part().w, two.part().w, three.part().w};
  });
  for (std::size_t k = 0; k < 3; ++k)
    for (const auto& rank : parts)
      of[0].weights.insert(of[0].weights.end(), rank[k].begin(), rank[k].end());
  return of[0];
}

/// What of a pair of buffers is sent and received at once; either may be absent.
void exchange(const threads& comm, const numbers* sent, numbers* received) {
  std::vector<send_op<cpu>> out;
  std::vector<recv_op<cpu>> in;
  const int peer = 1 - comm.rank();
  if (sent != nullptr)
    out.push_back({peer, bytes(span_on<const double, cpu>{sent->data(), sent->size()})});
  if (received != nullptr)
    in.push_back({peer, bytes(span_on<double, cpu>{received->data(), received->size()})});
  comm.exchange<cpu>(out, in, {});
}

/// Rank 0 has the convolution, rank 1 the rest. While rank 1 takes micro-batch m forward and
/// backward, rank 0 takes m - 1 backward and m + 1 forward.
outcome by_pipeline(int micro_batches) {
  const int n = batch / micro_batches;
  outcome o;
  numbers weights_of_first;
  const auto first_stage = [&](const threads& comm) {
    layer one(first, n);
    for (int k = 0; k < steps; ++k) {
      const samples s(k);
      numbers a, a_before, da(one.outputs()), dx;
      for (int m = 0; m <= micro_batches; ++m) {
        if (m < micro_batches) {
          one.forward(s.part(m * n, n), a);
          relu_forward(a);
        }
        exchange(comm, m < micro_batches ? &a : nullptr, m > 0 ? &da : nullptr);
        if (m > 0) {
          relu_backward(a_before, da);
          one.backward(s.part((m - 1) * n, n), da, dx);
        }
        std::swap(a, a_before);
      }
      one.update(learning_rate);
    }
    weights_of_first = one.w;
  };
  const auto second_stage = [&](const threads& comm) {
    layer two(second, n), three(third, n);
    for (int k = 0; k < steps; ++k) {
      const samples s(k);
      numbers a(two.inputs()), b, logits, db, da;
      double loss = 0;
      for (int m = 0; m <= micro_batches; ++m) {
        exchange(comm, m > 0 ? &da : nullptr, m < micro_batches ? &a : nullptr);
        if (m == micro_batches) break;
        two.forward(a, b);
        relu_forward(b);
        three.forward(b, logits);
        loss += softmax_cross_entropy(logits, s.labels_of(m * n, n), batch);
        three.backward(b, logits, db);
        relu_backward(b, db);
        two.backward(a, db, da);
      }
      two.update(learning_rate);
      three.update(learning_rate);
      o.losses.push_back(loss);
    }
    o.weights = two.w;
    o.weights.insert(o.weights.end(), three.w.begin(), three.w.end());
  };
  threads::launch(2, [&](threads comm) {
    if (comm.rank() == 0)
      first_stage(comm);
    else
      second_stage(comm);
  });
  o.weights.insert(o.weights.begin(), weights_of_first.begin(), weights_of_first.end());
  return o;
}

void print(const char* name, const outcome& o, const outcome& expected) {
  double largest = 0;
  for (std::size_t i = 0; i < o.weights.size(); ++i)
    largest = std::max(largest, std::abs(o.weights[i] - expected.weights[i]));
  std::printf("%-28s loss %s to %s   largest difference of a weight %s\n", name,
              decimal::fixed(o.losses.front(), 4).c_str(),
              decimal::fixed(o.losses.back(), 4).c_str(), decimal::scientific(largest, 1).c_str());
  if (o.weights.size() != expected.weights.size() || !(largest < 1e-12))
    throw error(concat(name, ": not the weights of one rank"));
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv,
                        "model_parallel: layers split over ranks, and a pipeline, beside one rank");
    o.done();
    const outcome one = by_one_rank();
    print("one rank", one, one);
    for (const int ranks : {2, 3, 8})
      print(concat("filters split over ", ranks, " ranks").c_str(), by_split_layers(ranks), one);
    for (const int micro_batches : {1, 4, 8})
      print(concat("pipeline, ", micro_batches, " micro-batches").c_str(),
            by_pipeline(micro_batches), one);
  });
}

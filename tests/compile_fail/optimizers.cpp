// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A member of an optimizer that is missing, misspelt or of another type is an error that states the
// right one; so is a preconditioner where the trainer does not look for it.
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/nn/adversarial.hpp>
#include <cordee/nn/linear.hpp>
#include <cordee/nn/network.hpp>
#include <cordee/nn/pooling.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/nn/sequential.hpp>
#include <cordee/ops/engines/direct/engine.hpp>
#include <cordee/optim/adamp.hpp>
#include <cordee/optim/clip.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/optimizer.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/train/callbacks/recalibration.hpp>
#include <cordee/train/kfac/kfac.hpp>
#include <cordee/train/muon/muon.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/emulated.hpp"
#include "tests/support/feeds.hpp"
#include "tests/support/quadratic.hpp"

using namespace cordee;

struct plain_sgd {
#if defined(MIXES_WITHOUT_PROPOSE)
  static constexpr agreement needs = agreement::mixing;
#else
  static constexpr agreement needs = agreement::exact;
#endif
#if !defined(WITHOUT_EAGER)
  static constexpr bool eager = true;
#endif
#if defined(WITHOUT_SLOTS)
  static constexpr int slot_count = 0;
#else
  static constexpr int slots = 0;
#endif
#if defined(MISSPELLS_CAPTURABLE)
  static constexpr bool captureable = true;
#else
  static constexpr bool capturable = false;
#endif

#if !defined(MIXES_WITHOUT_PROPOSE)
  template <class Real, class D>
  span_on<Real, D> propose(const optimizer_view<Real, D, 0>& v, const step_info&,
                           typename D::stream) const {
    return v.grads;
  }
#endif
#if defined(ACCEPT_NOT_CONST)
  template <class Real, class D>
  void accept(const optimizer_view<Real, D, 0>&, const step_info&, typename D::stream) {}
#else
  template <class Real, class D>
  void accept(const optimizer_view<Real, D, 0>& v, const step_info& info,
              typename D::stream) const {
    for (std::size_t i = 0; i < v.grads.size; ++i)
      v.weights[i] -= static_cast<Real>(info.learning_rate) * v.grads[i];
  }
#endif

#if defined(MISSPELLS_CHECK)
  void validate() const {}
#elif defined(CHECK_NOT_CONST)
  void check() {}
#else
  void check() const {}
#endif
  std::string describe() const { return "plain SGD"; }
#if defined(MISSPELLS_DIRECTION)
  template <class Real, class D>
  void direction(const optimizer_view<Real, D, 0>&, const step_info&, typename D::stream) const {}
#endif
};

#if defined(ADAMP_ON_A_GPU)
void step(const optimizer_view<float, support::emulated, 2>& v, support::emulated::stream s) {
  adamp{}.accept(v, {}, s);
}
#endif

struct on_gpu {
  using device = support::emulated;
  using precision = fp32;
};
struct run_on_gpu {
  using model_type = on_gpu;
  using device = support::emulated;
};
#if defined(KFAC_ON_A_GPU)
using factors_on_gpu = kfac<sgd>::preconditioner<on_gpu, solo>;
#elif defined(ADVERSARIAL_ON_A_GPU)
constexpr std::size_t size_on_gpu = sizeof(adversarial<on_gpu>);
#elif defined(RECALIBRATED_ON_A_GPU)
void recalibrate_on_gpu(run_on_gpu& run, support::toy_loader& feed) { recalibrate(run, feed, 1); }
#elif defined(POOLED_ON_A_GPU)
void pool_on_gpu(run_on_gpu& run) { pool_statistics(run); }
#endif
#if defined(MUON_OVER_NORMS)
constexpr int planes_of_muon = muon<lars>::slots;
#else
constexpr int planes_of_muon = muon<sgd>::slots;
#endif

constexpr resnet_options small{.image = {1, 8, 8}, .classes = 4};
using with_batch_norms = resnet<8, fp32, cpu, small>;
#if defined(ADVERSARIAL_WITHOUT_BATCH_NORMS)
using without_batch_norms =
    network<sequential<global_average_pool, linear<4>>, fp32, cpu, direct, extent{4, 8, 8}, 4>;
constexpr std::size_t tensors = adversarial<without_batch_norms>::tensors();
#elif defined(KFAC_OF_ADVERSARIAL)
using factors = kfac<sgd>::preconditioner<adversarial<with_batch_norms>, solo>;
#else
using factors = kfac<sgd>::preconditioner<with_batch_norms, solo>;
constexpr std::size_t tensors = adversarial<with_batch_norms>::tensors();
#endif

#if defined(RECALIBRATED_ADVERSARIAL)
using recalibrated = adversarial<with_batch_norms>;
#else
using recalibrated = with_batch_norms;
#endif
void recalibrate_it(recalibrated& net) {
  trainer run{net, sgd{}, [](double) { return 0.1; }, solo{}};
  support::toy_loader feed;
  recalibrate(run, feed, 1);
}

void compose(support::quadratic<fp32>& model) {
  constexpr auto learning_rate = [](double) { return 0.1; };
#if defined(PRECONDITIONER_INSIDE)
  trainer run{model, clip{kfac{sgd{}}}, learning_rate, solo{}};
#elif defined(PRECONDITIONER_WITH_NORMS)
  trainer run{model, kfac{lars{}}, learning_rate, solo{}};
#else
  trainer run{model, plain_sgd{}, learning_rate, solo{}};
  trainer preconditioned{model, kfac{sgd{}}, learning_rate, solo{}};
#endif
}

// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What a model of the user's own cannot have is refused in a sentence.
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/data/batch_source.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/data/synthetic.hpp>
#include <cordee/infer/integer_network.hpp>
#include <cordee/infer/onnx.hpp>
#include <cordee/infer/quantize_network.hpp>
#include <cordee/nn/custom_model.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/int8.hpp>
#include <cordee/train/kfac/kfac.hpp>
#include <cordee/train/trainer.hpp>

using namespace cordee;

constexpr auto steady = [](double) { return 0.1; };

#if defined(INT8)
using model_type = custom_model<int, int8>;
#else
using model_type = custom_model<int>;
#endif

void use(model_type& model, span_on<const float, cpu> plane) {
#if defined(KFAC)
  trainer run{model, kfac{sgd{}}, steady, solo{}};
#else
  trainer run{model, sgd{}, steady, solo{}};
#endif
#if defined(INTEGERS)
  static_cast<void>(integer_network::from<model_type>(plane, {}));
#elif defined(QUANTIZED)
  loader feed{synthetic{}, self_comm{}, {.global_batch = 2}};
  static_cast<void>(quantize_network(run, feed, 1));
#elif defined(ONNX)
  write_onnx("net.onnx", model, plane);
#elif defined(IMAGES)
  loader feed{synthetic{}, self_comm{}, {.global_batch = 2}};
  run.fit(feed, 1);
#elif defined(VALIDATION_OF_IMAGES)
  batch_source feed{4, self_comm{}, {.global_batch = 2}, [](const sample_indices&) { return 1; }};
  run.fit(feed, 1, validation{synthetic{}});
#elif defined(OTHER_DATA)
  batch_source feed{4, self_comm{}, {.global_batch = 2}, [](const sample_indices&) { return "x"; }};
  run.fit(feed, 1);
#else
  static_cast<void>(plane);
#endif
}

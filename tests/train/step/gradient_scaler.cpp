// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/precision/fp32.hpp>
#include <cordee/precision/fp64.hpp>
#include <cordee/train/step/gradient_scaler.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

using detail::train::gradient_scaler, detail::train::step_status;

struct scaled : fp32 {
  static constexpr bool scales_loss = true;
};

}  // namespace

static_assert(std::is_empty_v<gradient_scaler<fp32, cpu>>);

TEST_CASE("gradient_scaler: a precision that does not scale its loss has scale 1 and no work") {
  detail::train::step_status status{.scale = {8, 0}, .unscale = 0.125f};
  detail::train::loss_scale host;
  gradient_scaler<fp64, cpu> scaler(cpu(1), {.initial = 0}, &status, host, {});
  std::vector<double> g{3, -5};
  scaler.unscale({g.data(), 2}, {});
  scaler.update({});
  scaler.set_host_scale(status);
  CHECK(g == std::vector<double>{3, -5});
  CHECK(scaler.scale() == 1);
  CHECK(scaler.device_scale().empty());
  CHECK((status.scale.value == 8 && status.unscale == 0.125f));
}

TEST_CASE("gradient_scaler: the first scale is in the status, gradients are divided by it") {
  detail::train::step_status status;
  detail::train::loss_scale host;
  gradient_scaler<scaled, cpu> scaler(cpu(1), {.initial = 1024}, &status, host, {});
  CHECK(scaler.scale() == 1024);
  CHECK(scaler.device_scale().data == &status.scale.value);
  CHECK((status.scale.value == 1024 && status.unscale == 1.0f / 1024));
  std::vector<float> g{1024, -512, 0};
  scaler.unscale({g.data(), 2}, {});
  CHECK(g == std::vector<float>{1, -0.5f, 0});
}

TEST_CASE("gradient_scaler: update moves the device's scale; the host's follows when read back") {
  detail::train::step_status status;
  detail::train::loss_scale host;
  gradient_scaler<scaled, cpu> scaler(cpu(1), {.initial = 1024, .interval = 2}, &status, host, {});
  status.nonfinite_norms = 1;
  scaler.update({});
  CHECK((status.scale.value == 512 && status.unscale == 1.0f / 512));
  CHECK(scaler.scale() == 1024);
  scaler.set_host_scale(status);
  CHECK(scaler.scale() == 512);
  status.nonfinite_norms = 0;
  for (const float expected : {512.0f, 1024.0f, 1024.0f, 2048.0f}) {
    scaler.update({});
    CHECK(status.scale.value == expected);
  }
}

TEST_CASE("gradient_scaler: restore sets the device's scale and streak to the host's") {
  detail::train::step_status status;
  detail::train::loss_scale host;
  gradient_scaler<scaled, cpu> scaler(cpu(1), {.interval = 2}, &status, host, {});
  host = {8, 1};
  scaler.restore(cpu(1), {});
  CHECK((status.scale == host && status.unscale == 0.125f));
  scaler.update({});
  CHECK((status.scale == detail::train::loss_scale{16, 0} && host.value == 8));
}

TEST_CASE("gradient_scaler: options without meaning are rejected at construction") {
  detail::train::step_status status;
  detail::train::loss_scale host;
  CHECK(contains(error_message([&] {
                   gradient_scaler<scaled, cpu>(cpu(1), {.backoff = 0}, &status, host, {});
                 }),
                 "loss_scaling: backoff"));
}

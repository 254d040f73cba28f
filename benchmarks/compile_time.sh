#!/usr/bin/env bash
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Seconds of compiler time (user, the least of N runs) that a program costs: the umbrella by itself, a
# minimal trainer (one dense layer, sgd, solo) that includes what it uses, the same over the umbrella,
# residual networks over a ring, the large ones with their own includes too, and, where nvcc is, in fp16 for a
# GPU, which may cost 90 s.
#   benchmarks/compile_time.sh [N]          CXX, CXXFLAGS and NVCC are heeded; -O2 by default
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
runs=${1:-3} cxx=${CXX:-g++} flags=${CXXFLAGS:--O2 -march=native}
nvcc=$(command -v "${NVCC:-nvcc}" || true)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

program() {  # NETWORK LINK REDUCER [IMAGE]
  cat <<CPP
#include <cordee/cordee.hpp>
using namespace cordee;
int main() {
  const synthetic data{.extent = ${4:-{1, 28, 28\}}, .classes = 10, .samples = 1024, .seed = 1};
  const auto train = [&](auto link) {
    $1 net;
    loader feed{data, link, {.global_batch = 64, .seed = 1}};
    trainer run{net, sgd{}, constant{.rate = 0.1}, $3};
    run.fit(feed, 1);
  };
  $2
}
CPP
}
echo '#include <cordee/cordee.hpp>
int main() {}' >"$work/umbrella.cpp"
program 'network<sequential<global_average_pool, linear<10>>, fp32, cpu, reference, extent{1, 28, 28}, 10>' \
  'train(alone{});' 'solo{}' >"$work/minimal_umbrella.cpp"
included() {  # FROM TO HEADER...: without the umbrella
  local from=$1 to=$2
  shift 2
  { printf '#include <cordee/%s.hpp>\n' "$@" && sed 1d "$work/$from.cpp"; } >"$work/$to.cpp"
}
shared=(data/loader data/synthetic optim/sgd precision/fp32 schedule/constant train/trainer)
included minimal_umbrella minimal "${shared[@]}" comm/solo nn/linear nn/pooling nn/sequential ops/convolution_reference
program 'resnet<8, fp32, cpu, shape{.image = {1, 28, 28}}>' 'threads::launch(4, train);' 'ring{link}' >"$work/resnet8.cpp"
program 'resnet<110, fp32, cpu, shape{.image = {1, 28, 28}}>' 'threads::launch(4, train);' 'ring{link}' >"$work/resnet110.cpp"
program 'resnet<50, fp32, cpu, shape{.image = {1, 64, 64}, .classes = 10}>' 'threads::launch(4, train);' 'ring{link}' \
  '{1, 64, 64}' >"$work/resnet50.cpp"
for name in resnet110 resnet50; do
  included $name ${name}_own "${shared[@]}" comm/ring comm/threads nn/resnet ops/convolution_direct
done
program 'resnet<50, fp16, gpu, shape{.image = {1, 64, 64}, .classes = 10}>' 'train(alone{});' 'solo{}' \
  '{1, 64, 64}' >"$work/resnet50_gpu.cu"

seconds_of() {  # NAME COMMAND...
  local name=$1 k seconds least=
  shift
  for ((k = 0; k < runs; ++k)); do
    seconds=$( { TIMEFORMAT=%U; time "$@"; } 2>&1)
    least=$(printf '%s\n' ${least:+"$least"} "$seconds" | sort -g | head -n 1)
  done
  printf '%-16s %s s\n' "$name" "$least"
}
echo "$("$cxx" --version | head -n 1), $flags"
for name in umbrella minimal minimal_umbrella resnet8 resnet110 resnet110_own resnet50 resnet50_own; do
  # shellcheck disable=SC2086
  seconds_of "$name" "$cxx" -std=c++20 $flags -I"$here/include" -c "$work/$name.cpp" -o "$work/$name.o"
done
if [[ -n $nvcc ]]; then
  seconds_of resnet50_gpu "$nvcc" -std=c++20 -O2 -arch=sm_90 --extended-lambda --expt-relaxed-constexpr \
    -DCORDEE_HAS_CUDA=1 -I"$here/include" -c "$work/resnet50_gpu.cu" -o "$work/resnet50_gpu.o"
fi

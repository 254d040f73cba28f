#!/usr/bin/env bash
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Steps on four hosts with links of 0.1, 1 and 10 Gb/s, beside the simulated ones and DDP over gloo, and of two ranks on
# each of 2 and 3 hosts, by sleeping and with kernels:
#
#   sudo benchmarks/hosts.sh [BENCH_HOSTS [PYTHON]] > FILE
#
# PYTHON has torch (benchmarks/requirements_torchvision.txt); without it DDP's lines are missing.
set -euo pipefail

here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
bench=$(realpath "${1:-"$here/../build/release/bench_hosts"}") python=${2:-python3}
table=$(mktemp)
trap 'rm -f "$table"' EXIT
uptime
echo "TCP's congestion control: $(< /proc/sys/net/ipv4/tcp_congestion_control)"
for model in resnet20 resnet50; do
  "$bench" "$model" 0 > "$table"
  for gigabits in 0.1 1 10; do
    rate=$(awk "BEGIN { print $gigabits * 1000 }")mbit
    reps=5
    [[ $model == resnet20 ]] || reps=$(awk "BEGIN { print $gigabits < 1 ? 0 : 3 }")
    "$here/../scripts/hosts" 4 --rate "$rate" -- "$bench" "$model" "$gigabits" "$reps"
    ! "$python" -c 'import torch' 2> /dev/null ||
      "$here/../scripts/hosts" 4 --rate "$rate" -- "$python" "$here/torch_hosts.py" "$table" $((reps ? reps : 1))
  done
done
for hosts in 2 3; do
  for gigabits in 1 10; do
    for model in resnet20 resnet20-kernels; do
      "$here/../scripts/hosts" "$hosts" --ranks-per-host 2 --rate "${gigabits}gbit" -- "$bench" "$model" "$gigabits"
    done
  done
done
uptime

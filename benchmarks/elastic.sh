#!/usr/bin/env bash
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# The time that a run on four hosts loses when a rank's process is killed and when a host loses power: with elastic, and
# with a restart from a checkpoint by scripts/keep-running. From the last step completed before to the first one beyond it.
#
#   sudo benchmarks/elastic.sh [BENCH_ELASTIC]
set -euo pipefail

here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
if [[ ${1-} == --launch ]]; then  # what keep-running starts: HOSTS PROGRAM elastic|restart FOLDER ...
  hosts=$2 folder=$5
  shift 2
  fault=()
  if [[ ${HOST_OFF-} && ! -e $folder/off ]]; then
    touch "$folder/off"
    fault=(--power-off "$HOST_OFF@8")
  fi
  exec "$here/../scripts/hosts" "$hosts" "${fault[@]}" --grace 60 -- "$@"
fi
bench=$(realpath "${1:-"$here/../build/release/bench_elastic"}")
uptime
for event in "process of rank 1 killed" "process of rank 0 killed" "power of host1 off" "power of host0 off"; do
  for mode in elastic restart; do
    folder=$(mktemp -d)
    killed=-1 off='' number=${event//[^0-9]/}
    if [[ $event == power* ]]; then off=host$number; else killed=$number; fi
    run=("$bench" "$mode" "$folder" 80 100 "$killed")
    if [[ $mode == elastic ]]; then
      HOST_OFF=$off "$here/elastic.sh" --launch 4 "${run[@]}" &> "$folder/log" || true  # the killed process has failed
    else
      HOST_OFF=$off "$here/../scripts/keep-running" --folder "$folder/run" --launcher "$here/elastic.sh --launch" --delay 0 4 \
        "${run[@]}" &> "$folder/log"
    fi
    python3 - "$event, $mode" "$folder/steps" <<'PYTHON' || cat "$folder/log"
import statistics
import sys
lines = [tuple(map(float, line.split()[:2])) for line in open(sys.argv[2], encoding="ascii")]
world = max(k for k, (_, step) in enumerate(lines) if step < 0)  # the last one
last, before = max((step, time) for time, step in lines[:world])
beyond = min(time for time, step in lines[world:] if step > last)
usual = statistics.median(b - a for (a, k), (b, _) in zip(lines[:world], lines[1:world]) if k > 0)
print(f"{sys.argv[1]:34} next world {lines[world][0] - before:6.2f} s, first new step {beyond - before:6.2f} s behind step "
      f"{last:.0f}; {sum(0 < step <= last for _, step in lines[world:])} steps made again; a step {usual:.2f} s")
PYTHON
    rm -rf "$folder"
  done
done
uptime

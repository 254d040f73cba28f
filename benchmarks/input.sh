#!/bin/sh
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Cordee's loader against torchvision's on a folder of photographs, without training: runs the programs
# in turn, so that a change of clock frequency or of the machine's load affects both, then prints minima
# and ratios. The first table is of the photographs as they are, the second of 500 x 375 pixels.
# Usage: benchmarks/input.sh FOLDER [BUILD [ROUNDS [EPOCHS]]]
#        FOLDER has a folder for each class. BUILD contains bench_input; by default build/release/benchmarks.
# PYTHON: the interpreter, with torchvision; by default python3. THREADS: of the loader, and worker
# processes of torchvision's; by default 2.
set -eu
if [ "$#" -lt 1 ]; then
  sed -n 's/^# \(Usage.*\)/\1/p' "$0" >&2
  exit 2
fi
folder=$1 build=${2:-build/release/benchmarks} rounds=${3:-5} epochs=${4:-4}
python=${PYTHON:-python3} threads=${THREADS:-2}
directory=$(dirname "$0")
if ! "$python" -c 'import torchvision' 2>/dev/null; then
  echo "skipped: $python has no torchvision; pip install -r benchmarks/requirements_torchvision.txt, or set PYTHON"
  exit 0
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

compare() {
  lines=$scratch/lines round=0
  : >"$lines"
  while [ "$round" -lt "$rounds" ]; do
    "$build/bench_input" "$1" --threads "$threads" --epochs "$epochs" >>"$lines"
    "$python" "$directory/torch_input.py" "$1" --threads "$threads" --epochs "$epochs" >>"$lines"
    round=$((round + 1))
  done
  awk -v title="$2" '
    NF != 2 || $2 + 0 <= 0 { print "not a line of `name seconds`: " $0 > "/dev/stderr"; exit 1 }
    { if (!($1 in least)) names[++n] = $1
      if (!($1 in least) || $2 + 0 < least[$1] + 0) least[$1] = $2 }
    END {
      printf "%-24s %9s %11s %20s\n", title, "ms/image", "images/s", "times torchvision"
      for (i = 1; i <= n; ++i) {
        base = names[i] ~ /[.]cpu$/ ? least["torchvision.cpu"] : least["torchvision"]
        printf "%-24s %9.3f %11.0f %20.2f\n", names[i], 1e3 * least[names[i]], 1 / least[names[i]], base / least[names[i]]
      }
    }' "$lines"
}

echo "$threads threads, minima over $rounds rounds of $epochs epochs; libjpeg-turbo: one thread"
compare "$folder" "as they are"
"$python" "$directory/torch_input.py" "$folder" --make "$scratch/photographs"
compare "$scratch/photographs" "500 x 375"

#!/bin/sh
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Threads, and our reducers over the transport mpi, against an installed MPI (and Gloo): the programs in
# turn, then MPI's least time over each method's.
# Usage: benchmarks/all_reduce.sh [BUILD [RANKS [ROUNDS [REPS [SIZES]]]]]
#        BUILD holds bench_all_reduce and bench_mpi_all_reduce (and bench_gloo_all_reduce); build/release/benchmarks if not said.
# Piece by piece, where the machine is quiet for a minute only:
#        benchmarks/all_reduce.sh --lines BUILD 4 1 10 1000000 >> lines      (as often as one likes)
#        benchmarks/all_reduce.sh --table < lines
set -eu
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1  # containers do; Open MPI wants to be told twice

# Gloo's methods in turn wait for ever over long messages (more than once, of 1 MB): a process for each.
gloo() {
  [ -x "$build/bench_gloo_all_reduce" ] || return 0
  if [ "$1" -lt 1000000 ]; then "$build/bench_gloo_all_reduce" "$ranks" "$1" "$reps"; return; fi
  rep=0
  while [ "$rep" -lt "$reps" ]; do
    "$build/bench_gloo_all_reduce" "$ranks" "$1" 1
    rep=$((rep + 1))
  done
}
lines() {
  build=${1:-build/release/benchmarks} ranks=${2:-4} rounds=${3:-3} reps=${4:-30}
  for size in ${5:-1000 4000 16000 64000 250000 1000000 4000000 16000000 100000000}; do
    round=0
    while [ "$round" -lt "$rounds" ]; do
      "$build/bench_all_reduce" --ranks "$ranks" --reps "$reps" --size "$size"
      mpirun --oversubscribe -n "$ranks" "$build/bench_mpi_all_reduce" "$size" "$reps"
      gloo "$size"
      round=$((round + 1))
    done
  done
}
table() {
awk '
  { key = $1 " " $5; if (!(key in least) || $7 < least[key]) least[key] = $7
    if (!($1 in seen)) { seen[$1]; methods[++m] = $1 }
    if (!($5 in known)) { known[$5]; bytes[++n] = $5 } }
  END {
    printf "%11s %12s", "bytes", "mpi us"
    for (k = 1; k <= m; ++k) if (methods[k] != "mpi") printf " %31s", methods[k] " us (mpi / it)"
    print ""
    for (i = 1; i <= n; ++i) {
      mpi = least["mpi " bytes[i]]
      printf "%11d %12.2f", bytes[i], mpi
      for (k = 1; k <= m; ++k)
        if (methods[k] != "mpi") {
          mine = least[methods[k] " " bytes[i]]
          printf " %23.2f (%5.2f)", mine, mpi / mine
        }
      print ""
    }
  }'
}

case ${1:-} in
  --lines) shift; lines "$@" ;;
  --table) table ;;
  *) lines "$@" | table ;;
esac

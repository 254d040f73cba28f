#!/bin/sh
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Runs a program over NCCL as RANKS processes, one a GPU, by PyTorch's torchrun; nothing else of PyTorch
# is used. On several machines it is started on each of them.
# Usage: examples/launch/torchrun.sh RANKS PROGRAM [OPTION...]
#        NODES=2 NODE=0 MASTER_ADDR=node1   how many machines, which one this is, the first one's name
#        MASTER_PORT=29500                  a port of the first one that is free, as is the next one
#        TORCHRUN=...                       the launcher, torchrun if not said
set -eu
if [ $# -lt 2 ]; then sed -n '5,10s/^# \{0,1\}//p' "$0"; exit 2; fi
torchrun=${TORCHRUN:-torchrun} ranks=$1
shift
if [ "${NODES:-1}" = 1 ]; then
  set -- --standalone "--nproc-per-node=$ranks" --no-python "$@"
else
  : "${NODE:?which of the $NODES machines is this: NODE=0 is the first one}"
  : "${MASTER_ADDR:?the name of the first machine, that the others can reach}"
  set -- "--nnodes=$NODES" "--node-rank=$NODE" "--nproc-per-node=$ranks" \
    "--master-addr=$MASTER_ADDR" "--master-port=${MASTER_PORT:-29500}" --no-python "$@"
fi
exec "$torchrun" "$@"

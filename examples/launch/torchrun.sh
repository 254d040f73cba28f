#!/bin/sh
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Runs a program over NCCL (a GPU per rank) or ZeroMQ as RANKS processes, by PyTorch's torchrun; nothing else
# of PyTorch is used. With several machines, run it on each of them.
# Usage: examples/launch/torchrun.sh RANKS PROGRAM [OPTION...]
#        NODES=2 NODE=0 MASTER_ADDR=node1   number of machines, index of this one, name of the first
#        MASTER_PORT=29500                  a free port of the first machine; the next must be free too
#        CORDEE_SECRET_KEY=...              keeps other users' processes out of the run: the same on all machines;
#                                           random on one machine, none by default on several
#        TORCHRUN=...                       the launcher, torchrun by default
# torchrun passes the first SIGINT (Ctrl-C) or SIGTERM on to the ranks, and kills them after 30 seconds.
set -eu
if [ $# -lt 2 ]; then sed -n '5,12s/^# \{0,1\}//p' "$0"; exit 2; fi
torchrun=${TORCHRUN:-torchrun} ranks=$1
shift
if [ "${NODES:-1}" = 1 ]; then
  export CORDEE_SECRET_KEY="${CORDEE_SECRET_KEY:-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')}"
  set -- --standalone "--nproc-per-node=$ranks" --no-python "$@"
else
  : "${NODE:?NODE is not set: 0 on the first of the $NODES machines}"
  : "${MASTER_ADDR:?MASTER_ADDR is not set: the name of the first machine}"
  set -- "--nnodes=$NODES" "--node-rank=$NODE" "--nproc-per-node=$ranks" \
    "--master-addr=$MASTER_ADDR" "--master-port=${MASTER_PORT:-29500}" --no-python "$@"
fi
exec "$torchrun" "$@"

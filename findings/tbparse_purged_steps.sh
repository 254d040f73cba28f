#!/usr/bin/env bash
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# tbparse 0.0.9 lists the steps of a TensorBoard log that its writer has purged.
#
# A run logs steps 0 to 5, is resumed at step 4 with SummaryWriter(folder, purge_step=4), and logs
# steps 4 to 7: the second file begins with an event SessionLog START of step 4, by which readers
# drop what earlier files of the folder have from there on.
#
# One would expect: each step once, as TensorBoard shows them: 0 1 2 3 4 5 6 7.
# What happens: tbparse.SummaryReader(folder) reads each file by an EventAccumulator of its own, so
# that the event has nothing to drop: steps 4 and 5 are there twice, with the abandoned values too.
# Hence Cordee also cuts these steps from the earlier files (include/cordee/train/callbacks/tensorboard.hpp).
#
# Seen on 2026-11-28 with Python 3.11, tbparse 0.0.9, tensorboard 2.20.0, tensorboardX 2.6.4:
#   EventAccumulator [0, 1, 2, 3, 4, 5, 6, 7]
#   tbparse          [0, 1, 2, 3, 4, 4, 5, 5, 6, 7]
# Exits with 0 as long as that is so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet 'tbparse==0.0.9' 'tensorboard==2.20.0' 'tensorboardX==2.6.4' \
  'pandas==3.1.1' 'numpy==2.4.6' 'protobuf==7.36.2' 'setuptools==80.9.0'
"$folder/venv/bin/python" - "$folder/log" <<'PROGRAM'
import importlib.metadata
import sys
import time

from tbparse import SummaryReader
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboardX import SummaryWriter

log = sys.argv[1]
with SummaryWriter(log) as writer:
    for step in range(6):
        writer.add_scalar("loss", 1.0, step)
time.sleep(1.1)  # a file's name has the second
with SummaryWriter(log, purge_step=4) as writer:
    for step in range(4, 8):
        writer.add_scalar("loss", 2.0, step)

run = EventAccumulator(log)
run.Reload()
shown = [event.step for event in run.Scalars("loss")]
table = SummaryReader(log).scalars
listed = sorted(table[table.tag == "loss"].step)
for package in ("tbparse", "tensorboard", "tensorboardX"):
    print(package, importlib.metadata.version(package))
print("EventAccumulator", shown)
print("tbparse         ", [int(step) for step in listed])
sys.exit(0 if shown == list(range(8)) and listed == [0, 1, 2, 3, 4, 4, 5, 5, 6, 7] else 1)
PROGRAM

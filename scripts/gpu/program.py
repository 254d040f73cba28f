# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""A program of scripts/gpu-check, and its run under limits.

A run always ends: by itself, after `limit` seconds, after `idle` seconds in which its log did not grow, or after
`LARGEST` bytes of output. Its whole process group is killed then; a process that survives SIGKILL (one that waits in
the driver) is left behind after `GRACE` seconds. Output goes straight to the log file, so that no pipe can block and
nothing is lost if this process ends.
"""
import dataclasses
import os
import shutil
import signal
import subprocess
import time
import typing

LARGEST = 64 << 20  # bytes of output
KEPT = 256 << 10    # bytes kept of the beginning, and of the end, of a longer log
GRACE = 5           # seconds
CASE_LIMIT = 30     # seconds of a test case in a process of its own
RUNNING = set()     # processes
# What a killed program had printed would be lost in its buffer.
LINE_BUFFERED = ["stdbuf", "-oL"] if shutil.which("stdbuf") else []


@dataclasses.dataclass
class Program:
    """`read(text)` returns what a complete output means: (result, met, {file of rows: rows})."""
    name: str
    command: list
    limit: float = 60
    idle: float = 25
    cases: bool = False  # a doctest runner, with `read`: after a failure each test case runs in a process of its own
    # A doctest runner, with `read`, whose cases run so from the beginning, in `limit` seconds all of them: the command
    # that lists them.
    apart: list | None = None
    read: typing.Callable | None = None
    skip: str = ""       # the reason for which it cannot run here
    libraries: bool = True  # runs with the located CUDA libraries; PyTorch brings its own
    beside: bool = False    # needs no GPU: runs beside the others


@dataclasses.dataclass
class Run:
    how: str  # "" if it exited with 0
    text: str
    seconds: float
    cut: bool = False  # the stage's time was over first


def how_it_exited(code):
    if code >= 0:
        return f"exited with {code}" if code else ""
    try:
        return f"ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"ended by signal {-code}"


def kill(process):
    """Ends the process group; returns whether the process is gone."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    try:
        process.wait(GRACE)
        return True
    except subprocess.TimeoutExpired:
        return False


def shorten(path):
    """Keeps the beginning and the end of a long log; returns its text."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        if size <= 2 * KEPT:
            return file.read().decode(errors="replace")
        head = file.read(KEPT)
        file.seek(size - KEPT)
        content = head + f"\n[{size - 2 * KEPT} bytes left out]\n".encode() + file.read()
    path.write_bytes(content)
    return content.decode(errors="replace")


def run(program, log, environment, deadline, scale=1.0, tick=lambda: None):
    """Runs it with all output in `log`, until `deadline` (of time.monotonic()) at the latest. tick() is called
    about twenty times a second."""
    begin = last_output = time.monotonic()
    limit, idle = program.limit * scale, program.idle * scale
    how, size, cut = None, 0, False
    with open(log, "wb") as output:
        try:
            process = subprocess.Popen([*LINE_BUFFERED, *map(str, program.command)], stdin=subprocess.DEVNULL, stdout=output,
                                       stderr=subprocess.STDOUT, env={**environment, "PYTHONUNBUFFERED": "1"}, preexec_fn=os.setpgrp)
        except OSError as error:
            output.write(f"{error}\n".encode())
            return Run(f"did not start: {error.strerror}", str(error), 0)
        RUNNING.add(process)
        while how is None:
            code = process.poll()
            now, grown = time.monotonic(), os.fstat(output.fileno()).st_size
            if grown != size:
                size, last_output = grown, now
            if code is not None:
                how = how_it_exited(code)
            elif size > LARGEST:
                how = f"printed more than {LARGEST >> 20} MiB"
            elif now >= deadline:
                how, cut = "cut off by the end of the stage", True
            elif now - begin > limit:
                how = f"did not end in {limit:g} s"
            elif now - last_output > idle:
                how = f"printed nothing for {idle:g} s"
            else:
                tick()
                time.sleep(0.05)
    if not kill(process):  # also what a process that exited left behind
        how += "; it survived SIGKILL"
    RUNNING.discard(process)
    return Run(how, shorten(log), time.monotonic() - begin, cut)

#!/usr/bin/env python3
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""scripts/keep-running with programs that crash, hang, die of signals, and run out of progress."""
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time
import unittest
import unittest.mock

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "keep-running"
LIMIT = 60  # seconds, on a busy machine

# A program begins with these functions: `progress N` makes step-N the newest checkpoint.
PRELUDE = """#!/bin/bash
cd "$(dirname "$0")"
progress() { ln -sfn "step-$1" runs/next && mv -fT runs/next runs/latest; }
echo start >> starts
count=$(wc -l < starts)
"""


class KeepRunning(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.root = pathlib.Path(holder.name)
        (self.root / "runs").mkdir()

    def script(self, name, text):
        path = self.root / name
        path.write_text(text)
        path.chmod(0o755)
        return str(path)

    def command(self, program, *options, ranks="4", arguments=()):
        return [str(SCRIPT), "--folder", str(self.root / "runs"), "--delay", "0.01", "--grace", "0.2", *options, ranks,
                self.script("program", PRELUDE + program), *arguments]

    def run_program(self, program, *options, status=0, **rest):
        """What keep-running says, of a run that ends with `status`."""
        done = subprocess.run(self.command(program, *options, **rest), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, timeout=LIMIT, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stderr

    def starts(self):
        return len((self.root / "starts").read_text().split())

    def started(self, program, *options, **rest):
        """A running keep-running whose program has written the file `ready`."""
        keeper = subprocess.Popen(self.command(program, *options, **rest), stderr=subprocess.PIPE, text=True)
        self.addCleanup(keeper.kill)
        self.addCleanup(keeper.stderr.close)
        self.wait_until((self.root / "ready").exists)
        return keeper

    def wait_until(self, condition):
        limit = time.monotonic() + LIMIT
        while not condition():
            self.assertLess(time.monotonic(), limit)
            time.sleep(0.01)

    def test_a_program_that_ends_with_0_is_started_once(self):
        said = self.run_program("exit 0")
        self.assertEqual(self.starts(), 1)
        self.assertIn("start 1, 4 ranks, without a checkpoint", said)

    def test_failures_with_progress_are_started_again_as_often_as_they_come(self):
        said = self.run_program('progress "$count"; echo "step $count failed" >&2; echo "  " >&2\n'
                                "[ $count = 8 ] && exit 0; exit 3", "--failures", "2")
        self.assertEqual(self.starts(), 8)
        self.assertEqual(said.count("the program died of status 3"), 7)
        self.assertIn("its last line: step 5 failed\n", said)
        self.assertIn("start 3, 4 ranks, from step-2\n", said)
        self.assertIn("`latest` has moved from step-6 to step-7", said)
        self.assertEqual(re.findall("starts again in (.*) s", said), ["0.01"] * 7)

    def test_it_gives_up_after_failures_without_progress_with_the_programs_status(self):
        said = self.run_program("[ $count = 3 ] && progress 1; exit 5", "--failures", "4", "--longest-delay", "0.03",
                                status=5)
        self.assertEqual(self.starts(), 7)  # two, one with progress, four
        self.assertEqual(re.findall("starts again in (.*) s", said), ["0.01", "0.02", "0.01", "0.01", "0.02", "0.03"])
        self.assertIn("gives up after 4 failures in a row without progress", said)

    def test_a_death_by_a_signal_is_told_by_name(self):
        said = self.run_program("kill -KILL $$", "--failures", "1", status=128 + signal.SIGKILL)
        self.assertRegex(said, r"the program died of SIGKILL after \d+\.\d s, without a line on standard error")

    def test_ranks_get_the_environment_of_torchrun_and_the_first_death_comes_first(self):
        said = self.run_program(
            'echo "$RANK/$LOCAL_RANK of $WORLD_SIZE/$LOCAL_WORLD_SIZE at $MASTER_ADDR:$MASTER_PORT" > "rank-$RANK"\n'
            'if [ "$RANK" = 1 ]; then until [ -e rank-0 ] && [ -e rank-2 ]; do sleep 0.01; done; exit 4; fi\n'
            "exec sleep 100", "--launcher", "env", "--failures", "1", ranks="3", status=4)
        environments = [(self.root / f"rank-{r}").read_text().strip() for r in range(3)]
        port = environments[0].rsplit(":", 1)[1]
        self.assertEqual(environments, [f"{r}/{r} of 3/3 at 127.0.0.1:{port}" for r in range(3)])
        self.assertEqual(re.findall(r"(rank \d) died of (.*) after", said)[0], ("rank 1", "status 4"))
        self.assertEqual(said.count("died of SIGKILL"), 2)

    def test_without_progress_it_goes_on_with_fewer_ranks_and_with_progress_with_all(self):
        said = self.run_program('[ "$1" = 2 ] && progress "$count"; [ $count = 5 ] && exit 0; exit 1',
                                ranks="2:4", arguments=["{ranks}"])
        self.assertEqual(re.findall(r"start \d, (\d) ranks", said), ["4", "3", "2", "4", "3"])

    def test_a_command_says_how_many_ranks_can_be_started(self):
        self.script("count", "#!/bin/sh\nread -r n < available; echo \"$n\"")
        (self.root / "available").write_text("1\n")
        said = self.run_program("echo 3 > available; exit 1", "--available", f"cd {self.root}; echo 5 > again; ./count",
                                "--failures", "3", ranks="1:2", status=1)
        self.assertEqual(re.findall(r"start \d, (\d) ranks", said), ["1", "1", "1"])
        said = self.run_program("exit 0", "--available", "echo 1", "--failures", "2", ranks="2", status=1)
        self.assertIn("1 ranks can be started, at least 2 are needed", said)

    def test_a_run_that_hangs_is_ended_and_started_again(self):
        said = self.run_program("[ $count -ge 2 ] && exit 0; trap '' TERM; for k in $(seq 5000); do sleep 0.01; done",
                                "--deadline", "0.5")
        self.assertGreaterEqual(self.starts(), 2)  # more where a start alone takes that long
        self.assertIn("`latest` has not moved for 0.5 s: the run hangs and is ended", said)
        self.assertIn("the program died of SIGKILL", said)

    def test_a_run_that_hangs_and_ends_with_0_when_asked_is_started_again_too(self):
        self.run_program("[ $count -ge 2 ] && exit 0; trap 'exit 0' TERM; for k in $(seq 5000); do sleep 0.01; done",
                         "--deadline", "0.5")
        self.assertGreaterEqual(self.starts(), 2)

    def test_signals_are_passed_on_and_the_programs_status_is_returned(self):
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
            (self.root / "ready").unlink(missing_ok=True)
            (self.root / "starts").unlink(missing_ok=True)
            keeper = self.started(f"trap 'exit 7' {number.name[3:]}; touch ready\n"
                                  "for k in $(seq 5000); do sleep 0.01; done")
            keeper.send_signal(number)
            self.assertEqual(keeper.wait(LIMIT), 7)
            self.assertEqual(self.starts(), 1)
            self.assertIn(f"stopped by {number.name}; the program ended with status 7", keeper.stderr.read())

    def test_a_signal_between_two_starts_ends_it_with_the_last_status(self):
        keeper = self.started("touch ready; exit 6", "--delay", "1000", "--longest-delay", "1000")
        for line in keeper.stderr:
            if "starts again in 1000 s" in line:
                break
        keeper.send_signal(signal.SIGTERM)
        self.assertEqual(keeper.wait(LIMIT), 6)

    def test_mpirun_gets_sigusr1_for_sigterm_and_sigint_and_its_options_from_the_launch_script(self):
        mpirun = self.script("mpirun", '#!/bin/bash\n[ "$1" = --version ] && exec echo "Open MPI"\n'
                             f'cd {self.root}; echo "$@" > arguments\n'
                             "trap 'exit 9' USR1; touch ready; for k in $(seq 5000); do sleep 0.01; done")
        # As root, the launch script asks for the variables that Open MPI asks for.
        environment = {"MPIRUN": mpirun, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        patched = unittest.mock.patch.dict(os.environ, environment)
        patched.start()
        self.addCleanup(patched.stop)
        for number in (signal.SIGTERM, signal.SIGINT):
            (self.root / "ready").unlink(missing_ok=True)
            keeper = self.started("exit 0", "--launcher", "mpirun")
            keeper.send_signal(number)
            self.assertEqual(keeper.wait(LIMIT), 9)
        self.assertRegex((self.root / "arguments").read_text(), r"-n 4 .*/program$")

    def test_launchers_messages_about_ranks_are_read(self):
        cases = {
            "mpirun noticed that process rank 2 with PID 0 on node a exited on signal 9 (Killed).":
                "keep-running: rank 2 died of SIGKILL\n",
            "  Process name: [[60315,1],1]\n  Exit code:    3": "keep-running: rank 1 died of status 3\n",
            "=   PID 77 RUNNING AT a\n=   EXIT CODE: 5": "the rank with PID 77 on a died of status 5\n",
            "=   PID 77 RUNNING AT a\n=   EXIT CODE: 11\n"
            "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Segmentation fault (signal 11)":
                "the rank with PID 77 on a died of SIGSEGV\n",
            "api.py:1002] failed (exitcode: -9) local_rank: 1 (pid: 6) of binary: a\nFailures:\n[1]:\n  host      : a\n"
            "  rank      : 4 (local_rank: 0)\n  exitcode  : -15 (pid: 5) (SIGTERM)\n  error_file: <N/A>\n"
            "Root Cause (first observed failure):\n[0]:\n  host      : a\n"
            "  rank      : 5 (local_rank: 1)\n  exitcode  : -9 (pid: 6) (SIGKILL)\n  error_file: <N/A>":
                "keep-running: rank 5 died of SIGKILL\nkeep-running: rank 4 died of SIGTERM\nkeep-running: gives up"}
        for message, expected in cases.items():
            launcher = self.script("launcher", f"#!/bin/sh\necho '{message}' >&2\nexit 1")
            said = self.run_program("exit 0", "--launcher", launcher, "--failures", "1", status=1)
            self.assertIn(expected, said)

    def test_a_launcher_that_reports_a_death_and_does_not_end_is_ended(self):
        launcher = self.script("launcher", "#!/bin/sh\necho 'mpirun noticed that process rank 1 with PID 0 on node a "
                               "exited on signal 9 (Killed).' >&2\nexec sleep 100")
        said = self.run_program("exit 0", "--launcher", launcher, "--failures", "1", status=128 + signal.SIGKILL)
        self.assertIn("has not ended within 0.2 s after it reported a death", said)
        self.assertIn("keep-running: rank 1 died of SIGKILL\n", said)

    def test_nothing_of_a_run_that_failed_is_left(self):
        self.run_program("sleep 100 & echo $! > left; exit 1", "--failures", "1", status=1)
        left = pathlib.Path("/proc") / (self.root / "left").read_text().strip() / "stat"
        self.wait_until(lambda: not left.exists() or ") Z" in left.read_text())

    def test_what_makes_no_sense_is_refused(self):
        for ranks in ("0", "3:2", "x", "1:"):
            self.assertIn("is not N or MIN:MAX", self.run_program("exit 0", ranks=ranks, status=2))
        self.assertIn("whole number from 1", self.run_program("exit 0", "--failures", "0", status=2))
        self.assertIn("number of seconds", self.run_program("exit 0", "--deadline", "nan", status=2))
        done = subprocess.run([SCRIPT, "--folder", "x", "1", str(self.root / "absent")], stderr=subprocess.PIPE,
                              text=True, timeout=LIMIT, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot start", done.stderr)
        self.assertFalse((self.root / "starts").exists())


unittest.main()

# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""The stages of scripts/gpu-check: programs in order, their outcomes, and all logs in one archive.

RESULTS/outcomes.json holds one outcome per program; the files of rows (*.jsonl) are derived from it. Programs that
passed or were skipped are not repeated; those that never ran come before those that failed. The archive is replaced
after every program and while one runs, so that it is complete but for seconds whenever this process is killed.
"""
import contextlib
import fcntl
import json
import math
import os
import re
import tarfile
import threading
import time

import program as programs

HEARTBEAT = 20  # seconds between two lines of output, and two archives, while a program runs
SMALLEST = 3    # seconds of a stage with which another program is started


class Session:
    def __init__(self, results, archive, environment, scale=1.0, again=False, say=print):
        self.results, self.archive, self.environment = results, archive, environment
        self.scale, self.say, self.lock = scale, say, threading.RLock()
        self.alive, self.last_beat, self.again = True, time.monotonic(), again
        results.mkdir(parents=True, exist_ok=True)
        # One session at a time: two would time each other's programs.
        self.guard = open(results / ".lock", "w")
        fcntl.flock(self.guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            self.outcomes = json.loads((results / "outcomes.json").read_text())
        except (OSError, ValueError):
            self.outcomes = {}

    def end(self):
        """Kills what still runs, and archives its log."""
        for process in list(programs.RUNNING):
            programs.kill(process)
        self.pack()

    # Outcomes ------------------------------------------------------------------------------------------------------
    def record(self, stage, name, result, met, rows=None, seconds=0.0, log="", again=False, passed=()):
        with self.lock:
            self.outcomes[name] = {"stage": stage, "result": result, "met": met, "rows": rows or {},
                                   "seconds": round(seconds, 1), "log": log, "again": again, "passed": list(passed)}
            self.write()
        word = {True: "passed", False: "FAILED", None: "open"}[met]
        self.say(f"  {word}: {name}: {result} ({seconds:.1f} s)")

    def write(self):
        files = {"checks": []}
        for name, outcome in self.outcomes.items():
            files["checks"].append({"check": name, "result": outcome["result"], "within": outcome["met"]})
            for file, rows in outcome["rows"].items():
                files.setdefault(file, []).extend(rows)
        for file in self.results.glob("*.jsonl"):
            if file.stem not in files:
                file.unlink()
        for file, rows in files.items():
            self.replace(f"{file}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        self.replace("outcomes.json", json.dumps(self.outcomes, indent=1))
        self.pack()

    def replace(self, name, text):
        temporary = self.results / f".{name}"
        temporary.write_text(text)
        os.replace(temporary, self.results / name)

    def pack(self):
        """Archives the results' folder under its path from the root, to be unpacked there. A log that is being
        written is packed as far as it goes."""
        with self.lock:
            self.archive.parent.mkdir(parents=True, exist_ok=True)
            temporary = self.archive.with_name(f".{self.archive.name}")
            with tarfile.open(temporary, "w:gz", compresslevel=3) as tar:
                for path in sorted(self.results.rglob("*")):
                    if path.is_file() and not path.name.startswith("."):
                        with contextlib.suppress(OSError):
                            self.add(tar, path)
            os.replace(temporary, self.archive)

    @staticmethod
    def add(tar, path):
        with open(path, "rb") as file:
            entry = tar.gettarinfo(arcname=str(path), fileobj=file)
            entry.size = min(entry.size, 4 * programs.KEPT)
            tar.addfile(entry, file)

    # Running -------------------------------------------------------------------------------------------------------
    def log(self, name):
        folder = self.results / "logs"
        folder.mkdir(exist_ok=True)
        return folder / (re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-")[:100] + ".log")

    def beat(self, name, begin):
        now = time.monotonic()
        if now - self.last_beat > HEARTBEAT:
            self.last_beat = now
            self.say(f"  … {name}: {now - begin:.0f} s")
            self.pack()

    def run(self, program, deadline, log=None):
        begin, log = time.monotonic(), log or self.log(program.name)
        environment = self.environment if program.libraries else os.environ
        return programs.run(program, log, environment, deadline, self.scale,
                            lambda: self.beat(program.name, begin)), str(log)

    def gpu_answers(self):
        if not self.alive:
            return False
        query = programs.Program("the GPU", ["nvidia-smi", "-L"], limit=15)
        self.alive = not programs.run(query, self.log(query.name), os.environ, math.inf).how
        return self.alive

    def one(self, stage, program, deadline):
        """Runs a program, and after a failure of a test program its test cases one by one."""
        name = program.name
        if program.skip:
            return self.record(stage, name, f"skipped: {program.skip}", None)
        if not program.beside and not self.alive:
            return self.record(stage, name, "not run: the GPU does not answer any more", None, again=True)
        if deadline - time.monotonic() < SMALLEST * self.scale:
            return self.record(stage, name, "not run: no time was left", None, again=True)
        self.say(f"  + {' '.join(map(str, program.command))}")
        if program.apart:
            return self.apart(stage, program, deadline)
        run, log = self.run(program, deadline)
        result, met, rows = run.how or "passed", not run.how, {}
        if program.read:
            try:
                read, read_met, rows = program.read(run.text)
            except Exception as error:  # whatever a program prints, the others still run
                read, read_met = f"unreadable output: {type(error).__name__}: {error}", False
            result = f"{run.how}; {read}" if run.how else read
            met = read_met if read_met is None or not run.how else False
        if run.cut:
            met = None
        self.record(stage, name, result, met, rows, run.seconds, log, again=run.cut)
        if met is False and not program.beside and not self.gpu_answers():
            self.say("  the GPU does not answer any more: what follows is not run")
        if met is False and program.cases:
            self.cases(stage, program, deadline)

    def cases(self, stage, program, deadline):
        """Every test case in a process of its own, so that one deadlock or sticky error hides no other result."""
        cases, why = self.list_cases(program, deadline)
        if not cases:
            return self.record(stage, f"{program.name}, case by case", why, False)
        passed = []
        failed, unrun, _ = self.each_case(stage, program, cases, deadline, passed)
        result = f"{len(passed)} passed, {failed} failed, {unrun} not run"
        if not failed and not unrun:
            result += ": it fails only as a whole"
        self.record(stage, f"{program.name}, case by case", result, False)

    def apart(self, stage, program, deadline):
        """A program whose cases each run in a process of its own. Those that passed are not repeated, not even if
        this process was killed before it reached the last."""
        begin, name = time.monotonic(), program.name
        deadline = min(deadline, begin + program.limit * self.scale)
        cases, why = self.list_cases(program, deadline)
        if not cases:
            return self.record(stage, name, why, False)
        before = [] if self.again else self.outcomes.get(name, {}).get("passed", [])
        passed = [case for case in cases if case in before]
        self.record(stage, name, f"{len(passed)} of {len(cases)} cases passed so far", None, again=True, passed=passed)
        failed, unrun, skipped = self.each_case(stage, program, [case for case in cases if case not in before],
                                                deadline, self.outcomes[name]["passed"])
        if skipped:
            return self.record(stage, name, skipped, None)
        passed = self.outcomes[name]["passed"]
        result = f"{len(passed)} of {len(cases)} cases passed, {failed} failed, {unrun} not run"
        self.record(stage, name, result, False if failed else None if unrun else True,
                    seconds=time.monotonic() - begin, again=unrun > 0, passed=passed)

    def list_cases(self, program, deadline):
        """Its test cases, or why there are none."""
        command = program.apart or program.command
        listing = programs.Program(f"{program.name}, its list", [*command, "--list-test-cases", "--no-colors"], limit=20)
        run, _ = self.run(listing, deadline)
        cases = [line.strip() for line in run.text.splitlines() if line.strip() and line[0] not in "[="]
        return ([] if run.how else cases), f"no list of its cases: {run.how or 'it is empty'}"

    def each_case(self, stage, program, cases, deadline, passed):
        """Adds those that passed to `passed`; returns how many failed, how many did not run, and why all are skipped,
        if the first one of cases apart says so. One that failed has an outcome of its own."""
        failed, unrun = 0, 0
        command = [word for word in program.command if not str(word).startswith("--test-case=")]
        for k, case in enumerate(cases):
            if not self.alive or deadline - time.monotonic() < SMALLEST * self.scale:
                unrun += 1
                continue
            # A comma would separate two filters: '?' matches it, and what else has a meaning there.
            one = programs.Program(f"{program.name}: {case}",
                                   [*command, "--test-case=" + re.sub(r'[,*?\\"]', "?", case)],
                                   limit=programs.CASE_LIMIT, idle=program.idle)
            run, log = self.run(one, deadline)
            result, met, _ = program.read(run.text)
            if run.cut:
                unrun += 1
            elif program.apart and k == 0 and not passed and met is None:
                return 0, 0, result
            elif run.how or met is False:
                failed += 1
                self.record(stage, one.name, run.how or result, False, seconds=run.seconds, log=log)
                self.gpu_answers()
            else:
                passed.append(case)
                self.outcomes.pop(one.name, None)  # of a run in which it failed
                self.write()
        return failed, unrun, ""

    def stage(self, name, stage_programs, seconds):
        """Runs a stage in at most so many seconds; returns whether nothing in it failed or is missing."""
        begin = time.monotonic()
        deadline = begin + seconds * self.scale
        done = {} if self.again else {key: outcome for key, outcome in self.outcomes.items()
                                      if outcome["met"] is not False and not outcome["again"]}
        wanted = [p for p in stage_programs if p.name not in done]
        wanted.sort(key=lambda p: p.name in self.outcomes and not self.outcomes[p.name]["again"])
        threads = [threading.Thread(target=self.one, args=(name, p, deadline)) for p in wanted if p.beside]
        for thread in threads:
            thread.start()
        for program in wanted:
            if not program.beside:
                self.one(name, program, deadline)
        for thread in threads:
            thread.join()
        self.say(f"  stage {name}: {time.monotonic() - begin:.0f} s")
        of_stage = [self.outcomes[p.name] for p in stage_programs]
        missing = sum(outcome["again"] or outcome["met"] is False for outcome in of_stage)
        self.say(f"  {missing} programs failed or are missing: run --stage {name} again" if missing else
                 "  no program failed, none is missing")
        return missing == 0

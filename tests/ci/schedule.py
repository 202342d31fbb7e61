"""Runs entries: some at once as their locks allow, each below one.py."""
import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import threading

from entries import ROOT, SKIPPED, running_case

LOGS = ROOT / "build/ci"
ONE = ROOT / "tests/ci/one.py"


@dataclasses.dataclass
class Outcome:
    """One run of an entry. `state`: passed, failed or skipped; `why` says of a failure in one line what happened."""
    state: str
    why: str = ""
    skips: list = dataclasses.field(default_factory=list)
    beside: list = dataclasses.field(default_factory=list)  # what else ran when it ended
    took: dict = dataclasses.field(default_factory=dict)  # as one.py says
    log: str = ""


def judge(entry, took, text):
    """The Outcome of what one.py said and what the entry has written."""
    skips = SKIPPED.findall(text)
    if took["timed_out"]:
        case = running_case(text)
        return Outcome("failed", f"did not end within {entry.limit:g} s" + (f", in the case: {case}" if case else ""), skips)
    if took["code"] is None:
        return Outcome("failed", "was stopped", skips)
    if took["code"] == entry.skip_code:
        return Outcome("skipped", "", skips or ["(no reason given)"])
    if took["code"] != 0:
        signaled = f"ended by {signal.Signals(-took['code']).name}" if took["code"] < 0 else f"code {took['code']}"
        failures = re.findall(r"^FAILED: (.+)$", text, re.MULTILINE)
        return Outcome("failed", signaled + (f": {failures[0]}" if failures else ""), skips)
    for pattern in entry.fail_patterns:
        if re.search(pattern, text):
            return Outcome("failed", f"its output has '{pattern}'", skips)
    return Outcome("passed", "", skips)


class Runner:
    """`slots`: entries at once. `told(entry, outcome)` is called after each, one at a time."""

    def __init__(self, slots, told):
        self.slots, self.told = slots, told
        self.change = threading.Condition()
        self.running = {}  # entry's name: the process of one.py
        self.held = set()  # locks
        self.ending = False

    def run(self, entries, attempt=1):
        waiting = list(entries)
        workers = [threading.Thread(target=self._work, args=(waiting, attempt)) for _ in range(min(self.slots, len(waiting)))]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    def end(self):
        """Ends what runs; nothing more is begun."""
        with self.change:
            self.ending = True
            for process in self.running.values():
                if process:
                    process.terminate()
            self.change.notify_all()

    def _next(self, waiting):
        with self.change:
            while waiting and not self.ending:
                for entry in waiting:
                    if not entry.locks & self.held:
                        waiting.remove(entry)
                        self.held |= entry.locks
                        self.running[entry.name] = None
                        return entry
                self.change.wait()
            return None

    def _work(self, waiting, attempt):
        while (entry := self._next(waiting)) is not None:
            outcome = self._one(entry, attempt)
            with self.change:
                del self.running[entry.name]
                self.held -= entry.locks
                outcome.beside = sorted(self.running)
                self.told(entry, outcome)
                self.change.notify_all()

    def _one(self, entry, attempt):
        if not entry.command:
            return Outcome("failed", "its program is not built")
        LOGS.mkdir(parents=True, exist_ok=True)
        log = LOGS / ".".join([*filter(None, [entry.preset]), entry.name, *["again"] * (attempt - 1), "log"])
        log.write_bytes(b"")
        command = [sys.executable, "-S", str(ONE), str(entry.limit), str(log), *entry.command]
        process = subprocess.Popen(command, cwd=ROOT / "build" / entry.preset / entry.folder, env={**os.environ, **entry.environment},
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True)
        with self.change:
            self.running[entry.name] = process
            if self.ending:
                process.terminate()
        said = process.communicate()[0]
        if process.returncode != 0 or not said:
            return Outcome("failed", f"one.py failed with code {process.returncode}", log=str(log))
        took = json.loads(said)
        outcome = judge(entry, took, log.read_text(errors="replace"))
        outcome.took, outcome.log = took, str(log.relative_to(ROOT))
        return outcome

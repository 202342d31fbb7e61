#!/usr/bin/env python3
"""run.py PLAN [--resume] | entries CTEST-ARGUMENTS...: runs a plan's stages (plans.py), or the entries of the release build
that ctest chooses by its arguments; for ./dev test. Ends with 1 when something failed.

--resume: the run before (build/ci.json) is the first part of this one.
"""
import os
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import entries as listing
import report as reporting
from entries import ROOT
from plans import Stage, stages
from schedule import Outcome, Runner

MOST_AGAIN = 12  # of more failures no second look makes a difference


class Plan:
    def __init__(self, report):
        self.report = report
        self.began = time.time()
        self.failed_stages, self.ran, self.again = set(), set(), []
        self.runner = None

    def say(self, text):
        print(f"[{time.time() - self.began:5.0f} s] {text}", flush=True)

    def failed(self, stage, why, state="failed"):
        self.say(f"{state:8} {stage.name}: {why}")
        self.report.add(stage.name, stage.name, Outcome(state, why), counted=False)
        self.failed_stages.add(stage.name)

    def told(self, stage, entry, outcome):
        row = self.report.add(stage, entry.name, outcome)
        took = outcome.took
        self.say(f"{row['state']:8} {entry.name:32} {took.get('wall', 0):7.1f} s, CPU {took.get('user', 0) + took.get('system', 0):6.1f} s"
                 + (f"  {row['why']}" if row["why"] else ""))
        if outcome.state == "failed":
            self.again.append((stage, entry))
        self.report.write()

    def run_entries(self, stage, chosen, slots, attempt=1):
        self.runner = Runner(slots, lambda entry, outcome: self.told(stage, entry, outcome))
        self.runner.run(chosen, attempt)

    def command(self, stage):
        """A check or a build, as an entry of the whole tree; it is not tried again, as it fails for one reason only."""
        words = ["./dev", "build", *stage.build] if stage.is_build else list(stage.command)
        entry = listing.Entry(stage.name, words, limit=stage.limit, folder=str(ROOT), skip_code=-1 if stage.is_build else 77)
        self.say(f"... {' '.join(words)}")
        outcome = []
        self.runner = Runner(1, lambda _, o: outcome.append(o))
        self.runner.run([entry])
        row = self.report.add(stage.name, stage.name, outcome[0], counted=not stage.is_build)
        self.say(f"{row['state']:8} {stage.name:32} {outcome[0].took.get('wall', 0):7.1f} s" + (f"  {row['why']}" if row["why"] else ""))
        self.report.write()
        return row["state"] != "failed"

    def stage(self, stage):
        if stage.needs in self.failed_stages:
            self.failed(stage, f"{stage.needs} failed", "not run")
        elif stage.chosen is None:
            if not self.command(stage):
                self.failed_stages.add(stage.name)
        else:
            try:
                listed = listing.listed(stage.preset)
            except listing.Trouble as trouble:
                self.failed(stage, str(trouble))
                return
            chosen = [e for e in listed if stage.chosen(e) and (stage.preset, e.name) not in self.ran]
            if not chosen:
                self.failed(stage, f"none of the {len(listed)} tests of {stage.preset} is of this stage")
            self.ran |= {(stage.preset, e.name) for e in chosen}
            self.run_entries(stage.name, chosen, stage.slots)

    def once_more(self):
        """What failed, each alone. A passing second run makes it flaky."""
        failed, self.again = self.again, []
        if len(failed) > MOST_AGAIN:
            self.say(f"{len(failed)} failed: the first {MOST_AGAIN} run once more")
        for stage, entry in failed[:MOST_AGAIN]:
            self.say(f"... once more, alone: {entry.name}")
            self.run_entries(stage, [entry], 1, attempt=2)


def targets(chosen):
    """What is to be built for these entries: ctest does not say it of a program that is not there yet."""
    wanted = set()
    for entry in chosen:
        if "unit" in entry.labels:
            wanted |= {f"test_{label}" for label in entry.labels - {"unit", "more"}}
        elif entry.name == "tidy":
            wanted.add("tidy")
        elif entry.name != "tidy.mutants":
            wanted |= {"ci"} | {pathlib.Path(word).name for word in entry.command if "/tests/test_" in word}
    return sorted(wanted)


def main(arguments):
    allowed = listing.Allowed(listing.read_rows(ROOT / "tests/ci_skips.txt"))
    known = {name for name, _ in listing.read_rows(ROOT / "tests/ci/known_flaky.txt")}
    report = reporting.Report(allowed, known, strict=os.environ.get("CI") == "true")
    plan = Plan(report)

    def stop(number, _):
        if plan.runner:
            plan.runner.end()
        sys.exit(128 + number)
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    if arguments[0] == "entries":
        chosen = listing.listed("release", arguments[1:])
        if not chosen:
            raise listing.Trouble("no test has such a name")
        wanted = targets(chosen)
        if wanted:
            plan.stage(Stage("build.release", build=("release", *wanted), limit=3600))
        names = {e.name for e in chosen}
        plan.stage(Stage("entries", preset="release", chosen=lambda e: e.name in names, needs="build.release"))
    else:
        if "--resume" in arguments:
            report.resume()
        else:
            reporting.RECORD.unlink(missing_ok=True)
        for stage in stages(arguments[0]):
            plan.stage(stage)
    plan.once_more()
    report.write()
    print("\n".join([*report.table(), *report.closing()]), flush=True)
    return 1 if report.verdict()[0] else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except listing.Trouble as trouble:
        sys.exit(f"dev: {trouble}")

"""The runner's own tests: each entry here is a small shell command, each plan two or three of them."""
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from contextlib import redirect_stdout

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import entries
import report as reporting
import run
import schedule
from entries import Allowed, Entry
from plans import Stage

NOTHING_LISTED = Allowed([])


class Case(unittest.TestCase):
    """Logs and build/ci.json are in a folder of the test's own; `listed` is what ctest would say."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "build/p").mkdir(parents=True)
        self.listed = []
        for module, name, value in ((schedule, "ROOT", self.folder), (run, "ROOT", self.folder), (reporting, "ROOT", self.folder),
                                    (schedule, "LOGS", self.folder / "build/ci"),
                                    (reporting, "RECORD", self.folder / "build/ci.json"),
                                    (schedule, "ONE", pathlib.Path(__file__).with_name("one.py")),
                                    (entries, "listed", lambda preset, arguments=(): list(self.listed))):
            before = getattr(module, name)
            setattr(module, name, value)
            self.addCleanup(setattr, module, name, before)

    def shell(self, name, script, **more):
        entry = Entry(name, ["sh", "-c", script], preset="p", skip_code=77, **{"limit": 60, **more})
        self.listed.append(entry)
        return entry

    def run_plan(self, *stages, allowed=NOTHING_LISTED, known=(), strict=True):
        """(failures by name, counts, what was printed)"""
        self.report = reporting.Report(allowed, set(known), strict)
        with redirect_stdout(io.StringIO()) as printed:
            plan = run.Plan(self.report)
            for stage in stages or (Stage("all", preset="p", chosen=lambda e: True),):
                plan.stage(stage)
            plan.once_more()
            print("\n".join([*self.report.table(), *self.report.closing()]))
        failures, counts = self.report.verdict()
        return {row["name"]: why for row, why in failures}, counts, printed.getvalue()


class Verdict(Case):
    def test_passed(self):
        self.shell("a", "true")
        failures, counts, printed = self.run_plan()
        self.assertEqual((failures, counts), ({}, (1, 0, 0)))
        self.assertEqual(printed.splitlines()[-1], "1 passed, 0 failed, 0 skipped")

    def test_failed_twice(self):
        self.shell("a", "echo x >>runs; echo FAILED: the case: why; exit 3")
        self.shell("b", "true")
        failures, counts, printed = self.run_plan()
        self.assertEqual((failures, counts), ({"a": "code 3: the case: why"}, (1, 1, 0)))
        self.assertEqual((self.folder / "build/p/runs").read_text(), "x\nx\n")
        self.assertIn("  | FAILED: the case: why", printed)
        self.assertEqual(printed.splitlines()[-1], "1 passed, 1 failed, 0 skipped")

    def test_flaky_runs_again_alone(self):
        # Passes once nothing else runs; the other one runs until the first failure is written down.
        self.shell("other", """touch here; until grep -q '"a"' ../ci.json; do sleep 0.01; done 2>/dev/null; rm here""")
        self.shell("a", "until [ -e seen ] || [ -e here ]; do sleep 0.01; done; touch seen; [ ! -e here ]")
        failures, counts, printed = self.run_plan()
        self.assertEqual((failures, counts), ({}, (2, 0, 0)))
        self.assertIn("flaky: a: code 1; passed alone (load ", printed)
        self.assertIn("beside other", printed)
        record = json.loads((self.folder / "build/ci.json").read_text())
        self.assertEqual(record["flaky"], ["a"])
        attempts = next(e for e in record["entries"] if e["name"] == "a")["attempts"]
        self.assertEqual([a["state"] for a in attempts], ["failed", "passed"])
        self.assertEqual(attempts[1]["beside"], [])
        self.assertLessEqual({"user", "system", "wall", "load", "running"}, set(attempts[0]))

    def flaky(self, count):
        for i in range(count):
            self.shell(f"f{i}", f"[ -e f{i} ] || {{ touch f{i}; exit 1; }}")

    def test_three_flaky_are_tolerated(self):
        self.flaky(3)
        self.assertEqual(self.run_plan()[:2], ({}, (3, 0, 0)))

    def test_four_flaky_are_red(self):
        self.flaky(4)
        failures, counts, _ = self.run_plan()
        self.assertEqual((len(failures), counts), (4, (0, 4, 0)))
        self.assertIn("more than 3", failures["f0"])

    def test_known_flaky_is_red(self):
        self.flaky(2)
        failures, counts, _ = self.run_plan(known={"f1"})
        self.assertEqual((list(failures), counts), (["f1"], (1, 1, 0)))

    def test_flaky_of_both_parts_count(self):
        self.flaky(2)
        self.run_plan()
        self.listed.clear()
        for i in (2, 3):
            self.shell(f"f{i}", f"[ -e f{i} ] || {{ touch f{i}; exit 1; }}")
        before = self.report
        with redirect_stdout(io.StringIO()):
            self.report = reporting.Report(NOTHING_LISTED, set(), True)
            self.report.resume()
            plan = run.Plan(self.report)
            plan.stage(Stage("second", preset="p", chosen=lambda e: True))
            plan.once_more()
        self.assertEqual(len(before.verdict()[0]), 0)
        self.assertEqual(self.report.verdict()[1], (0, 4, 0))

    def test_stopped_by_a_signal(self):
        self.shell("a", "kill -SEGV $$")
        self.assertEqual(self.run_plan()[0], {"a": "ended by SIGSEGV"})

    def test_not_built(self):
        self.listed.append(Entry("a", [], preset="p"))
        self.assertEqual(self.run_plan()[0], {"a": "its program is not built"})

    def test_words_that_are_a_failure(self):
        self.shell("a", "echo no such device", fail_patterns=("no such",))
        self.assertEqual(self.run_plan()[0], {"a": "its output has 'no such'"})

    def test_nothing_chosen(self):
        self.assertIn("none", self.run_plan()[0]["all"])


class Skips(Case):
    def test_whole(self):
        self.shell("a", "echo skipped: no GPU; exit 77")
        failures, counts, printed = self.run_plan(allowed=Allowed([("a", "no GPU")]))
        self.assertEqual((failures, counts), ({}, (0, 0, 1)))
        self.assertIn("skipped: a: no GPU", printed)

    def test_unlisted(self):
        for name, script in (("whole", "echo skipped: no right; exit 77"), ("partial", "echo '  skipped: no right'"),
                             ("silent", "exit 77")):
            with self.subTest(name):
                self.listed.clear()
                self.shell(name, "echo x >>runs;" + script)
                failures, counts, _ = self.run_plan(allowed=Allowed([("other", "no right"), (name, "no GPU")]))
                self.assertEqual(counts, (0, 1, 0))
                self.assertIn("tests/ci_skips.txt does not allow", failures[name])
        self.assertEqual((self.folder / "build/p/runs").read_text(), "x\n" * 3)  # a second look would change nothing

    def test_on_machines_of_users(self):
        self.shell("a", "echo skipped: no right; exit 77")
        self.shell("b", "echo skipped: no tc")
        failures, counts, printed = self.run_plan(strict=False)
        self.assertEqual((failures, counts), ({}, (1, 0, 1)))
        self.assertIn("skipped: b: no tc", printed)

    def test_code_without_the_property(self):
        entry = self.shell("a", "exit 77")
        entry.skip_code = -1
        self.assertEqual(self.run_plan()[0], {"a": "code 77"})


class Stages(Case):
    def test_all_run_when_a_build_fails(self):
        self.shell("a", "true")
        plan = (Stage("check.first", ("false",)), Stage("build.x", ("false",)), Stage("of x", ("true",), needs="build.x"),
                Stage("after x", ("true",), needs="of x"), Stage("all", preset="p", chosen=lambda e: True))
        failures, counts, printed = self.run_plan(*plan)
        self.assertEqual((failures, counts), ({"check.first": "code 1", "build.x": "code 1"}, (1, 2, 0)))
        self.assertIn("not run: of x: build.x failed", printed)
        self.assertIn("not run: after x: of x failed", printed)

    def test_a_check_that_is_skipped(self):
        skipped = Stage("check.x", ("sh", "-c", "echo skipped: no tool; exit 77"))
        self.assertEqual(self.run_plan(skipped, strict=False)[:2], ({}, (0, 0, 1)))
        self.assertEqual(self.run_plan(skipped)[1], (0, 1, 0))
        self.assertEqual(self.run_plan(Stage("build.x", build=("p", "x")), strict=False)[1], (0, 1, 0))  # there is no ./dev

    def test_what_cannot_be_listed(self):
        def trouble(preset, arguments=()):
            raise entries.Trouble("ctest cannot list")
        entries.listed = trouble
        failures, counts, _ = self.run_plan(Stage("all", preset="p", chosen=lambda e: True), Stage("check", ("true",)))
        self.assertEqual((failures, counts), ({"all": "ctest cannot list"}, (1, 1, 0)))

    def test_an_entry_runs_once(self):
        self.shell("a", "echo x >>runs")
        self.run_plan(Stage("first", preset="p", chosen=lambda e: True), Stage("second", ("true",)))
        self.assertEqual((self.folder / "build/p/runs").read_text(), "x\n")

    def test_one_name_in_two_builds(self):
        self.shell("a", "exit 3")
        self.listed.append(Entry("a", ["sh", "-c", "true"], preset="q"))
        (self.folder / "build/q").mkdir()
        failures, counts, printed = self.run_plan(*(Stage(f"of {p}", preset=p, chosen=lambda e, p=p: e.preset == p) for p in "qp"))
        self.assertEqual((failures, counts), ({"a": "code 3"}, (1, 1, 0)))
        self.assertIn("output: build/ci/p.a.log", printed)

    def test_locks(self):
        # Two with one lock, a third beside them: each waits to see whether the other comes.
        for name in ("a", "b"):
            self.shell(name, "mkdir one || exit 9; until [ -e third ]; do sleep 0.01; done; rmdir one", locks=frozenset({"x"}))
        self.shell("c", "until [ -e one ]; do sleep 0.01; done; touch third")
        self.assertEqual(self.run_plan()[:2], ({}, (3, 0, 0)))
        self.assertEqual([r["state"] for r in self.report.rows.values()], ["passed"] * 3)


class Ends(Case):
    def gone(self, pid):
        try:
            return pathlib.Path(f"/proc/{pid}/stat").read_text().split()[2] in "ZX"
        except OSError:
            return True

    def test_time_over_names_the_case(self):
        self.shell("a", "echo '- first'; echo '- the second case'; sleep 100 & echo $! >pid; wait", limit=3)
        failures, _, printed = self.run_plan()
        self.assertEqual(failures, {"a": "did not end within 3 s, in the case: the second case"})
        self.assertIn("sleep 100", printed)
        self.assertTrue(self.gone(int((self.folder / "build/p/pid").read_text())))

    def test_time_over_in_catch2(self):
        rule = "-" * 79
        log = f"- no case\n{rule}\nlinks break\n  and heal\n{rule}\na.cc:1\n{'.' * 79}\n\na.cc:2: FAILED:\n  SIGTERM - Termination request\n"
        self.assertEqual(entries.running_case(log), "links break   and heal")

    def test_left_behind(self):
        self.shell("a", "setsid sh -c 'trap \"\" TERM HUP; echo $$ >pid; sleep 100 & wait' & until [ -s pid ]; do sleep 0.01; done")
        failures, counts, printed = self.run_plan()
        self.assertEqual((failures, counts), ({}, (1, 0, 0)))
        self.assertIn("left running by a, ended: sleep 100", printed)
        self.assertTrue(self.gone(int((self.folder / "build/p/pid").read_text())))

    def test_time_of_what_detaches_itself_counts(self):
        burn = "python3 -S -c 'import time\nwhile time.process_time() < 0.6: pass'"
        self.shell("a", f"setsid sh -c \"{burn}; touch done\" & until [ -e done ]; do sleep 0.01; done")
        self.shell("idle", "sleep 0.3")
        self.run_plan()
        used = {r["name"]: r["attempts"][0]["user"] + r["attempts"][0]["system"] for r in self.report.rows.values()}
        self.assertGreaterEqual(used["a"], 0.6)
        self.assertLess(used["idle"], used["a"])

    def test_runner_that_is_ended_ends_all(self):
        script = "echo $$ >pid; sleep 100"
        log = self.folder / "log"
        with subprocess.Popen([sys.executable, "-S", str(schedule.ONE), "60", str(log), "sh", "-c", script], cwd=self.folder,
                              stdout=subprocess.DEVNULL) as one:
            until = time.monotonic() + 60
            while not ((self.folder / "pid").exists() and (self.folder / "pid").read_text().strip()):
                self.assertLess(time.monotonic(), until, "the entry did not start within 60 s")
                time.sleep(0.01)
            one.send_signal(signal.SIGTERM)
            one.wait(60)
        self.assertTrue(self.gone(int((self.folder / "pid").read_text())))


class Lists(Case):
    def test_rows(self):
        path = self.folder / "rows"
        path.write_text("# comment\n\nname: a reason: with colons\n")
        self.assertEqual(entries.read_rows(path), [("name", "a reason: with colons")])
        path.write_text("name without reason\n")
        self.assertRaisesRegex(entries.Trouble, "rows:1: expected", entries.read_rows, path)

    def test_unknown_property(self):
        test = {"name": "a", "command": ["true"], "properties": [{"name": "WILL_FAIL", "value": True}]}
        self.assertRaisesRegex(entries.Trouble, "a has WILL_FAIL", entries.entry_of, test, "p")

    def test_entry_of_ctest(self):
        values = {"TIMEOUT": 900.0, "LABELS": ["e2e", "more"], "RESOURCE_LOCK": ["waits"], "ENVIRONMENT": ["A=b=c"],
                  "SKIP_RETURN_CODE": 77, "COST": 1000.0, "WORKING_DIRECTORY": "/x", "FAIL_REGULAR_EXPRESSION": ["no"]}
        test = {"name": "a", "command": ["x"], "properties": [{"name": k, "value": v} for k, v in values.items()]}
        self.assertEqual(entries.entry_of(test, "p"), Entry(
            "a", ["x"], "p", frozenset({"e2e", "more"}), 900, frozenset({"waits"}), 1000, {"A": "b=c"}, "/x", 77, ("no",)))


if __name__ == "__main__":
    unittest.main()

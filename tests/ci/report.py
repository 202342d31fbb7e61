"""What the runs come to: the table, the list of failures, build/ci.json, and whether that is red."""
import json
import os
import time

from entries import ROOT

RECORD = ROOT / "build/ci.json"
MOST_FLAKY = 3
TAIL = 15  # lines of a failure's output


class Report:
    """`allowed`: what may be skipped when `strict` (on CI), all else is a failure there; elsewhere skips are only said.
    `known`: names of entries that were flaky before."""

    def __init__(self, allowed, known, strict):
        self.allowed, self.known, self.strict = allowed, known, strict
        self.rows = {}  # "stage/name" -> as written to build/ci.json
        self.began = time.time()

    def resume(self):
        """Goes on after the run before, whose rows count as well."""
        if RECORD.exists():
            before = json.loads(RECORD.read_text())
            self.rows, self.began = {f"{r['stage']}/{r['name']}": r for r in before["entries"]}, before["began"]

    def add(self, stage, name, outcome, counted=True):
        """A first run, or the one that was alone."""
        attempt = {"state": outcome.state, "why": outcome.why, "log": outcome.log, "beside": outcome.beside, **outcome.took}
        key = f"{stage}/{name}"
        if key not in self.rows:
            self.rows[key] = {"stage": stage, "name": name, "state": outcome.state, "why": outcome.why, "counted": counted,
                              "skips": outcome.skips, "attempts": [attempt]}
        else:
            row = self.rows[key]
            row["attempts"].append(attempt)
            row["skips"] = sorted({*row["skips"], *outcome.skips})
            if outcome.state == "passed":
                row["state"] = "flaky"
                row["why"] += "; passed alone"
            elif outcome.why != row["why"]:
                row["why"] += f"; alone: {outcome.why}"
        row = self.rows[key]
        unlisted = [s for s in row["skips"] if self.strict and not self.allowed.allows(name, s)]
        if unlisted and row["state"] != "failed":
            row["state"], row["why"] = "failed", f"skipped what tests/ci_skips.txt does not allow: {'; '.join(unlisted)}"
        return row

    def verdict(self):
        """(failures as (row, why), counts of passed, failed and skipped). Flaky entries beyond what is tolerated fail."""
        rows = list(self.rows.values())
        flaky = [r for r in rows if r["state"] == "flaky"]
        failures = [(r, r["why"]) for r in rows if r["state"] == "failed"]
        if len(flaky) > MOST_FLAKY:
            failures += [(r, f"flaky, and {len(flaky)} are, more than {MOST_FLAKY}: {r['why']}") for r in flaky]
        else:
            failures += [(r, f"flaky, as before (tests/ci/known_flaky.txt): {r['why']}") for r in flaky if r["name"] in self.known]
        failed = [row for row, _ in failures]
        passed = [r for r in rows if r["counted"] and r["state"] in ("passed", "flaky") and r not in failed]
        skipped = [r for r in rows if r["state"] == "skipped"]
        return failures, (len(passed), len(failures), len(skipped))

    def write(self):
        failures, counts = self.verdict()
        RECORD.parent.mkdir(exist_ok=True)
        record = {"began": self.began, "seconds": round(time.time() - self.began, 1), "cores": len(os.sched_getaffinity(0)),
                  "passed": counts[0], "failed": counts[1], "skipped": counts[2],
                  "flaky": [r["name"] for r in self.rows.values() if r["state"] == "flaky"],
                  "failures": [f"{row['name']}: {why}" for row, why in failures], "entries": list(self.rows.values())}
        RECORD.write_text(json.dumps(record, indent=1) + "\n")

    def table(self):
        """Lines: each entry's time, what takes the processor most first."""
        lines = [f"{'result':8} {'CPU s':>8} {'wall s':>8}  name"]
        def cpu(row):
            return sum(a.get("user", 0) + a.get("system", 0) for a in row["attempts"])
        for row in sorted(self.rows.values(), key=cpu, reverse=True):
            wall = sum(a.get("wall", 0) for a in row["attempts"])
            lines.append(f"{row['state']:8} {cpu(row):8.1f} {wall:8.1f}  {row['name']}")
        total = sum(map(cpu, self.rows.values()))
        lines.append(f"{'':8} {total:8.1f} {time.time() - self.began:8.1f}  altogether")
        return lines

    def closing(self):
        """Lines that end a run: skips, flaky ones, failures with the end of their output; the last is the counts alone."""
        lines = []
        for row in self.rows.values():
            lines += [f"skipped: {row['name']}: {reason}" for reason in row["skips"]]
            lines += [f"left running by {row['name']}, ended: {line}" for a in row["attempts"] for line in a.get("left", [])]
        lines += [f"not run: {row['name']}: {row['why']}" for row in self.rows.values() if row["state"] == "not run"]
        for row in self.rows.values():
            if row["state"] == "flaky":
                first = row["attempts"][0]
                lines.append(f"flaky: {row['name']}: {row['why']} (load {first.get('load', '?')}, {first.get('running', '?')} running, "
                             f"beside {', '.join(first['beside']) or 'nothing'}). Its cause is to be found, or its name goes into "
                             "tests/ci/known_flaky.txt, where the next time is a failure")
        failures, counts = self.verdict()
        for row, why in failures:
            first = row["attempts"][0]
            lines += ["", f"FAILED {row['name']}: {why}"]
            if first.get("log"):
                lines.append(f"  (load {first.get('load', '?')}, {first.get('running', '?')} running, beside "
                             f"{', '.join(first['beside']) or 'nothing'}; output: {first['log']})")
                text = (ROOT / first["log"]).read_text(errors="replace").splitlines()
                failing = [i for i, line in enumerate(text) if line.startswith("FAILED: ")][:3]
                for part in [text[i:i + TAIL] for i in failing] or [text[-2 * TAIL:]]:
                    lines += [f"  | {line[:300]}" for line in part]
        lines += [""] if failures else []
        lines.append("%d passed, %d failed, %d skipped" % counts)
        return lines

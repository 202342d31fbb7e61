"""Entries: what CTest lists of a build, and what a machine of CI may skip."""
import dataclasses
import fnmatch
import json
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEFAULT_LIMIT = 600  # seconds, of an entry that names none
SKIPPED = re.compile(r"^\s*skipped: (.+)$", re.MULTILINE)
# Each is read below or says nothing about how to run (BACKTRACE and the like are no properties).
UNDERSTOOD = {"COST", "ENVIRONMENT", "FAIL_REGULAR_EXPRESSION", "LABELS", "RESOURCE_LOCK", "SKIP_RETURN_CODE", "TIMEOUT",
              "WORKING_DIRECTORY"}


class Trouble(Exception):
    """Shown to whoever called, who is to mend it."""


@dataclasses.dataclass
class Entry:
    name: str
    command: list
    preset: str = ""
    labels: frozenset = frozenset()
    limit: float = DEFAULT_LIMIT
    locks: frozenset = frozenset()  # no two entries with one of these run at once
    cost: float = 0
    environment: dict = dataclasses.field(default_factory=dict)
    folder: str = "."
    skip_code: int = -1
    fail_patterns: tuple = ()


def entry_of(test, preset):
    properties = {p["name"]: p["value"] for p in test.get("properties", [])}
    unknown = set(properties) - UNDERSTOOD
    if unknown:
        raise Trouble(f"{test['name']} has {', '.join(sorted(unknown))}, which tests/ci does not know: teach it, or do without")
    return Entry(
        name=test["name"], command=test.get("command", []), preset=preset, labels=frozenset(properties.get("LABELS", [])),
        limit=float(properties.get("TIMEOUT", DEFAULT_LIMIT)), locks=frozenset(properties.get("RESOURCE_LOCK", [])),
        cost=float(properties.get("COST", 0)), environment=dict(e.split("=", 1) for e in properties.get("ENVIRONMENT", [])),
        folder=properties.get("WORKING_DIRECTORY", "."), skip_code=int(properties.get("SKIP_RETURN_CODE", -1)),
        fail_patterns=tuple(properties.get("FAIL_REGULAR_EXPRESSION", [])))


def listed(preset, arguments=()):
    """Of a configured build, the longest first. A program that is not built has no command."""
    build = ROOT / "build" / preset
    asked = subprocess.run(["ctest", "--show-only=json-v1", *arguments], cwd=build, capture_output=True, text=True, check=False)
    if asked.returncode != 0:
        raise Trouble(f"ctest cannot list the tests of {build}: {asked.stderr.strip() or asked.stdout.strip()}")
    found = [entry_of(test, preset) for test in json.loads(asked.stdout)["tests"]]
    return sorted(found, key=lambda e: -e.cost)


def read_rows(path):
    """[(name, rest)] of lines `name: rest`; a line that is none is an error."""
    rows = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, colon, rest = line.partition(": ")
        if not colon or not rest.strip():
            raise Trouble(f"{path}:{number}: expected 'name: reason'")
        rows.append((name.strip(), rest.strip()))
    return rows


class Allowed:
    """tests/ci_skips.txt: for each entry (a pattern of names) the reasons (regular expressions) it may skip for."""

    def __init__(self, rows):
        self.rows = [(name, re.compile(reason)) for name, reason in rows]

    def allows(self, name, reason):
        return any(fnmatch.fnmatchcase(name, row) and pattern.search(reason) for row, pattern in self.rows)


def running_case(log):
    """Of the output of an entry that was stopped: the case that ran. Scripts say `- CASE` at each start, Catch2 names a
    case between two rules when it is told to end."""
    rule = "-" * 79 + "\n"
    told = log.rfind("SIGTERM - ")
    if told >= 0 and rule in log[:told]:
        return log[:told].rsplit(rule, 2)[-2].strip().replace("\n", " ")
    started = re.findall(r"^- (.+)$", log, re.MULTILINE)
    return started[-1] if started else ""

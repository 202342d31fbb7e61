#!/usr/bin/env python3
"""Would the tests notice? Mutants of the product, each built and run against the tests in a copy of the tree of its own.

usage: mutants.py [N] [SEED] [--only REGEX] [--drawn] [--jobs J] [--results FILE] [--list] [--check]

The rows of table.txt, then N mutants drawn by the seed from all lines of the product. A draw depends on the text of a
line alone, so that changes elsewhere draw no others; --drawn: without the rows. A mutant meets the unit tests of its layer,
those beside it first, then the simulation and the unit tests above. --only: of files whose path matches; --jobs: so many
at a time (one a core); --results: a line of JSON for each, as it ends, and those that are there already are not tried again.
"""
import argparse
import hashlib
import json
import os
import pathlib
import queue
import re
import shutil
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parents[2]
COPY = ROOT / "build/mutants"  # a copy of the tree, built without any mutant: nobody's own files are changed
BUILD = COPY / "build/mutants"
LAYERS = ("base", "topology", "kernels", "transport", "runtime", "launcher", "cmd")
SILENT = 120  # seconds without a test that ends: a mutant that hangs is caught
SIM_SECONDS = 300

# Each job has a copy of that copy and sees it at the same path, so that nothing is configured again. A mutant may signal
# every process or remove every file that it can: it has processes and a network of its own, whose ports no other uses up,
# and a file system that is read only but for its copy. The shell stays, as the init that orphans come to.
IN_COPY = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" "$1" && shift && exec "$@"']
ALONE = ["unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "--mount-proc", "sh", "-c",
         """ip link set lo up && mount --bind "$0" "$1" && mount -t tmpfs none /tmp && mount -t tmpfs none /dev/shm &&
mount -o remount,bind,ro / && cd "$1/build/mutants/tests" && shift && { "$@"; exit $?; }"""]

# After a layer's own unit tests and the simulation: the unit tests of what stands on it.
ABOVE = {"base": ["test_launcher", "test_transport", "test_cmd"], "topology": ["test_cmd"],
         "kernels": ["test_runtime"], "transport": ["test_runtime", "test_runtime_ib", "test_runtime_network"],
         "runtime": ["test_runtime_ib", "test_runtime_network", "test_cmd"], "launcher": ["test_cmd"], "cmd": []}

# What may become of a line; of code alone, texts and comments are masked.
SWAPS = [(rf" {a} ", f" {b} ") for a, b in (
    ("<", "<="), ("<=", "<"), (">", ">="), (">=", ">"), ("==", "!="), ("!=", "=="), ("&&", "||"), (r"\|\|", "&&"),
    (r"\+", "-"), ("-", "+"), (r"\+=", "-="), ("-=", "+="))]
SWAPS += [(r" [-+] 1\b", ""), (r"\btrue\b", "false"), (r"\bfalse\b", "true"), (r"\bstd::min\b", "std::max"),
          (r"\bstd::max\b", "std::min"), (r"\bbreak;", ";"), (r"\bcontinue;", ";")]
NOT_THESE = re.compile(r"^\s*(#|static_assert|COLL_(INFO|WARN|DEBUG|TRACE|CHECK|LOG)|template|using|namespace|case\b)|"
                       r"\boperator|constexpr|\[\[nodiscard|= (delete|default);")
CALL = re.compile(r"^\s+(?!return|throw|delete|co_|else|if|for|while|switch)[A-Za-z_][\w.:\[\]]*(->[\w.]+)*\([^{}]*\);$")
EARLY = re.compile(r"^(\s+)if \([^;]*\) (return|continue|break)\b[^;]*;$")


class Mutant:
    """One line of one file, as it is and as it would be."""

    def __init__(self, path, nth, old, new, why_equivalent=None):
        self.path, self.nth, self.old, self.new, self.why = path, nth, old, new, why_equivalent

    def key(self):
        return self.path, self.nth, self.old, self.new

    def __str__(self):
        return f"{self.path}{f' {self.nth}' if self.nth > 1 else ''}\n- {self.old}\n+ {self.new}"

    def layer(self):
        return self.path.split("/")[0]

    def text(self):
        """The whole file with the mutant in it; None where the line is not there (any more)."""
        lines = (ROOT / self.path).read_text().split("\n") if (ROOT / self.path).is_file() else []
        at = [i for i, line in enumerate(lines) if line.strip() == self.old]
        if len(at) < self.nth:
            return None
        i = at[self.nth - 1]
        lines[i] = lines[i][:len(lines[i]) - len(lines[i].lstrip())] + self.new
        return "\n".join(lines)


def read_table(path):
    """Blocks of lines: the file (and which of equal lines), - the line, + its mutant, = why that is equivalent."""
    rows = []
    for block in re.split(r"\n\s*\n", "\n".join(l for l in path.read_text().split("\n") if not l.startswith("#"))):
        lines = [line for line in block.split("\n") if line.strip()]
        if not lines:
            continue
        marks = [line[:1] for line in lines[1:]]
        if marks not in (["-", "+"], ["-", "+", "="]):
            sys.exit(f"mutants: {path.name}: not a row:\n{block}")
        name, _, nth = lines[0].partition(" ")
        rows.append(Mutant(name, int(nth or 1), lines[1][2:].strip(), lines[2][2:].strip(),
                           lines[3][2:].strip() if len(lines) == 4 else None))
    stale = [m for m in rows if m.text() is None]
    for m in stale:
        print(f"mutants: {path.name}: the source has no such line any more:\n{m}", file=sys.stderr)
    if stale:
        sys.exit(1)
    return rows


def masked(line):
    line = re.sub(r'"(\\.|[^"\\])*"|\'(\\.|[^\'\\])*\'', lambda m: '"' + "_" * (len(m.group()) - 2) + '"', line)
    return re.sub(r"//.*", lambda m: " " * len(m.group()), line)


def mutations(line):
    code = masked(line)
    if NOT_THESE.search(code) or not re.search(r"[;{(]|&&|\|\|", code):
        return
    for pattern, to in SWAPS:
        if (to in (" - ", " -= ", "") and '"' in code) or (to[1:3] in ("+=", "-=") and " for (" in code):
            continue  # of strings; loops without end
        for m in re.finditer(pattern, code):
            yield line[:m.start()] + to + line[m.end():]
    if m := re.search(r"\bif \(([^;!=]*)\)( \{| [a-z].*;)?$", code):
        if code[m.start(1):m.end(1)].count("(") == code[m.start(1):m.end(1)].count(")"):
            yield line[:m.start(1)] + "!(" + line[m.start(1):m.end(1)] + ")" + line[m.end(1):]
    if m := EARLY.match(code):
        yield m.group(1) + ";"
    elif re.match(r"^\s+COLL_TRY\(.*\);$", code):
        yield line.replace("COLL_TRY(", "static_cast<void>(", 1)
    elif CALL.match(code) and code.count("(") == code.count(")") and not re.search(r"\b(print|say|warn|info|hint|COLL_)", code):
        yield re.match(r"\s*", line).group() + ";"
    for m in re.finditer(r"\w\((\w+), (\w+)\)", code):
        if m.group(1) != m.group(2) and not m.group(1)[0].isupper():
            yield line[:m.start(1)] + f"{line[m.start(2):m.end(2)]}, {line[m.start(1):m.end(1)]}" + line[m.end(2):]


def all_mutants(files):
    for path in files:
        seen = Counter()
        in_comment = False
        for line in (ROOT / path).read_text().split("\n"):
            seen[line.strip()] += 1
            in_comment = in_comment or "/*" in line
            if not in_comment:
                for new in mutations(line):
                    yield Mutant(path, seen[line.strip()], line.strip(), new.strip())
            in_comment = in_comment and "*/" not in line


def run(command, **more):
    return subprocess.run(command, capture_output=True, text=True, errors="replace", **more)


def copy_tree():
    """Files that differ; the builder sees no others as changed."""
    names = run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT).stdout.split("\0")
    names = {n for n in names if n and (ROOT / n).is_file()}
    for name in names:
        to = COPY / name
        if not to.is_file() or to.read_bytes() != (ROOT / name).read_bytes():
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, to)
    for top in {n.split("/")[0] for n in names}:
        for old in COPY.glob(f"{top}/**/*"):
            if old.is_file() and str(old.relative_to(COPY)) not in names:
                old.unlink()
    return names


def near(path):
    """The unit tests beside a source, by the names of their files: they come first."""
    folder = ROOT / "tests/unit" / pathlib.Path(path).parent
    while not folder.is_dir():
        folder = folder.parent
    return sorted(f.stem for f in folder.rglob("test_*.cc"))


def programs_of(path):
    layer = path.split("/")[0]
    own = [f"test_{layer}"]
    if path.startswith("base/drivers/"):
        own = ["test_transport"]  # with drivers to be found
    if path.startswith("kernels/cuda/") and path.endswith((".cu", ".cuh")):
        return ["test_gpu_kernels"]
    if layer == "runtime" and re.search("collnet|network_reduction|fabric", path):
        own = ["test_runtime_network", "test_runtime"]
    if path.startswith("runtime/one_sided/rdma") or path.startswith("transport/net/ib/one_sided/"):
        own = ["test_runtime_ib", f"test_{layer}"]
    return list(dict.fromkeys(own + ["test_sim"] + ABOVE[layer]))


class Tree:
    """A job's copy of the copy, and what is run there."""

    left_out = {}  # of each program: what fails without a mutant, too, and catches nothing
    lock = threading.Lock()

    def __init__(self, number):
        self.path = COPY.with_name(f"mutants.{number}")
        self.report = self.path / "report.xml"
        self.mutant = None

    def as_without(self):
        """Everything that a mutant, its build and its tests left is as in COPY again, times and all."""
        def under(top):
            return {os.path.relpath(os.path.join(where, name), top) for where, folders, names in os.walk(top)
                    for name in names + [f for f in folders if os.path.islink(os.path.join(where, f))]}

        def look(file):
            stat = file.lstat()
            return stat.st_size, stat.st_mtime_ns, stat.st_mode

        names = under(COPY)
        for name in under(self.path) - names:
            (self.path / name).unlink()
        for name in names:
            here, there = self.path / name, COPY / name
            if not os.path.lexists(here) or look(here) != look(there):
                here.parent.mkdir(parents=True, exist_ok=True)
                here.unlink(missing_ok=True)
                shutil.copy2(there, here, follow_symlinks=False)

    def put(self, mutant):
        self.mutant = mutant
        (self.path / mutant.path).write_text(mutant.text())

    def build(self, target):
        return run([*IN_COPY, str(self.path), str(COPY), "ninja", "-j4", "-C", str(BUILD), target]).returncode == 0

    def failing_test(self, program, filters):
        """None, or the name of the first test that fails."""
        command = [*ALONE, str(self.path), str(COPY), str(BUILD / "tests" / program)]
        if program == "test_sim":
            try:
                ran = run([*command, "--seeds", "300"], timeout=SIM_SECONDS)
            except subprocess.TimeoutExpired:
                return "no end"
            why = re.search(r"FAILED: test_sim (.*)|what\(\): (.*)", ran.stdout + ran.stderr)
            return (why[0] if why else f"exit code {ran.returncode}") if ran.returncode else None
        self.report.unlink(missing_ok=True)
        with subprocess.Popen([*command, "-#", "--abort", "-r", "xml", "-o", str(COPY / "report.xml"), filters],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            size, since = -1, time.monotonic()
            while process.poll() is None:
                now = self.report.stat().st_size if self.report.exists() else -1
                if now != size:
                    size, since = now, time.monotonic()
                if time.monotonic() - since > SILENT:
                    process.kill()
                time.sleep(0.1)
            code = process.returncode
        if code in (0, 77):  # 77: this machine cannot do some of them
            return None
        names = re.findall(r'<TestCase name=("[^"]*")', self.report.read_text(errors="replace")) if self.report.exists() else []
        return ElementTree.fromstring(f"<a n={names[-1]}/>").get("n") if names else f"exit code {code}"

    def catches(self, program, filters):
        """None, or the test that fails with the mutant each time, and never without it."""
        while True:
            with self.lock:
                but = "".join(f"~{test}" for test in sorted(self.left_out.get(program, ())))
            name = self.failing_test(program, ",".join(part + but for part in filters.split(",")))
            if not name:
                return None
            test = name if name.startswith("exit code") else '"' + re.sub(r'([\\,\["])', r"\\\1", name) + '"'
            alone = filters if name.startswith("exit code") or program == "test_sim" else test
            if not self.failing_test(program, alone):
                print(f"not each time: {program}: {name}", flush=True)
                return None
            mutant = self.mutant
            self.as_without()
            fails = self.failing_test(program, alone)
            if not fails:
                return name
            if alone is not test:
                sys.exit(f"mutants: without any mutant {program} fails: {fails}")
            print(f"left out, it fails without a mutant, too: {program}: {name}", flush=True)
            with self.lock:
                self.left_out.setdefault(program, set()).add(test)
            self.put(mutant)
            if not self.build(f"tests/{program}"):
                sys.exit(f"mutants: {program} was built once and is not again, with\n{mutant}")

    def judge(self, mutant):
        """The verdict, the program and the test that caught it."""
        self.as_without()
        self.put(mutant)
        for program in programs_of(mutant.path):
            if not self.build(f"tests/{program}"):
                return "does not compile", "", ""
            first = near(mutant.path)
            own = program == f"test_{mutant.layer()}"
            for filters in ([",".join(f"[#{f}]~[.]" for f in first), "".join(f"~[#{f}]" for f in first) + "~[.]"]
                            if own and first else ["~[.]"]):
                if by := self.catches(program, filters):
                    return "caught", program, by
        return "survived", "", ""


def prepare(mutants, jobs):
    """COPY with all that the mutants need, and a tree for each job."""
    (BUILD / "tests").mkdir(parents=True, exist_ok=True)
    ran = run([*ALONE, *[str(COPY)] * 2, "true"])
    if ran.returncode != 0:
        sys.exit(f"mutants: they run in namespaces of their own, which are not allowed here: {ran.stderr.strip()}")
    ran = run(["cmake", "--preset", "mutants"], cwd=COPY)
    if ran.returncode == 0:
        targets = {f"tests/{p}" for m in mutants for p in programs_of(m.path)}
        ran = run(["ninja", "-C", str(BUILD), *sorted(targets)])
    if ran.returncode != 0:
        sys.exit(f"mutants: what has no mutant does not build:\n{ran.stdout[-4000:]}{ran.stderr[-4000:]}")
    trees = queue.SimpleQueue()
    for number in range(jobs):
        trees.put(Tree(number))
    return trees


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("number", type=int, nargs="?", default=150)
    parser.add_argument("seed", type=int, nargs="?", default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--drawn", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--results", type=pathlib.Path)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--check", action="store_true", help="only that the table's lines are there")
    options = parser.parse_args()
    if os.geteuid() != 0 and not (options.list or options.check):
        sys.exit("mutants: they run in namespaces of their own, which needs root")
    rows = read_table(ROOT / "tests/mutants/table.txt")
    if options.check:
        return 0
    table = [m for m in rows if not m.why and not options.drawn and re.search(options.only, m.path)]
    names = sorted(n for n in copy_tree() if n.split("/")[0] in LAYERS and re.search(options.only, n)
                   and n != "cmd/main.cc")  # no library's
    files = [n for n in names if n.endswith((".cc", ".cu")) or (n.startswith("kernels/") and n.endswith((".h", ".cuh")))]
    known = {m.key() for m in rows}
    drawn = sorted((m for m in all_mutants(files) if m.key() not in known),
                   key=lambda m: hashlib.sha256(repr((options.seed, *m.key())).encode()).digest())
    if options.list:
        print(*table, *drawn[:options.number], sep="\n\n")
        return 0
    trees = prepare(table + drawn[:options.number], options.jobs)
    done = [json.loads(line) for line in options.results.open()] if options.results and options.results.exists() else []
    before = {tuple(d["mutant"]): d for d in done}
    counts, survivors, lock = {layer: Counter() for layer in LAYERS}, [], threading.Lock()
    left = iter(drawn)

    def settle(mutant):
        """Returns whether it compiles."""
        said = before.get(mutant.key())
        if not said:
            tree, began = trees.get(), time.monotonic()
            try:
                verdict, program, by = tree.judge(mutant)
            finally:
                trees.put(tree)
            said = {"verdict": verdict, "program": program, "by": by, "seconds": round(time.monotonic() - began),
                    "mutant": mutant.key()}
        with lock:
            counts[mutant.layer()][said["verdict"]] += 1
            if said["verdict"] == "survived":
                survivors.append(mutant)
            if mutant.key() not in before:
                print("{verdict} {program} {by}, {seconds} s: ".format(**said) + f"{mutant}\n", flush=True)
                if options.results:
                    with options.results.open("a") as file:
                        print(json.dumps(said), file=file)
        return said["verdict"] != "does not compile"

    def settle_one_drawn(_):
        while True:
            with lock:
                mutant = next(left, None)
            if mutant is None or settle(mutant):
                return

    with ThreadPoolExecutor(options.jobs) as pool:
        for ended in [*[pool.submit(settle, m) for m in table],
                      *[pool.submit(settle_one_drawn, i) for i in range(options.number)]]:
            ended.result()
    columns = ("caught", "survived", "does not compile")
    print(f"{'folder':12}" + "".join(f"{c:>18}" for c in columns))
    for layer in LAYERS:
        print(f"{layer:12}" + "".join(f"{counts[layer][c]:18}" for c in columns))
    total = sum(counts.values(), Counter())
    print(f"{'all':12}" + "".join(f"{total[c]:18}" for c in columns))
    for mutant in survivors:
        print(f"\nsurvived: {mutant}")
    return int(total["survived"] * 20 > total["survived"] + total["caught"])


sys.exit(main())

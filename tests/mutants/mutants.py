#!/usr/bin/env python3
"""Would the tests notice? Mutants of the product, each built alone and run against the tests.

usage: mutants.py [N] [SEED] [--only REGEX] [--part K/M] [--unit]

The rows of table.txt come first; then mutants are drawn by the seed from all lines of the product, to N altogether. What is
drawn depends on the text of a line alone, so that changes elsewhere draw no others. --only: of files whose path matches;
--part: every Mth of them from the Kth on, for M copies of this tree on a machine of many cores; --unit: no cli and e2e
tests for what the unit tests let through.
"""
import argparse
import hashlib
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parents[2]
COPY = ROOT / "build/mutants"  # a copy of the tree: nobody's own files are changed
BUILD = COPY / "build/mutants"
LAYERS = ("base", "topology", "kernels", "transport", "runtime", "launcher", "cmd")
SECONDS = 900  # of one test program; a mutant that hangs is caught

# A mutant may signal every process or remove every file that it can: it has processes and a network of its own, whose ports
# no other uses up, and for unit tests a file system that is read only but for the build. The shell stays, as the init that
# orphans come to.
ALONE = ["unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "--mount-proc", "sh", "-c"]
OWN_FILES = """ip link set lo up && mount -t tmpfs none /tmp && mount -t tmpfs none /dev/shm && mount --bind "$0" "$0" &&
mount -o remount,bind,ro / && cd "$0/tests" && { "$@"; exit $?; }"""

# Scripts that run what a folder is about.
SCRIPTS = {
    "base": "local_jobs|remote_faults|doors",
    "topology": "doctor_topo",
    "kernels": "matrix|local_jobs",
    "transport": "local_jobs|ib_jobs|net_plugin",
    "runtime": "local_jobs|ib_jobs|net_plugin|window_test",
    "launcher": "local_jobs|remote_jobs|remote_faults|adopt_join|ssh_clients",
    "cmd": "local_jobs|remote_jobs|remote_faults|docs_examples|doctor_topo|rails|check",
}

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


def build(*targets):
    return run(["ninja", "-C", str(BUILD), *targets])


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


def failing_test(program, seconds, filters):
    """None, or the name of the first test that fails."""
    report = BUILD / f"{program.name}.xml"
    report.unlink(missing_ok=True)
    try:
        code = run([*ALONE, OWN_FILES, str(BUILD), str(program), "-#", "--abort", "-r", "xml", "-o", str(report), filters],
                   timeout=seconds).returncode
    except subprocess.TimeoutExpired:
        code = 124
    if code in (0, 77):  # 77: this machine cannot do some of them
        return None
    names = re.findall(r'<TestCase name=("[^"]*")', report.read_text(errors="replace")) if report.exists() else []
    return ElementTree.fromstring(f"<a n={names[-1]}/>").get("n") if names else f"exit code {code}"


def caught_by(program, path, seconds):
    first = near(path)
    for filters in (",".join(f"[#{f}]~[.]" for f in first), "".join(f"~[#{f}]" for f in first) + "~[.]"):
        name = failing_test(program, seconds, filters)
        # Whoever fails only now and then has caught nothing.
        if name and (name.startswith("exit code") or
                     failing_test(program, seconds, re.sub(r"([\\,\[])", r"\\\1", name))):
            return name
    return None


def targets_of(path):
    layer = path.split("/")[0]
    if path.startswith("base/drivers/"):
        return ["test_transport"]  # with drivers to be found
    if path.startswith("kernels/cuda/") and path.endswith((".cu", ".cuh")):
        return ["test_gpu_kernels"]
    if layer == "runtime" and re.search("collnet|network_reduction|fabric", path):
        return ["test_runtime_network", "test_runtime"]
    if path.startswith("runtime/one_sided/rdma") or path.startswith("transport/net/ib/one_sided/"):
        return ["test_runtime_ib", f"test_{layer}"]
    return [f"test_{layer}"]


def failing_script(layer):
    """None, or the script (or cli) that fails."""
    ran = run([*ALONE, 'ip link set lo up; "$@"; exit $?', "sh", "ctest", "--stop-on-failure", "-R", f"^(cli|e2e[.]({SCRIPTS[layer]}))$"], cwd=BUILD)
    failed = re.findall(r"Test +#\d+: (\S+) .*(?:Failed|Timeout|Exception)", ran.stdout)
    return failed[0] if failed else None


def library_of(path):
    """The library that a source belongs to (CMakeLists.txt): its layer's, or that of its own row of kernels/cpu and kernels/cuda*."""
    rows = [l.split(":")[0] for l in (ROOT / "folders.txt").read_text().split("\n") if re.match("[a-z]", l)]
    row = max((r for r in rows if path.startswith(r + "/")), key=len)
    return "collctl_" + (row.replace("/", "_") if re.match("kernels/(cpu|cuda)", row) else row.split("/")[0])


def prepare(mutants, unit_only, names):
    """Builds what the mutants need; how long each suite takes without any. What fails then would catch them all."""
    targets = sorted({t for m in mutants for t in targets_of(m.path)})
    ran = subprocess.CompletedProcess("", 0, "", "")
    if not (BUILD / "build.ninja").exists():
        ran = run(["cmake", "--preset", "mutants"], cwd=COPY)
    if ran.returncode == 0:
        ran = build("-k", "0", *(targets if unit_only else ["all"]))
    if ran.returncode != 0:
        sys.exit(f"mutants: what has no mutant does not build:\n{ran.stdout[-4000:]}{ran.stderr[-4000:]}")
    # What has once passed in this very tree is not run again.
    tree = hashlib.sha256(repr([(n, (COPY / n).read_bytes()) for n in sorted(names)]).encode()).hexdigest()
    passed = BUILD / "without.json"
    known = json.loads(passed.read_text()) if passed.exists() else {}
    seconds = known["seconds"] if known.get("tree") == tree else {}
    checks = [(t, lambda t=t: failing_test(BUILD / "tests" / t, 3600, "~[.]")) for t in targets]
    checks += [(layer, lambda layer=layer: failing_script(layer)) for layer in {m.layer() for m in mutants} if not unit_only]
    def without(named):
        name, check = named
        began = time.monotonic()
        return name, check(), time.monotonic() - began

    def missing(unit):
        return [c for c in checks if c[0] not in seconds and c[0].startswith("test_") == unit]

    # Scripts make hosts of the same names: one at a time.
    with ThreadPoolExecutor(max(1, (os.cpu_count() or 1) // 4)) as several:
        for name, why, took in itertools.chain(several.map(without, missing(True)), map(without, missing(False))):
            if why:
                sys.exit(f"mutants: without any mutant {name} fails: {why}")
            seconds[name] = took
            print(f"without mutants: {name}, {took:.0f} s", flush=True)
    passed.write_text(json.dumps({"tree": tree, "seconds": seconds}))
    return seconds


def compiled(mutant):
    """The mutant's own object, or None. Its flags are those of its library, which it is linked before: with -fPIC no
    optimization looks into another function, so that all callers, those in its batch too, come to the mutant."""
    library = f"CMakeFiles/{library_of(mutant.path)}.dir/"
    entries = json.loads((BUILD / "compile_commands.json").read_text())
    command = next(e["command"] for e in sorted(entries, key=lambda e: not e["file"].endswith("/" + mutant.path))
                   if library in e["command"])
    source, to = BUILD / "mutant.cc", BUILD / "mutant.o"
    source.write_text(mutant.text())
    command = re.sub(r" -o \S+ -c \S+$", "", command.replace("-Werror", ""))
    ran = run(f"{command} -w -O0 -o {to} -c {source}", shell=True, cwd=BUILD)
    return to if ran.returncode == 0 else None


def linked(target, to, mutant_object):
    command = run(["ninja", "-C", str(BUILD), "-t", "commands", "-s", target]).stdout.strip().split("\n")[-1]
    command = command.replace(f" -o {target} ", f" -o {to} -Wl,-z,muldefs ")
    return run(re.sub(r" (\S+\.o) ", rf" {mutant_object} \1 ", command, count=1), shell=True, cwd=BUILD).returncode == 0


def by_itself(mutant, unit_only, seconds):
    """A mutant of a source: one file compiled, one program linked."""
    mutant_object = compiled(mutant)
    if not mutant_object:
        return "does not compile", ""
    for target in targets_of(mutant.path):
        program = BUILD / "tests" / "mutant"
        if not linked(f"tests/{target}", "tests/mutant", mutant_object):
            return "does not compile", ""
        if by := caught_by(program, mutant.path, 60 + 3 * seconds.get(target, SECONDS)):
            return "caught", by
    if unit_only:
        return "survived", ""
    product, kept = BUILD / "collctl", BUILD / "collctl.kept"
    shutil.copy2(product, kept)
    try:
        if not linked("collctl", "collctl", mutant_object):
            return "does not compile", ""
        by = failing_script(mutant.layer())
        return ("caught", by) if by else ("survived", "")
    finally:
        kept.replace(product)


def in_the_tree(mutant, unit_only, seconds):
    """A mutant of a header, which many sources read."""
    file = COPY / mutant.path
    original = file.read_text()
    try:
        file.write_text(mutant.text())
        for target in targets_of(mutant.path):
            if build(target).returncode != 0:
                return "does not compile", ""
            if by := caught_by(BUILD / "tests" / target, mutant.path, 60 + 3 * seconds.get(target, SECONDS)):
                return "caught", by
        if unit_only:
            return "survived", ""
        if build("all").returncode != 0:
            return "does not compile", ""
        by = failing_script(mutant.layer())
        return ("caught", by) if by else ("survived", "")
    finally:
        file.write_text(original)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("number", type=int, nargs="?", default=150)
    parser.add_argument("seed", type=int, nargs="?", default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--unit", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--check", action="store_true", help="only that the table's lines are there")
    options = parser.parse_args()
    if os.geteuid() != 0 and not (options.list or options.check):
        sys.exit("mutants: they run in namespaces of their own, which needs root")
    table = read_table(ROOT / "tests/mutants/table.txt")
    if options.check:
        return 0
    equivalent = {m.key(): m for m in table if m.why}
    tree = copy_tree()
    names = sorted(n for n in tree if n.split("/")[0] in LAYERS and re.search(options.only, n)
                   and n != "cmd/main.cc")  # no library's
    files = [n for n in names if n.endswith((".cc", ".cu")) or (n.startswith("kernels/") and n.endswith((".h", ".cuh")))]
    drawn = sorted(all_mutants(files),
                   key=lambda m: hashlib.sha256(repr((options.seed, *m.key())).encode()).digest())
    queue = [m for m in table if not m.why and re.search(options.only, m.path)]
    mine = {m.key() for m in queue}
    queue += [m for m in drawn if m.key() not in mine]
    part, parts = (int(n) for n in options.part.split("/"))
    if not 1 <= part <= parts:
        parser.error(f"--part {options.part}: the first number is one of 1 to the second")
    number = len(range(part - 1, options.number, parts))
    if not options.list:
        seconds = prepare(queue[:options.number], options.unit, tree)
    counts, survivors, done = {layer: Counter() for layer in LAYERS}, [], 0
    for mutant in queue[part - 1::parts]:
        if done == number:
            break
        began = time.monotonic()
        if options.list:
            verdict, by = "listed", ""
        elif mutant.key() in equivalent:
            verdict, by = "equivalent", equivalent[mutant.key()].why
        else:
            way = by_itself if mutant.path.endswith(".cc") else in_the_tree
            verdict, by = way(mutant, options.unit, seconds)
        counts[mutant.layer()][verdict] += 1
        done += verdict != "does not compile"
        if verdict == "survived":
            survivors.append(mutant)
        print(f"{done:4} {verdict}{f' ({by})' if by else ''}, {time.monotonic() - began:.0f} s: {mutant}\n", flush=True)
    columns = ("caught", "survived", "equivalent", "does not compile")
    print(f"{'folder':12}" + "".join(f"{c:>18}" for c in columns))
    for layer in LAYERS:
        print(f"{layer:12}" + "".join(f"{counts[layer][c]:18}" for c in columns))
    total = sum(counts.values(), Counter())
    print(f"{'all':12}" + "".join(f"{total[c]:18}" for c in columns))
    for mutant in survivors:
        print(f"\nsurvived: {mutant}")
    return int(total["survived"] * 20 > total["survived"] + total["caught"])


sys.exit(main())

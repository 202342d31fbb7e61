#!/usr/bin/env python3
"""Draws fields as messy as real clusters and asks whether what collctl says there is right.

field.py PATH/collctl [N [SEED]]             N draws (20); the same seed draws the same
field.py PATH/collctl --whole [N [SEED]]     the same draws, each with every command
field.py PATH/collctl --conditions A,B,...   one field: hosts=N, conditions (--list) and commands (commands.py); COND@I: on host I alone
field.py PATH/collctl --each [WORD]          each condition alone (whose name has that), with every command that is about it
field.py PATH/collctl --table [WORD]         naming x fault x how hosts are reached, with run, check, rails, doctor, status, shrink
field.py PATH/collctl --list                 all conditions
field.py PATH/collctl --fixed                the draws of CI
A field that does not hold is shrunk to its least set of conditions. Exit 1 when one did not hold, 77 where hosts cannot be made.
"""
import collections
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

import table
from registry import CONDITIONS

HERE = pathlib.Path(__file__).parent
# seconds, for all of one field: it says "not for ever"
LIMIT = 1500
SHRINKS = 25  # fields that may be tried altogether to find the least conditions; of many draws as many as those


class Fields:
    def __init__(self, collctl):
        self.collctl = collctl
        self.cache = tempfile.TemporaryDirectory(prefix="collctl-field.")
        self.lacks, self.left_out = {}, collections.Counter()
        self.shrinks = SHRINKS

    def possible(self, tokens):
        """Without what this machine has no means for."""
        left = []
        for token in tokens:
            name = token.partition("@")[0]
            if name in CONDITIONS and name not in self.lacks:
                self.lacks[name] = table.missing(CONDITIONS[name])
            if self.lacks.get(name):
                self.left_out[name] += 1
            else:
                left.append(token)
        return left

    def hold(self, tokens):
        """(code, what was printed) of one field on fresh hosts."""
        count = next((token[6:] for token in tokens if token.startswith("hosts=")), "3")
        with subprocess.Popen(["bash", HERE / "hosts.sh", self.collctl, count, self.cache.name, ",".join(tokens)],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", start_new_session=True) as process:
            try:
                text, _ = process.communicate(timeout=LIMIT)
                code = process.returncode
            except BaseException as e:
                text = ended(process)
                if not isinstance(e, subprocess.TimeoutExpired):
                    raise
                code, text = 1, f"{text}  DOES NOT HOLD: it still ran after {LIMIT} s\n"
        if code == 77:
            print(text, end="")
            sys.exit(77)
        return code, text

    def told(self, label, tokens):
        """Whether it holds; prints it, and its least conditions when it does not."""
        began = time.monotonic()
        code, text = self.hold(tokens)
        print(f"{label}: {'holds' if code == 0 else 'DOES NOT HOLD'}, {time.monotonic() - began:.1f} s: {','.join(tokens)}", flush=True)
        if code:
            print(text, end="", flush=True)
        return code == 0, text

    def shrink(self, tokens, text):
        """The least of which the same command still does not hold, by leaving out one after the other."""
        wrong = offenders(text)
        least, again = list(tokens), bool(wrong)
        while again:
            again = False
            for each in smaller(least):
                if self.shrinks == 0:
                    break
                self.shrinks -= 1
                if wrong & offenders(self.hold(each)[1]):
                    least, again = each, True
                    break
        print(f"  least: ./dev field --conditions {','.join(least)}", flush=True)
        return least


def ended(process):
    """Ends the script that made hosts, which ends them; at the latest they end with it."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        return process.communicate(timeout=60)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[0]


def stop(number, _):
    sys.exit(128 + number)


def offenders(text):
    return set(re.findall(r"DOES NOT HOLD: (\w+):", text))


def smaller(tokens):
    """Fields with one thing less, those that leave most out first."""
    commands = [t for t in tokens if table.is_command(t)]
    if len(commands) > 1:
        for each in commands:
            yield [t for t in tokens if not table.is_command(t) or t == each]
    for each in tokens:
        if not table.is_command(each) and not each.startswith("hosts="):
            yield [t for t in tokens if t != each]
    count = int(next((t[6:] for t in tokens if t.startswith("hosts=")), "3"))
    if count > table.least_hosts(tokens):
        yield [f"hosts={count - 1}"] + [table.clamped(t, count - 1) for t in tokens if not t.startswith("hosts=")]


def report(rows):
    """rows: (a condition's name, whether it held). Prints how often each was drawn."""
    counts = collections.defaultdict(lambda: [0, 0])
    for name, held in rows:
        counts[name][0] += 1
        counts[name][1] += held
    print(f"\n{'condition':20} {'drawn':>6} {'held':>6}")
    for name in sorted(counts, key=table.place):
        print(f"{name:20} {counts[name][0]:6} {counts[name][1]:6}")


def draws(fields, chosen):
    rows, broken = [], []
    fields.shrinks = max(SHRINKS, len(chosen))
    for label, tokens in chosen:
        tokens = fields.possible(tokens)
        held, text = fields.told(label, tokens)
        rows += [(token.partition("@")[0], held) for token in tokens]
        if not held:
            broken.append(",".join(fields.shrink(tokens, text)))
    report(rows)
    for name, times in fields.left_out.items():
        print(f"skipped: {name} in {times} fields: {fields.lacks[name]}")
    print(f"{len(chosen) - len(broken)} of {len(chosen)} fields hold", flush=True)
    for each in broken:
        print(f"again: ./dev field --conditions {each}")
    return 1 if broken else 0


def whole_table(fields, only):
    """Naming x fault, each reached by the launcher alone and in a tree: each cell is a field of four hosts."""
    cells, broken = {}, []  # by naming and fault: whether it holds
    for naming, way, fault in table.cells():
        name = f"{naming} {way}".strip()
        if only and only not in (naming, way, fault):
            continue
        tokens = fields.possible(["hosts=4", naming, *filter(None, [way]), fault if fault == "none" else f"{fault}@3",
                                  *table.commands_for(fault, table.OF_TABLE)])
        cells[name, fault] = held = fields.told(f"{name} x {fault}", tokens)[0]
        if not held:
            broken.append(",".join(tokens))
    faults = [f for f in table.of_kind("fault") if any(c[1] == f for c in cells)]
    print(f"\n{'':15} " + " ".join(f"{fault:>10}" for fault in faults))
    word = {True: "holds", False: "NO", None: "-"}  # some faults cannot be, in a tree
    for naming in dict.fromkeys(c[0] for c in cells):
        print(f"{naming:15} " + " ".join(f"{word[cells.get((naming, fault))]:>10}" for fault in faults))
    print(f"{len(cells) - len(broken)} of {len(cells)} cells hold")
    for each in broken:
        print(f"again: ./dev field --conditions {each}")
    return 1 if broken else 0


def main(arguments):
    fields = Fields(arguments.pop(0))
    how = arguments.pop(0) if arguments else "20"
    sys.stdout.reconfigure(line_buffering=True)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    if how == "--list":
        table.print_all()
        return 0
    if how == "--conditions":
        tokens = arguments[0].split(",")
        table.refuse_unknown(tokens)
        tokens = fields.possible(tokens)
        return 0 if fields.told("field", tokens)[0] else 1
    if how == "--each":
        word = arguments[0] if arguments else ""
        return draws(fields, [(row.name, table.alone(row)) for row in CONDITIONS.values() if word in row.name])
    if how == "--table":
        return whole_table(fields, arguments[0] if arguments else "")
    if how == "--fixed":
        return draws(fields, [(f"fixed {i + 1}", line.split(",")) for i, line in enumerate(table.FIXED)])
    if whole := how == "--whole":
        how = arguments.pop(0) if arguments else "20"
    seed = int(arguments[0]) if arguments else random.SystemRandom().randrange(10**6)
    print(f"{how} fields from seed {seed}; one of them again: ./dev field {'--whole ' if whole else ''}1 ITS_SEED")
    return draws(fields, [(f"seed {seed + i}", table.draw(random.Random(seed + i), whole)) for i in range(int(how))])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

#!/usr/bin/env python3
"""calls.py SOURCES BUILD: no call between folders goes against folders.txt.

Reads with nm what each folder's static library leaves undefined and what it defines. Whatever a library takes from
another folder's must lie in a folder that it may include: include lines can be right where a declaration of a lower
folder is defined in a higher one. Prints each offence and ends with 1; a self-test first shows that it can.
"""
import collections
import pathlib
import subprocess
import sys


def read_folders(lines):
    """Of each folder, all that stands below it (tidy.cc has looked at the table itself)."""
    below = {}
    for line in lines:
        if line.startswith("#") or ":" not in line:
            continue
        folder, names = line.split(":")
        below[folder] = set(names.split()).union(*(below[name] for name in names.split()))
    return below


def read_symbols(text):
    """What the output of `nm -P -g` says of a library: (defined, undefined without its own definition)."""
    defined, wanted = set(), set()
    for line in text.splitlines():
        words = line.split()
        if len(words) < 2 or len(words[1]) != 1:  # the name of a member
            continue
        (wanted if words[1] in "Uw" else defined).add(words[0])
    return defined, wanted - defined


def offences(below, symbols):
    """(folder, other, symbol) of each call that may not be; and how many there are between folders."""
    homes = collections.defaultdict(set)
    for folder, (defined, _) in symbols.items():
        for name in defined:
            homes[name].add(folder)
    bad, calls = [], 0
    for folder, (_, wanted) in symbols.items():
        for name in wanted & homes.keys():
            calls += 1
            # What headers define is in every library that uses it: one of them may be used.
            if not homes[name] & below[folder]:
                bad.append((folder, sorted(homes[name])[0], name))
    return sorted(bad), calls


def self_test(below, symbols):
    low = read_symbols("low.a[x.o]:\n_Z3lowv T 0 1\n_Z4highv U\n_Z6inlinev W 0 1\nmalloc U\n")
    high = read_symbols("high.a[y.o]:\n_Z4highv T 0 1\n_Z3lowv U\n_Z6inlinev U\n")
    assert offences({"low": set(), "high": {"low"}}, {"low": low, "high": high}) == ([("low", "high", "_Z4highv")], 3)
    # Of the real libraries: every arrow that is needed is missed when it goes.
    bad, calls = offences(dict.fromkeys(below, set()), symbols)
    assert calls > 100 and len(bad) == calls, "a table without arrows is not refused"


def main():
    sources, build = map(pathlib.Path, sys.argv[1:])
    below = read_folders((sources / "folders.txt").read_text().splitlines())
    symbols = {}
    for folder in below:
        own = {path.suffix for path in (sources / folder).rglob("*.c[cu]")
               if max((f for f in below if path.is_relative_to(sources / f)), key=len) == folder
               and path.name not in ("main.cc", "no_launcher.cc")}
        library = build / f"libcollctl_{folder.replace('/', '_')}.a"
        if not own or (own == {".cu"} and not library.exists()):  # headers alone; a build without nvcc
            continue
        if not library.exists():
            sys.exit(f"calls: {library} is not built")
        run = subprocess.run(["nm", "-P", "-g", library], check=True, capture_output=True, text=True)
        symbols[folder] = read_symbols(run.stdout)
    self_test(below, symbols)
    bad, calls = offences(below, symbols)
    for folder, other, name in bad:
        text = subprocess.run(["c++filt", name], check=True, capture_output=True, text=True).stdout.strip()
        print(f"{folder} calls {text}, which is in {other}: not below it in folders.txt")
    print(f"calls: {len(symbols)} libraries, {calls} symbols taken from another, {len(bad)} offences")
    sys.exit(1 if bad else 0)


main()

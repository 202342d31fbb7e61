#!/usr/bin/env python3
"""calls.py SOURCES BUILD: no call between folders goes against folders.txt.

Reads with nm what the objects of each folder leave undefined and what they define, in a build without batches
(COLLCTL_UNITY=OFF), where each source has an object. Whatever a folder takes from another must lie in a folder that it
may include: include lines can be right where a declaration of a lower folder is defined in a higher one. Prints each
offence and ends with 1; a self-test first shows that it can.
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


def objects(sources, build, below):
    """Of each folder, the objects of its sources. A build without nvcc has none of .cu files, one with it none of no_launcher.cc."""
    built = {path.relative_to(library): path
             for library in build.glob("CMakeFiles/collctl_*.dir") for path in library.rglob("*.o")}
    found = collections.defaultdict(list)
    for folder in below:
        for path in (sources / folder).rglob("*.c[cu]"):
            source = path.relative_to(sources)
            if max((f for f in below if source.is_relative_to(f)), key=len) != folder or source == pathlib.Path("cmd/main.cc"):
                continue
            made = built.get(source.with_name(source.name + ".o"))
            if made:
                found[folder].append(made)
            elif source.suffix != ".cu" and source.name != "no_launcher.cc":
                sys.exit(f"calls: {build} has no object of {source}")
    return found


def read_symbols(text):
    """What the output of `nm -P -g` says of objects: (defined, undefined without a definition of their own)."""
    defined, wanted = set(), set()
    for line in text.splitlines():
        words = line.split()
        if len(words) < 2 or len(words[1]) != 1:  # the name of an object
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
            # What headers define is in every folder that uses it: one of them may be used.
            if not homes[name] & below[folder]:
                bad.append((folder, sorted(homes[name])[0], name))
    return sorted(bad), calls


def self_test(below, symbols):
    low = read_symbols("x.o:\n_Z3lowv T 0 1\n_Z4highv U\n_Z6inlinev W 0 1\nmalloc U\n")
    high = read_symbols("y.o:\n_Z4highv T 0 1\n_Z3lowv U\n_Z6inlinev U\n")
    assert offences({"low": set(), "high": {"low"}}, {"low": low, "high": high}) == ([("low", "high", "_Z4highv")], 3)
    # Of the real folders: every arrow that is needed is missed when it goes.
    bad, calls = offences(dict.fromkeys(below, set()), symbols)
    assert calls > 100 and len(bad) == calls, "a table without arrows is not refused"


def main():
    sources, build = map(pathlib.Path, sys.argv[1:])
    below = read_folders((sources / "folders.txt").read_text().splitlines())
    symbols = {}
    for folder, paths in objects(sources, build, below).items():
        run = subprocess.run(["nm", "-P", "-g", *paths], check=True, capture_output=True, text=True)
        symbols[folder] = read_symbols(run.stdout)
    self_test(below, symbols)
    bad, calls = offences(below, symbols)
    for folder, other, name in bad:
        text = subprocess.run(["c++filt", name], check=True, capture_output=True, text=True).stdout.strip()
        print(f"{folder} calls {text}, which is in {other}: not below it in folders.txt")
    print(f"calls: {len(symbols)} folders, {calls} symbols taken from another, {len(bad)} offences")
    sys.exit(1 if bad else 0)


main()

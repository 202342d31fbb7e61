#!/usr/bin/env python3
"""pace.py SOURCES: no end-to-end script depends on how fast the machine is.

Refuses in tests/e2e/*.sh what measures time that passed, and each bare sleep: a script waits for a cue (tests/e2e/await.cc) and
looks at causes and codes. A line where time itself is the matter says why: `sleep 9 # time is what is tested: REASON`.
Prints each offence and ends with 1; a self-test first shows that it can.
"""
import pathlib
import re
import sys

MARK = re.compile(r"# time is what is tested: .{10}")
ELAPSED = re.compile(r"\bSECONDS\b|\bEPOCH(SECONDS|REALTIME)\b|\bdate\b[^|;)]*\+%s")
COMMAND = r"(^|[;&|({!]|\b(do|then|else|if|while|until)\b)\s*(rig_head|rig_node \S+|command)?\s*"
BOUND = re.compile(COMMAND + r"within ")
SLEEP = re.compile(COMMAND + r"sleep (?!infinity)(?![^;&|]*&(?!&))")  # one in the background holds nothing up


def code_of(text):
    """Of each line of a shell script, the code without comments, and that without what is quoted."""
    inside, end, lines = [], "", []  # what the place is in, the innermost last: quotes, and $( within them
    for line in text.splitlines():
        if end:  # in a here document
            end = "" if line.strip() == end else end
            lines.append(("", ""))
            continue
        code, bare, at = "", "", 0
        while at < len(line):
            c, top = line[at], inside[-1] if inside else ""
            if c == "\\" and top != "'":
                code += line[at:at + 2]
                at += 2
                continue
            if c == "#" and top in ("", "(") and (at == 0 or line[at - 1] in " \t;("):
                break
            if c == top and c in "'\"" or c == ")" and top == "(":
                inside.pop()
            elif c == "'" and top != '"' and top != "'" or c == '"' and top not in ("'", '"'):
                inside.append(c)
            elif c == "(" and (top == "(" or top == '"' and line[at - 1] == "$"):
                inside.append(c)
            elif top in ("", "("):
                bare += c
            code += c
            at += 1
        here = re.search(r"<<-?\s*['\"]?([A-Za-z_]+)", code) if not inside else None
        end = here[1] if here and "<<<" not in code else ""
        lines.append((code, bare))
    return lines


def offences(text):
    """(line number, what) of each."""
    found = []
    for number, (line, (code, bare)) in enumerate(zip(text.splitlines(), code_of(text)), 1):
        if MARK.search(line):
            continue
        if ELAPSED.search(code) or BOUND.search(bare):
            found.append((number, "measures time that passed"))
        if SLEEP.search(bare):
            found.append((number, "a sleep that stands for an event"))
    return found


def self_test():
    bad = ["sleep 1", "  true; sleep 0.3 && return", "while kill -0 $x; do sleep 0.05; done", "kill $x & sleep 1", "sleep 1 && return", "rig_node 2 sleep 5",
           "start=$SECONDS", "took=$(($(date +%s%N) - began))", "  within 7.5", "end; within 30", "sleep 9 # time is what is tested:",
           "cat <<X\nsleep 1\nX\nsleep 2", "echo 'it''s' \"a # b\"; sleep 1", "x=1 # it's\nsleep 3",
           'a "$(grep -o \'"b\' c)"\nsleep 1']
    good = ["run run -- sleep 777", "begin -- sh -c 'setsid sleep 777 & sleep 777'", "# sleep 1", "is_bare 'a\nsleep 4\n'",
            "sleep 9 # time is what is tested: longer than the heartbeat", "cat <<'X'\nit's; sleep 1\nX", "sleep infinity &", "sleep 1000 <fifo & reader=$!",
            "await proc 1 ' . sleep sleep 777$'", "run --seconds 5", "has 'within 2 s'"]
    for text in bad:
        assert offences(text), f"not refused: {text}"
    for text in good:
        assert not offences(text), f"refused: {text}"


def main():
    self_test()
    root = pathlib.Path(sys.argv[1])
    scripts = sorted((root / "tests/e2e").glob("*.sh"))
    bad = 0
    for script in scripts:
        text = script.read_text()
        found = offences(text)
        if not found:
            continue
        for number, what in found:
            print(f"{script.relative_to(root)}:{number}: {what}\n    {text.splitlines()[number - 1].strip()}")
        bad += len(found)
    print(f"pace: {len(scripts)} scripts, {bad} offences")
    sys.exit(1 if bad or len(scripts) < 20 else 0)


if __name__ == "__main__":
    main()

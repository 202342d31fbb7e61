#!/usr/bin/env python3
"""pace.py SOURCES: no end-to-end script and no unit test depends on how fast the machine is.

Refuses in tests/e2e/*.sh what measures time that passed, and each bare sleep: a script waits for a cue (tests/e2e/await.cc) and
looks at causes and codes. In tests/unit a sleep is refused that is not the pause of a loop that looks (`while`), also one of a
shell's script: a test waits for a latch, a bell, a state (tests/asleep.h). A line where time itself is the matter says why:
`sleep 9 # time is what is tested: REASON`, in C++ behind it or above: `// time is what is tested: REASON`.
Prints each offence and ends with 1; a self-test first shows that it can.
"""
import pathlib
import re
import sys

MARK = re.compile(r"(#|//) time is what is tested: .{10}")
ELAPSED = re.compile(r"\bSECONDS\b|\bEPOCH(SECONDS|REALTIME)\b|\bdate\b[^|;)]*\+%s")
COMMAND = r"(^|[;&|({!]|\b(do|then|else|if|while|until)\b)\s*(rig_head|rig_node \S+|command)?\s*"
BOUND = re.compile(COMMAND + r"within ")
SLEEP = re.compile(COMMAND + r"sleep (?!infinity)(?![^;&|]*&(?!&))")  # one in the background holds nothing up

PAUSE = re.compile(r"\b(sleep_until|sleep_for|usleep|nanosleep|sleep)\((?!Deadline::after_seconds\(([6-9]\d|\d{3,})\)\))")
LOOKS = re.compile(r"\bwhile \(|\bdo\b|\bfor \((?![^;()]*: |[^;]*;[^;&|]*;[^;]*\+\+)")  # not so many times, nor for each
OF_SHELL = re.compile(r"\bsleep (\d|0?\.\d+)(?![\d.])(?!; done)")


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


def unit_offences(text):
    """The same of a file of tests/unit. A process that sleeps for a minute and more is one that stays until it is killed."""
    found, lines = [], text.splitlines()
    around = []  # lines that hold this one: of each indentation the last, comments left out
    marked = False
    for number, line in enumerate(lines, 1):
        if not line.strip() or re.match(r"\s*//", line):
            marked = marked or bool(MARK.search(line))
            continue
        code, depth = re.sub(r"//.*", "", line), len(line) - len(line.lstrip())
        around = [(d, held) for d, held in around if d < depth]
        at = PAUSE.search(re.sub(r'"(\\.|[^"\\])*"', '""', code))
        looks = at and (LOOKS.search(code[:at.start()]) or around and LOOKS.search(around[-1][1]))
        shells = any(OF_SHELL.search(text) for text in re.findall(r'"(?:\\.|[^"\\])*"', code))
        if (at and not looks or shells) and not marked and not MARK.search(line):
            found.append((number, "a sleep that stands for an event"))
        around.append((depth, code))
        marked = False
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
    bad = ["  base::sleep_until(Deadline::after_ms(100));", "  if (r == 2) base::sleep_until(soon());", "while (x) run();\nsleep_until(soon());",
           "  std::this_thread::sleep_for(milliseconds(20));", "for (int i = 0; i < 18; ++i) {\n  sleep_until(soon());", "::usleep(5);",
           "for (auto& each : all) base::sleep_until(soon());", "  // by then it waits\n  sleep_until(soon());", 'shell("sleep 0.2; kill $$")',
           'shell("sleep 1")', "sleep_until(soon());  // time is what is tested:", "while (x) {\n  look();\n}\n  ::sleep(3);"]
    good = ["while (!open && !deadline.passed()) base::sleep_until(soon());", "// sleep_until(x)",
            "  while (done < n) {\n    base::sleep_until(soon());", "do sleep_until(soon());\nwhile (!x);", "patience.sleeps();",
            "sleep_until(soon());  // time is what is tested: longer than the patience", "sleep_until(Deadline::after_seconds(1000));", 'shell("while :; do sleep 0.02; done")',
            "// time is what is tested: a slow reader\nbase::sleep_until(soon());", 'shell("exec sleep 300")', "for (; !over_; sleep_until(soon()))",
            "// time is what is tested: a slow reader,\n// as slow as that\nbase::sleep_until(soon());"]
    for text in bad:
        assert unit_offences(text), f"not refused: {text}"
    for text in good:
        assert not unit_offences(text), f"refused: {text}"


def main():
    self_test()
    root = pathlib.Path(sys.argv[1])
    scripts = sorted((root / "tests/e2e").glob("*.sh"))
    units = sorted(f for f in (root / "tests/unit").rglob("*") if f.suffix in (".cc", ".h"))
    bad = 0
    for file in scripts + units:
        text = file.read_text()
        found = (offences if file.suffix == ".sh" else unit_offences)(text)
        for number, what in found:
            print(f"{file.relative_to(root)}:{number}: {what}\n    {text.splitlines()[number - 1].strip()}")
        bad += len(found)
    print(f"pace: {len(scripts)} scripts, {len(units)} files of unit tests, {bad} offences")
    sys.exit(1 if bad or len(scripts) < 20 or len(units) < 100 else 0)


if __name__ == "__main__":
    main()

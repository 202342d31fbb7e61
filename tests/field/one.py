#!/usr/bin/env python3
"""One field, on hosts that hosts.sh made: one.py TOKEN,TOKEN... (field.py says what a token is). Prints what does not hold;
exit 1 then, 3 when the field could not be made."""
import json
import signal
import sys

import commands
import registry
import table
import world


def stop(number, _):
    sys.exit(128 + number)


def main():
    signal.signal(signal.SIGTERM, stop)
    field = world.Field(world.HOSTS)
    rows, wanted = [], []
    for token in sys.argv[1].split(","):
        name, _, node = token.partition("@")
        if name in commands.COMMANDS:
            wanted.append(name)
        elif not name.startswith("hosts="):
            rows.append((registry.CONDITIONS[name], int(node) if node else 0))
    rows.sort(key=lambda row: (registry.KINDS.index(row[0].kind), table.place(row[0].name)))
    wrong = 0
    try:
        field.fault, field.victim = next(((row.name, node) for row, node in rows if row.kind == "fault"), ("none", 0))
        field.other = field.victim % field.count + 1 if field.fault == "blackhole" else 0
        for row, node in rows:
            row.apply(field, [node] if node else field.nodes)
        for name in sorted(wanted, key=list(commands.COMMANDS).index):
            field.done = []
            try:
                commands.COMMANDS[name](field)
            except commands.Wrong as e:
                wrong += 1
                print(f"  DOES NOT HOLD: {name}: {e}")
                for done in field.done:
                    tell(done)
    except (RuntimeError, OSError) as e:
        print(f"  could not be made: {e}")
        return 3
    finally:
        field.heal()
    return 1 if wrong else 0


def tell(done):
    print(f"  | $ {done.line}\n  | code {done.code}")
    try:
        out = "\n".join(f"{c['kind']} {c['name']}: {c['evidence']}" for c in json.loads(done.out)["culprits"])
    except (ValueError, KeyError):
        out = "" if done.out.startswith("{") else done.out
    for text in (done.err, out):
        for line in text.strip().splitlines()[-12:]:
            print(f"  |   {line[:500]}")


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""One field, on hosts that hosts.sh made: one.py TOKEN,TOKEN... (field.py says what a token is). Prints what does not hold;
exit 1 then, 3 when the field could not be made."""
import sys

import commands
import conditions
import world


def main():
    field = world.Field(world.HOSTS)
    rows, wanted = [], []
    for token in sys.argv[1].split(","):
        name, _, node = token.partition("@")
        if name in commands.COMMANDS:
            wanted.append(name)
        elif not name.startswith("hosts="):
            rows.append((conditions.CONDITIONS[name], int(node) if node else 0))
    # In the order of the table: names before what changes how they resolve, faults last.
    rows.sort(key=lambda row: list(conditions.CONDITIONS).index(row[0].name))
    wrong = 0
    try:
        for row, node in rows:
            if row.kind == "fault":
                field.fault = row.name
                field.victim, field.other = node, node % field.count + 1
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
    for text in (done.err, "" if done.out.startswith("{") else done.out):
        for line in text.strip().splitlines()[-12:]:
            print(f"  |   {line[:500]}")


if __name__ == "__main__":
    sys.exit(main())

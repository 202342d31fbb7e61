"""What a field may be made of: draws from the tables of conditions and commands, and what stands beside what."""
import sys

from commands import COMMANDS
from conditions import CONDITIONS

# How many of each kind a draw has: each number is as likely as it is frequent here.
HOW_MANY = {"naming": (1,), "fault": (1,)}
HEALTHY = 0.5   # of all draws
# What says nothing about speeds has no end that is worth its time beside ways that are slow.
QUICK_ONLY = {"window"}
JUDGES = ["check", "rails"]

FIXED = [
    "hosts=3,short,none,run,check,rails",
    "hosts=3,ipv4,slow-out@2,check",
    "hosts=3,alike,slow-in@3,rails",
]


def is_command(token):
    return token in COMMANDS


def row_of(token):
    return CONDITIONS[token.partition("@")[0]]


def of_kind(kind):
    return [row.name for row in CONDITIONS.values() if row.kind == kind]


def place(name):
    return list(CONDITIONS).index(name) if name in CONDITIONS else len(CONDITIONS)


def refuse_unknown(tokens):
    for token in tokens:
        if not token.startswith("hosts=") and not is_command(token) and token.partition("@")[0] not in CONDITIONS:
            sys.exit(f"'{token}' is no condition and no command; ./dev field --list has them")


def commands_for(fault, wanted):
    """Of those wanted, what is worth its time beside the fault."""
    return [c for c in wanted if fault == "none" or c not in QUICK_ONLY]


def least_hosts(tokens):
    """Of two hosts nobody can say whose fault a slow way is."""
    return 2 if "none" in tokens or not any(t.partition("@")[0] in of_kind("fault") for t in tokens) else 3


def clamped(token, count):
    name, at, node = token.partition("@")
    return f"{name}@{min(int(node), count)}" if at else token


def fits(row, chosen):
    return all(row.name not in other.unlike and other.name not in row.unlike for other in chosen)


def draw(rng):
    healthy = rng.random() < HEALTHY
    count = rng.choice((2, 3, 3, 4) if healthy else (3, 3, 4, 5))
    chosen = []
    for kind, many in HOW_MANY.items():
        for _ in range(rng.choice(many)):
            rows = [row for row in CONDITIONS.values() if row.kind == kind and row not in chosen and fits(row, chosen)]
            if kind == "fault":
                rows = [row for row in rows if (row.name == "none") == healthy]
            if rows:
                chosen.append(rng.choice(rows))
    fault = chosen[-1].name
    tokens = [f"hosts={count}"]
    for row in chosen:
        one = row.one or (row.kind not in ("naming", "fault") and rng.random() < 0.3)
        tokens.append(f"{row.name}@{rng.randint(1, count)}" if one else row.name)
    about = set.intersection(*(set(row.commands or COMMANDS) for row in chosen))
    able = commands_for(fault, [c for c in COMMANDS if c in about])
    commands = rng.sample(able, min(len(able), 2))
    if not healthy and not set(commands) & set(JUDGES):
        commands[0] = rng.choice(JUDGES)
    return tokens + commands


def print_all():
    for row in CONDITIONS.values():
        print(f"{row.kind:11} {row.name:18} {(row.apply.__doc__ or '').strip()}")

"""What a field may be made of: draws from the tables of conditions and commands, and what stands beside what."""
import subprocess
import sys

import faults
import groups
import interfaces
import logins
import names
import variables
from commands import COMMANDS
from registry import CONDITIONS, KINDS

# The modules that have the rows.
ROWS = (names, logins, interfaces, variables, faults)
# How many of each kind a draw has: each of these is as likely as the others.
HOW_MANY = {"naming": (1,), "resolution": (0, 0, 1), "limits": (0, 0, 1), "ssh": (0, 0, 1), "interfaces": (0, 1, 1, 2, 3),
            "variables": (0, 0, 1)}
HEALTHY = 0.5   # of all draws
# What says nothing about speeds has no end that is worth its time beside ways that are slow.
QUICK_ONLY = {"window"}
# What needs a job that works, and faults beside which none does.
WORKING, BREAKING = {"status", "shrink"}, {"blackhole", "mtu"}
JUDGES = ["check", "rails"]
# Of --table.
NAMINGS = ("short", "fqdn", "ipv4", "ipv6", "alias", "user", "alike", "upper", "capital", "mixed")

OF_TABLE = ("run", "check", "rails", "doctor", "status", "shrink")

# The draws of CI: what is cheap, and each kind of condition.
FIXED = [
    "hosts=3,alias,port,wrapped-shell,hashed-known-hosts,cni0,docker0,flannel,bmc,none,run,rails",
    "hosts=3,ipv4,podman0,calico,slow-out@2,check",
    "hosts=3,alike,virbr0,tailscale,slow-in@3,check",
    "hosts=3,mixed,noise,jump,down,no-cable,not-lo-docker,none,run,topo",
    "hosts=2,upper,dead-address-first,second-net,not-nvls,none,rails,join",
    "hosts=2,ipv6,control-master,shm-64m,address-on-lo,none,doctor,window,torchrun",
    "hosts=2,user,unknown-keys,none,check",
    "hosts=3,fqdn,own-name-unknown,cores@2,doctor",
    "hosts=3,own-127,no-ptrace@2,tree,none,status,shrink",
]


def is_command(token):
    return token in COMMANDS


def row_of(token):
    return CONDITIONS[token.partition("@")[0]]


def of_kind(kind):
    return [row.name for row in CONDITIONS.values() if row.kind == kind]


def cells():
    """(naming, how hosts are reached, fault) of --table."""
    for naming in NAMINGS:
        for way in ("", "tree"):
            for fault in of_kind("fault"):
                if not way or not any(unlike(CONDITIONS[way], CONDITIONS[other]) for other in (naming, fault)):
                    yield naming, way, fault


def place(name):
    return list(CONDITIONS).index(name) if name in CONDITIONS else len(CONDITIONS)


def refuse_unknown(tokens):
    for token in tokens:
        if not token.startswith("hosts=") and not is_command(token) and token.partition("@")[0] not in CONDITIONS:
            sys.exit(f"'{token}' is no condition and no command; ./dev field --list has them")


def commands_for(fault, wanted):
    """Of those wanted, what is worth its time beside the fault."""
    unable = QUICK_ONLY if fault != "none" else set()
    return [c for c in wanted if c not in unable and (c not in WORKING or fault not in BREAKING)]


def least_hosts(tokens):
    """Of two hosts nobody can say whose fault a slow way is."""
    return 2 if "none" in tokens or not any(t.partition("@")[0] in of_kind("fault") for t in tokens) else 3


def clamped(token, count):
    name, at, node = token.partition("@")
    return f"{name}@{min(int(node), count)}" if at else token


def unlike(row, other):
    return bool({other.name, other.kind} & set(row.unlike)) or row.healthy and other.healthy


def commands_of(rows):
    """Those that all rows are about."""
    return [c for c in COMMANDS if all(not row.commands or c in row.commands for row in rows)]


def draw(rng, whole=False):
    """A field with two commands; `whole`: with all that are about it."""
    healthy = rng.random() < HEALTHY
    fault = CONDITIONS["none" if healthy else rng.choice([name for name in of_kind("fault") if name != "none"])]
    count = rng.choice((2, 3, 3, 4) if healthy else (3, 3, 4, 5))
    chosen = [fault]
    for kind, many in HOW_MANY.items():
        for _ in range(rng.choice(many)):
            row = CONDITIONS[rng.choice(of_kind(kind))]
            able = commands_for(fault.name, commands_of([*chosen, row]))
            if row not in chosen and not any(unlike(row, other) or unlike(other, row) for other in chosen) and \
               (healthy or not row.healthy) and (healthy and able or set(able) & set(JUDGES)):
                chosen.append(row)
    tokens = [f"hosts={count}"]
    for row in sorted(chosen, key=lambda row: KINDS.index(row.kind)):
        on_one = row.one or not row.all and row.kind != "fault" and rng.random() < 0.3
        tokens.append(f"{row.name}@{rng.randint(1, count)}" if on_one else row.name)
    able = commands_for(fault.name, commands_of(chosen))
    commands = able if whole else rng.sample(able, min(len(able), 2))
    if not healthy and not set(commands) & set(JUDGES):
        commands[0] = rng.choice([c for c in JUDGES if c in able])
    return tokens + commands


def alone(row):
    """The field that has only this condition."""
    fault = row.name if row.kind == "fault" else "none"
    return ["hosts=3", f"{row.name}@2" if row.one else row.name, *commands_for(fault, commands_of([row]))]


def missing(row):
    """What this machine lacks for it; empty: nothing."""
    if row.cgroup and not groups.parent(row.cgroup):
        return f"no cgroup with {row.cgroup} can be made"
    if not row.link:
        return ""
    words = ["ip", "tuntap", "add", "x0", "mode", "tun"] if row.link == "tun" else ["ip", "link", "add", "x0", "type", row.link]
    done = subprocess.run(["unshare", "--net", *words], capture_output=True, text=True, check=False)
    return f"this kernel has no links of type {row.link}" if "Unknown device type" in done.stderr or row.link == "tun" and done.returncode else ""


def print_all():
    for row in CONDITIONS.values():
        print(f"{row.kind:11} {row.name:18} {(row.apply.__doc__ or '').strip()}")

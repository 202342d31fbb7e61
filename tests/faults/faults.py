#!/usr/bin/env python3
"""Random faults against jobs on hosts: faults x commands x moments x clients, each run drawn from SEED + its number, so
that `./dev faults 1 SEED` repeats one. What must hold: the job ends, by what this fault may be told by alone: deadlines that
it is not about are so long that a job that waits for them has hung; the exit code is one that the contract gives for this
fault; who is at fault is named and nobody else; no process, file or socket stays; nothing says "passed" that did not; never
code 70.
Usage: faults.py RUNS SEED, from on_hosts.sh, which makes the hosts.
"""
import collections
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import time

import rig

HOSTS = 4
# Long enough for hosts that nothing befell, on a machine that is very busy.
HEARTBEAT, OP_TIMEOUT, START_TIMEOUT, CONNECT_TIMEOUT, GRACE = 10, 10, 60, 30, 2
LONG_ONES = 600  # the deadlines that a fault is not about
LIMIT = 240      # then it has hung
SLOW = 100       # then it is asked whether it moves, where packets are lost
# Which deadlines may end a job; see Fault.by.
AT_ONCE = set()                         # none: it is told by what broke
MISSED = {"heartbeat", "start"}         # of heartbeats, or of a start that cannot come to its end
HANG = {"op", "start"}                  # of an operation that does not move
ANY = {"heartbeat", "op", "start"}

LONG = ["allreduce", "-b", "64K", "-e", "64K", "--iters", "1000000", "--check", "0", "--sync", "each"]
COMMANDS = {
    "allreduce": (LONG, True),
    "zero rows": (["allreduce", "-b", "0", "-e", "0", "--iters", "1000000", "--check", "0", "--sync", "each"], True),
    "alltoall": (["alltoall", "-b", "8", "-e", "64K", "--iters", "60"], False),
    "rows": (["allreduce", "-b", "8", "-e", "1M", "--iters", "40"], False),
    "json": (["broadcast", "-b", "8", "-e", "64K", "--iters", "60", "--json"], False),
    "program": (["--", "sh", "-c", "echo up; sleep 777"], True),
    "rails": (["rails", "--net", "socket", "--seconds", "0.5", "--below", "0"], False),
    "window-test": (["window-test", "--iters", "2"], False),
}
# How a command ends that nothing befell, where that is not 0: hosts without RDMA do not prove all windows.
UNDISTURBED = {"window-test": 8}
# What it says of ways that it found broken is its finding and no end of the job. (How fast they are on a busy machine means
# nothing.)
FINDINGS = {"rails": {1}, "window-test": {1, 8}}
# Their reports come at the end.
SILENT_UNTIL_THE_END = {"json", "rails", "window-test"}


class Run:
    """One job and what is done to it."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.seed = seed
        self.struck = False
        self.healing = []
        self.culprits = set()
        self.notes = []

    def heal(self, *action):
        self.healing.append(action)

    def node(self):
        return self.rng.randrange(1, HOSTS + 1)

    def blame(self, *nodes):
        self.culprits |= {rig.name(n) for n in nodes}


# A fault strikes a run (True: it found what it is about), and says what may follow: exit codes, and the deadlines that may
# bring them about.
class Fault:
    def __init__(self, strike, codes, by, silent=()):
        self.strike, self.codes, self.by = strike, set(codes), by
        self.silent = set(silent)  # codes with which nobody need be named


def signal_one(run, find, number, first=1):
    node = run.rng.randrange(first, HOSTS + 1)
    pids = find(node)
    if not pids:
        return False
    pid = run.rng.choice(pids)
    if not rig.send(node, number, [pid]):
        return False  # it has just ended
    if number == signal.SIGSTOP:
        run.heal(rig.send, node, signal.SIGCONT, [pid])
    run.blame(node)
    return True


def ranks(node):
    return rig.like(node, "__rank") or rig.like(node, "sleep 777")


def agents(node):
    return rig.named(node, "collctl-agent")


def one(find, number, first=1):
    return lambda run: signal_one(run, find, number, first)


def kill_launcher(run):
    run.job.send_signal(signal.SIGKILL)
    return True


def stop_launcher(run):
    away = run.rng.uniform(1, HEARTBEAT + 4)
    run.job.send_signal(signal.SIGSTOP)
    time.sleep(away)
    run.job.send_signal(signal.SIGCONT)
    run.notes.append(f"for {away:.1f} s")
    if away > HEARTBEAT - 1:
        run.codes = run.codes | {4, 5}
        run.culprits.add("collctl itself did not run")
    return True


def signal_launcher(run):
    number = run.rng.choice([signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    run.job.send_signal(number)
    run.codes = (run.codes & {-9, 137}) | {128 + number}  # killed as well, it may not come to that
    return True


def kill_client(run):
    clients = []
    for pid, args in rig.processes(0):
        words = args.split()
        where = [n for n in range(1, HOSTS + 1) if rig.name(n) in words]
        if words[0] == "ssh" and where and "-G" not in words:
            clients.append((pid, where[0]))
    if not clients:
        return False
    pid, node = run.rng.choice(sorted(clients))
    os.kill(pid, signal.SIGKILL)
    run.blame(node)
    return True


def kill_listener(run):
    node = run.node()
    rig.send(node, signal.SIGKILL, [rig.sshd_pid(node)])
    run.heal(rig.sshd_start, node)
    run.blame(node)
    return True


def kill_sessions(run):
    node = run.node()
    listener = rig.sshd_pid(node)
    sessions = [pid for pid, args in rig.processes(node) if args.startswith("sshd") and pid != listener]
    # Before there is an agent a session may be one that has done its part.
    if not agents(node) or not rig.send(node, signal.SIGKILL, sessions):
        return False  # some have just ended
    run.blame(node)
    return True


def cut(run):
    node = run.node()
    rig.link(node, "down")
    run.heal(rig.link, node, "up")
    run.blame(node)
    return True


def flap(run):
    node = run.node()
    rig.link(node, "down")
    time.sleep(run.rng.uniform(0.2, 2))
    rig.link(node, "up")
    run.blame(node)
    return True


def one_way(run):
    node, to_head = run.node(), run.rng.random() < 0.5
    ends = (node, 0) if to_head else (0, node)
    rig.drop(*ends)
    run.heal(rig.drop, *ends, "del")
    run.blame(node)
    return True


def partition(run):
    a, b = run.rng.sample(range(1, HOSTS + 1), 2)
    rig.drop(a, b)
    run.heal(rig.drop, a, b, "del")
    if run.rng.random() < 0.5:
        rig.drop(b, a)
        run.heal(rig.drop, b, a, "del")
    run.blame(a, b)
    return True


def slow(run):
    node = run.node()
    rig.slow(node, run.rng.choice(["100mbit", "400mbit"]))
    run.heal(rig.fast, node)
    run.blame(node)
    return True


def loss(run):
    node = run.node()
    rig.lossy(node, run.rng.choice([0.01, 0.03, 0.1]))
    run.heal(rig.whole, node)
    run.blame(node)
    return True


def nothing(run):
    return True


def small_mount(run, where, options):
    node = run.node()
    rig.on(node, "mkdir", "-p", where)  # nothing may have been staged there yet
    rig.on(node, "mount", "-t", "tmpfs", "-o", options, "full", where)
    run.heal(rig.on, node, "umount", "-l", where)
    run.blame(node)
    return True


def full_shm(run):
    node = run.node()
    rig.on(node, "mount", "-o", f"remount,size={run.rng.choice(['4k', '64k', '1m'])}", "/dev/shm")
    run.heal(rig.on, node, "mount", "-o", "remount,size=1g", "/dev/shm")
    run.blame(node)
    return True


def little_memory(run):
    node = run.node()
    rig.on(node, "prlimit", "--pid", str(rig.sshd_pid(node)), f"--as={run.rng.choice([60, 120, 400]) << 20}:")
    run.heal(rig.on, node, "prlimit", "--pid", str(rig.sshd_pid(node)), "--as=unlimited:")
    run.blame(node)
    return True


STRANGER = r"""
import os, random, re, socket, sys
ports = set()
for table in "/proc/net/tcp", "/proc/net/tcp6":
    for line in open(table).readlines()[1:]:
        words = line.split()
        if words[3] == "0A": ports.add(int(words[1].split(":")[1], 16))
kept = []
for port in ports - {22}:
    for _ in range(20):
        try:
            s = socket.create_connection((sys.argv[1], port), 1)
            s.send(os.urandom(random.randrange(1, 300)))
            kept.append(s)
        except OSError: pass
import time; time.sleep(1)
"""


def strangers(run):
    node = run.node()
    subprocess.Popen(rig.enter(node, ["python3", "-c", STRANGER, rig.address(node)]), stdout=subprocess.DEVNULL,
                     stderr=subprocess.DEVNULL)
    time.sleep(1.2)
    return True


def close_output(run):
    if run.reader is None:
        return False
    run.reader.close()
    run.reader = None
    return True


FAULTS = {
    "kill a rank": Fault(one(ranks, signal.SIGKILL), [4, 5, 137], AT_ONCE),
    "stop a rank": Fault(one(ranks, signal.SIGSTOP), [6], HANG),
    "kill an agent": Fault(one(agents, signal.SIGKILL), [4, 5], AT_ONCE),
    "stop an agent": Fault(one(agents, signal.SIGSTOP), [4, 5, 6], ANY),
    "kill a guard": Fault(one(rig.guards, signal.SIGKILL, first=0), [0, 5], AT_ONCE),
    "stop a guard": Fault(one(rig.guards, signal.SIGSTOP, first=0), [0], AT_ONCE),
    "kill the launcher": Fault(kill_launcher, [-9, 137], AT_ONCE),
    "stop the launcher": Fault(stop_launcher, [0], {"heartbeat"}),
    "signal the launcher": Fault(signal_launcher, [], AT_ONCE),
    "kill an ssh client": Fault(kill_client, [4, 5], AT_ONCE),
    "kill an sshd": Fault(kill_listener, [0, 4], AT_ONCE),
    "kill ssh sessions": Fault(kill_sessions, [4, 5], AT_ONCE),
    "cut a host": Fault(cut, [4, 5, 6], ANY),
    "flap": Fault(flap, [0, 4, 5, 6], ANY),  # TCP tries again at twice the time, and an operation's may be over by then
    "one way to a host": Fault(one_way, [4, 5, 6], ANY),
    "partition": Fault(partition, [5, 6], HANG),
    "slow": Fault(slow, [0, 6], HANG, silent=[6]),
    "loss": Fault(loss, [0, 6], HANG, silent=[6]),
    "nothing": Fault(nothing, [0], AT_ONCE),
    "full /dev/shm": Fault(full_shm, [0, 3, 5], AT_ONCE),
    "full home": Fault(lambda run: small_mount(run, rig.HOME + "/.cache", "size=64k"), [0, 4], AT_ONCE),
    "home read only": Fault(lambda run: small_mount(run, rig.HOME + "/.cache", "ro"), [0, 4], AT_ONCE),
    "full /tmp": Fault(lambda run: small_mount(run, "/var/tmp", "size=4k"), [0], AT_ONCE),
    "little memory": Fault(little_memory, [0, 3, 4, 5, 6], ANY),
    "strangers": Fault(strangers, [0], AT_ONCE),
    "closed output": Fault(close_output, [1, 3, 141], AT_ONCE, silent=[1, 3, 141]),
}
# Before the job is begun; all others strike at a moment of it.
BEFORE = {"full home", "home read only", "little memory", "full /dev/shm", "full /tmp", "slow"}
# These end a job in order: with one that runs until it is ended.
NEEDS_END = {"nothing", "loss", "stop the launcher", "kill a guard", "stop a guard", "flap", "slow", "strangers", "full /dev/shm", "full home",
             "home read only", "full /tmp", "little memory", "kill an sshd", "closed output"}


def running(run):
    """The ranks work: the table has its titles, or the program has spoken."""
    text = run.output()
    return "(us)" in text or "up\n" in text


def reached(run, moment):
    until = time.monotonic() + 120
    while time.monotonic() < until and run.job.poll() is None:
        if moment == "running" and running(run):
            return True
        if moment == "agents" and any(rig.like(n, "__agent") for n in range(1, HOSTS + 1)):
            return True
        if moment == "ranks" and any(ranks(n) for n in range(1, HOSTS + 1)):
            return True
        time.sleep(0.05)
    return False


def left_on(node):
    found = [f"process {pid}: {args}" for pid, args in rig.ours(node)]
    found += [f"file /dev/shm/{f}" for f in os.listdir(rig.root(node) + "/dev/shm")]
    for folder in "/tmp", "/var/tmp":
        found += [f"file {folder}/{f}" for f in os.listdir(rig.root(node) + folder)
                  if "collctl" in f and not f.startswith("collctl-rig.")]
    for folder, _, files in os.walk(f"{rig.RIG}/{rig.name(node)}/home/.cache"):
        found += [f"file {folder}/{f}" for f in files if f.startswith(".collctl")]
    sockets = rig.read(f"{os.path.dirname(rig.root(node))}/net/unix")
    found += [f"socket {line.split()[-1]}" for line in sockets.splitlines() if "@collctl" in line]
    return found


# Who waits is no culprit, and may be named as such.
WAITS = re.compile(r"(; |error: )ranks? [^;]* waits? for [^;]*|; rank \d+ says: .*")


def judge(run, codes, silent, code, out, err):
    """What does not hold."""
    wrong = []
    if code == 70 or "70" == str(code):
        wrong.append("exit code 70")
    if code not in codes:
        wrong.append(f"exit code {code}, expected one of {sorted(codes)}")
    if code != 0 and (re.search(r"Verdict *: passed", out) or '"ok": true' in out):
        wrong.append("a verdict that says passed")
    if code in (3, 4, 5, 6) and code not in silent:
        said = "\n".join(line for line in err.splitlines() if "collctl: error" in line or line.startswith("  node"))
        if not any(name in said for name in run.culprits):
            wrong.append(f"nobody of {sorted(run.culprits)} is named")
        blamed = WAITS.sub("", said)
        innocent = {rig.name(n) for n in range(1, HOSTS + 1)} - run.culprits
        named = {name for name in innocent if name in blamed}
        if named and "collctl itself" not in said:
            wrong.append(f"{sorted(named)} named, who did nothing")
    return wrong


def draw(run, only):
    rng = run.rng
    names = [only] if only else [rng.choice(sorted(FAULTS))]
    if not only and rng.random() < 0.15:
        names.append(rng.choice(sorted(FAULTS)))
    ends = any(n in NEEDS_END for n in names)
    commands = [c for c, (_, endless) in COMMANDS.items() if not (ends and endless)]
    if {"stop a rank", "partition"} & set(names):  # whether a program moves only its user knows
        commands = [c for c in commands if c != "program"]
    command = rng.choice(commands)
    client = "openssh" if "kill an ssh client" in names else rng.choice(["libssh2", "openssh"])
    moments = ["start", "agents", "ranks"] + ["running"] * (0 if command in SILENT_UNTIL_THE_END else 2)
    moment = "before" if all(n in BEFORE for n in names) else rng.choice(moments)
    return names, command, client, moment


def strike(run, name):
    """As soon as there is what the fault is about."""
    until = time.monotonic() + 10
    while run.job.poll() is None and time.monotonic() < until:
        if FAULTS[name].strike(run):
            return True
        time.sleep(0.05)
    return False


def moves(run):
    """Every rank ends operations, however slowly many packets that are lost make them: more than a deadline's time tells."""
    def calls():
        text = rig.on(0, os.environ["COLLCTL_UNDER_TEST"], "status", str(run.job.pid), "--json", check=False)
        try:
            return [rank["doing"]["calls"] for rank in json.loads(text)["jobs"][0]["ranks"]]
        except (ValueError, LookupError, TypeError):
            return []
    before = calls()
    time.sleep(OP_TIMEOUT + 3)
    if run.job.poll() is not None:
        return True  # it has come to its end
    after = calls()
    return len(before) == len(after) > 0 and all(a > b for a, b in zip(after, before))


def ended_within(job, seconds):
    try:
        return job.wait(seconds)
    except subprocess.TimeoutExpired:
        job.kill()
        job.wait()
        return "none: it hung"


def one_run(seed, only):
    run = Run(seed)
    names, command, client, moment = draw(run, only)
    delay = run.rng.uniform(0, 1.5 if moment == "running" else 0.8)
    argv, endless = COMMANDS[command]
    program = command == "program"
    by = set().union(*(FAULTS[n].by for n in names))
    seconds = {which: short if which in by else LONG_ONES
               for which, short in (("heartbeat", HEARTBEAT), ("op", OP_TIMEOUT), ("start", START_TIMEOUT))}
    line = [os.environ["COLLCTL_UNDER_TEST"], "run", "-H", f"node[01-{HOSTS:02d}]:2", "--ssh-client", client,
            "--start-timeout", str(seconds["start"]), "--grace", str(GRACE),
            "--connect-timeout", str(CONNECT_TIMEOUT if "start" in by else LONG_ONES)]
    if run.rng.random() < 0.3:
        line += ["--stage", "always"]
    if not program:
        line += ["--op-timeout", str(seconds["op"])]
        if run.rng.random() < 0.3 and command != "rails":
            line += ["--transport", "net"]
    line += argv
    what = f"{' + '.join(names)}; {command}, {client}, {moment} + {delay:.2f} s"
    run.codes = set().union(*(FAULTS[n].codes for n in names))
    if {0, 141} & run.codes:  # a reader that goes away changes no other code
        run.codes.add(UNDISTURBED.get(command, 0))
    if {"loss", "flap", "partition", "one way to a host", "cut a host"} & set(names):
        run.codes |= FINDINGS.get(command, set())
    if len(names) > 1:
        run.codes |= {4, 5, 6}
    silent = set().union(*(FAULTS[n].silent for n in names))
    struck = [FAULTS[n].strike(run) for n in names if n in BEFORE]
    out_path, err_path = f"{rig.RIG}/out", f"{rig.RIG}/err"
    piped = "closed output" in names
    read_end, write_end = os.pipe() if piped else (None, None)
    run.reader = os.fdopen(read_end, "rb") if piped else None
    with open(out_path, "wb") as out, open(err_path, "wb") as err:
        run.job = rig.launcher(line, write_end if piped else out, err, {"COLLCTL_HEARTBEAT_TIMEOUT": str(seconds["heartbeat"])} |
                               ({"COLLCTL_PACE_US": "20000"} if endless else {}))
    if piped:
        os.close(write_end)
    run.output = lambda: open(out_path, errors="replace").read()
    began = time.monotonic()
    try:
        if moment != "before" and (moment == "start" or reached(run, moment)):
            time.sleep(delay)
            struck += [strike(run, n) for n in names if n not in BEFORE]
            began = time.monotonic()
        run.struck = any(struck)
        if len([s for s in struck if s]) < len(names):
            # What did not find its target does not end a job that goes on for ever.
            run.job.send_signal(signal.SIGINT)
            run.codes = (run.codes if run.struck else {1, 3, 4}) | {0, UNDISTURBED.get(command, 0), 130}
        try:
            code = run.job.wait(SLOW if "loss" in names else LIMIT)
        except subprocess.TimeoutExpired:
            if "loss" in names and moves(run):
                run.notes.append("slow, but moving")
                if run.job.poll() is None:
                    run.codes = {130}
                    run.job.send_signal(signal.SIGINT)
            code = ended_within(run.job, LIMIT)
        took = time.monotonic() - began
        # A job may come to its end before any heartbeat is missed.
        if {"cut a host", "one way to a host"} & set(names) and not endless:
            run.codes.add(UNDISTURBED.get(command, 0))
    finally:
        for action in reversed(run.healing):
            action[0](*action[1:])
        for node in range(1, HOSTS + 1):
            rig.sshd_start(node)
    out, err = run.output(), open(err_path, errors="replace").read()
    wrong = judge(run, run.codes, silent, code, out, err)
    until = time.monotonic() + 120
    for node in range(HOSTS + 1):
        left = left_on(node)
        while left and time.monotonic() < until:
            time.sleep(0.05)
            left = left_on(node)
        if left:
            wrong.append(f"on {rig.name(node)} there stays: {'; '.join(left)}")
            rig.send(node, signal.SIGKILL, [pid for pid, _ in rig.ours(node)])
            rig.on(node, "sh", "-c", "rm -rf /dev/shm/* /tmp/*collctl-[!r]* /var/tmp/*collctl* \"$HOME\"/.cache/collctl")
    mark = "" if run.struck else " (nothing to strike)"
    print(f"seed {seed}: {what}{mark}: code {code}, {took:.1f} s{', '.join(['', *run.notes])}", flush=True)
    if wrong:
        print("  DOES NOT HOLD: " + "\n  DOES NOT HOLD: ".join(wrong))
        print("  command: collctl " + " ".join(line[1:]))
        print("".join(f"  | {text}\n" for text in err.splitlines()[-12:]), flush=True)
    return names, run.struck, code, took, wrong


def main():
    runs, seed = int(sys.argv[1]), int(sys.argv[2])
    only = os.environ.get("FAULT")  # one row of the table, or each in turn, for who works on them
    rig.own_tmp()
    print(f"{runs} runs from seed {seed}; one of them again: ./dev faults 1 ITS_SEED", flush=True)
    table = collections.defaultdict(list)
    broken = []
    for i in range(runs):
        row = sorted(FAULTS)[i % len(FAULTS)] if only == "each" else only
        names, struck, code, took, wrong = one_run(seed + i, row)
        if struck:
            table[" + ".join(names) if len(names) == 1 else "two at once"].append((took, code))
        if wrong:
            broken.append(seed + i)
    print(f"\n{'fault':24} {'runs':>5} {'median':>7} {'max':>7}  exit codes")
    for fault, ends in sorted(table.items()):
        codes = ", ".join(f"{c}: {n}" for c, n in sorted(collections.Counter(str(c) for _, c in ends).items()))
        times = [took for took, _ in ends]
        print(f"{fault:24} {len(ends):5} {statistics.median(times):6.1f}s {max(times):6.1f}s  {codes}")
    print(f"\n{len(broken)} of {runs} runs do not hold" + (f": seeds {' '.join(map(str, broken))}" if broken else ""))
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""`collctl check` on hosts of which some have a fault, each run drawn from SEED + its number: every culprit must be named,
nobody else, with the exit code of the contract and in time.
Usage: blame.py RUNS SEED, from on_hosts.sh, which makes the hosts. FAULT=NAME: one row of the table, FAULT=each: each in turn.
"""
import collections
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time

import rig

HOSTS = len(rig.NODES)
# What each host is good for, so that no host's speed depends on how many share this machine's cores.
MBIT = 200 if HOSTS <= 5 else 40
BURST = "64k"
QUOTA = "/sys/fs/cgroup/cpu"


class Run:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.culprits = set()   # "kind name", as the report has them
        self.may = set()        # such as may be named beside them
        self.codes = set()
        self.healing = []
        self.environment = {}
        self.during = []        # what happens while it runs
        self.free = list(range(1, HOSTS + 1))
        self.options = []       # of the command

    def node(self):
        return self.free.pop(self.rng.randrange(len(self.free)))

    def heal(self, *action):
        self.healing.append(action)


def limit(node, mbit):
    for at, device in ((node, "eth0"), (0, f"v{node}")):
        rig.on(at, "tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate", f"{mbit}mbit", "burst", BURST, "latency", "200ms")


def slow(run):
    node = run.node()
    limit(node, MBIT / 10)
    run.heal(limit, node, MBIT)
    run.culprits.add(f"host {rig.name(node)}")
    run.codes.add(1)


def loss(run):
    node = run.node()
    rig.lossy(node, run.rng.choice([0.1, 0.2]))
    run.heal(rig.whole, node)
    run.culprits.add(f"host {rig.name(node)}")
    run.codes.add(1)


def blackhole(run):
    a, b = sorted((run.node(), run.node()))
    ends = run.rng.choice([(a, b), (b, a)])
    rig.drop(*ends)
    run.heal(rig.drop, *ends, "del")
    run.culprits.add(f"link {rig.name(a)} - {rig.name(b)}")
    run.codes.add(1)


def throttle(run):
    """A twentieth of a core for all that the host runs."""
    node = run.node()
    group = f"{QUOTA}/collctl-blame-{os.getpid()}-{node}"
    os.mkdir(group)
    for key, value in (("cpu.cfs_period_us", 20000), ("cpu.cfs_quota_us", 1000)):
        with open(f"{group}/{key}", "w") as f:
            f.write(str(value))
    with open(f"{group}/cgroup.procs", "w") as f:
        f.write(str(rig.outer_pid(node, rig.sshd_pid(node))))

    def back():
        for path, into in ((f"{group}/cgroup.procs", f"{QUOTA}/cgroup.procs"),):
            for _ in range(50):
                pids = open(path).read().split()
                for pid in pids:
                    try:
                        with open(into, "w") as f:
                            f.write(pid)
                    except OSError:
                        pass
                if not pids:
                    break
                time.sleep(0.1)
        os.rmdir(group)
    run.heal(back)
    run.culprits.add(f"host {rig.name(node)}")
    run.codes |= {1, 6}


def wrong_data(run):
    """What a rank receives is changed on its way: the link that it arrives on, or the host."""
    rank = run.node() - 1
    run.environment["COLLCTL_FAULT"] = f"corrupt:rank={rank}"
    run.options = ["--skip", "node"]  # there each host's job has a rank 0
    ends = sorted((rig.name(rank + 1), rig.name((rank - 1) % HOSTS + 1)))
    run.culprits.add(f"link {ends[0]} - {ends[1]}")
    run.codes.add(7)


def hang(run):
    """A rank of the cluster's job is stopped."""
    node = run.node()

    def stop():
        until = time.monotonic() + 60
        while time.monotonic() < until and run.job.poll() is None:
            pids = rig.like(node, "__rank")
            if pids:
                time.sleep(run.rng.uniform(0, 0.5))
                if rig.send(node, signal.SIGSTOP, pids[:1]):
                    return
            time.sleep(0.02)
    run.during.append(stop)
    run.options = ["--level", "standard", "--only", "cluster", "--op-timeout", "5", "--start-timeout", "15"]
    run.culprits.add(f"host {rig.name(node)}")
    run.codes.add(6)


def mtu(run):
    node = run.node()
    rig.on(node, "ip", "link", "set", "eth0", "mtu", "1400")
    run.heal(rig.on, node, "ip", "link", "set", "eth0", "mtu", "1500")
    run.culprits.add(f"nic {rig.name(node)} eth0")
    run.codes.add(1)


def down(run):
    node = run.node()
    rig.link(node, "down")
    run.heal(rig.link, node, "up")
    run.culprits.add(f"host {rig.name(node)}")
    run.codes.add(4)


def nothing(run):
    run.codes.add(0)


FAULTS = {"nothing": nothing, "slow": slow, "loss": loss, "blackhole": blackhole, "throttle": throttle, "wrong data": wrong_data,
          "hang": hang, "mtu": mtu, "down": down}
TWO = ["slow", "loss", "blackhole", "mtu", "down"]


def draw(run, only):
    if only and only != "two":
        return [only]
    if only == "two" or run.rng.random() < 0.2:
        return [run.rng.choice(TWO), run.rng.choice(TWO)]
    return [run.rng.choice(sorted(FAULTS))]


def one_run(seed, only):
    run = Run(seed)
    names = draw(run, only)
    for each in names:
        FAULTS[each](run)
    if len(run.codes) > 1 and 0 in run.codes:
        run.codes.discard(0)
    line = [os.environ["COLLCTL_UNDER_TEST"], "check", "-H", f"node[01-{HOSTS:02d}]:1", "--json", "--connect-timeout", "5"]
    line += run.options if "--level" in run.options else ["--level", "quick", *run.options]
    if os.path.exists(f"{rig.RIG}/out"):
        os.remove(f"{rig.RIG}/out")
    began = time.monotonic()
    try:
        with open(f"{rig.RIG}/out", "wb") as out, open(f"{rig.RIG}/err", "wb") as err:
            run.job = rig.launcher(line, out, err, run.environment)
        threads = [threading.Thread(target=each) for each in run.during]
        for thread in threads:
            thread.start()
        try:
            code = run.job.wait(300)
        except subprocess.TimeoutExpired:
            run.job.kill()
            code = "none: it hung"
        took = time.monotonic() - began
        for thread in threads:
            thread.join()
    finally:
        for action in reversed(run.healing):
            action[0](*action[1:])
    wrong = []
    try:
        with open(f"{rig.RIG}/out") as f:
            report = json.load(f)
        named = {f"{c['kind']} {c['name']}" for c in report["culprits"]}
        for each in run.culprits - named:
            wrong.append(f"not named: {each}")
        for each in named - run.culprits - run.may:
            wrong.append(f"named, and did nothing: {each}")
    except (ValueError, KeyError) as e:
        named, report = set(), {}
        wrong.append(f"no report: {e}")
    if code not in run.codes:
        wrong.append(f"exit code {code}, expected one of {sorted(run.codes)}")
    print(f"seed {seed}: {' + '.join(names)}: code {code}, {took:.1f} s: {'; '.join(sorted(named)) or 'nobody'}", flush=True)
    if wrong:
        print("  DOES NOT HOLD: " + "\n  DOES NOT HOLD: ".join(wrong))
        for check in report.get("checks", []):
            if check.get("status") in ("fail", "warn"):
                print(f"  | {check.get('status')} {check.get('message', check)}")
        for text in open(f"{rig.RIG}/err", errors="replace").read().splitlines()[-6:]:
            print(f"  | {text}")
    sys.stdout.flush()
    return names, took, len(run.culprits), len(named & run.culprits), len(named - run.culprits - run.may), wrong


def main():
    runs, seed = int(sys.argv[1]), int(sys.argv[2])
    only = os.environ.get("FAULT")
    for node in range(1, HOSTS + 1):
        limit(node, MBIT)
    rig.own_tmp()
    print(f"{runs} runs on {HOSTS} hosts from seed {seed}; one of them again: ./dev blame 1 ITS_SEED {HOSTS}", flush=True)
    rows = sorted(FAULTS) + ["two"]
    table, broken = collections.defaultdict(list), []
    for i in range(runs):
        names, took, wanted, right, false, wrong = one_run(seed + i, rows[i % len(rows)] if only == "each" else only)
        table[names[0] if len(names) == 1 else "two at once"].append((took, wanted, right, false))
        if wrong:
            broken.append(seed + i)
    print(f"\n{'fault':14} {'runs':>5} {'culprits':>9} {'named':>6} {'innocents':>10} {'median':>7} {'max':>7}")
    for fault, ends in sorted(table.items()):
        times = [e[0] for e in ends]
        print(f"{fault:14} {len(ends):5} {sum(e[1] for e in ends):9} {sum(e[2] for e in ends):6} {sum(e[3] for e in ends):10} "
              f"{statistics.median(times):6.1f}s {max(times):6.1f}s")
    print(f"\n{len(broken)} of {runs} runs do not hold" + (f": seeds {' '.join(map(str, broken))}" if broken else ""))
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()

"""Cgroups of version 1 or 2, whichever holds the controller."""
import os
import time

ROOT = "/sys/fs/cgroup"


def parent(controller):
    """The folder in which a group with that controller can be made; empty: nowhere here."""
    if os.path.isfile(f"{ROOT}/{controller}/cgroup.procs"):
        return f"{ROOT}/{controller}"
    try:
        with open(f"{ROOT}/cgroup.subtree_control") as f:
            return ROOT if controller in f.read().split() else ""
    except OSError:
        return ""


def make(name, controller, cores=0, size=0, pids=0, processors=""):
    above = parent(controller)
    group = f"{above}/{os.path.basename(os.environ['RIG'])}-{name}"  # alone in a folder that namespaces share
    os.mkdir(group)
    one = above != ROOT
    period = 20000
    values = {"cpu": [("cpu.cfs_period_us", period), ("cpu.cfs_quota_us", int(cores * period))] if one
              else [("cpu.max", f"{int(cores * period)} {period}")],
              "memory": [("memory.limit_in_bytes" if one else "memory.max", size)],
              "pids": [("pids.max", pids)],
              "cpuset": [("cpuset.cpus", processors), ("cpuset.mems", 0)]}[controller]
    for key, value in values:
        with open(f"{group}/{key}", "w") as f:
            f.write(str(value))
    return group


def enter(group, pid):
    with open(f"{group}/cgroup.procs", "w") as f:
        f.write(str(pid))


def end(group):
    """What is left in it goes to where it came from."""
    until = time.monotonic() + 10
    while True:
        for pid in open(f"{group}/cgroup.procs").read().split():
            try:
                enter(os.path.dirname(group), pid)
            except OSError:
                pass  # it has just ended
        try:
            return os.rmdir(group)
        except OSError:
            if time.monotonic() > until:
                raise

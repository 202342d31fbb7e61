#!/usr/bin/env python3
"""one.py LIMIT LOG COMMAND...: runs one entry, ends whatever it leaves behind, prints what it took as JSON.

Everything that the entry starts stays below this process, also what detaches itself: the kernel hands orphans to the nearest
"child subreaper" above them. So CPU times are whole, and nothing of an entry slows down the next. That takes no right and no
cgroup. After LIMIT seconds the entry gets SIGTERM (Catch2 then says which case runs), ten seconds later everything of it is
killed. SIGTERM to this process ends the entry at once.
"""
import ctypes
import json
import os
import pathlib
import resource
import select
import signal
import subprocess
import sys
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
LAST_WORDS = 10  # seconds between SIGTERM and SIGKILL
LEAVING = 3  # seconds in which what the entry left may end by itself


def process(pid):
    """(parent, state, command line) of a process, or None when it is gone."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text(errors="replace")
        line = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return None
    name, rest = stat[stat.index("(") + 1:].rsplit(") ", 1)
    state, parent = rest.split()[:2]
    return int(parent), state, line or name


def below(root):
    """{pid: (depth, state, command line)} of all that runs below the process, zombies left out."""
    table = {int(p): process(p) for p in os.listdir("/proc") if p.isdigit()}
    found, level, depth = {}, {root}, 0
    while level:
        depth += 1
        level = {pid for pid, p in table.items() if p and p[0] in level}
        found.update({pid: (depth, *table[pid][1:]) for pid in level if table[pid][1] not in "ZX"})
    return found


class Children:
    """All that is waited for; `code` is the entry's own, once it has ended."""

    def __init__(self):
        self.entry = self.code = None
        self.wake, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.stopped = False
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "stopped", True))
        signal.signal(signal.SIGINT, lambda *_: None)  # the runner's to answer; not ignored, as the entry would inherit that
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)

    def reap(self):
        """False when there are no children left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.entry:
                self.code = os.waitstatus_to_exitcode(status)

    def wait(self, done, seconds):
        """Until done() or the time is over. True: done."""
        until = time.monotonic() + seconds
        while True:
            some = self.reap()
            if done(some):
                return True
            left = until - time.monotonic()
            if left <= 0 or self.stopped:
                return False
            select.select([self.wake], [], [], left)
            try:
                os.read(self.wake, 4096)
            except BlockingIOError:
                pass

    def kill(self):
        """Orphans come up one level with each round. False: some could not be ended."""
        self.stopped = False
        until = time.monotonic() + 20
        while time.monotonic() < until:
            for pid in below(os.getpid()):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            if self.wait(lambda some: not some, 0.2):
                return True
        return False


def run(limit, log, command):
    libc = ctypes.CDLL(None, use_errno=True)
    for option, value in ((PR_SET_CHILD_SUBREAPER, 1), (PR_SET_PDEATHSIG, signal.SIGTERM)):
        if libc.prctl(option, value, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), f"prctl({option})")
    children = Children()
    began = time.monotonic()
    try:
        entry = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    except OSError as error:
        log.write(f"cannot be started: {error}\n".encode())
        return {"code": 127, "wall": 0, "user": 0, "system": 0, "left": [], "timed_out": False, "load": 0, "running": 0}
    children.entry = entry.pid
    ended = lambda some: children.code is not None
    in_time = children.wait(ended, limit)
    timed_out = not in_time and not children.stopped
    left = []
    if timed_out:
        running = [f"  {'  ' * depth}{pid} {state} {line[:150]}" for pid, (depth, state, line) in sorted(below(os.getpid()).items())]
        log.write("\n".join([f"\nnot ended after {limit:g} s; what runs:", *running, ""]).encode())
        os.kill(entry.pid, signal.SIGTERM)
        children.wait(ended, LAST_WORDS)
    elif in_time and not children.wait(lambda some: not some, LEAVING):
        left = [line for _, _, line in below(os.getpid()).values()]
    wall = time.monotonic() - began
    running = int(pathlib.Path("/proc/loadavg").read_text().split()[3].split("/")[0])
    load = os.getloadavg()[0]
    if not children.kill():
        left.append("some could not be killed")
    entry.returncode = children.code  # waited for above
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"code": children.code, "timed_out": timed_out, "wall": round(wall, 2), "user": round(used.ru_utime, 2),
            "system": round(used.ru_stime, 2), "left": left, "load": round(load, 1), "running": running}


if __name__ == "__main__":
    with open(sys.argv[2], "ab", buffering=0) as output:
        print(json.dumps(run(float(sys.argv[1]), output, sys.argv[3:])))

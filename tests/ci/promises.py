#!/usr/bin/env python3
"""promises.py PATH/collctl: how long it takes until a job that broke has ended, and how even the rows of a sweep are, alone on
a machine; for ./dev test --all.

Of each the median of five is held against what is promised, and printed: these are the only bounds on real time in the tests.
"""
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

RUNS = 5
HANG = 2  # seconds, the deadline of ranks that wait
JOB = ["run", "-n", "4", "allreduce", "-b", "64K", "-e", "64K", "--iters", "1000000", "--check", "0", "--op-timeout", str(HANG)]


def ranks_of(launcher):
    children = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(launcher)], capture_output=True, text=True, check=False).stdout
    return [int(line.split()[0]) for line in children.splitlines() if "__rank" in line]


def until_it_ends(collctl, what, code):
    """Seconds from the signal to a rank that measures until the launcher's end, which must have this code."""
    with tempfile.TemporaryFile() as output, subprocess.Popen([collctl, *JOB], stdin=subprocess.DEVNULL, stdout=output,
                                                              stderr=subprocess.STDOUT) as job:
        limit = time.monotonic() + 60
        while b"(us)" not in os.pread(output.fileno(), 65536, 0) or len(ranks_of(job.pid)) != 4:
            if job.poll() is not None or time.monotonic() > limit:
                job.kill()
                sys.exit(f"FAILED: four ranks do not measure within 60 s: {os.pread(output.fileno(), 2000, 0).decode()}")
            time.sleep(0.05)
        victim = ranks_of(job.pid)[2]
        began = time.monotonic()
        os.kill(victim, what)
        try:
            ended = job.wait(60)
        except subprocess.TimeoutExpired:
            job.kill()
            sys.exit(f"FAILED: the job has not ended 60 s after {what.name}")
        took = time.monotonic() - began
        if ended != code:
            sys.exit(f"FAILED: after {what.name} the job ended with {ended}, not {code}: {os.pread(output.fileno(), 2000, 0).decode()}")
        return took


def to_run(collctl, *_):
    began = time.monotonic()
    subprocess.run([collctl, "run", "-n", "4", "--", "true"], check=True, stdin=subprocess.DEVNULL, timeout=60)
    return time.monotonic() - began


def worst_row(collctl):
    """A row's time by that of its neighbours, the longer one: the largest of a sweep of small sizes."""
    environment = {name: value for name, value in os.environ.items() if name != "COLLCTL_PACE_US"}
    done = subprocess.run([collctl, "run", "-n", "2", "allreduce", "-b", "8", "-e", "16K", "--json"], check=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, timeout=120, env=environment)
    times = [row["out_of_place"]["time_us"] for row in json.loads(done.stdout)["results"]]
    return max(time / max(times[max(i - 1, 0):i] + times[i + 1:i + 2]) for i, time in enumerate(times))


PROMISES = [  # what, the most, in which unit, how it is measured
    ("a program of four ranks has run", 1, "s", to_run, ()),
    ("a job with a killed rank has ended", 1, "s", until_it_ends, (signal.SIGKILL, 5)),
    (f"a job with a stopped rank has ended, deadline {HANG} s", HANG + 3, "s", until_it_ends, (signal.SIGSTOP, 6)),
    ("the slowest row of a sweep beside its neighbours", 3, "times", worst_row, ()),
]


def main(collctl):
    os.environ.update(CUDA_VISIBLE_DEVICES="-1", COLLCTL_PACE_US="20000")  # ranks idle: the job lasts until it is told
    failed = 0
    for what, most, unit, measure, arguments in PROMISES:
        print(f"- {what}", flush=True)
        median = statistics.median(measure(collctl, *arguments) for _ in range(RUNS))
        print(f"  {median:.2f} {unit}, median of {RUNS}; promised: {most} {unit}")
        if median > most:
            failed += 1
            print(f"FAILED: {what}: {median:.2f} {unit}, promised are {most}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(str(pathlib.Path(sys.argv[1]).resolve())))

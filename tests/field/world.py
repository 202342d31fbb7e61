"""What the conditions of a field act on: hosts in namespaces, how the launcher calls them, and what must be seen of them."""
import contextlib
import ctypes
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import time

import groups
from commands import Wrong

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "faults"))
import rig

HOSTS = len(rig.NODES)
LIMIT = 240  # seconds, for any command: it says "not for ever"
# What each host is good for while speeds are compared, so that none depends on how many share this machine's cores.
MBIT, SLOW = 200, 10


class Done:
    """A command that has ended."""

    def __init__(self, line, code, out, err):
        self.line, self.code, self.out, self.err = line, code, out, err


class Working:
    """What working() gives."""

    def __init__(self, field, process, argv, job, told):
        self.field, self.process, self.argv, self.job, self.told = field, process, argv, job, told

    def looks(self, holds):
        until = time.monotonic() + LIMIT
        while self.process.poll() is None:
            if time.monotonic() > until:
                raise Wrong(f"not within {LIMIT} s: {holds.__doc__}")
            done = self.field.collctl("status", *filter(None, [self.job]), "--json")
            self.field.done.pop()  # one of many, until it holds
            if done.code == 0 and (state := holds(json.loads(done.out))):
                self.field.done.append(done)
                return state
        return None

    def end(self):
        self.told.touch()
        return self.field.end(self.process, self.argv)


def when_read(path):
    """What waits until somebody has read the file from now on."""
    libc, close_nowrite = ctypes.CDLL(None, use_errno=True), 0x10
    watch = libc.inotify_init()
    if libc.inotify_add_watch(watch, os.fsencode(path), close_nowrite) < 0:
        raise OSError(ctypes.get_errno(), "inotify_add_watch", str(path))

    def wait():
        read = select.select([watch], [], [], 60)[0]
        os.close(watch)
        if not read:
            raise RuntimeError(f"a minute went by in which nobody read {path}")
    return wait


class Field:
    def __init__(self, count):
        self.binary = os.environ["FIELD_BINARY"]
        self.count = count
        self.nodes = list(range(1, count + 1))
        self.given = {i: rig.name(i) for i in self.nodes}    # as the list of hosts calls each
        self.within = {i: rig.name(i) for i in self.nodes}   # a name by which the hosts find each other
        self.more = []                                        # other names of the same hosts, in that list
        self.login = ""                                       # "user@"
        self.nics = {i: ["eth0"] for i in self.nodes}         # over which jobs go
        self.rails = {i: ["eth0"] for i in self.nodes}        # all that count
        self.ways = [(i, "eth0", f"v{i}") for i in self.nodes]  # node, its interface, the port of head's bridge
        self.of_host = {i: {} for i in self.nodes}            # variables of ranks that are started there by others
        self.options = []                                     # of every command that reaches hosts
        self.slots = {i: 1 for i in self.nodes}               # ranks on each
        self.tree = False                                     # hosts log in to each other as the launcher does to them
        self.launcher = 0                                     # the node on which it runs; 0: head, on which no ranks are
        self.environment = {}                                 # of the launcher, or of ranks that are started by others
        self.slow = {}                                        # (node, "out" or "in"): it has a rate of its own
        self.fault, self.victim, self.other = "none", 0, 0
        self.clear = None                                     # (codes, pattern): the one error that each command must end with
        self.at_fault = ""                                    # and who is accused then: how all names begin
        self.looked_up, self.then = [], []                    # when ranks that others start have read these files, this comes
        self.done = []                                        # commands that have ended
        self.healing = []

    name, address = staticmethod(rig.name), staticmethod(rig.address)

    folder, home = rig.RIG, rig.HOME
    enter = staticmethod(rig.enter)

    @staticmethod
    def bracketed(name):
        return f"[{name}]" if ":" in name else name

    def pid(self, node):
        return rig.NODES[node - 1]

    # Hosts ------------------------------------------------------------------------------------------------------------
    def on(self, node, script):
        rig.on(node, "sh", "-ec", script)

    def hosts_file(self, *lines, first=False):
        """Of all hosts and head, which share it."""
        path = pathlib.Path(rig.RIG, "etc/hosts")
        old, new = path.read_text(), "".join(f"{line}\n" for line in lines)
        path.write_text(new + old if first else old + new)

    def names_by_dns(self, addresses, domains):
        """Names are those of a server on head, and stand in no file."""
        path = pathlib.Path(rig.RIG, "etc/hosts")
        path.write_text("127.0.0.1 localhost\n")
        resolv = pathlib.Path(rig.RIG, "resolv.conf")
        resolv.write_text(f"search {domains}\nnameserver {rig.address(0)}\noptions timeout:2\n")
        pathlib.Path(rig.RIG, "etc/nsswitch.conf").write_text("hosts: files dns\n")
        server = subprocess.Popen(rig.enter(0, [sys.executable, str(pathlib.Path(__file__).with_name("dns.py")), rig.address(0),
                                                *(f"{name}={address}" for name, address in addresses.items())]),
                                  stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        self.healing.append(lambda: (server.kill(), server.wait()))
        if server.stdout.readline() != b"listens\n":
            raise RuntimeError("the server of names does not begin")
        for node in [0, *self.nodes]:
            self.on(node, f"[ ! -L /etc/resolv.conf ] || {{ mkdir -p $(dirname $(readlink -m /etc/resolv.conf)); : >>/etc/resolv.conf; }};"
                          f"mount --bind {resolv} /etc/resolv.conf")

    def replace_addresses(self):
        """Names have no address of IPv4 any more."""
        path = pathlib.Path(rig.RIG, "etc/hosts")
        lines = path.read_text().splitlines(True)
        path.write_text("".join(l for l in lines if not l.startswith(f"{rig.NETWORK}.") or " head" in l))

    def own_hosts_file(self, node, change):
        """change(text) makes that node's from what all others have."""
        path = pathlib.Path(rig.RIG, f"hosts.{node}")
        path.write_text(change(pathlib.Path(rig.RIG, "etc/hosts").read_text()))
        self.on(node, f"mount --bind {path} /etc/hosts")

    def known_as(self, node, *names):
        """The launcher knows that host's key by these names, too."""
        key = " ".join(pathlib.Path(rig.RIG, rig.name(node), "host_key.pub").read_text().split()[:2])
        with open(f"{rig.RIG}/head/home/.ssh/known_hosts", "a") as f:
            f.write(f"{','.join(names)} {key}\n")

    def ssh_config(self, text):
        path = pathlib.Path(rig.RIG, "head/home/.ssh/config")
        path.write_text((path.read_text() if path.exists() else "") + text)
        path.chmod(0o600)

    def sshd(self, node, *lines):
        """Puts lines before its configuration and begins it anew; the first value counts."""
        folder = pathlib.Path(rig.RIG, rig.name(node))
        config = folder / "sshd_config"
        config.write_text("".join(f"{line}\n" for line in lines) + config.read_text())
        process = os.pidfd_open(rig.outer_pid(node, rig.sshd_pid(node)))
        signal.pidfd_send_signal(process, signal.SIGTERM)
        select.select([process], [], [], 60)  # the port is free when it is gone
        os.close(process)
        (folder / "sshd.pid").unlink(missing_ok=True)
        rig.sshd_start(node)
        if not (folder / "sshd.pid").exists():
            raise RuntimeError(f"the sshd of {rig.name(node)} does not begin anew")

    def address6(self, node):
        return f"{os.environ['RIG_NETWORK6']}{node:x}"

    # Speeds -----------------------------------------------------------------------------------------------------------
    def rate(self, node, way, mbit, interface="eth0", port=""):
        at, device = (node, interface) if way == "out" else (0, port or f"v{node}")
        rig.on(at, "tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate", f"{mbit}mbit", "burst", "64k", "latency", "200ms")

    def make_slow(self, node, way):
        self.slow[(node, way)] = True
        self.rate(node, way, SLOW)

    def even(self):
        """All ways but those that are slow are equal."""
        for node, interface, port in self.ways:
            for way in ("out", "in"):
                if (node, way) not in self.slow:
                    self.rate(node, way, MBIT, interface, port)

    # Commands ---------------------------------------------------------------------------------------------------------
    def hosts(self):
        slots = [*self.slots.values(), *(1 for _ in self.more)]
        return ",".join(f"{self.login}{self.bracketed(name)}:{n}" for name, n in zip([*self.given.values(), *self.more], slots))

    def start(self, node, argv, environment):
        base = rig.ENVIRONMENT | self.environment | environment
        return subprocess.Popen(rig.enter(node, argv), env=base, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True)

    def end(self, process, argv, limit=LIMIT):
        try:
            out, err = process.communicate(timeout=limit)
            code = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            code = f"none: it still ran after {limit} s"
        self.done.append(Done(" ".join(argv).replace(self.binary, "collctl"), code, out, err))
        return self.done[-1]

    def begin(self, *words, **environment):
        """(process, line) of a command where the launcher is, with the list of hosts where the words have HOSTS."""
        for node in (self.nodes if self.tree else filter(None, [self.launcher])) if "HOSTS" in words else ():
            shutil.copytree(f"{rig.RIG}/head/home/.ssh", f"{rig.RIG}/{rig.name(node)}/home/.ssh", dirs_exist_ok=True)
        argv = [self.binary]
        for word in words:
            argv += ["-H", self.hosts(), *self.options] if word == "HOSTS" else [word]
        return self.start(self.launcher, argv, environment), argv

    def collctl(self, *words):
        return self.end(*self.begin(*words))

    @contextlib.contextmanager
    def working(self, *words):
        """A job that measures until it is told, by what this gives: looks() asks it for its state until that holds, and nothing where
        the job has ended by itself; end() tells it and has what it said."""
        told = pathlib.Path(rig.RIG, "until")
        told.unlink(missing_ok=True)
        process, argv = self.begin(*words, COLLCTL_UNTIL=str(told))
        job = str(process.pid) if not self.launcher else ""  # in a host's own numbers it is the only one
        job = Working(self, process, argv, job, told)
        try:
            yield job
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()

    def on_each(self, line_of, environment_of):
        """One rank on each host, started there by somebody else; all of them."""
        begun = [(line_of(i), i) for i in self.nodes]
        cues = [when_read(path) for path in self.looked_up]
        running = [(self.start(i, argv, environment_of(i) | self.of_host[i]), argv) for argv, i in begun]
        for cue in cues:
            cue()
        for each in self.then:
            each()
        return [self.end(process, argv) for process, argv in running]

    # Limits -----------------------------------------------------------------------------------------------------------
    def limit(self, node, controller, **limits):
        """All that the node's sshd begins from now on may have no more."""
        group = groups.make(f"{controller}-{node}", controller, **limits)
        self.healing.append(lambda: groups.end(group))
        groups.enter(group, rig.outer_pid(node, rig.sshd_pid(node)))

    def kill(self, node, pid):
        if not rig.send(node, signal.SIGKILL, [pid]):
            raise RuntimeError(f"process {pid} of {rig.name(node)} is not there")

    def heal(self):
        for action in reversed(self.healing):
            action()

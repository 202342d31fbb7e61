"""Hosts in namespaces, made by tests/e2e/ssh_rig.sh, for Python: commands on them, their processes, their network."""
import os
import signal
import subprocess
import time

RIG, HOME, NETWORK = os.environ["RIG"], os.environ["RIG_HOME"], os.environ["RIG_NETWORK"]
HEAD = os.environ["RIG_HEAD"]
NODES = os.environ["RIG_NODES"].split()
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "SSH_AUTH_SOCK"} | {"HOME": HOME, "USER": "root"}


def name(node):
    return f"node{node:02d}" if node > 0 else "head"


def address(node):
    return f"{NETWORK}.254" if node == 0 else f"{NETWORK}.{node}"


def enter(node, argv):
    """The command line that runs argv on a node; node 0 is head, where the launcher runs."""
    if node == 0:
        return ["nsenter", "-t", HEAD, "-n", "-u", "-m", "--", *argv]
    pid = NODES[node - 1]
    return ["nsenter", "-t", pid, "-n", "-u", "-m", f"--pid=/proc/{pid}/ns/pid_for_children", "--", *argv]


def on(node, *argv, check=True):
    done = subprocess.run(enter(node, argv), env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
    if check and done.returncode != 0:
        raise RuntimeError(f"on {name(node)}: {' '.join(argv)}: {done.stderr.strip()}")
    return done.stdout


def root(node):
    """What a process of that host sees as /."""
    return f"/proc/{HEAD if node == 0 else NODES[node - 1]}/root"


def read(path):
    """Empty: it is not there."""
    try:
        with open(path, "rb") as f:
            return f.read().decode(errors="replace")
    except OSError:
        return ""


def processes(node):
    """(pid there, command line) of what runs on a node besides the rig's own."""
    if node == 0:
        return head_processes()
    found = []
    for pid in filter(str.isdigit, os.listdir(f"{root(node)}/proc")):
        args = read(f"{root(node)}/proc/{pid}/cmdline").replace("\0", " ").strip() or f"[{comm(pid, node)}]"
        if pid != "1" and args != "[]" and "sleep infinity" not in args:
            found.append((int(pid), args))
    return found


def head_processes():
    """Of head, which shares its processes' numbers with this machine, what runs in its network."""
    space, found = os.readlink(f"/proc/{HEAD}/ns/net"), []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/ns/net") != space:
                continue
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                args = f.read().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue
        if args and "sleep infinity" not in args and f"{RIG}/init" not in args:
            found.append((int(pid), args))
    return found


def ours(node):
    return [p for p in processes(node) if not p[1].startswith(("sshd", "/usr/sbin/sshd"))]


def like(node, what):
    return [pid for pid, args in processes(node) if what in args]


def comm(pid, node=0):
    return read(f"{root(node)}/proc/{pid}/comm").strip()


def named(node, name):
    """By the name that the kernel knows them by: guards and agents to be have the command line of others."""
    return [pid for pid, _ in processes(node) if comm(pid, node) == name]


def guards(node):
    return named(node, "collctl-guard")


def send(node, number, pids):
    """Whether all of them were there."""
    done = [subprocess.run(enter(node, ["kill", f"-{number.name[3:]}", str(pid)]), capture_output=True) for pid in pids]
    return all(each.returncode == 0 for each in done)


def launcher(argv, out, err, environment):
    """A job's launcher on head, as the leader of a group of its own."""
    def plain():
        for number in (signal.SIGINT, signal.SIGHUP):  # ignored under nohup, and of a shell's job
            signal.signal(number, signal.SIG_DFL)
    return subprocess.Popen(enter(0, argv), env=ENVIRONMENT | environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                            preexec_fn=plain, start_new_session=True)


def sshd_pid(node):
    with open(f"{RIG}/{name(node)}/sshd.pid") as f:
        return int(f.read())


def outer_pid(node, inside):
    """The number outside of a process of a node."""
    space = os.readlink(f"/proc/{NODES[node - 1]}/ns/pid_for_children")
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/ns/pid") != space:
                continue
        except OSError:
            continue
        numbers = read(f"/proc/{pid}/status").partition("\nNSpid:")[2].partition("\n")[0].split()
        if numbers and numbers[-1] == str(inside):
            return int(pid)
    raise RuntimeError(f"process {inside} of {name(node)} is not there")


def sshd_start(node):
    path = f"{RIG}/{name(node)}"
    if on(node, "sh", "-c", f"kill -0 $(cat {path}/sshd.pid) 2>/dev/null && echo up", check=False).strip() == "up":
        return
    if os.path.exists(f"{path}/sshd.pid"):
        os.remove(f"{path}/sshd.pid")
    on(node, "/usr/sbin/sshd", "-f", f"{path}/sshd_config", "-E", f"{path}/sshd.log")
    until = time.monotonic() + 20
    while not os.path.exists(f"{path}/sshd.pid") and time.monotonic() < until:
        time.sleep(0.01)


def link(node, state):
    on(0, "ip", "link", "set", f"v{node}", state)


def drop(node, to, how="add"):
    """Packets from a node to another vanish."""
    on(node, "ip", "route", how, "blackhole", f"{address(to)}/32", check=False)


def lossy(node, share):
    """Of what comes to a node so much is lost on the way."""
    on(node, "iptables", "-A", "INPUT", "-i", "eth0", "-m", "statistic", "--mode", "random", "--probability", str(share), "-j",
       "DROP")


def whole(node):
    on(node, "iptables", "-F", "INPUT")


def own_tmp():
    """Each host its own /tmp and /var/tmp, in which the rig stays where it is."""
    folder = os.path.basename(RIG)
    for node in range(len(NODES) + 1):
        on(node, "sh", "-ec", f"mkdir -p {RIG}/{name(node)}.tmp/{folder} {RIG}/{name(node)}.vartmp; chmod 1777 {RIG}/*tmp;"
           f" mount --rbind {RIG} {RIG}/{name(node)}.tmp/{folder}; mount --bind {RIG}/{name(node)}.vartmp /var/tmp;"
           f" mount --rbind {RIG}/{name(node)}.tmp /tmp")


def slow(node, rate):
    on(0, "tc", "qdisc", "add", "dev", f"v{node}", "root", "tbf", "rate", rate, "burst", "32k", "latency", "400ms")


def fast(node):
    on(0, "tc", "qdisc", "del", "dev", f"v{node}", "root", check=False)

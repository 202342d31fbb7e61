"""The way to hosts by SSH, and what a login finds there."""
import errno
import os
import pathlib
import platform
import subprocess
import sys

from registry import condition

BY_SSH = ("run", "check", "rails", "doctor", "topo", "window", "status", "shrink")
SEVERAL = ("run", "doctor", "topo", "status", "shrink")  # commands that are the same with two ranks on a host


# SSH -------------------------------------------------------------------------------------------------------------------
@condition("ssh", "port", commands=BY_SSH)
def port(field, nodes):
    for i in nodes:
        field.sshd(i, "Port 2222")
        field.ssh_config(f"Host {field.given[i]}\n  Port 2222\n")
        field.known_as(i, *(f"[{name}]:2222" for name in {field.given[i], field.name(i), field.address(i), field.address6(i)}))


@condition("ssh", "jump", all=True, commands=BY_SSH, unlike=("ipv6", "other-user", "ssh-agent"))
def jump(field, nodes):
    """Only the first host can be reached; the others through it."""
    for i in nodes[1:]:
        field.on(0, f"ip route add blackhole {field.address(i)}/32; ip route add blackhole {field.address6(i)}/128")
        field.ssh_config(f"Host {field.given[i]}\n  ProxyJump {field.given[1]}\n")


@condition("ssh", "ssh-agent", all=True, commands=BY_SSH)
def ssh_agent(field, nodes):
    """The key is in an agent alone."""
    socket, key = f"{field.folder}/agent", f"{field.home}/.ssh/id_ed25519"
    agent = subprocess.Popen(field.enter(0, ["ssh-agent", "-D", "-a", socket]), stdout=subprocess.PIPE, text=True)
    field.healing.append(lambda: (agent.kill(), agent.wait()))
    agent.stdout.readline()  # it listens
    field.on(0, f"SSH_AUTH_SOCK={socket} ssh-add -q {key}; rm {key} {key}.pub")
    field.environment["SSH_AUTH_SOCK"] = socket


@condition("ssh", "from-inside", all=True, commands=BY_SSH, unlike=("limits", "peers-unknown", "alike", "mtu", "blackhole"))
def from_inside(field, nodes):
    """The launcher is on the first host of the list; by its own name or address it is reached without sshd. (A broken way is then its own.)"""
    field.launcher = 1
    if not field.login and field.given[1] in (field.name(1), field.address(1), field.address6(1)):
        field.on(1, f"kill $(cat {field.folder}/{field.name(1)}/sshd.pid)")


@condition("ssh", "openssh", all=True, commands=BY_SSH)
def openssh(field, nodes):
    field.options += ["--ssh-client", "openssh"]


@condition("ssh", "control-master", all=True, commands=BY_SSH, unlike=("openssh",))
def control_master(field, nodes):
    field.ssh_config(f"Host *\n  ControlMaster auto\n  ControlPath {field.folder}/%C\n  ControlPersist 60\n")
    field.options += ["--ssh-client", "openssh"]


@condition("ssh", "hashed-known-hosts", all=True, commands=BY_SSH)
def hashed(field, nodes):
    field.on(0, f"ssh-keygen -q -H -f {field.home}/.ssh/known_hosts 2>/dev/null; rm -f {field.home}/.ssh/known_hosts.old")


@condition("ssh", "unknown-keys", all=True, healthy=True, commands=BY_SSH, unlike=("hashed-known-hosts", "authority", "accept-new"))
def unknown_keys(field, nodes):
    """The launcher's own affair: nobody else's."""
    field.on(0, f": >{field.home}/.ssh/known_hosts")
    field.clear = (4,), r"host keys? (of|is unknown)|is unknown"
    field.at_fault = "launcher head"


@condition("ssh", "accept-new", all=True, commands=BY_SSH)
def accept_new(field, nodes):
    field.on(0, f": >{field.home}/.ssh/known_hosts")
    field.options += ["--known-hosts", "accept-new"]


@condition("ssh", "authority", all=True, commands=BY_SSH, unlike=("hashed-known-hosts", "accept-new"))
def authority(field, nodes):
    """known_hosts has the authority that signed the hosts' keys, and no keys."""
    ca = f"{field.folder}/ca"
    field.on(0, f"ssh-keygen -q -t ed25519 -N '' -f {ca}")
    for i in nodes:
        folder = f"{field.folder}/{field.name(i)}"
        names = ",".join({field.given[i], field.given[i].lower(), field.name(i), field.address(i), field.address6(i)})
        field.on(0, f"ssh-keygen -q -s {ca} -I host{i} -h -n {names} -V -1h:+1h {folder}/host_key.pub")
        field.sshd(i, f"HostCertificate {folder}/host_key-cert.pub")
    key = " ".join(pathlib.Path(f"{ca}.pub").read_text().split()[:2])
    field.on(0, f"echo '@cert-authority * {key}' >{field.home}/.ssh/known_hosts")


@condition("ssh", "gate", commands=BY_SSH)
def gate(field, nodes):
    """A site's ForceCommand that runs what was asked for."""
    for i in nodes:
        field.sshd(i, "ForceCommand echo 'site policy: you are being logged' >&2; eval \"$SSH_ORIGINAL_COMMAND\"")


@condition("ssh", "tree", all=True, commands=BY_SSH, unlike=("jump", "ssh-agent", "from-inside", "other-user", "peers-unknown",
                                                             "unknown-keys", "blackhole", "mtu", "alike"))
def tree(field, nodes):
    """Hosts are reached through each other, two from each. (A broken way between two is then a host that cannot be reached.)"""
    field.tree = True
    field.environment["COLLCTL_TREE_WIDTH"] = "2"


# What a login finds ----------------------------------------------------------------------------------------------------
@condition("limits", "noise", commands=BY_SSH)
def noise(field, nodes):
    """Start-up files that print, to both streams, and set what is not asked for."""
    for i in nodes:
        field.on(i, f"printf '%s\\n' 'echo Welcome to the cluster' 'echo quota: 91% >&2' 'export TMPDIR=/nonexistent LANG=de_DE.UTF-8' 'umask 077' "
                    f"'alias ls=\"ls --color\"' >{field.home}/.bashrc")


@condition("limits", "dash", commands=BY_SSH)
def dash(field, nodes):
    for i in nodes:
        shell(field, i, "/bin/dash")


@condition("limits", "wrapped-shell", commands=BY_SSH)
def wrapped_shell(field, nodes):
    """A site's shell that notes each login."""
    for i in nodes:
        path = f"{field.folder}/{field.name(i)}/shell"
        pathlib.Path(path).write_text('#!/bin/sh\necho "login of $(id -un)" >&2\nexec /bin/sh "$@"\n')
        pathlib.Path(path).chmod(0o755)
        shell(field, i, path)


# What one process of a host may not do to another of the same user, by the kernel's numbers.
OF_OTHERS = {"x86_64": (101, 310, 311), "aarch64": (117, 270, 271)}  # ptrace, process_vm_readv, process_vm_writev
# mbind, set_mempolicy, get_mempolicy, move_pages, perf_event_open, kcmp, bpf, userfaultfd, add_key, keyctl, unshare, setns
PRIVILEGED = {"x86_64": (237, 238, 239, 279, 298, 312, 321, 323, 248, 250, 272, 308), "aarch64": (235, 237, 236, 239, 241, 272, 280, 282, 217, 219, 97, 268)}
# pidfd_send_signal, io_uring_*, pidfd_open, clone3, close_range, openat2, pidfd_getfd, faccessat2: alike on all machines
YOUNGER = (424, 425, 426, 427, 434, 435, 436, 437, 438, 439)


def filtered(field, nodes, calls):
    """What a login begins there cannot make these calls; two ranks on each host, which would read each other's memory."""
    for i in nodes:
        field.slots[i] = 2
        path = pathlib.Path(field.folder, field.name(i), "shell")
        words = ",".join(f"{number}={error}" for number, error in calls.items())
        path.write_text(f'#!/bin/sh\nexec {sys.executable} {pathlib.Path(__file__).with_name("seccomp.py")} {words} /bin/sh "$@"\n')
        path.chmod(0o755)
        shell(field, i, path)


@condition("limits", "no-ptrace", commands=SEVERAL, unlike=("from-inside", "gate"))
def no_ptrace(field, nodes):
    """Processes may not look into each other."""
    filtered(field, nodes, dict.fromkeys(OF_OTHERS[platform.machine()], errno.EPERM))


@condition("limits", "seccomp", commands=SEVERAL, unlike=("from-inside", "gate"))
def seccomp(field, nodes):
    """A container's filter that is older than its kernel: calls that it does not know are not there."""
    machine = platform.machine()
    filtered(field, nodes, dict.fromkeys(OF_OTHERS[machine] + PRIVILEGED[machine], errno.EPERM) | dict.fromkeys(YOUNGER, errno.ENOSYS))


def shell(field, node, path):
    users = pathlib.Path(field.folder, "etc/passwd").read_text()
    own = pathlib.Path(field.folder, f"passwd.{node}")
    own.write_text("".join(line.rpartition(":")[0] + f":{path}\n" if line.startswith(("root:", "tester:")) else f"{line}\n"
                           for line in users.splitlines()))
    field.on(node, f"mount --bind {own} /etc/passwd")


@condition("limits", "read-only-home", commands=BY_SSH, unlike=("other-user",))
def read_only_home(field, nodes):
    """The binary is there."""
    for i in nodes:
        field.on(i, f"mount --bind {field.home} {field.home}; mount -o remount,bind,ro {field.home}")


@condition("limits", "nowhere-to-put-it", healthy=True, commands=BY_SSH, unlike=("other-user",))
def nowhere(field, nodes):
    """Homes that are read-only and do not have the binary."""
    for i in nodes:
        field.on(i, f"rm -rf {field.home}/.cache; mount --bind {field.home} {field.home}; mount -o remount,bind,ro {field.home}")
    field.clear = (4,), r"[Rr]ead-only file system[\s\S]*--remote-path"
    field.at_fault = "host"


@condition("limits", "shm-64m")
def shm_64m(field, nodes):
    """What docker gives to a container; of more than eight cores as much as doctor wants for a rank a core."""
    for i in nodes:
        field.on(i, f"mount -o remount,size={max(64, 8 * os.cpu_count() + 1)}m /dev/shm")


@condition("limits", "one-core", all=True, cgroup="cpu", unlike=("cores",), commands=("run", "doctor", "topo", "window"))
def one_core(field, nodes):
    """All hosts may use one core."""
    for i in nodes:
        field.limit(i, "cpu", cores=1)


@condition("limits", "memory", cgroup="memory", commands=BY_SSH)
def memory(field, nodes):
    """As much as doctor wants for a rank a core."""
    for i in nodes:
        field.limit(i, "memory", size=max(1 << 30, (64 << 20) * os.cpu_count()))


@condition("limits", "pids", cgroup="pids", commands=BY_SSH)
def pids(field, nodes):
    for i in nodes:
        field.limit(i, "pids", pids=200 + 16 * os.cpu_count())

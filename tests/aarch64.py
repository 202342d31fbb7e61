#!/usr/bin/env python3
"""aarch64.py COMMAND...: runs a program for aarch64, and what it starts, on a machine of another kind.

In namespaces of its own, so that nothing on the machine changes: there its kernel starts such programs in QEMU's user mode, and
the libraries of the cross compiler stand where programs look for them.
"""
import ctypes
import os
import sys
import tempfile

NEWUSER, NEWNS = 0x10000000, 0x00020000
LIBRARIES = "/usr/aarch64-linux-gnu/lib"
MAGIC = rb"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
MASK = rb"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff"
# F: opened now, so that other namespaces have it; P: programs see the name by which they were called.
RULE = b":aarch64:M::" + MAGIC + b":" + MASK + b":/usr/bin/qemu-aarch64-static:FP"

libc = ctypes.CDLL(None, use_errno=True)


def called(result, what):
    if result != 0:
        sys.exit(f"aarch64.py: {what}: {os.strerror(ctypes.get_errno())}")


def mount(kind, at, options=""):
    called(libc.mount(b"none", at.encode(), kind.encode(), 0, options.encode()), f"mount {kind} on {at}")


def write(path, text):
    with open(path, "wb") as file:
        file.write(text)


def enter_namespaces():
    """Users are mapped by a process that stays outside: all of them where this one is root, else the own."""
    user, group, target = os.geteuid(), os.getegid(), os.getpid()
    ready, go = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(go)
        os.read(ready, 1)
        if user != 0:
            write(f"/proc/{target}/setgroups", b"deny")
        for kind, own in (("uid", user), ("gid", group)):
            write(f"/proc/{target}/{kind}_map", b"0 0 65536" if user == 0 else f"0 {own} 1".encode())
        os._exit(0)
    called(libc.unshare(NEWUSER | NEWNS), "unshare")
    os.write(go, b"x")
    if os.waitpid(child, 0)[1] != 0:
        sys.exit("aarch64.py: users cannot be mapped")


def main(command):
    enter_namespaces()
    mount("binfmt_misc", "/proc/sys/fs/binfmt_misc")
    write("/proc/sys/fs/binfmt_misc/register", RULE)
    folder = tempfile.mkdtemp()
    mount("tmpfs", folder, "mode=755")
    os.mkdir(f"{folder}/lib")
    os.symlink(f"{LIBRARIES}/ld-linux-aarch64.so.1", f"{folder}/lib/ld-linux-aarch64.so.1")
    os.symlink(LIBRARIES, f"{folder}/lib/aarch64-linux-gnu")
    mount("overlay", "/usr/lib", f"lowerdir={folder}/lib:/usr/lib")
    libc.umount2(folder.encode(), 2)
    os.rmdir(folder)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])

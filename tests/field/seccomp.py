#!/usr/bin/env python3
"""seccomp.py NUMBER=ERRNO,... COMMAND...: runs it under a filter in which these calls of the kernel fail so (x86-64 and aarch64)."""
import ctypes
import os
import struct
import sys

NO_NEW_PRIVS, SECCOMP, FILTER = 38, 22, 2
ALLOW, FAIL = 0x7FFF0000, 0x00050000
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06


def instruction(code, if_true, if_not, value):
    return struct.pack("HBBI", code, if_true, if_not, value)


def program(calls):
    """The number of the call is the first word of what a filter looks at."""
    steps = [instruction(LOAD, 0, 0, 0)]
    for number, error in calls:
        steps += [instruction(EQUAL, 0, 1, number), instruction(RETURN, 0, 0, FAIL | error)]
    return b"".join(steps + [instruction(RETURN, 0, 0, ALLOW)])


def main(calls, argv):
    code = program([tuple(map(int, call.split("="))) for call in calls.split(",")])
    kept = ctypes.create_string_buffer(code, len(code))
    head = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(kept)))
    libc = ctypes.CDLL(None, use_errno=True)
    for words in ((NO_NEW_PRIVS, 1, 0, 0, 0), (SECCOMP, FILTER, ctypes.byref(head), 0, 0)):
        if libc.prctl(*words) != 0:
            sys.exit(f"prctl({words[0]}): {os.strerror(ctypes.get_errno())}")
    os.execvp(argv[0], argv)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])

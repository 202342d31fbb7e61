#!/usr/bin/env python3
"""An agent of another make, in place of collctl's on a host (sshd's ForceCommand): says hello, then what MODE is.

silent     lives (signs of life), and answers nothing
malformed  refuses its ranks with a record that is none
rank       a word of a rank that does not exist
deaf       says its ranks have started, and hears nothing more
stubborn   the same, but says how they are when asked, and ignores the order to end them
"""
import os
import pathlib
import re
import struct
import sys
import time

HEADER = pathlib.Path(__file__).resolve().parents[2] / "launcher/remote/agent_protocol.h"
VERSION = int(re.search(r"kAgentVersion = (\d+)", HEADER.read_text()).group(1))
HELLO, STARTED, FRAME, STATES, ALIVE, REFUSED = 32, 33, 34, 37, 38, 39
START, LOOK = 1, 7
mode = sys.argv[1]


def say(kind, payload=b""):
    os.write(1, struct.pack("<IHH", len(payload), kind, 0) + payload)


def text(s):
    return struct.pack("<I", len(s)) + s.encode()


os.write(1, b"\n@collctl-agent frames\n")
say(HELLO, struct.pack("<I", VERSION) + text("0") + text(os.uname().nodename) + text("x86_64") + text("") +
    struct.pack("<iiii", os.getpid(), 1, 0, 0) + text("") + struct.pack("<I", 0) + struct.pack("<H", 4242))
os.set_blocking(0, False)
heard, at = b"", time.monotonic()
answered = False
while True:
    try:
        piece = os.read(0, 65536)
        if not piece:
            sys.exit(0)
        heard += piece
    except BlockingIOError:
        pass
    while len(heard) >= 8 and len(heard) >= 8 + struct.unpack("<I", heard[:4])[0]:
        size, kind = struct.unpack("<IH", heard[:6])
        heard = heard[8 + size:]
        if kind == LOOK and mode == "stubborn":
            say(STATES, b"S")
        if kind != START or answered:
            continue
        answered = True
        if mode == "malformed":
            say(REFUSED, b"\xff" * 7)
        if mode == "rank":
            say(FRAME, struct.pack("<IH", 0x80000001, 3) + b"{}")
        if mode in ("deaf", "stubborn"):
            say(STARTED, struct.pack("<Ii", 1, os.getpid()) + text(""))
    if time.monotonic() - at > 0.5:
        say(ALIVE)
        at = time.monotonic()
    time.sleep(0.05)

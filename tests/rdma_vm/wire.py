#!/usr/bin/env python3
"""What an RDMA device really sends, read from its interface: wire.py INTERFACE FILE

Takes note of every RoCE packet that leaves the interface until SIGTERM, then writes FILE: one line a fact,
"name value". Shares nothing with collctl; layouts are those of the InfiniBand specification, annex A17 (RoCE v2).
"""
import collections
import select
import signal
import socket
import struct
import sys

TIMES = 64  # SO_TIMESTAMPNS_NEW: seconds and nanoseconds of when a packet was sent, not of when it is read
ROCE_PORT = 4791  # UDP: RoCE v2
ROCE_V1 = 0x8915  # an Ethernet type of its own: RoCE v1
# Bytes between base header and payload, by opcode of a reliable connection.
REMOTE_ADDRESS, IMMEDIATE, ACK = 16, 4, 4
EXTRA = {0x06: REMOTE_ADDRESS, 0x09: IMMEDIATE, 0x0A: REMOTE_ADDRESS, 0x0B: REMOTE_ADDRESS + IMMEDIATE,
         0x0C: REMOTE_ADDRESS, 0x0D: ACK, 0x0F: ACK, 0x10: ACK, 0x11: ACK}
NAMES = {0x06: "write_first", 0x07: "write_middle", 0x08: "write_last", 0x09: "write_last_immediate",
         0x0A: "write_only", 0x0B: "write_only_immediate", 0x0C: "read_request", 0x11: "acknowledge"}


class Facts:
    def __init__(self):
        self.count = collections.Counter()
        self.largest = 0
        self.tos = set()
        self.addresses = set()
        self.seen = collections.defaultdict(list)  # (queue pair, sequence number): times

    def ip(self, frame):
        """The UDP part of an IP packet, or None."""
        kind, = struct.unpack_from("!H", frame, 12)
        if kind == ROCE_V1:
            self.count["roce_v1"] += 1
        if kind == 0x0800 and frame[23] == socket.IPPROTO_UDP:
            part, name, tos = frame[14 + 4 * (frame[14] & 15):], "ipv4", frame[15]
            addresses = tuple(socket.inet_ntop(socket.AF_INET, frame[at:at + 4]) for at in (26, 30))
        elif kind == 0x86DD and frame[20] == socket.IPPROTO_UDP:
            part, name, tos = frame[54:], "ipv6", (struct.unpack_from("!H", frame, 14)[0] >> 4) & 255
            addresses = tuple(socket.inet_ntop(socket.AF_INET6, frame[at:at + 16]) for at in (22, 38))
        else:
            return None
        if struct.unpack_from("!H", part, 2)[0] != ROCE_PORT:
            return None
        self.count[name] += 1
        self.tos.add(tos)
        self.addresses.add("%s>%s" % addresses)
        return part

    def packet(self, frame, when):
        part = self.ip(frame)
        if part is None:
            return
        size, = struct.unpack_from("!H", part, 4)
        opcode, flags, _, peer, number = struct.unpack_from("!BBHII", part, 8)
        # UDP header, base header, extra headers, padding, checksum.
        payload = size - 8 - 12 - EXTRA.get(opcode, 0) - (flags >> 4 & 3) - 4
        self.largest = max(self.largest, payload)
        self.count[NAMES.get(opcode, "opcode_%02x" % opcode)] += 1
        if opcode == 0x0B and payload == 0:
            self.count["empty_announcement"] += 1
        if opcode < 0x0D:  # a request: answers carry the number of what they answer
            self.seen[(peer & 0xFFFFFF, number & 0xFFFFFF)].append(when)

    def write(self, file):
        for name, value in sorted(self.count.items()):
            print(name, value, file=file)
        print("largest_payload", self.largest, file=file)
        print("tos", *sorted(self.tos), file=file)
        print("addresses", *sorted(self.addresses), file=file)
        # To each queue pair: of the request that was sent most often, how often and how many ms apart.
        for pair in sorted({peer for peer, _ in self.seen}):
            times = max((when for (peer, _), when in self.seen.items() if peer == pair), key=len)
            print("tries_to_%d" % pair, len(times), *(int((b - a) * 1000) for a, b in zip(times, times[1:])), file=file)


def main():
    interface, path = sys.argv[1:]
    watched = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    watched.setsockopt(socket.SOL_SOCKET, 33, 32 << 20)  # SO_RCVBUFFORCE
    watched.setsockopt(socket.SOL_SOCKET, TIMES, 1)
    watched.bind((interface, 0))
    watched.setblocking(False)
    told, tell = socket.socketpair()
    tell.setblocking(False)
    signal.set_wakeup_fd(tell.fileno())
    signal.signal(signal.SIGTERM, lambda *_: None)
    facts = Facts()
    with open(path + ".ready", "w"):
        pass
    done = False
    while True:
        if not done:
            ready, _, _ = select.select([watched, told], [], [])
            done = told in ready
        try:
            frame, extra, _, where = watched.recvmsg(65536, 256)
        except BlockingIOError:
            if done:
                break
            continue
        if where[2] != socket.PACKET_OUTGOING:
            continue
        seconds, nanos = next(struct.unpack("qq", data[:16]) for level, kind, data in extra
                              if level == socket.SOL_SOCKET and kind == TIMES)
        facts.packet(frame, seconds + nanos / 1e9)
    with open(path, "w") as file:
        facts.write(file)


if __name__ == "__main__":
    main()

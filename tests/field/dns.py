"""A server of names for hosts of one field: dns.py ADDRESS NAME=IPV4... It says `listens`, then answers until it is ended."""
import socket
import struct
import sys


def question(packet):
    """(the name in lower case, its type, where the question ends)"""
    at, labels = 12, []
    while packet[at]:
        labels.append(packet[at + 1:at + 1 + packet[at]].decode("ascii", "replace").lower())
        at += 1 + packet[at]
    return ".".join(labels), struct.unpack_from("!H", packet, at + 1)[0], at + 5


def main():
    addresses = dict(each.split("=") for each in sys.argv[2:])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((sys.argv[1], 53))
        print("listens", flush=True)
        while True:
            packet, client = server.recvfrom(512)
            name, kind, end = question(packet)
            address = addresses.get(name)
            found = address is not None and kind == 1
            # No such name, or none of that type.
            flags = 0x8180 if address is not None else 0x8183
            answer = struct.pack("!HHHIH4s", 0xC00C, 1, 1, 60, 4, socket.inet_aton(address)) if found else b""
            server.sendto(packet[:2] + struct.pack("!5H", flags, 1, found, 0, 0) + packet[12:end] + answer, client)


if __name__ == "__main__":
    main()

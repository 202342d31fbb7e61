// The settings that a process has of its world, and the HCAs of its host.
//
// FAKE_VERBS_DEVICES is a list "name:word:word,...". Words: ib (the default) or roce; ports=N (1);
// mtu=256..4096 (4096), the active one; speed=sdr|ddr|qdr|fdr|edr|hdr|ndr (hdr); rail=N (0): only
// ports of one rail reach each other; pkey=N (0xffff); ip=A.B.C.D of the first port, the next ports
// count on (10.host.device.1); v6: RoCE without IPv4-mapped GIDs; noopen: cannot be opened; down:
// ports start down; peermem, dmabuf: GPU memory can be registered by address, by descriptor;
// pairs=N, queues=N, depth=N, inline=N: limits of the device; reads=N (16): RDMA reads under way at
// once, of a queue pair, each way; region=N: bytes of one registration, above them as without
// memory that may be locked; message=N: the largest message of its ports.
#pragma once
#include <string>

#include "tests/fake_verbs/control.h"
#include "tests/fake_verbs/world.h"

namespace fake_verbs {

// Fills one device; returns what is wrong with the text, or empty.
std::string parse_device(const std::string& text, int host, int number, Device& device);
// Fills in a row; the same.
std::string parse_fault(const std::string& text, Fault& fault);
// As in the variables.
Setup setup_of_environment();
std::vector<std::string> split(const std::string& text, char by);

}  // namespace fake_verbs

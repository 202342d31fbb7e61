// Tests set up the stand-in of libibverbs and ask it by these calls. It is a fabric of HCAs on one
// machine: all processes that name the same world (a file) reach each other by RC queue pairs.
//
// A test that is linked with the library calls set_up() before the first device is listed; without
// FAKE_VERBS_WORLD the world is private to the process and the children it forks. A program that
// only finds the library at run time is set up by variables, read once:
//   FAKE_VERBS_WORLD=FILE    made by who comes first; the test removes it
//   FAKE_VERBS_HOST=N        0..15, which host of the fabric this process is on (0)
//   FAKE_VERBS_DEVICES=...   HCAs of this host: "fake_0:ib,fake_1:roce:ports=2:mtu=1024" (setup.h)
//   FAKE_VERBS_TIME_SCALE=X  real timeouts times this (1)
//   FAKE_VERBS_FAULTS=...    "drop:after=3,times=2;delay:us=100" (names of FaultKind and Fault);
//   taken
//                            by the process that makes the world
//   FAKE_VERBS_LATE=1        posts are never carried out by the posting thread
//   FAKE_VERBS_STAGED=1      nothing is copied directly into another process's memory
//   FAKE_VERBS_HOLD_US=N     Setup::hold_us
// Threads: any. Functions that name a device take "*" for every device of every host.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fake_verbs {

struct Setup {
  std::string world = {};  // file; empty: private
  int host = 0;
  std::string devices = "fake_0";
  double time_scale = 1;
  std::string faults = {};
  bool late = false;
  bool staged = false;
  uint32_t hold_us = 5000;  // how long writes into a GPU's memory are held back at most
};
// Only while no device is open in this process. Empty: done; else what is wrong.
std::string set_up(const Setup& setup);

enum class FaultKind : uint8_t {
  kNone,
  kDrop,       // it is lost `value` times (0: once), each time until the sender's timeout
  kAckLost,    // it arrives, but `value` times (0: once) the sender does not hear of it
  kDelay,      // `us` later
  kReorder,    // packets of plain writes arrive in any order, within `us`; an immediate waits for
               // them
  kCorrupt,    // one byte of what arrives is flipped
  kTear,       // of its first 128-byte lines the ends arrive `us` before the rest
  kRevoke,     // the key that the request names is taken back
  kPortDown,   // of the requester
  kKill,       // the requester's process gets SIGKILL
  kStatus,     // the request completes with `value` (ibv_wc_status), unsent
  kBandwidth,  // `value` bytes per second
};
struct Fault {
  FaultKind kind = FaultKind::kNone;
  std::string opcode = {};     // "write", "write_imm", "send", "read"; empty: any
  std::string device = {};     // of the requester; empty: any
  int host = -1;               // of the requester; -1: any
  int port = 0;                // of the requester; 0: any
  uint32_t after = 0;          // requests that match and are spared first
  uint32_t times = 1;          // requests that it hits; 0: all
  uint64_t min_bytes = 0;      // only requests of at least so many bytes
  uint64_t max_bytes = ~0ull;  // and at most so many
  uint64_t us = 0;
  uint64_t value = 0;
};
// Returns a number by which the fault can be asked for and taken back.
int add_fault(const Fault& fault);
uint32_t hits(int fault);
void clear_faults();

void set_port(const std::string& device, int port, bool up);
// The peers' cables: nothing arrives, and no event comes.
void set_cable(const std::string& device, int port, bool plugged);
// Takes back every key of memory registered on the device.
void revoke_keys(const std::string& device);
// A device that dies: every call on it fails, and its contexts hear of it.
void break_device(const std::string& device);

// The fabric's clock, in nanoseconds, of this process and those forked from it; without it
// CLOCK_MONOTONIC. The product's waits and those in the fabric pass by one clock.
void use_clock(int64_t (*ns)());

// One posted request, in the order in which requests were taken up.
struct Posted {
  uint64_t time_ns;  // of posting, by the fabric's clock
  int32_t process;   // pid
  uint32_t queue_pair, peer;
  uint64_t id, bytes, address, remote_address;  // address: of the first piece, as it was posted
  uint32_t immediate;                           // network byte order
  uint8_t opcode;                               // ibv_wr_opcode; 0xff: a receive
  uint8_t port;
  uint8_t pieces;  // scatter/gather entries
  bool signaled, inlined;
  char device[24];
};
std::vector<Posted> posted();
void clear_posted();
// Faults no adapter would forgive and verbs do not report: one line each, for all processes.
std::vector<std::string> violations();
void clear_violations();

// The call of this function after `after` others fails once with this errno; counts from now. An
// empty name: none does. The functions are those of calls().
void fail(const std::string& function, int code = 0, int after = 0);
// How often each function that can fail so was called in this process since fail().
std::map<std::string, int> calls();

// Objects that are held now in the whole world: all zero when everything was given back.
struct Counts {
  int contexts = 0, domains = 0, regions = 0, queues = 0, pairs = 0, channels = 0;
  bool operator==(const Counts&) const = default;
  std::string text() const;
};
Counts counts();

}  // namespace fake_verbs

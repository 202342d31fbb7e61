// Settings: the result of the knobs and the communicator's options, read once at start-up by the
// thread that starts the communicator. Those that both ends of a connection or all ranks of a plan
// must agree on are also given as text, so that a difference can be named.
#pragma once
#include <cstdint>
#include <string>

#include "kernels/contract/types.h"
#include "kernels/cpu/launch.h"
#include "runtime/request/choices.h"
#include "runtime/request/options.h"

namespace collctl::runtime {

struct Settings {
  uint32_t slot_bytes[kernels::kProtocolCount] = {};
  uint32_t slot_count = 8;
  bool plans_slots = true;     // slots of Simple as planned: no one asked for a size
  bool plans_ll_slots = true;  // likewise of LL
  uint64_t window_bytes = 0;   // of a bank; 0: no windows
  uint64_t window_stride = 0;  // of addresses for a rank's user windows; 0: as chosen
  Choices choices;
  int min_channels = 0, max_channels = 0;  // 0: as planned
  std::string transport;                   // "" or a row of the table, forced
  std::string net;                         // "" or a network's or a plugin's name, forced
  bool p2p_disabled = false, shm_disabled = false;
  bool single_copy = true;  // CPU ranks of a host read messages out of the sender's memory
  bool integrity = false;   // data over networks carries MACs
  bool calibrate = false, recalibrate = false;  // as CommOptions
  bool window_verbs = false;  // GPU ranks: window algorithms by verbs, as the kernels' oracle
  bool p2p_read = false;      // GPUs that reach each other: the receiver moves the data
  int sockets_per_thread = 1, helper_threads = -1;  // as of transport::Services
  double start_timeout_s = 60, op_timeout_s = 30;
  int64_t spin_us = -1;  // -1: by cores and ranks
  bool inline_blocking = true;
  bool count_waits = false;
  std::string interfaces, family;  // for find_interfaces
  kernels::Fault fault;
};

// Usage error for a bad value (naming the variable), unavailable for a network that does not exist.
Result<Settings> read_settings(const CommOptions& options);
// One line "NAME=value" for each setting that all ranks must share.
std::string shared_settings_text(const Settings& settings);
uint64_t hash_text(const std::string& text);
// The first line in which two such texts differ, as "BUFFSIZE is 64K on rank 0 and ..."; empty when
// none does.
std::string first_difference(const std::string& a, int rank_a, const std::string& b, int rank_b);

}  // namespace collctl::runtime

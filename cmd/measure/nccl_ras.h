// NCCL's RAS on a running job (NCCL 2.24 and later): its port is asked by the text
// protocol of ncclras, the answer is JSON from 2.28.7 on and a text before that. Untrusted, bounded
// in bytes and time. Threads: any.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/record.h"
#include "base/wait.h"

namespace collctl::cmd {

inline constexpr const char* kRasAddress = "localhost:28028";  // NCCL's own, without NCCL_RAS_ADDR
inline constexpr size_t kMostRasAnswer = 16 << 20;
inline constexpr size_t kMostRasText = 512, kMostRasEntries = 1 << 16;

struct RasProcess {
  std::string host;  // an address, as NCCL has it
  int pid = 0;
  std::string gpus;   // "0", "0-3"
  int rank = -1;      // of its communicator; -1: not told
  bool dead = false;  // given up by RAS; else it does not answer, or has no such communicator
};
struct RasStatus {
  std::string version;  // "2.28.9"
  uint64_t communicators = 0;
  uint64_t ranks = 0;     // of all of them, that answered
  std::vector<int> pids;  // of those, where it names them; sorted, each once
  std::vector<RasProcess> missing;
  std::vector<std::string> problems;  // one sentence each, of what is no missing process
  uint64_t timeouts = 0;              // while it gathered
};
// Both pure. Errors: usage, with what it should have been.
Result<RasStatus> read_ras_json(const std::string& text);
Result<RasStatus> read_ras_text(const std::string& text);

// Error unavailable: nothing listens there; lost or deadline: it broke off or does not answer.
Result<RasStatus> ask_ras(const std::string& address, base::Deadline deadline);

void fields(Record& io, RasProcess& process);
void fields(Record& io, RasStatus& status);

}  // namespace collctl::cmd

// The protocol of launcher and agents, over the standard input and output of the agent. The agent's
// output may begin with other text (a login shell's); lines that begin with kAgentWord are meant:
// "need ...", "fail ...", and at last "frames", after which only frames follow.
//
// All payloads are records in bytes (base/record.h), some behind the number of a rank or host; a
// reader that gets anything else drops the connection.
// Ranks are numbered as the host's own, 0 to count - 1. In a tree (--tree-width) an agent carries
// others: it reaches the hosts of its branch as the launcher reaches its own, and passes frames on.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "launcher/local/rank_group.h"

namespace collctl::launcher {

inline constexpr const char* kAgentCommand = "__agent";
inline constexpr const char* kAgentWord = "@collctl-agent ";
inline constexpr uint32_t kAgentVersion = 14;  // of this protocol: both sides must be the same
// Each side sends something at least this often; hearing nothing for the job's limit is an error.
inline constexpr int64_t kBeatMs = 1000;

inline constexpr size_t kMostHostName = 1024;  // bytes

enum class AgentFrame : uint16_t {
  // launcher -> agent
  start = 1,      // AgentStart
  to_rank = 2,    // u32 rank, u16 FrameType, payload
  input = 3,      // u32 rank, bytes
  input_end = 4,  // u32 rank
  signal = 5,     // i32 number, to all ranks
  end = 6,        // f64 grace in seconds
  look = 7,       // nothing; answered by states
  beat = 8,       // f64: without another word for so many seconds, everything is ended
  leave = 9,      // nothing: all is done, the agent may exit
  ask = 10,       // AgentQuestion; answered by answer
  kill = 11,      // u32 rank: SIGKILL to its group
  branch = 12,    // BranchOrder: reach these hosts as well; they are numbered from 0
  below = 13,     // u32 host of the branch, u16 AgentFrame, payload: for the agent there
  cut = 14,       // u32 host of the branch: close the connection to it
  named = 15,     // i32 place, string name: this host in the job; the first word after hello
  // agent -> launcher
  hello = 32,    // AgentHello
  started = 33,  // AgentStarted
  frame = 34,    // u32 rank, u16 FrameType, payload
  line = 35,     // u32 rank, u8 stderr, u8 partial, text
  exited = 36,   // u32 rank, i32 code, i32 signal, u64 starved_at
  states = 37,   // per rank one letter, 0: gone
  alive = 38,    // nothing
  refused = 39,  // encode_error(): the ranks cannot be started; none is left
  fed = 40,      // u32 rank, u64 input bytes that the rank has taken so far; ~0: takes no more
  answer = 41,   // AgentAnswer
  above = 42,    // u32 host of the branch, u16 AgentFrame, payload: from the agent there
  phase = 43,    // u32 host of the branch, BranchPhase
  talk = 44,     // u32 host of the branch, text that its agent wrote on its standard error
};

struct AgentHello {
  static constexpr const char* kRecord = "greeting of the agent";
  uint32_t version = kAgentVersion;
  std::string build;    // version of the binary
  std::string host;     // as its kernel calls it
  std::string machine;  // x86_64, aarch64
  std::string address;  // at which it was reached, or its first; may be empty
  int32_t pid = 0, cores = 0, gpus = 0;
  int32_t gpus_on_pci = 0;           // NVIDIA's, whether they can be used or not
  std::string driver;                // NVIDIA's version; empty: none is loaded
  std::vector<std::string> visible;  // CUDA_VISIBLE_DEVICES there: one entry or none
  uint16_t free_port = 0;            // of the moment, for MASTER_PORT

  // Another version than this one's is an error of its own, code launch.
  static Result<AgentHello> decode(ByteView payload);
};
void fields(Record& io, AgentHello& hello);

struct AgentRank {
  std::vector<std::string> argv;         // empty: this binary as a rank of ours
  std::vector<std::string> environment;  // NAME=value, over the agent's own
  bool null_stdin = true;
};

// The environment travels here and nowhere else; secrets of ours are never in it.
struct AgentStart {
  static constexpr const char* kRecord = "start order";
  std::vector<AgentRank> ranks;
  std::vector<std::string> environment;  // for all of them, below their own
  std::vector<std::string> defaults;     // the same, where that host says nothing
  std::string folder;                    // to work in, if it exists there
  std::string bind_to;
  std::string data_address;  // the interface with this address carries the data; may be empty
  double heartbeat_s =
      15;              // without a message from the launcher for this long, everything is ended
  double grace_s = 5;  // from SIGTERM to SIGKILL then
};
void fields(Record& io, AgentStart& record);

struct AgentStarted {
  static constexpr const char* kRecord = "word of started ranks";
  std::vector<int32_t> pids;
  std::string note;  // for the user; may be empty
};
void fields(Record& io, AgentStarted& record);

struct AgentQuestion {
  static constexpr const char* kRecord = "question";
  uint32_t number = 0;
  std::string what, argument;
};
void fields(Record& io, AgentQuestion& record);

struct AgentAnswer {
  static constexpr const char* kRecord = "answer";
  static constexpr size_t kMostText = size_t(16) << 20;
  uint32_t number = 0;  // of the question
  std::string text;
  std::optional<Error> error;  // instead of the text
};
void fields(Record& io, AgentAnswer& record);

}  // namespace collctl::launcher

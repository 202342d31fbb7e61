// A tuner: it may change the planner's choice for a collective (runtime/tuner: a plugin by NCCL's
// interface). It is given the times of what can be had, as NCCL's table has them, and edits it.
//
// Entries with a number there: Tree (tree, tree-split), Ring (ring), CollNetChain (collnet), each
// with LL, LL128, Simple. All else of ours (windows, doubling, Bruck, ...) stays beside the table
// with its own time: a tuner that sets a time of 0 has its way, one that changes nothing leaves the
// choice to us, and one that leaves a single entry of several has chosen it. CollNetDirect, NVLS,
// NVLSTree and PAT are not here: their entries are always -1.
//
// Threads: the one that plans for the communicator; rules and numbers: any.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "kernels/algo/ids.h"
#include "kernels/contract/types.h"

namespace collctl::runtime {

struct TunerTable {
  static constexpr int kAlgorithms = 7, kProtocols = 3;
  float us[kAlgorithms][kProtocols];  // below 0: cannot be had
  bool operator==(const TunerTable&) const = default;
};
struct TunerQuestion {
  kernels::Collective collective{};
  uint64_t bytes = 0;       // as in algbw
  bool registered = false;  // all buffers lie in users' windows
};
struct TunerAnswer {
  TunerTable table;
  int channels = 0;  // 0: as planned
};

class Tuner {
 public:
  virtual ~Tuner() = default;
  // "tuner plugin 'x' (libnccl-tuner-x.so, version 5)"
  virtual const std::string& text() const = 0;
  // The same question, with the same table, has the same answer. Error: the call failed.
  virtual Result<TunerAnswer> ask(const TunerQuestion& question, const TunerTable& table) = 0;
  // The tuner's choice cannot be done, or it has failed. Where the user named it, an error: what
  // they asked for would not be done. Else it is warned of once, and the choice is ours.
  virtual Status refuse(Error why) = 0;
};

// Those that NCCL's tuners are asked about.
bool is_tuned(kernels::Collective collective);
// NCCL's number; nothing: it has none.
std::optional<int> tuner_algorithm(kernels::AlgorithmId algorithm);
int tuner_protocol(kernels::Protocol protocol);
const char* tuner_algorithm_name(int number);  // "CollNetChain"
const char* tuner_protocol_name(int number);   // "LL128"
// Why there is nothing of ours behind it; null: there is.
const char* tuner_algorithm_missing(int number);

// One choice of the planner's.
struct PlainChoice {
  kernels::AlgorithmId algorithm{};
  kernels::Protocol protocol{};
  int channels = 1;
  double us = 0;  // by the model
};
// A choice about which a tuner was asked.
struct TunedChoice {
  bool followed = false;  // it is the tuner's
  std::string wish;       // in words: "Ring/LL, 2 channels"; empty: it left the choice to us
  PlainChoice own;        // what would have been chosen without it
  uint64_t question = 0;  // the same on all ranks that plan the same operation
  uint64_t bytes = 0;     // of the question
};

}  // namespace collctl::runtime

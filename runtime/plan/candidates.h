// Candidates for one collective, for the planner to choose from, each with its predicted time.
// Internal to the planner (planner.h): pure, the same on all ranks.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "kernels/algo/algorithms.h"
#include "runtime/plan/cost.h"
#include "runtime/plan/operation.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/planner.h"
#include "runtime/plan/tuner.h"
#include "runtime/request/choices.h"

namespace collctl::runtime::detail {

struct PlanCandidate {
  const kernels::AlgorithmRow* row = nullptr;
  kernels::Protocol protocol{};
  int channels = 1;
  uint64_t chunk_bytes = 0;  // of fifo algorithms, and of windows with banks
  int threads = 0;
  bool by_window_kernel = false;
  Prediction time = {};
};

struct Chosen {
  PlanCandidate candidate;
  std::string why;
  std::optional<TunedChoice> tuned = {};  // a tuner was asked
};
using CandidatesOf = std::vector<PlanCandidate> (*)(const Operation&, const CommShape&,
                                                    const Choices&);
// `own`, the best of `all`, or what shape.tuner makes of it. Error: Tuner::refuse()'s.
Result<Chosen> tuned(const Operation& op, const CommShape& shape, const Choices& choices,
                     bool registered, const Chosen& own, const std::vector<PlanCandidate>& all,
                     const CandidatesOf& candidates_of);

// The expectation that `plan` shows and a run is compared with. `by_window_kernel`: of GPUs.
Expected expected_of(const Prediction& time, bool by_window_kernel, const CommShape& shape);

// The collective that the kernels run: a barrier is an all-reduce.
inline Collective executed(Collective c) {
  return c == Collective::barrier ? Collective::all_reduce : c;
}
inline uint64_t bytes_of(const Operation& op) {
  return op.count * kernels::element_size(op.type);
}

// Each of its messages is many blocks: one channel has whole ones, which travel together.
inline bool joins_blocks(kernels::AlgorithmId id) {
  return id == kernels::AlgorithmId::bruck || id == kernels::AlgorithmId::halving;
}
// Empty, or why there is no room for its sums: it is for small operations.
std::string scratch_refusal(const kernels::AlgorithmRow& row, const Operation& op, int nranks);

// The cost factor of a step over partners that adds: its source is read twice.
inline constexpr double kReadTwice = 1.2;

// Pipelines (chains and trees) cut the part so that all levels work at once: the bytes of a chunk
// out of the part of `bytes`, between `least` and `most`.
uint64_t pipeline_chunk(uint64_t bytes, int depth, uint64_t least, uint64_t most);
// Messages between partners that wait for one another.
int messages_in_turn(const kernels::AlgorithmRow& row, Collective collective, int nranks);
// Hand-overs from the first rank of a pipeline of chunks to its last: of a chain (broadcast and
// reduce round a ring), of trees. 0: it is none.
int pipeline_depth(const kernels::AlgorithmRow& row, Collective collective, const CommShape& shape);
bool is_tree(kernels::AlgorithmId algorithm);
// Levels of a tree below the root, or below the network.
int levels_of(kernels::AlgorithmId algorithm, const CommShape& shape);
// The number of channels, at most `wanted`, that the network has groups for; at least one.
int network_channels(const CommShape& shape, int wanted);

// Bytes of a chunk of messages, and of all that is made of messages, alike at both ends.
uint64_t link_chunk_bytes(const CommShape& shape, kernels::Protocol protocol,
                          uint64_t message_bytes);
// Work::mark: messages of at least 2^mark bytes are lent; 0: none.
uint8_t lends_from(const CommShape& shape);

// The candidates for GPU ranks.
std::vector<PlanCandidate> gpu_candidates(const Operation& op, const CommShape& shape,
                                          const Choices& choices);
// The reasons why what `choices` names cannot be used.
void gpu_refusals(const Operation& op, const CommShape& shape, const Choices& choices,
                  const std::function<void(const std::string&)>& add);

// Messages between GPUs of one host that go through its memory, and the most channels that one of
// so many bytes has use for.
bool pairs_through_host(const CommShape& shape);
int most_pair_channels(uint64_t message_bytes, int have, const CommShape& shape);
// Between nodes through host memory: the channels that a message of so many bytes is worth.
int staged_channels(uint64_t message_bytes, int have);

// Threads that move data out of those of useful_width(), as launches want them
// (kernels/cuda/launch.h): Simple's warp of counters comes on top there.
int mover_threads(int threads, kernels::Protocol protocol);

}  // namespace collctl::runtime::detail

// Calls to the fake libnccl.so.2 from a test that is linked with it. Its collectives queue
// a short sleep on the stream, which the fake CUDA driver runs; with `moves` those that reduce,
// gather and broadcast move float32 and add it up, else they move nothing.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fake_nccl {

struct Setup {
  int version = 22809;
  bool refuse_init = false;     // ncclCommInitRank returns an error
  bool hang_init = false;       // and never comes back
  bool refuse_windows = false;  // no symmetric windows
  // Collectives of communicators that were made with this NCCL_ALGO return an error.
  std::string refuse_algorithm = {};
  int init_ms = 0;  // that ncclCommInitRank takes
  uint64_t buffer_bytes =
      0;  // of GPU memory: taken by a communicator's making, given back at its end
  uint64_t code_bytes = 0;  // by the first collective of all, and kept until unload()
  bool moves = false;
  int wrong_on = -1;  // with it: the rank whose results have a wrong first element
  // Collectives do not end until the next set_up() or let_go().
  bool hang_collective = false;
  // Written to NCCL_DEBUG_FILE where NCCL_DEBUG is INFO, when the first communicator is made.
  std::string log = {};
};
void set_up(const Setup& setup);
// Nanoseconds of the clock that its sleeps go by, which is the machine's at first. Before any other
// thread runs.
void use_clock(int64_t (*ns)());
// The call of this function after `after` others, since set_up(), fails once; collectives are one
// function, "collective".
void fail(const std::string& function, int after = 0);
// How often each function that can fail was called since set_up().
std::map<std::string, int> calls();
// Lets collectives that hang go on.
void let_go();
// Gives back what stands for NCCL's code.
void unload();

// The environment as each communicator found it when it was made.
struct Made {
  std::string algorithm, protocol, nvls;
  int rank = 0;
};
std::vector<Made> made();
struct Counts {
  int communicators = 0, windows = 0, registrations = 0;  // held now
  int calls = 0;                                          // collectives so far
  int unmatched = 0;  // sends without their receives, and the other way; the real one would hang
};
Counts counts();

}  // namespace fake_nccl

// What a test that is linked with the fake libnccl.so.2 tells it and asks it. Its collectives move
// nothing: they queue a short sleep on the stream, which the fake CUDA driver runs.
#pragma once
#include <string>
#include <vector>

namespace fake_nccl {

struct Setup {
  int version = 22809;
  bool refuse_init = false;     // ncclCommInitRank returns an error
  bool hang_init = false;       // and never comes back
  bool refuse_windows = false;  // no symmetric windows
};
void set_up(const Setup& setup);

// Of each communicator that was made: what it found in the environment.
struct Made {
  std::string algorithm, protocol, nvls;
  int rank = 0;
};
std::vector<Made> made();
struct Counts {
  int communicators = 0, windows = 0, registrations = 0;  // held now
  int calls = 0;                                          // collectives so far
};
Counts counts();

}  // namespace fake_nccl

// The data check of one rank: which bytes an output must hold, and which of them do not. Called by
// bench_rank on the rank's thread. Nothing is tolerated: equality of bits, of every element of the
// output, of the input (which nobody may change) and of the guard zones around both.
#pragma once
#include <cstdint>
#include <vector>

#include "cmd/verify/buffer_shape.h"
#include "cmd/verify/data_inputs.h"
#include "cmd/verify/guarded_buffer.h"

namespace collctl::cmd {

// A stretch of a buffer and where its right contents come from.
struct Segment {
  enum class Source : uint8_t {
    reduced,   // the reduction of all ranks' inputs
    input,     // rank `rank`'s input
    untouched  // the poison it held before
  };
  uint64_t at = 0, count = 0;  // elements of the buffer
  Source source = Source::reduced;
  int rank = -1;
  uint64_t first = 0;  // element of that sequence at `at`
};
// Segments of Operation::output (what this rank receives), and those of Operation::input that must
// stay.
std::vector<Segment> output_segments(const BenchOp& op, uint64_t count, const Place& place,
                                     bool in_place);
std::vector<Segment> input_segments(const BenchOp& op, uint64_t count, const Place& place,
                                    bool in_place);

// Inputs and expectations of one rank, kept from size to size.
class DataOracle {
 public:
  DataOracle(const DataKind& kind, int rank);
  const DataKind& kind() const { return kind_; }
  // This rank's whole input, from its element 0, into a buffer from byte `at` on.
  Status fill_input(GuardedBuffer& buffer, uint64_t at, uint64_t elements) const;
  // Wrong elements in `segment` of a buffer that begins at byte `at`; first and last count elements
  // from there. With `threads` the pieces of a large one are shared among so many.
  Result<Mismatch> compare(const Segment& segment, const GuardedBuffer& buffer, uint64_t at,
                           int threads) const;

 private:
  Mismatch compare_piece(const Segment& segment, const Pattern& pattern, uint64_t first,
                         uint64_t elements, const uint8_t* piece) const;

  DataKind kind_;
  int rank_;
  Pattern own_, reduced_;
};

struct CheckResult {
  uint64_t bad_outputs = 0;                    // elements
  uint64_t first_output = 0, last_output = 0;  // of Operation::output
  uint64_t still_poisoned = 0;                 // of the bad outputs: never written
  uint64_t bad_inputs = 0;                     // elements of the input that were changed
  uint64_t first_input = 0;
  uint64_t guard_bytes = 0;  // changed outside the buffers
  uint64_t wrong(uint32_t element_bytes) const {
    return bad_outputs + bad_inputs + (guard_bytes + element_bytes - 1) / element_bytes;
  }
};

// The buffers of a run and where the operation's input and output begin (bytes).
struct RunBuffers {
  GuardedBuffer* input = nullptr;
  GuardedBuffer* output = nullptr;  // the same buffer in place
  uint64_t input_at = 0, output_at = 0;
  uint64_t input_bytes = 0, output_bytes = 0;  // of the whole buffers, for the guards
};

// `threads` of this rank look at large buffers. Errors are of a GPU's memory that cannot be read.
Result<CheckResult> check_run(const DataOracle& oracle, const BenchOp& op, uint64_t count,
                              const Place& place, const RunBuffers& buffers, int threads = 1);

}  // namespace collctl::cmd

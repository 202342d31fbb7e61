// BenchRun: one rank of a measurement after the communicator is up: its buffers, the rows and their
// exchange. Made and run by bench_rank (bench.h) on the rank's thread; owns the buffers and the
// stream, borrows communicator, spec and sink.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cmd/bench.h"
#include "cmd/bench_timing.h"
#include "cmd/data_check.h"
#include "runtime/communicator.h"

namespace collctl::cmd {

// What one row runs: everything but the placement.
struct RowKey {
  kernels::Collective collective{};
  kernels::DataType type{};
  kernels::RedOp op{};
  int root = -1;  // -1: the collective has none
  SizePoint size;
};

// The operations of a row on these buffers: one, or a send and a receive.
std::vector<runtime::Operation> operations_for(const RowKey& key, const Place& place,
                                               const RunBuffers& buffers);
// Where input and output of a row lie in the two buffers.
RunBuffers place_buffers(const RowKey& key, const Place& place, bool in_place, GuardedBuffer& input,
                         GuardedBuffer& output);

class BenchRun {
 public:
  BenchRun(const BenchSpec& spec, runtime::Communicator& communicator, BenchSink& sink);
  Status run();

 private:
  struct Half {  // one placement of a row, this rank's share
    Samples samples;
    CheckResult check;
    bool measured = false;
  };
  using Combination = std::pair<std::string, std::string>;  // algorithm, protocol

  Status check_spec() const;
  Status send_header();
  Status reserve_buffers(const std::vector<uint64_t>& sizes);
  Status series(kernels::DataType type, kernels::RedOp op, int root,
                const std::vector<uint64_t>& sizes);
  Status combination(RowKey key, const std::vector<uint64_t>& sizes);
  Status row(const RowKey& key);
  Result<Half> half(const RowKey& key, bool in_place);
  Status report_row(const RowKey& key, const Half& out_of_place, const Half& in_place);
  Status explain(const RowKey& key, bool in_place, const CheckResult& check);
  void prepare(const RowKey& key, const RunBuffers& buffers);
  Place place_of(const RowKey& key) const;
  Deadline patience() const;
  const DataOracle& oracle(const RowKey& key);

  const BenchSpec& spec_;
  runtime::Communicator& communicator_;
  BenchSink& sink_;
  double timeout_s_;
  runtime::Stream stream_;
  std::optional<Meeting> meet_;
  std::vector<Combination> combinations_;
  GuardedBuffer input_, output_;
  std::unique_ptr<DataOracle> oracle_;
  uint64_t rows_done_ = 0, rows_total_ = 0;
  int explained_ = 0;  // wrong rows so far; the same on all ranks
};

}  // namespace collctl::cmd

#include "cmd/measure/mpi_calls.h"

#include <algorithm>
#include <atomic>
#include <climits>
#include <optional>
#include <utility>

#include "base/clock.h"

namespace collctl::cmd {

using namespace base::drivers;
using kernels::Collective;
using kernels::DataType;
using kernels::RedOp;
using runtime::Operation;

namespace {

constexpr std::pair<DataType, MpiType> kTypesInMpi[] = {
    {DataType::int8, MpiType::int8},       {DataType::uint8, MpiType::uint8},
    {DataType::int32, MpiType::int32},     {DataType::uint32, MpiType::uint32},
    {DataType::int64, MpiType::int64},     {DataType::uint64, MpiType::uint64},
    {DataType::float32, MpiType::float32}, {DataType::float64, MpiType::float64}};
constexpr std::pair<RedOp, MpiOp> kOpsInMpi[] = {{RedOp::sum, MpiOp::sum},
                                                 {RedOp::prod, MpiOp::prod},
                                                 {RedOp::min, MpiOp::min},
                                                 {RedOp::max, MpiOp::max}};
// None: MPI has no such thing.
template <class Ours, class Theirs, size_t N>
std::optional<Theirs> in_mpi(const std::pair<Ours, Theirs> (&table)[N], Ours ours) {
  for (const auto& [mine, theirs] : table)
    if (mine == ours) return theirs;
  return std::nullopt;
}

// The largest number that MPI counts of a row, in its calls or, where ranks have a block each,
// within them: elements of a reduction, else bytes.
uint64_t most_counted(const RowKey& key, int nranks) {
  const uint64_t count = key.size.count, size = kernels::element_size(key.type);
  const BenchOp& op = key.collective;
  if (op == Collective::all_reduce || op == Collective::reduce) return count;
  if (op == Collective::broadcast || op == Collective::send_recv) return count * size;
  return std::max({most_input(op, count, nranks), most_output(op, count, nranks),
                   uint64_t(nranks) * count}) *
         size;
}

// A row in MPI's words: what is called for it, again and again. Every submission is a call.
template <class Handle>
class Calls {
 public:
  Calls(const MpiTable<Handle>& table, const PlacedRow& row)
      : table_(table),
        key_(row.key),
        place_(row.place),
        in_place_(row.in_place()),
        input_(row.buffers.input->data() + row.buffers.input_at),
        output_(row.buffers.output->data() + row.buffers.output_at),
        submissions_(submissions_for(row)) {
    if (is_uneven(key_.collective)) lay_out();
    for (const Submission& submission : submissions_)
      requests_.resize(std::max(requests_.size(), submission.size()));
  }
  int operator()() {
    for (const Submission& submission : submissions_)
      if (const int code = call(submission); code != kMpiSuccess) return code;
    return kMpiSuccess;
  }

 private:
  Handle type(MpiType of) const { return table_.types[int(of)]; }

  // Data that is only moved travels as bytes.
  int call(const Submission& submission) {
    const Operation& o = submission.front();
    const Handle byte = type(MpiType::byte), world = table_.world;
    const bool root = place_.rank == place_.root;
    const void* const own = in_place_ ? table_.in_place : o.input;
    const int count = int(o.count);
    // Reductions may have more bytes than an int counts.
    const int bytes = has_op(key_.collective) ? 0 : int(o.count * kernels::element_size(o.type));
    const int from_own = in_place_ ? 0 : bytes;
    const int at = place_.root;
    switch (key_.collective.calls) {
      case Collective::all_reduce:
        return table_.all_reduce(own, o.output, count, element(), reduction(), world);
      case Collective::reduce:
        return table_.reduce(root ? own : o.input, root ? o.output : nullptr, count, element(),
                             reduction(), at, world);
      // In place MPI's result lies at the beginning, ours at the rank's own block.
      case Collective::reduce_scatter:
        return table_.reduce_scatter_block(own, in_place_ ? const_cast<void*>(o.input) : o.output,
                                           count, element(), reduction(), world);
      case Collective::broadcast:
        return table_.bcast(root ? const_cast<void*>(o.input) : o.output, bytes, byte, at, world);
      case Collective::all_gather:
        return table_.all_gather(own, from_own, byte, o.output, bytes, byte, world);
      case Collective::gather:
        return table_.gather(root ? own : o.input, root ? from_own : bytes, byte, o.output, bytes,
                             byte, at, world);
      case Collective::scatter:
        return table_.scatter(o.input, bytes, byte,
                              root && in_place_ ? const_cast<void*>(table_.in_place) : o.output,
                              bytes, byte, at, world);
      case Collective::all_to_all:
        return table_.all_to_all(o.input, bytes, byte, o.output, bytes, byte, world);
      case Collective::barrier:
        return table_.barrier(world);
      case Collective::send_recv:
        break;
    }
    if (is_uneven(key_.collective))
      return table_.all_to_all_v(input_, counts_[0].data(), places_[0].data(), byte, output_,
                                 counts_[1].data(), places_[1].data(), byte, world);
    return messages(submission);
  }

  int messages(const Submission& submission) {
    const Handle byte = type(MpiType::byte);
    int begun = 0;
    for (const bool receives : {true, false})
      for (const Operation& half : submission) {
        if ((half.output != nullptr) != receives) continue;
        const int bytes = int(half.count * kernels::element_size(half.type));
        Handle* const request = &requests_[size_t(begun++)];
        const int code =
            receives ? table_.irecv(half.output, bytes, byte, half.peer, 0, table_.world, request)
                     : table_.isend(half.input, bytes, byte, half.peer, 0, table_.world, request);
        if (code != kMpiSuccess) return code;
      }
    return table_.waitall(begun, requests_.data(), table_.statuses_ignore);
  }

  // Messages of an uneven exchange, sent and received: bytes by rank, and where they lie.
  void lay_out() {
    for (auto* lists : {&counts_, &places_})
      for (std::vector<int>& list : *lists) list.assign(size_t(place_.nranks), 0);
    for (const Operation& half : submissions_.at(0)) {
      const int side = half.input != nullptr ? 0 : 1;
      const uint8_t* const base = side == 0 ? input_ : output_;
      const auto* const at = static_cast<const uint8_t*>(side == 0 ? half.input : half.output);
      counts_[side][size_t(half.peer)] = int(half.count * kernels::element_size(half.type));
      places_[side][size_t(half.peer)] = int(at - base);
    }
  }
  // mpi_lacks() has refused rows without them.
  Handle element() const { return type(*in_mpi(kTypesInMpi, key_.type)); }
  Handle reduction() const { return table_.ops[int(*in_mpi(kOpsInMpi, key_.op))]; }

  const MpiTable<Handle>& table_;
  // Not the buffers, which it may outlive: their memory alone.
  const RowKey key_;
  const Place place_;
  const bool in_place_;
  const uint8_t* const input_;
  uint8_t* const output_;
  std::vector<Submission> submissions_;
  std::vector<Handle> requests_;
  std::vector<int> counts_[2], places_[2];
};

template <class Handle>
class MpiTimed : public Timed {
 public:
  MpiTimed(const MpiTable<Handle>& table, CallThread& thread, const PlacedRow& row,
           runtime::Communicator& communicator, double timeout_s)
      : table_(table),
        thread_(thread),
        calls_(std::make_shared<Calls<Handle>>(table, row)),
        communicator_(communicator),
        buffers_(row.buffers),
        name_(name_of(row.key.collective)),
        bytes_(row.key.size.bytes),
        timeout_s_(timeout_s) {}

  Status enqueue() override {
    ++queued_;
    return {};
  }
  Status wait() override {
    struct Block {
      std::atomic<uint64_t> done = 0;
      std::atomic<bool> left = false;  // nobody waits any more
      int64_t took_ns = 0;
    };
    const uint64_t times = std::exchange(queued_, 0);
    const auto block = std::make_shared<Block>();
    // It owns all that it touches but the buffers' memory, in case it is left behind.
    const auto work = [calls = calls_, &table = table_, name = name_, times, block]() -> Status {
      COLL_TRY(mpi_checked(table, table.barrier(table.world), "MPI_Barrier"));
      const int64_t from = now_ns();
      for (uint64_t i = 0; i < times && !block->left; ++i) {
        if (const int code = (*calls)(); code != kMpiSuccess) return mpi_checked(table, code, name);
        block->done.store(i + 1, std::memory_order_relaxed);
      }
      block->took_ns = now_ns() - from;
      return {};
    };
    // Each operation may take its time.
    const auto fresh = [&] {
      return Deadline::after_seconds(timeout_s_ + slowest_seconds(bytes_));
    };
    uint64_t seen = 0;
    Deadline deadline = fresh();
    const auto patience = [&]() -> Status {
      COLL_TRY(communicator_.async_error());
      const uint64_t done = block->done.load(std::memory_order_relaxed);
      if (std::exchange(seen, done) != done) deadline = fresh();
      return deadline.passed() ? Status(mpi_hang(name_)) : Status();
    };
    Status ended = thread_.run(work, name_, patience);
    if (thread_.hangs()) {
      block->left = true;
      buffers_.input->keep_allocated();
      buffers_.output->keep_allocated();
    }
    if (!ended) return ended;
    took_ns_ = block->took_ns;
    return {};
  }
  int64_t took_ns(int64_t) const override { return took_ns_; }

 private:
  const MpiTable<Handle>& table_;
  CallThread& thread_;
  std::shared_ptr<Calls<Handle>> calls_;
  runtime::Communicator& communicator_;
  const RunBuffers buffers_;
  const char* name_;
  uint64_t bytes_;
  double timeout_s_;
  uint64_t queued_ = 0;
  int64_t took_ns_ = 0;
};

}  // namespace

Error mpi_hang(const std::string& what) {
  return {ErrorCode::deadline, format("MPI hangs, not collctl: {} did not return in time", what),
          kMpiAlone};
}

template <class Handle>
std::unique_ptr<Timed> mpi_timed(const MpiTable<Handle>& table, CallThread& thread,
                                 const PlacedRow& row, runtime::Communicator& communicator,
                                 double timeout_s) {
  return std::make_unique<MpiTimed<Handle>>(table, thread, row, communicator, timeout_s);
}
template std::unique_ptr<Timed> mpi_timed(const MpiTable<void*>&, CallThread&, const PlacedRow&,
                                          runtime::Communicator&, double);
template std::unique_ptr<Timed> mpi_timed(const MpiTable<int>&, CallThread&, const PlacedRow&,
                                          runtime::Communicator&, double);

std::string mpi_lacks(const RowKey& key, int nranks) {
  if (has_op(key.collective) && !in_mpi(kTypesInMpi, key.type))
    return format("it has no {}", kernels::name_of(key.type));
  if (has_op(key.collective) && !in_mpi(kOpsInMpi, key.op))
    return format("it has no {}", kernels::name_of(key.op));
  return most_counted(key, nranks) > INT_MAX ? "its counts are of 32 bits" : "";
}

}  // namespace collctl::cmd

#include "cmd/measure/versus_nccl.h"

#include <utility>

#include "base/check.h"
#include "base/format.h"
#include "cmd/measure/call_thread.h"
#include "transport/nccl_numbers.h"

namespace collctl::cmd {

using namespace base::drivers;
using kernels::Collective;
using runtime::Operation;

namespace {

constexpr double kDestroySeconds = 10;  // for a communicator to be destroyed

constexpr NcclVariant kVariants[] = {
    {"default", "", "", NcclBuffers::plain},
    {"ring", "Ring", "", NcclBuffers::plain},
    {"ring-ll", "Ring", "LL", NcclBuffers::plain},
    {"ring-ll128", "Ring", "LL128", NcclBuffers::plain},
    {"ring-simple", "Ring", "Simple", NcclBuffers::plain},
    {"tree", "Tree", "", NcclBuffers::plain},
    {"tree-ll", "Tree", "LL", NcclBuffers::plain},
    {"tree-ll128", "Tree", "LL128", NcclBuffers::plain},
    {"tree-simple", "Tree", "Simple", NcclBuffers::plain},
    {"registered", "", "", NcclBuffers::registered},
    {"symmetric", "", "", NcclBuffers::symmetric},
};

// Collectives that NCCL has only as sends and receives: block r of the root's side for rank r.
struct Blocks {
  const Nccl& table;
  NcclComm comm;
  void* stream;
  const Operation& op;
  uint64_t bytes;  // of a block
  int type;

  NcclReturn send(int block, int peer) const {
    const auto* from = static_cast<const uint8_t*>(op.input) + uint64_t(block) * bytes;
    return table.send(from, op.count, type, peer, comm, stream);
  }
  NcclReturn receive(int block, int peer) const {
    auto* to = static_cast<uint8_t*>(op.output) + uint64_t(block) * bytes;
    return table.recv(to, op.count, type, peer, comm, stream);
  }
};

NcclReturn call_messages(const Nccl& table, const Submission& messages, int type, NcclComm comm,
                         void* stream) {
  NcclReturn first = kNcclSuccess;
  for (const Operation& half : messages) {
    const NcclReturn code =
        half.input != nullptr ? table.send(half.input, half.count, type, half.peer, comm, stream)
                              : table.recv(half.output, half.count, type, half.peer, comm, stream);
    if (first == kNcclSuccess) first = code;
  }
  return first;
}

NcclReturn exchange(const Blocks& b, Collective collective, const Place& place) {
  const bool root = place.rank == place.root;
  NcclReturn first = kNcclSuccess;
  const auto call = [&](NcclReturn code) {
    if (first == kNcclSuccess) first = code;
  };
  for (int r = 0; r < place.nranks; ++r) {
    if (collective == Collective::all_to_all) {
      call(b.send(r, r));
      call(b.receive(r, r));
    }
    if (collective == Collective::scatter && root) call(b.send(r, r));
    if (collective == Collective::gather && root) call(b.receive(r, r));
  }
  if (collective == Collective::scatter) call(b.receive(0, place.root));
  if (collective == Collective::gather) call(b.send(0, place.root));
  return first;
}

}  // namespace

std::span<const NcclVariant> nccl_variants() {
  return kVariants;
}

bool serves(const NcclVariant& variant, const RowKey& key, int version) {
  const Collective c = key.collective.calls;
  const std::string algorithm = variant.algorithm;
  if (c == Collective::barrier) return false;
  if (transport::nccl_type(key.type) < 0) return false;
  if (is_float8(key.type) && version < kNcclVersionFloat8) return false;
  if (algorithm == "Tree") return c == Collective::all_reduce;
  if (algorithm == "Ring")
    return c == Collective::all_reduce || c == Collective::broadcast || c == Collective::reduce ||
           c == Collective::all_gather || c == Collective::reduce_scatter;
  if (variant.buffers == NcclBuffers::symmetric)
    return version >= kNcclVersionWindows &&
           (c == Collective::all_reduce || c == Collective::all_gather ||
            c == Collective::reduce_scatter);
  return true;
}

Error nccl_error(const std::string& what, NcclReturn code, NcclComm comm) {
  const Nccl& table = nccl();
  std::string text = format("{}: {}", what, table.error_string(code));
  if (table.last_error != nullptr)
    if (const char* last = table.last_error(comm); last != nullptr && last[0] != 0)
      text += format(" ({})", last);
  return {ErrorCode::lost, "NCCL failed, not collctl: " + text,
          "NCCL_DEBUG=INFO shows what NCCL does; without --vs collctl runs alone"};
}

Status within_deadline(const transport::DevicePointer& device, Deadline deadline,
                       const std::string& what, std::function<Status()> work) {
  CallThread thread([](const std::string& call) {
    return Error(ErrorCode::deadline,
                 format("NCCL hangs, not collctl: {} did not return in time", call),
                 "NCCL_DEBUG=INFO shows what NCCL does; without --vs collctl runs alone");
  });
  return thread.run(deadline, what, [device, work = std::move(work)]() -> Status {
    COLL_TRY(device->use());
    return work();
  });
}

Result<std::shared_ptr<NcclCommunicator>> NcclCommunicator::make(
    const Options& options, const transport::DevicePointer& device) {
  std::shared_ptr<NcclCommunicator> made(new NcclCommunicator());
  made->options_ = options;
  made->device_ = device;
  auto comm = std::make_shared<NcclComm>(nullptr);
  const auto work = [comm, options]() -> Status {
    const NcclReturn code = nccl().init_rank(comm.get(), options.nranks, options.id, options.rank);
    if (code != kNcclSuccess) return nccl_error("ncclCommInitRank", code, nullptr);
    return {};
  };
  COLL_TRY(within_deadline(device, Deadline::after_seconds(options.timeout_s), "ncclCommInitRank",
                           work));
  made->comm_ = *comm;
  return made;
}

NcclCommunicator::~NcclCommunicator() {
  // The process is about to end, and its results are out.
  static_cast<void>(close());
}

Status NcclCommunicator::close() {
  if (comm_ == nullptr) return {};
  const auto leave = [comm = std::exchange(comm_, nullptr), failed = failed_,
                      registered = std::move(registered_),
                      buffers = options_.variant->buffers]() -> Status {
    const Nccl& table = nccl();
    if (failed) {
      table.abort(comm);
      return {};
    }
    for (const auto& [memory, handle] : registered)
      if (buffers == NcclBuffers::symmetric)
        table.deregister_window(comm, static_cast<NcclWindow>(handle));
      else
        table.deregister_buffer(comm, handle);
    table.destroy(comm);
    return {};
  };
  return within_deadline(device_, Deadline::after_seconds(kDestroySeconds), "ncclCommDestroy",
                         leave);
}

Status NcclCommunicator::register_buffer(const GuardedBuffer& buffer) {
  if (variant().buffers == NcclBuffers::plain || registered_.count(buffer.allocation()) != 0)
    return {};
  const bool symmetric = variant().buffers == NcclBuffers::symmetric;
  if (symmetric ? nccl().register_window == nullptr : nccl().register_buffer == nullptr)
    return Error(ErrorCode::unavailable,
                 format("this NCCL is too old for the variant {}", variant().name));
  auto handle = std::make_shared<void*>(nullptr);
  const auto work = [handle, symmetric, comm = comm_, memory = buffer.allocation(),
                     bytes = buffer.allocated_bytes()]() -> Status {
    const Nccl& table = nccl();
    NcclReturn code = kNcclSuccess;
    if (symmetric) {
      NcclWindow window = nullptr;
      code = table.register_window(comm, memory, bytes, &window, kNcclWindowSymmetric);
      *handle = window;
    } else {
      code = table.register_buffer(comm, memory, bytes, handle.get());
    }
    if (code != kNcclSuccess) return nccl_error("registering a buffer", code, comm);
    return {};
  };
  COLL_TRY(
      within_deadline(device_, Deadline::after_seconds(timeout_s()), "registering a buffer", work));
  if (symmetric && *handle == nullptr)
    return Error(ErrorCode::unavailable, "NCCL makes no symmetric window of these buffers");
  registered_.emplace(buffer.allocation(), *handle);
  return {};
}

Status NcclCommunicator::enqueue(const RowKey& key, const Place& place,
                                 const Submission& submission, void* stream) const {
  const Nccl& table = nccl();
  const int type = transport::nccl_type(key.type), op = transport::nccl_op(key.op);
  const Operation& o = submission.front();
  NcclReturn code = kNcclSuccess;
  const auto grouped = [&](auto&& calls) {
    code = table.group_start();
    if (code != kNcclSuccess) return;
    const NcclReturn inner = calls();
    code = table.group_end();
    if (inner != kNcclSuccess) code = inner;
  };
  switch (key.collective.calls) {
    case Collective::all_reduce:
      code = table.all_reduce(o.input, o.output, o.count, type, op, comm_, stream);
      break;
    case Collective::broadcast:
      code = table.broadcast(o.input, o.output, o.count, type, place.root, comm_, stream);
      break;
    case Collective::reduce:
      code = table.reduce(o.input, o.output, o.count, type, op, place.root, comm_, stream);
      break;
    case Collective::all_gather:
      code = table.all_gather(o.input, o.output, o.count, type, comm_, stream);
      break;
    case Collective::reduce_scatter:
      code = table.reduce_scatter(o.input, o.output, o.count, type, op, comm_, stream);
      break;
    case Collective::send_recv:
      grouped([&] { return call_messages(table, submission, type, comm_, stream); });
      break;
    case Collective::all_to_all:
      if (table.all_to_all != nullptr) {
        code = table.all_to_all(o.input, o.output, o.count, type, comm_, stream);
        break;
      }
      [[fallthrough]];
    case Collective::gather:
    case Collective::scatter: {
      const Blocks blocks{table, comm_, stream, o, o.count * kernels::element_size(key.type), type};
      grouped([&] { return exchange(blocks, key.collective.calls, place); });
      break;
    }
    case Collective::barrier:
      COLL_CHECK_NOTE(false, "NCCL has no barrier");
  }
  if (code != kNcclSuccess) return nccl_error(name_of(key.collective), code, comm_);
  return {};
}

Status NcclCommunicator::enqueue_grouped(int times, const RowKey& key, const Place& place,
                                         std::span<const Submission> submissions,
                                         void* stream) const {
  const Nccl& table = nccl();
  for (const Submission& submission : submissions) {
    if (times == 1) {
      COLL_TRY(enqueue(key, place, submission, stream));
      continue;
    }
    if (const NcclReturn code = table.group_start(); code != kNcclSuccess)
      return nccl_error("beginning a group", code, comm_);
    Status queued;
    for (int i = 0; i < times && queued; ++i) queued = enqueue(key, place, submission, stream);
    const NcclReturn ended = table.group_end();
    if (queued && ended != kNcclSuccess) return nccl_error("ending a group", ended, comm_);
    COLL_TRY(std::move(queued));
  }
  return {};
}

Status NcclCommunicator::async_error() const {
  NcclReturn code = kNcclSuccess;
  const NcclReturn asked = nccl().async_error(comm_, &code);
  if (asked != kNcclSuccess) code = asked;
  if (code != kNcclSuccess) return nccl_error("asynchronously", code, comm_);
  return {};
}

}  // namespace collctl::cmd

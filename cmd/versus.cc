#include "cmd/versus.h"

#include <algorithm>
#include <climits>

#include "base/clock.h"
#include "base/env.h"
#include "base/format.h"
#include "base/log.h"
#include "cmd/versus_nccl.h"

namespace collctl::cmd {

using namespace base::drivers;

std::vector<std::string> versus_variants() {
  std::vector<std::string> names;
  for (const NcclVariant& variant : nccl_variants()) names.emplace_back(variant.name);
  return names;
}

bool versus_serves(const std::string& variant, kernels::Collective collective) {
  const RowKey key{collective, kernels::DataType::float32, kernels::RedOp::sum, 0, {}};
  for (const NcclVariant& known : nccl_variants())
    if (variant == known.name) return serves(known, key, INT_MAX);
  return false;
}

struct Versus::State {
  Options options;
  runtime::Communicator& communicator;
  // NCCL's own: our stream is watched while it works, which a graph that NCCL records would not
  // bear. Each side's work is waited for before the other's begins.
  transport::DeviceStream stream;
  int version = 0;
  std::string name;
  std::vector<std::shared_ptr<NcclCommunicator>> communicators;

  Deadline patience() const { return Deadline::after_seconds(options.timeout_s * 2 + 10); }
  bool leads_process() const;
  Status agree(Status mine, const std::string& what);
  Result<NcclUniqueId> share_id();
  Status open(const NcclVariant& variant);
  Result<bool> prepare_buffers(NcclCommunicator& nccl_communicator, const RunBuffers& buffers);
};

// The lowest rank of this process.
bool Versus::State::leads_process() const {
  const auto& peers = communicator.peers();
  const uint64_t process = peers[size_t(communicator.rank())].process_hash;
  const auto first = std::find_if(peers.begin(), peers.end(),
                                  [&](const auto& peer) { return peer.process_hash == process; });
  return first->rank == communicator.rank();
}

// All ranks come to the first failure of any.
Status Versus::State::agree(Status mine, const std::string& what) {
  ByteWriter writer;
  writer.put(int32_t(mine ? 0 : int(mine.error().code)));
  writer.put_string(mine ? "" : mine.error().message.substr(0, 1000));
  COLL_ASSIGN(const std::vector<Bytes> all, communicator.gather_blobs(writer.bytes(), patience()));
  if (!mine) return std::move(mine.error()).within(what);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    ByteReader reader(all[rank]);
    const auto code = reader.get<int32_t>();
    const std::string message = reader.get_string(1000);
    if (code != 0) return Error(ErrorCode(code), format("rank {}: {}", rank, message)).within(what);
  }
  return {};
}

Result<NcclUniqueId> Versus::State::share_id() {
  NcclUniqueId id{};
  NcclReturn made = kNcclSuccess;
  if (communicator.rank() == 0) made = nccl().unique_id(&id);
  const auto* bytes = reinterpret_cast<const uint8_t*>(id.bytes);
  COLL_ASSIGN(
      const std::vector<Bytes> all,
      communicator.gather_blobs({bytes, made == kNcclSuccess ? sizeof id.bytes : 0}, patience()));
  if (made != kNcclSuccess) return nccl_error("ncclGetUniqueId", made, nullptr);
  if (all[0].size() != sizeof id.bytes)
    return Error(ErrorCode::lost, "NCCL failed, not collctl: rank 0 got no unique id");
  std::copy(all[0].begin(), all[0].end(), id.bytes);
  return id;
}

// NCCL reads NCCL_ALGO and NCCL_PROTO whenever a communicator is made (and much else once in a
// process), so variants differ by what they say meanwhile. Ranks of one process share them: the
// first sets them before all meet in share_id(), and takes them back after all have agreed.
Status Versus::State::open(const NcclVariant& variant) {
  std::vector<std::unique_ptr<base::ScopedVariable>> variables;
  if (leads_process()) {
    const auto set = [&](const char* variable, const std::string& value) {
      if (!value.empty())
        variables.push_back(std::make_unique<base::ScopedVariable>(variable, value));
    };
    set("NCCL_ALGO", variant.algorithm);
    set("NCCL_PROTO", variant.protocol);
    // Multicast is used by neither side, unless the user wants to see it.
    if (!base::environment("NCCL_NVLS_ENABLE")) set("NCCL_NVLS_ENABLE", "0");
  }
  COLL_ASSIGN(const NcclUniqueId id, share_id());
  const int64_t began = now_ns();
  const uint64_t free = communicator.device()->free_bytes();
  auto made = NcclCommunicator::make({.variant = &variant,
                                      .id = id,
                                      .rank = communicator.rank(),
                                      .nranks = communicator.size(),
                                      .timeout_s = options.timeout_s},
                                     communicator.device());
  Status mine;
  if (made) {
    communicators.push_back(std::move(*made));
    const uint64_t left = communicator.device()->free_bytes();
    COLL_INFO(init, "{} ({}): ready in {:.3f} s, holds {} bytes of {}", name, variant.name,
              double(now_ns() - began) / 1e9, free > left ? free - left : 0,
              communicator.device()->text());
  } else {
    mine = std::move(made.error());
  }
  return agree(std::move(mine), format("NCCL's communicator ({})", variant.name));
}

Versus::Versus() = default;
Versus::~Versus() {
  if (!state_) return;
  // One that hangs is enough to wait for.
  bool hangs = false;
  for (const auto& communicator : state_->communicators) {
    if (hangs) communicator->leave_behind();
    hangs = hangs || !communicator->close();
  }
}

namespace {

// Whether this NCCL can be told of buffers so.
bool has_buffers(NcclBuffers kind, int version) {
  if (kind == NcclBuffers::symmetric)
    return version >= kNcclVersionWindows && nccl().register_window != nullptr;
  return kind == NcclBuffers::plain || nccl().register_buffer != nullptr;
}

}  // namespace

Result<std::unique_ptr<Versus>> Versus::make(const Options& options,
                                             runtime::Communicator& communicator) {
  std::unique_ptr<Versus> made(new Versus());
  made->state_.reset(new State{options, communicator, {}, 0, "", {}});
  State& state = *made->state_;
  const Nccl& table = nccl();
  Status found;
  if (!table.missing.empty())
    found = Error(ErrorCode::unavailable, format("--vs nccl: {}", table.missing),
                  "install NCCL, or name its folder in LD_LIBRARY_PATH");
  COLL_TRY(state.agree(std::move(found), "looking for NCCL"));
  COLL_ASSIGN(state.stream, transport::DeviceStream::make(communicator.device()));
  if (const NcclReturn asked = table.version(&state.version); asked != kNcclSuccess)
    return nccl_error("ncclGetVersion", asked, nullptr);
  state.name = format("nccl {}.{}.{}", state.version / 10000, state.version / 100 % 100,
                      state.version % 100);
  for (const NcclVariant& variant : nccl_variants()) {
    const auto& wanted = options.variants;
    if (std::find(wanted.begin(), wanted.end(), variant.name) == wanted.end()) continue;
    if (!has_buffers(variant.buffers, state.version)) {
      if (wanted.size() > 1) continue;
      return Error(ErrorCode::unavailable,
                   format("--vs-config {}: {} is too old for it", variant.name, state.name),
                   "install a newer NCCL, or use --vs-config default");
    }
    COLL_TRY(state.open(variant));
  }
  return made;
}

const std::string& Versus::name() const {
  return state_->name;
}

std::string Versus::variants() const {
  std::string names;
  for (const auto& communicator : state_->communicators)
    names += (names.empty() ? "" : ", ") + std::string(communicator->variant().name);
  return names;
}

// False: NCCL does not take these buffers, which only matters when nothing else is compared.
Result<bool> Versus::State::prepare_buffers(NcclCommunicator& nccl_communicator,
                                            const RunBuffers& buffers) {
  if (nccl_communicator.variant().buffers == NcclBuffers::plain) return true;
  Status mine = nccl_communicator.register_buffer(*buffers.input);
  if (mine && buffers.input != buffers.output)
    mine = nccl_communicator.register_buffer(*buffers.output);
  Status all = agree(std::move(mine), format("NCCL ({})", nccl_communicator.variant().name));
  if (all) return true;
  if (communicators.size() == 1) return std::move(all.error());
  COLL_INFO(init, "{}; it is left out", all.error().chain());
  return false;
}

Result<std::vector<VersusRun>> Versus::runs(const RowKey& key, const Place& place,
                                            const RunBuffers& buffers, int graph_operations) {
  std::vector<VersusRun> list;
  for (const auto& communicator : state_->communicators) {
    const NcclVariant& variant = communicator->variant();
    if (!serves(variant, key, state_->version)) continue;
    COLL_ASSIGN(const bool ready, state_->prepare_buffers(*communicator, buffers));
    if (!ready) continue;
    auto timed =
        nccl_timed(communicator, key, place, buffers, state_->stream.get(), graph_operations);
    if (!timed) {
      communicator->give_up();
      return std::move(timed.error()).within(format("NCCL ({})", variant.name));
    }
    list.push_back({variant.name, std::move(*timed)});
  }
  return list;
}

}  // namespace collctl::cmd

#include "cmd/measure/versus.h"

#include <algorithm>
#include <climits>

#include "base/env.h"
#include "base/format.h"
#include "base/log.h"
#include "cmd/measure/versus_nccl.h"

namespace collctl::cmd {

using namespace base::drivers;

std::vector<std::string> versus_variants() {
  std::vector<std::string> names;
  for (const NcclVariant& variant : nccl_variants()) names.emplace_back(variant.name);
  return names;
}

bool versus_serves(const std::string& variant, const BenchOp& collective) {
  const RowKey key{collective, kernels::DataType::float32, kernels::RedOp::sum, 0, {}};
  for (const NcclVariant& known : nccl_variants())
    if (variant == known.name) return serves(known, key, INT_MAX);
  return false;
}

namespace {

class NcclVersus : public Versus {
 public:
  using Versus::Versus;
  static Result<std::unique_ptr<Versus>> make(const Options& options,
                                              runtime::Communicator& communicator,
                                              const VersusRow& first);
  ~NcclVersus() override;
  const std::string& name() const override;
  std::string variants() const override;
  Result<std::vector<VersusRun>> runs(const VersusRow& row, const Batch& batch) override;
  const std::vector<LeftOut>& left_out() const override;
  Result<std::optional<Cost>> close() override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct NcclVersus::State {
  Options options;
  runtime::Communicator& communicator;
  // NCCL's own: our stream is watched while it works, which a graph that NCCL records would not
  // bear. Each side's work is waited for before the other's begins.
  transport::DeviceStream stream;
  int version = 0;
  std::string name;
  struct Member {
    std::shared_ptr<NcclCommunicator> communicator;  // null: it could not be made here
    bool in = true;                                  // else left out
    const NcclVariant& variant() const { return communicator->variant(); }
  };
  std::vector<Member> members;
  std::vector<LeftOut> left_out;
  std::optional<CostWatch> watch;  // of the member that is made now
  std::optional<StartCost> cost;   // of the first member

  Deadline patience() const { return Deadline::after_seconds(options.timeout_s * 2 + 10); }
  bool leads_process() const;
  Status agree(Status mine, const std::string& what);
  Result<NcclUniqueId> share_id();
  void note_left_out(const NcclVariant& variant, const std::string& reason);
  Status leave_out(const NcclVariant& variant, Error why);
  Status open(const NcclVariant& variant, const VersusRow& first);
  Status join(const NcclVariant& variant);
  bool has_row(const NcclVariant& variant, const RowKey& key);
  Status register_or_leave_out(Member& member, const RunBuffers& buffers);
  Result<std::unique_ptr<Timed>> timed(Member& member, const VersusRow& row, const Batch& batch);
};

// Once of each variant and reason. A failure that is not the variant's comes back.
Status NcclVersus::State::leave_out(const NcclVariant& variant, Error why) {
  const bool refused = why.code == ErrorCode::lost || why.code == ErrorCode::unavailable;
  if (!refused || &variant == &nccl_variants()[0]) return why;
  note_left_out(variant, why.chain());
  return {};
}

void NcclVersus::State::note_left_out(const NcclVariant& variant, const std::string& reason) {
  for (const LeftOut& out : left_out)
    if (out.variant == variant.name && out.reason == reason) return;
  left_out.push_back({variant.name, reason});
}

// The lowest rank of this process.
bool NcclVersus::State::leads_process() const {
  const auto& peers = communicator.peers();
  const uint64_t process = peers[size_t(communicator.rank())].process_hash;
  const auto first = std::find_if(peers.begin(), peers.end(),
                                  [&](const auto& peer) { return peer.process_hash == process; });
  return first->rank == communicator.rank();
}

// All ranks learn the first failure of any.
Status NcclVersus::State::agree(Status mine, const std::string& what) {
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

Result<NcclUniqueId> NcclVersus::State::share_id() {
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
// first sets them before all enter share_id(), and takes them back after all have agreed.
Status NcclVersus::State::join(const NcclVariant& variant) {
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
  watch.emplace(communicator.device());
  auto made = NcclCommunicator::make({.variant = &variant,
                                      .id = id,
                                      .rank = communicator.rank(),
                                      .nranks = communicator.size(),
                                      .timeout_s = options.timeout_s},
                                     communicator.device());
  watch->pause();
  Status mine;
  // A member on every rank, whatever became of it: all go through them together.
  members.push_back({});
  if (made)
    members.back().communicator = std::move(*made);
  else
    mine = std::move(made.error());
  Status all = agree(std::move(mine), format("NCCL's communicator ({})", variant.name));
  members.back().in = all.ok();
  if (!all && members.back().communicator != nullptr) members.back().communicator->abandon();
  return all;
}

// The cost is the first one's: what comes after finds NCCL's kernels loaded.
Status NcclVersus::State::open(const NcclVariant& variant, const VersusRow& first) {
  const bool is_first = members.empty() && left_out.empty();
  if (Status joined = join(variant); !joined) return leave_out(variant, std::move(joined.error()));
  if (!is_first || !has_row(variant, first.key)) return {};
  COLL_TRY(register_or_leave_out(members.back(), first.buffers));
  if (!members.back().in) return {};
  watch->resume();
  COLL_ASSIGN(const auto once, timed(members.back(), first, {}));
  cost = watch->done();
  return {};
}

NcclVersus::~NcclVersus() {
  if (!state_) return;
  // One that hangs is enough to wait for.
  bool hangs = false;
  for (const auto& member : state_->members) {
    if (member.communicator == nullptr) continue;
    if (hangs) member.communicator->leave_behind();
    hangs = hangs || !member.communicator->close();
  }
}

// Whether this NCCL can be told of buffers so.
bool has_buffers(NcclBuffers kind, int version) {
  if (kind == NcclBuffers::symmetric)
    return version >= kNcclVersionWindows && nccl().register_window != nullptr;
  return kind == NcclBuffers::plain || nccl().register_buffer != nullptr;
}

Result<std::unique_ptr<Versus>> NcclVersus::make(const Options& options,
                                                 runtime::Communicator& communicator,
                                                 const VersusRow& first) {
  std::unique_ptr<NcclVersus> made(new NcclVersus(communicator));
  made->state_.reset(new State{options, communicator, {}, 0, "", {}, {}, {}, {}});
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
    if (has_buffers(variant.buffers, state.version))
      COLL_TRY(state.open(variant, first));
    else
      state.note_left_out(variant, format("{} is too old for it", state.name));
  }
  return std::unique_ptr<Versus>(std::move(made));
}

const std::string& NcclVersus::name() const {
  return state_->name;
}

std::string NcclVersus::variants() const {
  std::string names;
  for (const State::Member& member : state_->members)
    if (member.in) names += (names.empty() ? "" : ", ") + std::string(member.variant().name);
  return names.empty() ? "nothing" : names;
}

const std::vector<LeftOut>& NcclVersus::left_out() const {
  return state_->left_out;
}

// Whether the variant does such rows; what this version lacks is told.
bool NcclVersus::State::has_row(const NcclVariant& variant, const RowKey& key) {
  if (serves(variant, key, version)) return true;
  if (serves(variant, key, INT_MAX))
    note_left_out(variant, format("{} has no {}", name, kernels::name_of(key.type)));
  return false;
}

Status NcclVersus::State::register_or_leave_out(Member& member, const RunBuffers& buffers) {
  if (member.variant().buffers == NcclBuffers::plain) return {};
  Status mine = member.communicator->register_buffer(*buffers.input);
  if (mine && buffers.input != buffers.output)
    mine = member.communicator->register_buffer(*buffers.output);
  Status all = agree(std::move(mine), format("NCCL ({})", member.variant().name));
  if (all) return {};
  member.in = false;
  return leave_out(member.variant(), std::move(all.error()));
}

// Null: left out. The first call is where NCCL says that it has no such algorithm or protocol.
Result<std::unique_ptr<Timed>> NcclVersus::State::timed(Member& member, const VersusRow& row,
                                                        const Batch& batch) {
  auto made = nccl_timed(member.communicator, row.key, row.place, row.buffers, stream.get(), batch);
  Status mine = made ? Status() : Status(std::move(made.error()));
  Status all = agree(std::move(mine), format("NCCL ({})", member.variant().name));
  if (all) return made;
  member.in = false;
  member.communicator->abandon();
  COLL_TRY(leave_out(member.variant(), std::move(all.error())));
  return std::unique_ptr<Timed>();
}

Result<std::vector<VersusRun>> NcclVersus::runs(const VersusRow& row, const Batch& batch) {
  std::vector<VersusRun> list;
  for (State::Member& member : state_->members) {
    if (!member.in || !state_->has_row(member.variant(), row.key)) continue;
    COLL_TRY(state_->register_or_leave_out(member, row.buffers));
    if (!member.in) continue;
    COLL_ASSIGN(auto timed, state_->timed(member, row, batch));
    if (timed != nullptr) list.push_back({member.variant().name, std::move(timed)});
  }
  return list;
}

Result<std::optional<Versus::Cost>> NcclVersus::close() {
  State& state = *state_;
  std::optional<Cost> found;
  bool hangs = false;  // one is enough to wait for
  for (size_t i = 0; i < state.members.size(); ++i) {
    State::Member& member = state.members[i];
    const bool counts = i == 0 && member.in && state.cost.has_value();
    // Ranks of one process give back together what they share.
    COLL_TRY(state.communicator.barrier(state.patience()));
    const uint64_t before = state.communicator.device()->free_bytes();
    if (hangs && member.communicator != nullptr) member.communicator->leave_behind();
    Status closed = member.communicator != nullptr ? member.communicator->close() : Status();
    if (!closed) {
      hangs = true;
      COLL_WARN("{}", closed.error().chain());
    }
    COLL_TRY(state.communicator.barrier(state.patience()));
    const uint64_t after = state.communicator.device()->free_bytes();
    if (!counts || hangs) continue;
    found = Cost{member.variant().name, *state.cost};
    if (before != 0 && after > before) found->cost.buffer_bytes = after - before;
  }
  state.members.clear();
  return found;
}

}  // namespace

Result<std::unique_ptr<Versus>> versus_nccl(const Versus::Options& options,
                                            runtime::Communicator& communicator,
                                            const VersusRow& first) {
  return NcclVersus::make(options, communicator, first);
}

}  // namespace collctl::cmd

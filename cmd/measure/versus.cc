#include "cmd/measure/versus.h"

#include <algorithm>
#include <climits>

#include "base/env.h"
#include "base/format.h"
#include "base/log.h"
#include "cmd/measure/nccl_watch.h"
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
  NcclVersus(const Options& options, runtime::Communicator& communicator)
      : Versus(communicator), options_(options) {}
  ~NcclVersus() override;
  Status start(const PlacedRow& first);
  const std::string& name() const override { return name_; }
  std::string variants() const override;
  Result<std::vector<VersusRun>> runs(const PlacedRow& row, const Batch& batch) override;
  const std::vector<LeftOut>& left_out() const override { return left_out_; }
  Result<std::optional<Cost>> close() override;
  Status closing(RankClosing& mine, BenchClosing& all) override;

 private:
  struct Member {
    std::shared_ptr<NcclCommunicator> communicator;  // null: it could not be made here
    bool in = true;                                  // else left out
    const NcclVariant& variant() const { return communicator->variant(); }
  };
  Deadline patience() const { return Deadline::after_seconds(options_.timeout_s * 2 + 10); }
  bool leads_process() const;
  Status agree(Status mine, const std::string& what);
  Result<NcclUniqueId> share_id();
  void note_left_out(const NcclVariant& variant, const std::string& reason);
  Status leave_out(const NcclVariant& variant, Error why);
  Status open(const NcclVariant& variant, const PlacedRow& first);
  Status join(const NcclVariant& variant);
  bool has_row(const NcclVariant& variant, const RowKey& key);
  Status register_or_leave_out(Member& member, const RunBuffers& buffers);
  Result<std::unique_ptr<Timed>> timed(Member& member, const PlacedRow& row, const Batch& batch);

  const Options options_;
  // NCCL's own: our stream is watched while it works, which a graph that NCCL records would not
  // bear. Each side's work is waited for before the other's begins.
  transport::DeviceStream stream_;
  int version_ = 0;
  std::string name_;
  std::vector<Member> members_;
  std::vector<LeftOut> left_out_;
  std::unique_ptr<NcclWatch> log_;  // of this process, on the rank that leads it
  std::optional<CostWatch> watch_;  // of the member that is made now
  std::optional<StartCost> cost_;   // of the first member
};

// Once of each variant and reason. A failure that is not the variant's comes back.
Status NcclVersus::leave_out(const NcclVariant& variant, Error why) {
  const bool refused = why.code == ErrorCode::lost || why.code == ErrorCode::unavailable;
  if (!refused || &variant == &nccl_variants()[0]) return why;
  note_left_out(variant, why.chain());
  return {};
}

void NcclVersus::note_left_out(const NcclVariant& variant, const std::string& reason) {
  for (const LeftOut& out : left_out_)
    if (out.variant == variant.name && out.reason == reason) return;
  left_out_.push_back({variant.name, reason});
}

// The lowest rank of this process.
bool NcclVersus::leads_process() const {
  const auto& peers = communicator_.peers();
  const uint64_t process = peers[size_t(communicator_.rank())].process_hash;
  const auto first =
      std::ranges::find_if(peers, [&](const auto& peer) { return peer.process_hash == process; });
  return first->rank == communicator_.rank();
}

// All ranks learn the first failure of any.
Status NcclVersus::agree(Status mine, const std::string& what) {
  COLL_ASSIGN(const std::vector<Bytes> all,
              communicator_.gather_blobs(mine ? Bytes() : encode_error(mine.error()), patience()));
  if (!mine) return std::move(mine.error()).within(what);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) continue;
    const Error error = decode_error(all[rank]);
    return Error(error.code, format("rank {}: {}", rank, error.message)).within(what);
  }
  return {};
}

Result<NcclUniqueId> NcclVersus::share_id() {
  NcclUniqueId id{};
  NcclReturn made = kNcclSuccess;
  if (communicator_.rank() == 0) made = nccl().unique_id(&id);
  const auto* bytes = reinterpret_cast<const uint8_t*>(id.bytes);
  COLL_ASSIGN(
      const std::vector<Bytes> all,
      communicator_.gather_blobs({bytes, made == kNcclSuccess ? sizeof id.bytes : 0}, patience()));
  if (made != kNcclSuccess) return nccl_error("ncclGetUniqueId", made, nullptr);
  if (all[0].size() != sizeof id.bytes)
    return Error(ErrorCode::lost, "NCCL failed, not collctl: rank 0 got no unique id");
  std::ranges::copy(all[0], id.bytes);
  return id;
}

// NCCL reads NCCL_ALGO and NCCL_PROTO whenever a communicator is made (and much else once in a
// process), so variants differ by what they say meanwhile. Ranks of one process share them: the
// first sets them before all enter share_id(), and takes them back after all have agreed.
Status NcclVersus::join(const NcclVariant& variant) {
  std::vector<std::unique_ptr<base::ScopedVariable>> variables;
  if (leads_process()) {
    const auto set = [&](const char* variable, const std::string& value) {
      if (!value.empty())
        variables.push_back(std::make_unique<base::ScopedVariable>(variable, value));
    };
    set("NCCL_ALGO", variant.algorithm);
    set("NCCL_PROTO", variant.protocol);
    // Multicast is used by neither side, unless the user wants to see it.
    if (!options_.as_is && !base::environment("NCCL_NVLS_ENABLE")) set("NCCL_NVLS_ENABLE", "0");
  }
  COLL_ASSIGN(const NcclUniqueId id, share_id());
  watch_.emplace(communicator_.device());
  auto made = NcclCommunicator::make({.variant = &variant,
                                      .id = id,
                                      .rank = communicator_.rank(),
                                      .nranks = communicator_.size(),
                                      .timeout_s = options_.timeout_s},
                                     communicator_.device());
  watch_->pause();
  Status mine;
  // A member on every rank, whatever became of it: all go through them together.
  members_.push_back({});
  if (made)
    members_.back().communicator = std::move(*made);
  else
    mine = std::move(made.error());
  Status all = agree(std::move(mine), format("NCCL's communicator ({})", variant.name));
  members_.back().in = all.ok();
  if (!all && members_.back().communicator != nullptr) members_.back().communicator->abandon();
  return all;
}

// The cost is the first one's: what comes after finds NCCL's kernels loaded.
Status NcclVersus::open(const NcclVariant& variant, const PlacedRow& first) {
  const bool is_first = members_.empty() && left_out_.empty();
  if (Status joined = join(variant); !joined) return leave_out(variant, std::move(joined.error()));
  if (!is_first || !has_row(variant, first.key)) return {};
  COLL_TRY(register_or_leave_out(members_.back(), first.buffers));
  if (!members_.back().in) return {};
  watch_->resume();
  COLL_ASSIGN(const auto once, timed(members_.back(), first, {}));
  cost_ = watch_->done();
  return {};
}

NcclVersus::~NcclVersus() {
  // One that hangs is enough to wait for.
  bool hangs = false;
  for (const auto& member : members_) {
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

Status NcclVersus::start(const PlacedRow& first) {
  const Nccl& table = nccl();
  Status found;
  if (!table.missing.empty())
    found = Error(ErrorCode::unavailable, format("--vs nccl: {}", table.missing),
                  "install NCCL, or name its folder in LD_LIBRARY_PATH");
  if (found && options_.watched && leads_process()) {
    auto watch = NcclWatch::begin();
    if (watch)
      log_ = std::move(*watch);
    else
      found = std::move(watch.error());
  }
  COLL_TRY(agree(std::move(found), "looking for NCCL"));
  COLL_ASSIGN(stream_, transport::DeviceStream::make(communicator_.device()));
  if (const NcclReturn asked = table.version(&version_); asked != kNcclSuccess)
    return nccl_error("ncclGetVersion", asked, nullptr);
  name_ = "nccl " + nccl_version_text(version_);
  for (const NcclVariant& variant : nccl_variants()) {
    const auto& wanted = options_.variants;
    if (std::ranges::find(wanted, variant.name) == wanted.end()) continue;
    if (has_buffers(variant.buffers, version_))
      COLL_TRY(open(variant, first));
    else
      note_left_out(variant, format("{} is too old for it", name_));
  }
  return {};
}

std::string NcclVersus::variants() const {
  std::string names;
  for (const Member& member : members_)
    if (member.in) names += (names.empty() ? "" : ", ") + std::string(member.variant().name);
  return names.empty() ? "nothing" : names;
}

// Whether the variant does such rows; what this version lacks is told.
bool NcclVersus::has_row(const NcclVariant& variant, const RowKey& key) {
  if (serves(variant, key, version_)) return true;
  if (serves(variant, key, INT_MAX))
    note_left_out(variant, format("{} has no {}", name_, kernels::name_of(key.type)));
  return false;
}

Status NcclVersus::register_or_leave_out(Member& member, const RunBuffers& buffers) {
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
Result<std::unique_ptr<Timed>> NcclVersus::timed(Member& member, const PlacedRow& row,
                                                 const Batch& batch) {
  auto made = nccl_timed(member.communicator, row, stream_.get(), batch);
  Status mine = made ? Status() : Status(std::move(made.error()));
  Status all = agree(std::move(mine), format("NCCL ({})", member.variant().name));
  if (all) return made;
  member.in = false;
  member.communicator->abandon();
  COLL_TRY(leave_out(member.variant(), std::move(all.error())));
  return std::unique_ptr<Timed>();
}

Result<std::vector<VersusRun>> NcclVersus::runs(const PlacedRow& row, const Batch& batch) {
  std::vector<VersusRun> list;
  for (Member& member : members_) {
    if (!member.in || !has_row(member.variant(), row.key)) continue;
    COLL_TRY(register_or_leave_out(member, row.buffers));
    if (!member.in) continue;
    COLL_ASSIGN(auto run, timed(member, row, batch));
    if (run != nullptr) list.push_back({member.variant().name, std::move(run)});
  }
  return list;
}

Status NcclVersus::closing(RankClosing& mine, BenchClosing& all) {
  if (options_.watched) {
    COLL_ASSIGN(all.nccl, gather_watched(log_.get(), version_, communicator_, patience()));
    log_.reset();
  }
  return Versus::closing(mine, all);
}

Result<std::optional<Versus::Cost>> NcclVersus::close() {
  std::optional<Cost> found;
  bool hangs = false;  // one is enough to wait for
  for (size_t i = 0; i < members_.size(); ++i) {
    Member& member = members_[i];
    const bool counts = i == 0 && member.in && cost_.has_value();
    // Ranks of one process give back together what they share.
    COLL_TRY(communicator_.barrier(patience()));
    const uint64_t before = communicator_.device()->free_bytes();
    if (hangs && member.communicator != nullptr) member.communicator->leave_behind();
    Status closed = member.communicator != nullptr ? member.communicator->close() : Status();
    if (!closed) {
      hangs = true;
      COLL_WARN("{}", closed.error().chain());
    }
    COLL_TRY(communicator_.barrier(patience()));
    const uint64_t after = communicator_.device()->free_bytes();
    if (!counts || hangs) continue;
    found = Cost{member.variant().name, *cost_};
    if (before != 0 && after > before) found->cost.buffer_bytes = after - before;
  }
  members_.clear();
  return found;
}

}  // namespace

Result<std::unique_ptr<Versus>> versus_nccl(const Versus::Options& options,
                                            runtime::Communicator& communicator,
                                            const PlacedRow& first) {
  auto made = std::make_unique<NcclVersus>(options, communicator);
  COLL_TRY(made->start(first));
  return std::unique_ptr<Versus>(std::move(made));
}

}  // namespace collctl::cmd

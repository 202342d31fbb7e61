#include "cmd/measure/nccl_watch.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "base/drivers/nccl.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "runtime/communicator/communicator.h"
#include "runtime/plan/job_hosts.h"

namespace collctl::cmd {
namespace {

constexpr int kVersionRas = 22400;
constexpr double kRasSeconds = 8;
constexpr int kMostAsked = 4;  // the port may be several processes', and any of them answers

}  // namespace

Result<std::unique_ptr<NcclWatch>> NcclWatch::begin() {
  std::unique_ptr<NcclWatch> made(new NcclWatch());
  made->file_ = base::Fd(::memfd_create("nccl-log", MFD_CLOEXEC));
  if (!made->file_)
    return base::errno_error(ErrorCode::unavailable, "memory for NCCL's log", errno);
  const auto set = [&](const char* name, const std::string& value) {
    made->variables_.push_back(std::make_unique<base::ScopedVariable>(name, value));
  };
  set("NCCL_DEBUG", "INFO");
  set("NCCL_DEBUG_SUBSYS", "INIT,GRAPH,NET,TUNING,ENV");
  set("NCCL_DEBUG_FILE", format("{}/{}", base::kOwnDescriptors, made->file_.get()));
  return made;
}

NcclLog NcclWatch::log() const {
  std::string text(kMostNcclLog + 1, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t read = ::pread(file_.get(), text.data() + size, text.size() - size, off_t(size));
    if (read < 0 && errno == EINTR) continue;
    if (read <= 0) break;
    size += size_t(read);
  }
  text.resize(size);
  return read_nccl_log(text, size > kMostNcclLog);
}

RasAnswer ask_own_ras(int nccl_version, base::Deadline deadline) {
  RasAnswer answer;
  if (nccl_version < kVersionRas) {
    answer.missing = format("NCCL {} has no RAS, which came with 2.24",
                            base::drivers::nccl_version_text(nccl_version));
    return answer;
  }
  if (base::environment("NCCL_RAS_ENABLE").value_or("1") == "0") {
    answer.missing = "NCCL_RAS_ENABLE=0";
    return answer;
  }
  answer.address = base::environment("NCCL_RAS_ADDR").value_or(kRasAddress);
  for (int i = 0; i < kMostAsked; ++i) {
    auto status = ask_ras(answer.address, deadline);
    if (!status) {
      answer.missing = status.error().chain();
      return answer;
    }
    // Before 2.28.7 it does not name those that are well.
    if (status->pids.empty() || std::ranges::binary_search(status->pids, int(::getpid()))) {
      answer.status = std::move(*status);
      answer.missing.clear();
      return answer;
    }
    answer.missing = format("another job of NCCL's answers at {} (pid {})", answer.address,
                            status->pids.front());
  }
  return answer;
}

void add_log(NcclLog& to, NcclLog&& more) {
  if (to.empty()) {
    std::swap(to, more);
    return;
  }
  for (NcclWay& way : more.ways) {
    const auto known = std::ranges::find(to.ways, way.via, &NcclWay::via);
    if (known != to.ways.end())
      known->channels += way.channels;
    else if (to.ways.size() < kMostNcclEntries)
      to.ways.push_back(std::move(way));
  }
  for (std::string& warning : more.warnings)
    if (to.warnings.size() < kMostNcclEntries &&
        std::ranges::find(to.warnings, warning) == to.warnings.end())
      to.warnings.push_back(std::move(warning));
  if (to.no_gdr_line.empty()) to.no_gdr_line = std::move(more.no_gdr_line);
  if (to.choices.empty()) to.choices = std::move(more.choices);
  to.cut = to.cut || more.cut;
}

Result<std::vector<NcclOnHost>> gather_watched(const NcclWatch* watch, int nccl_version,
                                               runtime::Communicator& communicator,
                                               base::Deadline deadline) {
  const auto& peers = communicator.peers();
  const auto& own = peers[size_t(communicator.rank())];
  const auto first = std::ranges::find_if(
      peers, [&](const auto& peer) { return peer.host_hash == own.host_hash; });
  NcclOnHost mine;
  mine.rank = own.rank;
  if (watch != nullptr) mine.log = watch->log();
  if (first->rank == own.rank)
    mine.ras =
        ask_own_ras(nccl_version, deadline.earlier(base::Deadline::after_seconds(kRasSeconds)));
  COLL_ASSIGN(const std::vector<Bytes> all, communicator.gather_blobs(encoded(mine), deadline));
  std::vector<NcclOnHost> hosts;
  std::map<uint64_t, size_t> known;  // by host
  for (size_t rank = 0; rank < all.size(); ++rank) {
    COLL_ASSIGN(NcclOnHost one, decoded<NcclOnHost>(all[rank]));
    const auto [at, fresh] = known.try_emplace(peers[rank].host_hash, hosts.size());
    if (fresh) {
      one.host = runtime::host_of(peers[rank]);
      one.rank = peers[rank].rank;
      hosts.push_back(std::move(one));
    } else {
      add_log(hosts[at->second].log, std::move(one.log));
    }
  }
  return hosts;
}

static void fields(Record& io, RasAnswer& ras) {
  io.field("address", ras.address);
  io.field("status", ras.status);
  io.field("missing", ras.missing);
}

void fields(Record& io, NcclOnHost& host) {
  io.field("host", host.host);
  io.field("rank", host.rank, 0);
  io.field("log", host.log);
  io.field("ras", host.ras);
}

}  // namespace collctl::cmd

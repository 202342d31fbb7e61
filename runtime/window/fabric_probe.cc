#include "runtime/window/fabric_probe.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "base/env.h"
#include "base/format.h"
#include "runtime/bootstrap/bootstrap.h"
#include "runtime/window/user_window.h"

namespace collctl::runtime {
namespace {

constexpr uint64_t kProbeBytes = 4096;

struct ProbeReport {  // as it travels
  transport::FabricName name;
  uint8_t failed = 0, required = 0;
  char text[510] = {};

  void fail(const Error& error) {
    const std::string why = error.chain() + (error.hint.empty() ? "" : " (" + error.hint + ")");
    failed = 1;
    std::memcpy(text, why.data(), std::min(why.size(), sizeof text - 1));
  }
};
static_assert(sizeof(ProbeReport) == 576);

uint8_t pattern_of(int rank) {
  return uint8_t(0x51 + rank * 29);
}

// The lowest ranks of teams that span hosts: some member is on another host than these.
std::set<int> wide_teams(const FabricProbe& p) {
  std::set<int> wide;
  for (size_t r = 0; r < p.peers.size(); ++r)
    if (!pass_descriptors(p.peers[r], p.peers[size_t(p.teams[r])])) wide.insert(p.teams[r]);
  return wide;
}

// One of each other host, so that the ranks of a host try all of another's.
std::vector<int> partners(const FabricProbe& p) {
  std::map<std::pair<uint64_t, uint64_t>, std::vector<int>> hosts;
  const auto host_of = [&](int r) {
    return std::pair(p.peers[size_t(r)].host_hash, p.peers[size_t(r)].network_namespace);
  };
  for (size_t r = 0; r < p.peers.size(); ++r)
    if (p.teams[r] == p.teams[size_t(p.rank)]) hosts[host_of(int(r))].push_back(int(r));
  const auto& mine = hosts[host_of(p.rank)];
  const auto place = size_t(std::find(mine.begin(), mine.end(), p.rank) - mine.begin());
  std::vector<int> chosen;
  for (const auto& [host, ranks] : hosts)
    if (host != host_of(p.rank)) chosen.push_back(ranks[place % ranks.size()]);
  return chosen;
}

struct Trial {
  transport::DeviceStream stream;
  transport::DeviceMemory own;

  Result<transport::FabricName> make(const FabricProbe& p, Deadline deadline) {
    COLL_ASSIGN(stream, transport::DeviceStream::make(p.device));
    COLL_ASSIGN(own, transport::DeviceMemory::make(p.device, kProbeBytes, true));
    COLL_TRY(stream.fill(own.data(), pattern_of(p.rank), kProbeBytes));
    COLL_TRY(stream.synchronize(deadline));
    return own.export_fabric();
  }
  Status read(const FabricProbe& p, int peer, const transport::FabricName& name,
              Deadline deadline) const {
    COLL_ASSIGN(const auto theirs,
                transport::DeviceMemory::import_fabric(p.device, name, kProbeBytes));
    std::vector<uint8_t> seen(kProbeBytes);
    COLL_TRY(stream.copy(seen.data(), theirs.data(), kProbeBytes));
    COLL_TRY(stream.synchronize(deadline));
    if (std::all_of(seen.begin(), seen.end(),
                    [&](uint8_t byte) { return byte == pattern_of(peer); }))
      return {};
    return Error(ErrorCode::unavailable, "the bytes read differ from those that rank wrote");
  }
};

Result<std::string> first_failure(const FabricProbe& p, std::vector<ProbeReport>& reports) {
  const bool required = std::any_of(reports.begin(), reports.end(),
                                    [](const ProbeReport& report) { return report.required != 0; });
  for (size_t r = 0; r < reports.size(); ++r) {
    if (reports[r].failed == 0) continue;
    reports[r].text[sizeof reports[r].text - 1] = 0;
    std::string why = format("rank {} (host {}): {}", r, p.peers[r].host, reports[r].text);
    if (!required) return why;
    return Error(ErrorCode::unavailable, std::move(why),
                 "a rank has COLLCTL_MNNVL_ENABLE=1; 2 continues without NVLink between hosts")
        .blame(int(r));
  }
  return std::string();
}

}  // namespace

Result<std::string> why_no_fabric(const FabricProbe& p, Deadline deadline) {
  const std::set<int> wide = wide_teams(p);
  if (wide.empty()) return std::string();
  std::vector<ProbeReport> reports(p.peers.size());
  ProbeReport& own = reports[size_t(p.rank)];
  const bool mine = p.device != nullptr && wide.contains(p.teams[size_t(p.rank)]);
  Trial trial;
  if (mine) {
    COLL_ASSIGN(const int64_t wanted, base::knob_int(base::KnobId::mnnvl_enable));
    own.required = wanted == 1 ? 1 : 0;
    auto name = trial.make(p, deadline);
    if (name)
      own.name = *name;
    else
      own.fail(name.error());
  }
  COLL_TRY_IN(p.bootstrap->all_gather(reports.data(), sizeof(ProbeReport), deadline),
              "NVLink domain");
  COLL_ASSIGN(std::string why, first_failure(p, reports));
  if (!why.empty()) return why;
  if (mine)
    for (const int peer : partners(p)) {
      Status seen = trial.read(p, peer, reports[size_t(peer)].name, deadline);
      if (seen) continue;
      own.fail(seen.error().within(
          format("memory of rank {} (host {})", peer, p.peers[size_t(peer)].host)));
      break;
    }
  // And nobody's memory goes before all have looked.
  COLL_TRY_IN(p.bootstrap->all_gather(reports.data(), sizeof(ProbeReport), deadline),
              "NVLink domain");
  return first_failure(p, reports);
}

}  // namespace collctl::runtime

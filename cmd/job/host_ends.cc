// How far each host of a job came, and what is said of that.
#include <algorithm>
#include <sstream>

#include "base/format.h"
#include "cmd/job/start.h"
#include "cmd/text/hosts.h"

namespace collctl::cmd {

void update_hosts(const launcher::HostPool& pool, std::vector<HostEnd>& hosts) {
  hosts.resize(size_t(pool.size()));
  for (int i = 0; i < pool.size(); ++i) {
    const launcher::HostLink& link = pool.host(i);
    HostEnd& end = hosts[size_t(i)];
    end.host = link.spec().host();
    if (end.bootstrapping < 0 || link.error()) end.phase = launcher::phase_name(link.phase());
    end.client = link.client();
    end.times = link.times();
    // One that is lost after all its ranks have ended took its part.
    if (end.done < 0) end.error = link.error();
  }
}

void note_progress(std::vector<HostEnd>& hosts, const launcher::RankGroup& group, int rank,
                   const std::function<bool(int)>& running, double now_s) {
  for (HostEnd& host : hosts) {
    const auto& ranks = host.ranks;
    if (std::ranges::find(ranks, rank) == ranks.end()) continue;
    const bool ended = std::ranges::none_of(ranks, [&](int r) { return group.running(r); });
    if (host.bootstrapping < 0) host.bootstrapping = now_s;
    if (host.running < 0 && std::ranges::all_of(ranks, running)) host.running = now_s;
    if (host.done < 0 && ended && !host.error) host.done = now_s;
    host.phase = host.done >= 0 ? "done" : host.running >= 0 ? "running" : "bootstrapping";
    return;
  }
}

std::optional<Error> left_out(const std::vector<HostEnd>& hosts) {
  std::vector<std::string> names;
  for (const HostEnd& host : hosts)
    if (host.error) names.push_back(host.host.name);
  if (names.empty()) return std::nullopt;
  return Error(ErrorCode::incomplete, format("{} of {} hosts took no part: {}", names.size(),
                                             hosts.size(), folded_hosts(names)));
}

std::string idle_hosts_note(const std::vector<HostEnd>& hosts, int ranks) {
  std::vector<std::string> idle;  // those left out have a note of their own
  for (const HostEnd& host : hosts)
    if (host.ranks.empty() && !host.error) idle.push_back(host.host.name);
  if (idle.empty()) return "";
  const int all = int(hosts.size());
  std::string spread = "--map-by host";
  if (ranks < all) spread = format("-n {} --map-by host", all);
  if (ranks >= all && ranks % all == 0) spread += format(" or -N {}", ranks / all);
  return format("no ranks on {} of {} hosts: {}; {} puts some on every host", idle.size(), all,
                folded_hosts(idle), spread);
}

void forward_talk(launcher::RemoteJob& job, const LaunchOptions& options) {
  for (const auto& [host, text] : job.take_talk()) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
      if (options.talk.note) options.talk.note(format("{}: {}", host, line));
  }
}

}  // namespace collctl::cmd

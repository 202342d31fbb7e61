#include "cmd/job/job_status.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/format.h"
#include "base/number_ranges.h"
#include "cmd/job/root_cause.h"

namespace collctl::cmd {
namespace {

constexpr size_t kMostRanks = size_t{1} << 20;

const RankNow* find(const JobNow& job, int rank) {
  for (const RankNow& r : job.ranks)
    if (r.rank == rank) return &r;
  return nullptr;
}

}  // namespace

static void fields(JsonRecord& io, RankNow& rank) {
  io.field("rank", rank.rank, 0, 1 << 20);
  io.field("host", rank.host, 256);
  io.field("pid", rank.pid, 0);
  io.field("phase", rank.phase, 64);
  io.field("state", rank.state, 1);
  io.field("doing", rank.doing);
}

void fields(JsonRecord& io, JobNow& job) {
  io.field("job", job.pid, 0);
  io.field("what", job.what, 4096);
  io.field("seconds", job.seconds, 0, 1e9);
  io.field("progress", job.progress, 4096);
  io.field("answers", job.answers);
  io.field("ranks", job.ranks, kMostRanks);
  if (io.reading()) return;
  std::vector<Awaited> late = awaited(job);
  io.list("awaited", late, [&](Awaited& one) {
    io.object("awaited", [&] {
      const RankNow* rank = find(job, one.rank);
      std::string host = rank == nullptr ? "" : rank->host;
      io.field("rank", one.rank);
      io.field("host", host);
      io.field("seconds", one.seconds);
      io.field("waiters", one.waiters);
    });
  });
}

std::vector<Awaited> awaited(const JobNow& job) {
  std::map<int, std::pair<int, double>> waits;  // who -> for whom, how long
  for (const RankNow& rank : job.ranks)
    if (rank.doing && !rank.doing->waits.empty() && rank.state != "T" && rank.state != "t")
      waits[rank.rank] = {rank.doing->waits.front().peer, rank.doing->waits.front().seconds};
  std::map<int, Awaited> found;
  for (const auto& [who, wait] : waits) {
    std::set<int> seen = {who};
    int at = wait.first;
    bool circle = false;
    while (waits.contains(at) && !circle) {
      circle = !seen.insert(at).second;
      if (!circle) at = waits.at(at).first;
    }
    if (circle) {
      // Its members by the lowest: from here round once.
      int lowest = at;
      for (int next = waits.at(at).first; next != at; next = waits.at(next).first)
        lowest = std::min(lowest, next);
      at = lowest;
    }
    Awaited& one = found[at];
    one.rank = at;
    if (who != at) one.waiters.push_back(who);
    one.seconds = std::max(one.seconds, wait.second);
  }
  std::vector<Awaited> list;
  for (auto& [rank, one] : found) list.push_back(std::move(one));
  std::stable_sort(list.begin(), list.end(), [](const Awaited& a, const Awaited& b) {
    return a.waiters.size() > b.waiters.size();
  });
  return list;
}

std::string awaited_text(const JobNow& job, double least_s) {
  std::string text;
  for (const Awaited& one : awaited(job)) {
    if (one.seconds < least_s || one.waiters.empty()) continue;
    text += format(
        "{}{} {} {} {} for rank {}", text.empty() ? "" : "; ",
        one.waiters.size() == 1 ? "rank" : "ranks", base::number_ranges(one.waiters, ", "),
        one.waiters.size() == 1 ? "waits" : "wait", format("{:.3g} s", one.seconds), one.rank);
    const RankNow* rank = find(job, one.rank);
    if (rank == nullptr) continue;
    text += format(" (host {}, pid {})", rank->host, rank->pid);
    const char state = rank->state.empty() ? 0 : rank->state[0];
    if (state == 0 || state == 'T' || state == 't' || state == 'D' || state == 'Z')
      text += ", which is " + state_words(state);
    else if (rank->doing && !rank->doing->waits.empty())
      text += ", which waits for it, too";
    else if (!rank->doing && job.answers)
      text += ", which does not answer";
    else if (rank->doing && !rank->doing->busy)
      text += ", which has not called it";
  }
  return text;
}

}  // namespace collctl::cmd

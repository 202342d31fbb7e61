#include "cmd/job/job_status.h"

#include <algorithm>
#include <map>
#include <span>

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

static void fields(Record& io, RankNow& rank) {
  io.field("rank", rank.rank, 0, 1 << 20);
  io.field("host", rank.host, 256);
  io.field("pid", rank.pid, 0);
  io.field("phase", rank.phase, 64);
  io.field("state", rank.state, 1);
  io.field("doing", rank.doing);
}

void fields(Record& io, JobNow& job) {
  io.field("job", job.pid, 0);
  io.field("what", job.what, 4096);
  io.field("seconds", job.seconds, 0, 1e9);
  io.field("progress", job.progress, 4096);
  io.field("answers", job.answers);
  io.field("ranks", job.ranks, kMostRanks);
  if (io.reading()) return;
  std::vector<Awaited> late = awaited(job);
  io.objects("awaited", late, [&](Awaited& one) {
    const RankNow* rank = find(job, one.rank);
    std::string host = rank == nullptr ? "" : rank->host.name;
    io.field("rank", one.rank);
    io.field("host", host);
    io.field("seconds", one.seconds);
    io.field("waiters", one.waiters);
  });
}

std::vector<Awaited> awaited(const JobNow& job) {
  // Each channel waits by itself, and the longest says most; in a window it is for all that have
  // not begun.
  std::map<int, std::span<const WaitDoing>> waits;
  std::map<int, int> first;  // who -> for whom, of each the first
  for (const RankNow& rank : job.ranks) {
    if (!rank.doing || rank.doing->waits.empty() || rank.state == "T" || rank.state == "t")
      continue;
    const std::span<const WaitDoing> all(rank.doing->waits);
    waits[rank.rank] = all.first(all[0].operation.empty() ? all.size() : 1);
    first[rank.rank] = all[0].peer;
  }
  std::map<int, Awaited> found;
  for (const auto& [who, list] : waits)
    for (const WaitDoing& wait : list) {
      const int at = end_of_chain(first, wait.peer).rank;
      Awaited& one = found[at];
      one.rank = at;
      if (who != at && (one.waiters.empty() || one.waiters.back() != who))
        one.waiters.push_back(who);
      one.seconds = std::max(one.seconds, wait.seconds);
    }
  std::vector<Awaited> list;
  for (auto& [rank, one] : found) list.push_back(std::move(one));
  std::ranges::stable_sort(
      list, [](const Awaited& a, const Awaited& b) { return a.waiters.size() > b.waiters.size(); });
  return list;
}

// Ranks that are busy without saying for whom they wait (messages between GPUs), beside those that
// have not called as often and are at rest.
static std::string behind_text(const JobNow& job) {
  uint64_t most = 0;
  for (const RankNow& rank : job.ranks)
    if (rank.doing) most = std::max(most, rank.doing->calls);
  std::vector<int> busy;
  const RankNow* behind = nullptr;
  for (const RankNow& rank : job.ranks) {
    if (!rank.doing) continue;
    if (rank.doing->busy && rank.doing->calls == most) busy.push_back(rank.rank);
    if (!rank.doing->busy && rank.doing->calls < most &&
        (behind == nullptr || rank.doing->calls < behind->doing->calls))
      behind = &rank;
  }
  if (busy.empty() || behind == nullptr) return {};
  return format("{} {} {} in call {}, of which rank {} (host {}, pid {}) has made {}",
                busy.size() == 1 ? "rank" : "ranks", base::number_ranges(busy, ", "),
                busy.size() == 1 ? "is" : "are", most, behind->rank, behind->host, behind->pid,
                behind->doing->calls);
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
  return text.empty() ? behind_text(job) : text;
}

}  // namespace collctl::cmd

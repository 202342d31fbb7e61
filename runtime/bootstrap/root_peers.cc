#include <algorithm>

#include "base/log.h"
#include "runtime/bootstrap/root.h"

namespace collctl::runtime {

using namespace boot;

namespace {
constexpr size_t kCallsAtOnce = 64;
}

void BootstrapRoot::State::place_all() {
  phase = Phase::placed;
  const int groups = int(roots.size());
  for (const auto& line : lines) {
    const int rank = line->rank, parent = tree_parent(rank, groups, size);
    const Place place{at((rank + 1) % size), at((rank + size - 1) % size),
                      parent < 0 ? RankAt{} : at(parent)};
    tell(*line, FrameType::place, encoded(place));
  }
}

// Frames for ranks that wait without a line: the frame is the greeting of the call.
void BootstrapRoot::State::drive_calls() {
  while (calls.size() < kCallsAtOnce && !calls_due.empty()) {
    auto [rank, frame] = std::move(calls_due.back());
    calls_due.pop_back();
    const Bytes greeting = encoded(PeerGreeting{Purpose::call, 0, rank, std::move(frame)});
    auto started =
        base::AuthConnector::start(lines[size_t(rank - first)]->calls, options.secret, greeting);
    if (started)
      calls.push_back({std::move(*started), rank});
    else
      COLL_WARN("bootstrap root: cannot call rank {} back: {}", rank, started.error().message);
  }
  for (auto it = calls.begin(); it != calls.end();) {
    const Result<bool> done = it->connector->progress();
    if (!done) {
      Line& line = *lines[size_t(it->rank - first)];
      Error lost(ErrorCode::lost,
                 format("{} does not answer its root: {}", rank_text(line.rank, line.host),
                        done.error().message),
                 done.error().hint);
      lost.rank = line.rank;
      lost.host = line.host;
      line.called = false;  // nobody to tell
      fail(std::move(lost));
    }
    it = !done || *done ? calls.erase(it) : std::next(it);
  }
}

void BootstrapRoot::State::welcome_root(base::Accepted caller) {
  const auto g = decoded<PeerGreeting>(caller.greeting);
  if (!g || peers.size() >= kMaxRoots) {
    COLL_WARN("bootstrap root: rejected {}: not a root of this job", caller.from.text());
    return;
  }
  peers.push_back({SealedFd(std::move(caller)), {}, {}});
  if (phase != Phase::failed) return;
  if (!send_frame(peers.back().fd, FrameType::failure, encode_brief(verdict))) peers.pop_back();
}

// Elsewhere than at the first root: reach it as soon as it is known, report when complete.
void BootstrapRoot::State::advance_roots() {
  if (size == 0) return;
  if (index == 0) {
    if (phase != Phase::complete || !all_reports(true)) return;
    leaders = {at(0)};
    for (int g = 1; g < int(roots.size()); ++g)
      for (const Peer& peer : peers)
        if (peer.report && peer.report->index == g) leaders.push_back(peer.report->leader);
    const Bytes payload = encoded(Leaders{leaders});
    for (Peer& peer : peers)
      if (peer.fd && !send_frame(peer.fd, FrameType::leaders, payload)) peer.fd.reset();
    return place_all();
  }
  if (seeks_first() && !to_first) {
    // One that is not there yet is tried again by the next turns; the last word is the deadline's.
    auto started = base::AuthConnector::start(roots[0], options.secret,
                                              encoded(PeerGreeting{Purpose::root, index, 0}));
    if (started) to_first = std::move(*started);
  }
  if (to_first) {
    const Result<bool> done = to_first->progress();
    if (done && *done) peers.push_back({{to_first->take(), to_first->session()}, {}, {}});
    if (!done)
      COLL_INFO(bootstrap, "bootstrap root {}: first root: {}", index, done.error().message);
    if (!done || *done) to_first.reset();
  }
  if (phase == Phase::complete && !reported) report_to_first();
  if (phase == Phase::failed && !peers.empty() && !reported && peers.front().fd) {
    reported = true;
    if (!send_frame(peers.front().fd, FrameType::failure, encode_brief(verdict)))
      peers.front().fd.reset();
  }
}

bool BootstrapRoot::State::seeks_first() const {
  return size > 0 && peers.empty() && phase != Phase::placed && !reported && !last_word.passed();
}

void BootstrapRoot::State::report_to_first() {
  if (peers.empty() || !peers.front().fd) return;
  GroupReport report{index, size, checked_in, checked_in == end - first, missing(), {}};
  if (report.complete) report.leader = at(first);
  reported = true;
  if (!send_frame(peers.front().fd, FrameType::report, encoded(report))) peers.front().fd.reset();
}

void BootstrapRoot::State::read_peer(Peer& peer) {
  const Status state = peer.reader.fill(peer.fd);
  while (auto frame = peer.reader.next()) {
    if (frame->type == FrameType::failure) fail(decode_error(frame->payload));
    if (frame->type == FrameType::report && index == 0) {
      if (auto report = decoded<GroupReport>(frame->payload)) peer.report = std::move(*report);
      if (peer.report && size != 0 && peer.report->size != size)
        fail(Error(ErrorCode::usage,
                   format("the ranks of root {} report a job of {} ranks, those of root 0 "
                          "report {}",
                          peer.report->index, peer.report->size, size),
                   "start all ranks with the same number of ranks"));
    }
    if (frame->type == FrameType::leaders && index > 0 && phase == Phase::complete)
      if (auto word = decoded<Leaders>(frame->payload);
          word && word->ranks.size() == roots.size()) {
        leaders = std::move(word->ranks);
        place_all();
      }
  }
  if (state) return;
  peer.fd.reset();
  if (phase == Phase::collecting || phase == Phase::complete)
    fail(Error(ErrorCode::lost,
               index > 0 ? format("the first bootstrap root at {} is gone", roots[0].text())
                         : "another bootstrap root is gone"));
}

bool BootstrapRoot::State::all_reports(bool complete) const {
  std::vector<bool> seen(roots.size(), false);
  for (const Peer& peer : peers)
    if (peer.report && peer.report->size == size && peer.report->index > 0 &&
        peer.report->index < int(roots.size()) && (peer.report->complete || !complete))
      seen[size_t(peer.report->index)] = true;
  return std::count(seen.begin(), seen.end(), true) == int(roots.size()) - 1;
}

Error BootstrapRoot::State::missing_error() const {
  std::vector<int> ranks = missing();
  int there = checked_in;
  std::vector<std::string> notes;
  if (index == 0) {
    for (int g = 1; g < int(roots.size()); ++g) {
      const auto known = std::find_if(peers.begin(), peers.end(), [g](const Peer& p) {
        return p.report && p.report->index == g;
      });
      if (known != peers.end()) {
        there += known->report->checked_in;
        ranks.insert(ranks.end(), known->report->missing.begin(), known->report->missing.end());
        continue;
      }
      notes.push_back(format("root {} at {} has not reported", g, roots[size_t(g)].text()));
      for (int r = group_begin(g, int(roots.size()), size);
           r < group_begin(g + 1, int(roots.size()), size); ++r)
        ranks.push_back(r);
    }
  } else if (peers.empty() || !reported) {
    notes.push_back(format("this root could not reach the first one at {}", roots[0].text()));
  }
  std::string text = index == 0
                         ? format("{}/{} ranks checked in", there, size)
                         : format("{}/{} ranks checked in at root {}", there, end - first, index);
  if (!ranks.empty()) text += "; missing: " + rank_list(ranks, options.hosts);
  for (const std::string& note : notes) text += "; " + note;
  for (const std::string& why : refused) text += "; refused: " + why;
  Error e(ErrorCode::deadline, std::move(text),
          "check why the missing ranks did not start or cannot reach the root; if they only need "
          "more time, raise --start-timeout (COLLCTL_START_TIMEOUT)");
  if (!options.missing_hint.empty()) e.hint = options.missing_hint + "; " + e.hint;
  if (!ranks.empty()) {
    e.rank = ranks.front();
    if (size_t(e.rank) < options.hosts.size()) e.host = options.hosts[size_t(e.rank)];
  }
  return std::move(e.within("bootstrap: check-in"));
}

}  // namespace collctl::runtime

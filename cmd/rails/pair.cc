#include "cmd/rails/pair.h"

#include <thread>

#include "base/format.h"
#include "base/host_half_open.h"
#include "base/log.h"
#include "cmd/rails/pair_talk.h"

namespace collctl::runtime {

namespace {

constexpr uint32_t kPurpose = 0x7261696c;  // of the two ends' edges
constexpr double kRailGoodbyeSeconds = 1;
constexpr size_t kMostBlob = 4096;

class PairTest {
 public:
  explicit PairTest(const RailSide& side) : side_(side), talk_(side) {}
  Result<std::vector<std::vector<RailResult>>> run();

 private:
  struct Way {
    bool sends = false;
    RailResult* result = nullptr;
    const RailNic *my_nic = nullptr, *their_nic = nullptr;
    std::unique_ptr<RailPath> path = nullptr;
    Bytes mine = {}, theirs = {};
  };
  const RailHost& sender(bool sends) const { return sends ? *side_.mine : *side_.theirs; }
  const RailHost& receiver(bool sends) const { return sends ? *side_.theirs : *side_.mine; }
  void add_direction(bool sends);
  Way make_way(bool sends, size_t from, size_t to, RailResult& result);
  Status exchange_blobs();
  void reach();
  Status agree_all();
  Status stream_all();
  Status leave();
  RailResult seen(const Way& way) const;
  void settle(Way& way, const RailResult& mine, const RailResult& theirs);

  const RailSide& side_;
  PairTalk talk_;
  std::vector<std::vector<RailResult>> results_;
  std::vector<Way> ways_;
};

// The facts of two ports; a way for each two that may go together.
void PairTest::add_direction(bool sends) {
  const auto &from = sender(sends).nics, &to = receiver(sends).nics;
  auto& results = results_.emplace_back();
  results.reserve(from.size() * to.size());  // ways point into it
  for (size_t i = 0; i < from.size(); ++i)
    for (size_t j = 0; j < to.size(); ++j) {
      RailResult& result = results.emplace_back(judge_rail(from[i], to[j], side_.roce_version));
      if (result.end == RailEnd::ok) ways_.push_back(make_way(sends, i, j, result));
    }
}

PairTest::Way PairTest::make_way(bool sends, size_t from, size_t to, RailResult& result) {
  const size_t cell = from * receiver(sends).nics.size() + to;
  const RailNic& my_nic = side_.mine->nics[sends ? from : to];
  const RailNic& their_nic = side_.theirs->nics[sends ? to : from];
  Way way{.sends = sends, .result = &result, .my_nic = &my_nic, .their_nic = &their_nic};
  way.path = make_path(side_, sends, sends ? from : to, sends ? to : from,
                       {.purpose = kPurpose, .number = uint32_t(cell), .memory = side_.memory});
  return way;
}

Status PairTest::exchange_blobs() {
  ByteWriter w;
  const Deadline deadline = Deadline::after_seconds(side_.timeout_s);
  for (Way& way : ways_) {
    way.mine = way.path->describe(deadline);
    w.put_bytes(way.mine);
  }
  COLL_ASSIGN(const Bytes theirs, talk_.swap(w.bytes()));
  ByteReader r(theirs);
  for (Way& way : ways_) {
    const ByteView blob = r.get_bytes(kMostBlob);
    way.theirs.assign(blob.begin(), blob.end());
  }
  if (!r.ok() || !r.at_end()) return talk_.unreadable();
  return {};
}

void PairTest::reach() {
  const Deadline deadline = Deadline::after_seconds(side_.timeout_s);
  const int rank = side_.mine->rank;
  std::vector<std::jthread> threads;
  for (Way& way : ways_) {
    // An end that could not describe itself has no blob: its peer has nothing to connect to.
    if (way.mine.empty() || way.theirs.empty()) continue;
    threads.emplace_back([&way, deadline, rank] {
      base::log_set_thread_device(rank);
      way.path->reach(way.theirs, deadline);
    });
  }
  for (std::jthread& thread : threads) thread.join();  // each ends by the deadline
}

// The sending host dials: where its connection never came about, the receiver's kernel knows
// whether it has heard of it at all.
RailResult PairTest::seen(const Way& way) const {
  RailResult result = way.path->result();
  if (way.sends || way.my_nic->rdma() || result.end != RailEnd::silent || way.path->connected())
    return result;
  result.lost = base::is_half_open(way.my_nic->address, way.their_nic->address) ? RailLost::back
                                                                                : RailLost::there;
  return result;
}

// Both ends come to the same: a failure that says something goes before one that only waited, and
// the sender's before the receiver's.
void PairTest::settle(Way& way, const RailResult& mine, const RailResult& theirs) {
  const RailResult& out = way.sends ? mine : theirs;
  const RailResult& in = way.sends ? theirs : mine;
  const auto waited = [](const RailResult& r) {
    return r.end == RailEnd::silent || r.end == RailEnd::large_lost;
  };
  RailResult& result = *way.result;
  result.first_us = out.first_us;
  // A sender that is still at it when a slow path's time is up has waited; enough has arrived.
  if (in.end == RailEnd::ok && (out.end == RailEnd::ok || (waited(out) && in.GBps > 0))) {
    result.GBps = in.GBps;
    result.resent = out.resent;
    return;
  }
  const bool receiver_knows =
      out.end == RailEnd::ok || (waited(out) && !waited(in) && in.end != RailEnd::ok);
  const RailResult& known = receiver_knows ? in : out;
  result.end = known.end;
  result.GBps = 0;
  result.text =
      format("{}: {}", (receiver_knows ? receiver(way.sends) : sender(way.sends)).host, known.text);
  if (result.end == RailEnd::large_lost)
    result.text += format("; small messages pass, large ones do not (MTU {} and {})",
                          way.my_nic->mtu, way.their_nic->mtu);
  if (known.lost == RailLost::beside) {
    result.lost = known.lost;
    return;
  }
  if (result.end != RailEnd::silent || in.lost == RailLost::unknown) return;
  result.lost = in.lost;
  result.text +=
      in.lost == RailLost::there
          ? format("; nothing that {} sends arrives", sender(way.sends).host)
          : format("; what {} sends arrives, and no answer arrives there", sender(way.sends).host);
}

// Exchanges what both ends found so far; paths that are not good on both are dropped.
Status PairTest::agree_all() {
  ByteWriter w;
  Record out(w);
  std::vector<RailResult> all;
  for (const Way& way : ways_) fields(out, all.emplace_back(seen(way)));
  COLL_ASSIGN(const Bytes theirs, talk_.swap(w.take()));
  Record in(theirs);
  for (size_t i = 0; i < ways_.size(); ++i) {
    RailResult their;
    fields(in, their);
    settle(ways_[i], all[i], their);
  }
  if (!in.status() || !in.rest().empty()) return talk_.unreadable();
  std::erase_if(ways_, [&](const Way& way) { return way.result->end != RailEnd::ok; });
  return {};
}

Status PairTest::stream_all() {
  for (Way& way : ways_) {
    way.path->stream(side_.seconds, Deadline::after_seconds(side_.seconds + side_.timeout_s));
    const RailResult mine = way.path->result();
    COLL_ASSIGN(const Bytes theirs, talk_.swap(base::encoded(mine)));
    RailResult their;
    Record in(theirs);
    fields(in, their);
    if (!in.status() || !in.rest().empty()) return talk_.unreadable();
    settle(way, mine, their);
    // Data that a slow path has under way would take the next one's wire.
    if (mine.end != RailEnd::ok || their.end != RailEnd::ok) way.path.reset();
  }
  return {};
}

Status PairTest::leave() {
  const Deadline deadline = Deadline::after_seconds(kRailGoodbyeSeconds);
  // A peer that is not told finds a closed connection instead, which changes no result any more.
  for (Way& way : ways_)
    if (way.path) static_cast<void>(way.path->leave(deadline));
  COLL_TRY(talk_.swap({}));
  ways_.clear();
  return {};
}

Result<std::vector<std::vector<RailResult>>> PairTest::run() {
  results_.reserve(2);
  add_direction(side_.first);
  if (side_.both_ways) add_direction(!side_.first);
  COLL_TRY(exchange_blobs());
  reach();
  COLL_TRY(agree_all());
  COLL_TRY(stream_all());
  COLL_TRY(leave());
  return std::move(results_);
}

}  // namespace

Result<std::vector<std::vector<RailResult>>> try_rails(const RailSide& side) {
  return PairTest(side).run();
}

}  // namespace collctl::runtime

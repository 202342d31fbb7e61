// The proof can fail: deliberately wrong algorithms, and every single change of every recorded
// verb, must be caught.
#include <set>
#include <string>

#include "kernels/algo/dispatch.h"
#include "kernels/record/block_record.h"
#include "tests/how_much.h"
#include "tests/unit/kernels/proof_case.h"

namespace proof_mutants_tests {

using namespace proofs;
using Outcome = Proof::Outcome;

namespace {

constexpr Wires kWires = {4, 64};

enum class Flaw : uint8_t {
  none,
  dropped_send,
  doubled_reduce,
  wrong_offset,
  no_post,
  early_post,
  lost_tail
};

// The ring all-reduce once more, with one flaw in its text.
template <class Backend>
void flawed_all_reduce(Backend& backend, const Work& work, Flaw flaw) {
  const int n = work.nranks;
  backend.template block<1, 1>(ring_spec(work), [&](auto& b) {
    for (uint64_t done = 0; done < work.part_count;) {
      const ChunkRow row = ring_loop(work, done, uint64_t(n));
      const auto chunk = [&](int k) { return uint64_t(ring_back(work, k)); };
      b.send(row.at(chunk(1)), row.size(chunk(1)));
      for (int k = 2; k < n; ++k) {
        // Doubled: the rank adds the chunk of the step before, which holds its part already.
        const uint64_t c = flaw == Flaw::doubled_reduce && k == 3 ? chunk(2) : chunk(k);
        if (flaw == Flaw::dropped_send && k == 2 && work.rank == 1)
          b.recv_reduce(row.at(c), row.at(c), row.size(c), kNoPost);
        else
          b.recv_reduce_send(row.at(c), row.size(c));
      }
      const uint64_t own = chunk(0);
      b.recv_reduce_copy_send(row.at(own), row.at(own), row.size(own), flaw != Flaw::no_post);
      for (int k = 1; k < n - 1; ++k) {
        const uint64_t c = chunk(k);
        const uint64_t at = row.at(c) + (flaw == Flaw::wrong_offset && work.rank == 2 ? 1 : 0);
        b.recv_copy_send(at, row.size(c));
      }
      const uint64_t last = chunk(n - 1);
      b.recv(row.at(last), row.size(last) - (flaw == Flaw::lost_tail && work.rank == 0 ? 1 : 0));
      done += uint64_t(n) * row.each;
    }
  });
}

class Keeper : public EventSink {
 public:
  void event(int, const Event& e) override { events.push_back(e); }
  std::vector<Event> events;
};

Proof prove_flawed(Flaw flaw) {
  Job job({.count = 64});
  std::vector<Schedule> schedules;
  for (const Work& work : job.works) {
    Keeper keeper;
    RecordBackend backend(work, keeper);
    flawed_all_reduce(backend, work, flaw);
    if (flaw == Flaw::early_post) keeper.events[1].post = true;
    schedules.push_back({work, {keeper.events}});
  }
  return interpret(schedules, kWires);
}

// All ways to spoil one event; equal ones may come twice.
std::vector<Event> mutants_of(const Event& good, int rank, int nranks, uint64_t chunk_bytes) {
  std::vector<Event> list;
  const VerbShape shape = shape_of(good.verb);
  if (good.verb == Verb::arrive_and_wait) return list;  // it can only be left out or doubled
  const auto with = [&](auto change) {
    Event bad = good;
    change(bad);
    list.push_back(bad);
  };
  with([](Event& e) { e.n -= 1; });
  with([](Event& e) { e.n += 1; });
  with([](Event& e) { e.post = !e.post; });
  const bool in_bank = uses_window(good.verb) && good.verb != Verb::next_piece;
  for (int64_t shift : {4, -4, int(chunk_bytes)}) {
    if (in_bank) with([&](Event& e) { e.at += uint64_t(shift); });
    if (shape.reads) with([&](Event& e) { e.from += uint64_t(shift); });
    if (shape.writes) with([&](Event& e) { e.to += uint64_t(shift); });
  }
  for (int peer = 0; peer <= nranks; ++peer) {
    if (peer == rank) continue;
    if (shape.sends && peer != good.send[0]) with([&](Event& e) { e.send[0] = peer; });
    if (shape.receives && peer != good.recv[0]) with([&](Event& e) { e.recv[0] = peer; });
  }
  if (good.verb == Verb::recv_copy_send) with([](Event& e) { e.verb = Verb::recv_send; });
  if (good.verb == Verb::recv_reduce_copy_send)
    with([](Event& e) { e.verb = Verb::recv_reduce_send; });
  if (good.verb == Verb::recv_reduce_send) with([](Event& e) { e.verb = Verb::recv_send; });
  if (good.verb == Verb::copy_send) with([](Event& e) { e.verb = Verb::send; });
  if (good.verb == Verb::reduce_and_stage) with([](Event& e) { e.verb = Verb::reduce_from_peers; });
  return list;
}

// Nothing sends or receives and no data changes: a change here may be none.
bool is_idle(const Event& e) {
  if (e.verb == Verb::arrive_and_wait) return false;
  return e.n == 0 || (e.verb == Verb::copy && e.from == e.to);
}

std::string where(const Case& c, size_t schedule, size_t event, const char* verb) {
  return std::string(name_of(c.algorithm)) + " " + name_of(c.collective) + " schedule " +
         std::to_string(schedule) + " event " + std::to_string(event) + " " + verb;
}

// Number of mutants, all of which were caught.
int kill_all_mutants(const Case& c) {
  Job job(c);
  auto schedules = job.schedules();
  REQUIRE(interpret(schedules, kWires).outcome == Outcome::proved);
  int killed = 0;
  const auto must_fail = [&](const std::string& what) {
    if (interpret(schedules, kWires).outcome == Outcome::proved) FAIL("not caught: " << what);
    ++killed;
  };
  for (size_t s = 0; s < schedules.size(); ++s) {
    for (auto& part : schedules[s].parts) {
      for (size_t i = 0; i < part.size(); ++i) {
        const Event good = part[i];
        if (is_idle(good)) continue;
        const std::string at = where(c, s, i, name_of(good.verb));
        for (const Event& bad :
             mutants_of(good, schedules[s].work.rank, c.nranks, c.chunk_count * 4)) {
          part[i] = bad;
          must_fail(at);
          part[i] = good;
        }
        const auto here = part.begin() + std::ptrdiff_t(i);
        part.erase(here);
        must_fail(at + " dropped");
        part.insert(part.begin() + std::ptrdiff_t(i), 2, good);
        must_fail(at + " doubled");
        part.erase(part.begin() + std::ptrdiff_t(i));
      }
    }
  }
  return killed;
}

}  // namespace

TEST_CASE("mutants: a wrong algorithm is caught and named", "[proof]") {
  CHECK(prove_flawed(Flaw::none).outcome == Outcome::proved);
  const Proof dropped = prove_flawed(Flaw::dropped_send);
  CHECK(dropped.outcome != Outcome::proved);
  const Proof doubled = prove_flawed(Flaw::doubled_reduce);
  CHECK(doubled.outcome == Outcome::wrong);
  CHECK(doubled.what.find("with what rank") != std::string::npos);
  const Proof offset = prove_flawed(Flaw::wrong_offset);
  CHECK(offset.outcome == Outcome::wrong);
  CHECK(offset.what.find("rank 2") != std::string::npos);
  const Proof unposted = prove_flawed(Flaw::no_post);
  CHECK(unposted.outcome == Outcome::wrong);
  CHECK(unposted.what.find("instead of element 0 of rank 0,1,2,3 in final form") !=
        std::string::npos);
  const Proof early = prove_flawed(Flaw::early_post);
  CHECK(early.what.find("gives the final form to") != std::string::npos);
  const Proof tail = prove_flawed(Flaw::lost_tail);
  CHECK(tail.what.find("expects 60 bytes from rank 3, but gets 64") != std::string::npos);
}

TEST_CASE("mutants: every change of every verb of every algorithm is caught", "[proof]") {
  int killed = 0;
  for (const AlgorithmRow& row : algorithms()) {
    for (Collective collective : served_by(row)) {
      for (int n : {2, 3, 5}) {
        for (uint64_t count : {16, 37}) {
          if (!collctl::test::nightly() && (n == 3) != (count == 37)) continue;
          Case c{.algorithm = row.id, .collective = collective, .nranks = n, .count = count};
          c.root = n - 1;
          killed += kill_all_mutants(c);
        }
      }
    }
  }
  CHECK(killed > (collctl::test::nightly() ? 10'000 : 4'000));
}

TEST_CASE("mutants: verbs of a ring in the wrong order are caught", "[proof]") {
  for (Collective collective :
       {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter}) {
    // One loop: the last verb of a loop and the first of the next may change places.
    const uint64_t count = collective == Collective::all_reduce ? 80 : 16;
    Job job({.collective = collective, .nranks = 5, .count = count});
    auto schedules = job.schedules();
    for (Schedule& s : schedules) {
      auto& part = s.parts[0];
      for (size_t i = 0; i + 1 < part.size(); ++i) {
        std::swap(part[i], part[i + 1]);
        CHECK(interpret(schedules, kWires).outcome != Outcome::proved);
        std::swap(part[i], part[i + 1]);
      }
    }
    CHECK(interpret(schedules, kWires).outcome == Outcome::proved);
  }
}

TEST_CASE("mutants: a rank that does not take part is a deadlock that names it", "[proof]") {
  Job job({.nranks = 4});
  auto schedules = job.schedules();
  schedules.erase(schedules.begin() + 2);
  const Proof proof = interpret(schedules, kWires);
  REQUIRE(proof.outcome == Outcome::deadlock);
  CHECK(proof.what.find("waits for data from rank 2") != std::string::npos);
}

TEST_CASE("mutants: two parts that share a fifo end are caught", "[proof]") {
  Job job({.algorithm = AlgorithmId::tree_split, .nranks = 4});
  auto schedules = job.schedules();
  std::swap(schedules[1].parts[0][0], schedules[1].parts[1][0]);
  CHECK(interpret(schedules, kWires).outcome == Outcome::wrong);
}

}  // namespace proof_mutants_tests

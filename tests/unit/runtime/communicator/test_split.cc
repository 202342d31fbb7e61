// Communicator::split: groups that work at the same time, on every transport, in and over hosts, as
// CPU and GPU ranks; and what happens when a rank does not come, or a group fails.
#include <cstdlib>
#include <map>

#include "kernels/record/interpret.h"
#include "kernels/slices.h"
#include "runtime/communicator/members.h"
#include "tests/unit/runtime/gpu_ranks.h"
#include "tests/unit/runtime/says.h"

namespace communicator_split_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

namespace {

constexpr Collective kMovers[] = {Collective::all_reduce,     Collective::all_gather,
                                  Collective::reduce_scatter, Collective::broadcast,
                                  Collective::reduce,         Collective::gather,
                                  Collective::scatter,        Collective::all_to_all};

void all_collectives(Communicator& c, Complaints& complaints,
                     std::initializer_list<uint64_t> counts) {
  Stream stream(c);
  for (const uint64_t count : counts)
    for (const Collective collective : kMovers) {
      const std::string wrong =
          run_case(c, stream, {collective, count, c.size() - 1, false},
                   count % 2 == 0 ? Communicator::Launch::async : Communicator::Launch::blocking);
      if (!wrong.empty()) return complaints.add(wrong);
    }
}

// The group of this rank, or null after a complaint (and for a negative colour).
std::unique_ptr<Communicator> split(Communicator& c, Complaints& complaints, int colour,
                                    int key = 0) {
  auto made = c.split(colour, key, soon());
  if (made) return std::move(*made);
  complaints.add(format("rank {}: {}", c.rank(), made.error().chain()));
  return nullptr;
}

// Splits into groups of `per` ranks, which do everything at the same time; then all together.
void in_groups_of(int per, Communicator& c, Complaints& complaints) {
  const auto group = split(c, complaints, c.rank() / per);
  if (group == nullptr) return;
  const int first = c.rank() / per * per, size = std::min(per, c.size() - first);
  if (group->size() != size || group->rank() != c.rank() - first ||
      int(group->members().size()) != size || group->members()[0] != first)
    complaints.add(format("rank {} is rank {} of {}", c.rank(), group->rank(), group->size()));
  all_collectives(*group, complaints, {1, 1000, 20001});
  all_collectives(c, complaints, {1001});
  complaints.add(c.rank(), group->finalize(soon()));
}

}  // namespace

TEST_CASE("groups of 1 to 8 ranks, even and uneven, each with every collective", "[split]") {
  for (const int n : {1, 2, 3, 5, 8})
    for (int per = 1; per <= n; per += per < 3 ? 1 : 2) {
      INFO(n << " ranks in groups of " << per);
      CHECK(with_ranks(n, {}, [&](Communicator& c, Complaints& complaints) {
              in_groups_of(per, c, complaints);
            }) == "");
    }
}

TEST_CASE("what every group plans is proved by the recorder", "[split]") {
  constexpr uint32_t kSlots = 4, kSlotBytes = 4096;
  ::setenv("COLLCTL_STEPS", "4", 1);
  ::setenv("COLLCTL_BUFFSIZE", "16K", 1);
  CommOptions options;
  options.algo = "^one-shot,two-shot";  // those use windows, not slots
  options.proto = "simple";
  using Schedules = std::vector<kernels::Schedule>;
  std::map<std::pair<int, Collective>, Schedules> recorded;  // by first member
  std::mutex mutex;
  CHECK(with_ranks(7, options, [&](Communicator& c, Complaints& complaints) {
          const auto group = split(c, complaints, c.rank() % 2);
          if (group == nullptr) return;
          for (const Collective collective : kMovers) {
            const Operation op{.collective = collective,
                               .input = reinterpret_cast<const void*>(uintptr_t{1} << 40),
                               .output = reinterpret_cast<void*>(uintptr_t{2} << 40),
                               .count = 5003,
                               .root = group->size() - 1};
            auto plan = group->plan_for({&op, 1});
            if (!plan) return complaints.add(c.rank(), plan.error());
            const std::lock_guard lock(mutex);
            Schedules& all = recorded[{group->members()[0], collective}];
            for (const PlannedOp& planned : plan->ops)
              for (const kernels::Work& work : planned.works) {
                auto schedule = kernels::record(work);
                if (!schedule) return complaints.add(c.rank(), schedule.error());
                all.push_back(std::move(*schedule));
              }
          }
          complaints.add(c.rank(), group->finalize(soon()));
        }) == "");
  ::unsetenv("COLLCTL_STEPS");
  ::unsetenv("COLLCTL_BUFFSIZE");
  CHECK(recorded.size() == 2 * std::size(kMovers));
  for (const auto& [what, schedules] : recorded) {
    const kernels::Proof proof = kernels::interpret(
        schedules,
        {.slot_count = kSlots,
         .slot_data_bytes = kernels::slot_data_bytes(kSlotBytes, kernels::Protocol::simple)});
    INFO("the group of rank " << what.first << ", " << name_of(what.second) << ": " << proof.what);
    CHECK(!schedules.empty());
    CHECK(proof.outcome == kernels::Proof::Outcome::proved);
  }
}

TEST_CASE("groups over shared memory, over sockets, and over hosts", "[split]") {
  for (const char* transport : {"shm", "net"}) {
    INFO(transport);
    CommOptions options;
    options.transport = transport;
    options.net = "socket";
    CHECK(with_ranks(5, options, [&](Communicator& c, Complaints& complaints) {
            in_groups_of(2, c, complaints);
          }) == "");
  }
  // Four ranks on two hosts; groups inside them, and groups over them.
  const Root root = make_root();
  std::vector<std::unique_ptr<Communicator>> job(4);
  Complaints complaints;
  on_all(4, [&](int r) {
    CommOptions options;
    options.host_id = format("host{}", r / 2);
    auto made = Communicator::init(root.id, r, 4, options);
    if (!made) return complaints.add(r, made.error());
    job[size_t(r)] = std::move(*made);
    Communicator& c = *job[size_t(r)];
    for (const int colour : {r / 2, r % 2}) {
      const auto group = split(c, complaints, colour);
      if (group == nullptr) return;
      all_collectives(*group, complaints, {1, 20001});
      const bool across = group->peers()[0].host_hash != group->peers()[1].host_hash;
      if (across != (colour == r % 2 && group->members()[1] == group->members()[0] + 2))
        complaints.add("the group is not of the hosts that it should be of");
      complaints.add(r, group->finalize(soon()));
    }
    complaints.add(r, c.finalize(soon()));
  });
  CHECK(complaints.text() == "");
}

TEST_CASE("keys order a group, a negative colour takes no part", "[split]") {
  CHECK(with_ranks(6, {}, [](Communicator& c, Complaints& complaints) {
          const auto group = split(c, complaints, c.rank() == 2 ? -1 : 7, -c.rank());
          if (c.rank() == 2) {
            if (group != nullptr) complaints.add("a group for who wanted none");
            return;
          }
          if (group == nullptr) return;
          if (group->members() != std::vector<int>{5, 4, 3, 1, 0})
            complaints.add("not in the order of keys");
          if (group->members()[size_t(group->rank())] != c.rank())
            complaints.add("not who it says it is");
          all_collectives(*group, complaints, {1000});
          complaints.add(c.rank(), group->finalize(soon()));
        }) == "");
}

TEST_CASE("groups of groups, and several splits of one communicator", "[split]") {
  CHECK(with_ranks(8, {}, [](Communicator& c, Complaints& complaints) {
          const auto half = split(c, complaints, c.rank() / 4);
          if (half == nullptr) return;
          const auto pair = split(*half, complaints, half->rank() % 2);
          const auto row = split(c, complaints, c.rank() % 4);
          if (pair == nullptr || row == nullptr) return;
          if (pair->size() != 2 || row->size() != 2 || pair->hash() == row->hash())
            complaints.add("not what was asked for");
          for (Communicator* each : {half.get(), pair.get(), row.get(), &c})
            all_collectives(*each, complaints, {1, 3000});
          for (Communicator* each : {row.get(), half.get(), pair.get()})
            complaints.add(c.rank(), each->finalize(soon()));
        }) == "");
}

TEST_CASE("a group outlives what it was split from, and the other way round", "[split]") {
  for (const bool parent_first : {true, false})
    for (const bool finalized : {true, false}) {
      INFO(parent_first << finalized);
      Communicators job = start_job(4, {});
      Complaints complaints;
      // Without finalize all have to be through with it before one goes.
      std::atomic<int> through{0};
      on_all(4, [&](int r) {
        auto& parent = job[size_t(r)];
        auto group = split(*parent, complaints, r / 2);
        if (group == nullptr) return;
        auto &first = parent_first ? parent : group, &second = parent_first ? group : parent;
        all_collectives(*first, complaints, {1000});
        ++through;
        const Deadline deadline = soon();
        while (!finalized && through < 4 && !deadline.passed())
          base::sleep_until(Deadline::after_ms(2));
        if (finalized) complaints.add(r, first->finalize(soon()));
        first.reset();
        all_collectives(*second, complaints, {1, 20001});
        complaints.add(r, second->finalize(soon()));
      });
      CHECK(complaints.text() == "");
    }
}

TEST_CASE("who does not come to a split is named, within the deadline", "[split][faults]") {
  const Communicators job = start_job(4, {});
  std::vector<Error> errors(4);
  const int64_t began = now_ns();
  on_all(4, [&](int r) {
    if (r == 2) return;
    auto made = job[size_t(r)]->split(0, 0, Deadline::after_seconds(1));
    if (!made) errors[size_t(r)] = made.error();
  });
  CHECK(base::seconds_since(began) < 10);
  for (const int r : {0, 1, 3}) {
    INFO(errors[size_t(r)].chain());
    CHECK(errors[size_t(r)].code == ErrorCode::deadline);
    CHECK(errors[size_t(r)].rank == 2);
    CHECK(errors[size_t(r)].chain().find("rank 2 did not arrive") != std::string::npos);
    CHECK(!job[size_t(r)]->async_error());
  }
}

TEST_CASE("a rank that has gone ends a split of the others", "[split][faults]") {
  Communicators job = start_job(4, {});
  std::vector<Error> errors(4);
  job[3].reset();
  on_all(3, [&](int r) {
    auto made = job[size_t(r)]->split(r % 2, 0, Deadline::after_seconds(20));
    if (!made) errors[size_t(r)] = made.error();
  });
  for (const int r : {0, 1, 2}) {
    INFO(errors[size_t(r)].chain());
    CHECK(errors[size_t(r)].code == ErrorCode::lost);
    CHECK(errors[size_t(r)].rank == 3);
  }
}

TEST_CASE("a group that fails leaves the others and the whole alone", "[split][faults]") {
  CommOptions options;
  options.op_timeout_s = 20;
  std::atomic<bool> begun{false};
  CHECK(with_ranks(4, options, [&](Communicator& c, Complaints& complaints) {
          const auto group = split(c, complaints, c.rank() / 2);
          if (group == nullptr) return;
          if (c.rank() == 2) begun = true;
          const Deadline deadline = soon();
          while (c.rank() == 3 && !begun && !deadline.passed())
            base::sleep_until(Deadline::after_ms(1));
          if (c.rank() == 3) group->abort(Error(ErrorCode::failed, "out of order"));
          if (c.rank() == 2) {
            Stream stream(*group);
            float in = 1, out = 0;
            Status ended = group->start(
                {.collective = Collective::all_reduce, .input = &in, .output = &out, .count = 1},
                stream, Communicator::Launch::blocking);
            // It may have been told before it began.
            while (ended) ended = group->async_error();
            const Error told = in_numbers_of(group->members(), ended.error());
            if (told.chain().find("rank 3 aborted") == std::string::npos || told.rank != 3)
              complaints.add("not named: " + told.chain());
          }
          if (c.rank() < 2) {
            all_collectives(*group, complaints, {1000});
            complaints.add(c.rank(), group->finalize(soon()));
          }
          all_collectives(c, complaints, {1000});
        }) == "");
}

TEST_CASE("what must end with a communicator hears of its first error", "[split][faults]") {
  const Communicators job = start_job(2, {});
  std::atomic<int> heard{0};
  const auto count = [&](const Error& why) {
    if (why.message.find("over") != std::string::npos) ++heard;
  };
  const base::Cancel::Listener other(job[1]->failure(), count);
  job[0]->abort(Error(ErrorCode::failed, "over"));
  const Deadline deadline = soon();
  while (heard < 1 && !deadline.passed()) base::sleep_until(Deadline::after_ms(1));
  CHECK(heard == 1);
  const base::Cancel::Listener late(job[0]->failure(), count);
  CHECK(heard == 2);
  job[0]->abort(Error(ErrorCode::failed, "over again"));
  CHECK(heard == 2);
}

TEST_CASE("a rank lost in a group is named by the group, at once", "[split][faults]") {
  CommOptions options;
  options.op_timeout_s = 30;
  Communicators job = start_job(4, options);
  std::vector<Error> errors(4);
  Complaints complaints;
  std::atomic<bool> begun{false};
  on_all(4, [&](int r) {
    auto group = split(*job[size_t(r)], complaints, r / 2);
    if (group == nullptr) return;
    if (r == 2) begun = true;  // past its start
    const Deadline deadline = soon();
    while (r == 3 && !begun && !deadline.passed()) base::sleep_until(Deadline::after_ms(1));
    if (r == 3) return group.reset();
    Stream stream(*group);
    float in = 1, out = 0;
    for (int i = 0; i < 1000; ++i) {
      const Status done = group->start(
          {.collective = Collective::all_reduce, .input = &in, .output = &out, .count = 1}, stream,
          Communicator::Launch::blocking);
      if (!done) errors[size_t(r)] = in_numbers_of(group->members(), done.error());
    }
    if (r < 2) complaints.add(r, group->finalize(soon()));
  });
  CHECK(complaints.text() == "");
  INFO(errors[2].chain());
  CHECK(errors[2].code == ErrorCode::lost);
  CHECK(errors[2].rank == 3);
}

TEST_CASE("members that cannot begin tell those that wait for them", "[split][faults]") {
  CommOptions options;
  options.start_timeout_s = 60;
  const Communicators job = start_job(4, options);
  ::setenv("COLLCTL_ALGO", "nonsense", 1);  // read again when a group begins
  std::vector<Error> errors(4);
  on_all(4, [&](int r) {
    auto made = job[size_t(r)]->split(r / 3, 0, Deadline::after_seconds(30));
    if (!made) errors[size_t(r)] = made.error();
  });
  ::unsetenv("COLLCTL_ALGO");
  for (int r = 0; r < 4; ++r) {
    INFO(errors[size_t(r)].chain());
    CHECK(errors[size_t(r)].code == ErrorCode::usage);
    CHECK(job[size_t(r)]->async_error());  // the whole goes on
  }
  Complaints complaints;
  on_all(4, [&](int r) { all_collectives(*job[size_t(r)], complaints, {1000}); });
  CHECK(complaints.text() == "");
}

TEST_CASE("a finalized communicator cannot be split", "[split]") {
  const Communicators job = start_job(1, {});
  REQUIRE(job[0]->finalize(soon()));
  const auto made = job[0]->split(0, 0, soon());
  REQUIRE(!made);
  CHECK(made.error().code == ErrorCode::usage);
}

TEST_CASE("groups of GPU ranks", "[split][gpu]") {
  for (const int n : {1, 2, 4, 5}) {
    set_up_gpus(n);
    INFO(n << " ranks");
    GpuJob job;
    job.ranks = n;
    job.options.op_timeout_s = 120;
    CHECK(with_gpu_ranks(job, [](Communicator& c, Complaints& complaints) {
            in_groups_of(2, c, complaints);
          }) == "");
  }
}

TEST_CASE("groups of GPU ranks over hosts", "[split][gpu]") {
  set_up_gpus(4);
  GpuJob job;
  job.ranks = 4;
  job.hosts = {0, 0, 1, 1};
  job.options.op_timeout_s = 120;
  CHECK(with_gpu_ranks(job, [](Communicator& c, Complaints& complaints) {
          for (const int colour : {c.rank() / 2, c.rank() % 2}) {
            const auto group = split(c, complaints, colour);
            if (group == nullptr) return;
            all_collectives(*group, complaints, {1, 20001});
            complaints.add(c.rank(), group->finalize(soon()));
          }
        }) == "");
}

TEST_CASE("members of a split, by colour and key", "[split]") {
  const SplitCard cards[] = {{0, 5}, {1, 0}, {0, 5}, {-1, 0}, {0, -2}, {1, 0}};
  CHECK(split_members(cards, 0) == std::vector<int>{4, 0, 2});
  CHECK(split_members(cards, 1) == std::vector<int>{1, 5});
  CHECK(split_members(cards, 2).empty());
  CHECK(split_members(cards, -1).empty());
}

TEST_CASE("a group's texts in the numbers of the whole", "[split]") {
  const std::vector<int> members{4, 9, 6, 7};
  const auto told = [&](const char* text) { return in_numbers_of(members, text); };
  CHECK(told("rank 1 waits for data from rank 2 (allreduce #17, channel 0, step 42)") ==
        "rank 9 waits for data from rank 6 (allreduce #17, channel 0, step 42)");
  CHECK(told("ranks 0, 2-3 did not arrive") == "ranks 4, 6-7 did not arrive");
  CHECK(told("ranks 0, 2 and 3 more") == "ranks 4, 6 and 3 more");
  CHECK(told("rank 3, 2 of them") == "rank 7, 2 of them");
  CHECK(told("rank 12 is no rank of 4 ranks; frank 1; rank-1; ranks; rank") ==
        "rank 12 is no rank of 4 ranks; frank 1; rank-1; ranks; rank");
  CHECK(told("(rank 0)'s, rank 99999999999 too") == "(rank 4)'s, rank 99999999999 too");
  CHECK(told("") == "");
  Error error = Error(ErrorCode::lost, "rank 1 is gone", "look at rank 0").blame(1);
  error.awaited = 3;
  error.within("connect rank 0 -> rank 1");
  const Error whole = in_numbers_of(members, error);
  CHECK(whole.chain() == "connect rank 4 -> rank 9: rank 9 is gone");
  CHECK(whole.hint == "look at rank 4");
  CHECK(whole.rank == 9);
  CHECK(whole.awaited == 7);
}

}  // namespace communicator_split_tests

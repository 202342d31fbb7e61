// PXN for messages and all-to-all: which GPU sends them by NCCL_P2P_PXN_LEVEL, that its adapter
// does, and what becomes of it when that rank dies, stands still or cannot.
#include <csignal>
#include <set>

#include "base/host_facts.h"
#include "base/wait.h"
#include "tests/unit/runtime_ib/relay_machine.h"

namespace relay_messages_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

namespace {

bool between_hosts(int a, int b) {
  return (a < 2) != (b < 2);
}

struct Message {
  int from, to;
  size_t bytes;
};

uint8_t byte_of(const Message& message, size_t i) {
  return uint8_t(message.from * 61 + message.to * 17 + message.bytes + i * 7 + i / 251);
}

// All in one group; what is wrong on this rank.
std::string send_all(Communicator& c, const std::vector<Message>& messages) {
  std::vector<std::vector<uint8_t>> data(messages.size());
  Stream stream(c);
  Group group;
  Status started;
  for (size_t m = 0; m < messages.size(); ++m) {
    const Message& each = messages[m];
    const bool sends = each.from == c.rank();
    if (!sends && each.to != c.rank()) continue;
    data[m].resize(std::max<size_t>(each.bytes, 1));
    for (size_t i = 0; sends && i < each.bytes; ++i) data[m][i] = byte_of(each, i);
    const Operation op{.collective = Collective::send_recv,
                       .input = sends ? data[m].data() : nullptr,
                       .output = sends ? nullptr : data[m].data(),
                       .count = each.bytes,
                       .type = DataType::uint8,
                       .peer = sends ? each.to : each.from};
    if (Status status = c.start(op, stream); !status && started) started = std::move(status);
  }
  if (Status status = group.end(); !status && started) started = std::move(status);
  if (Status status = stream.synchronize(); !status && started) started = std::move(status);
  if (!started) return started.error().chain() + "; " + started.error().hint;
  for (size_t m = 0; m < messages.size(); ++m)
    for (size_t i = 0; messages[m].to == c.rank() && i < messages[m].bytes; ++i)
      if (data[m][i] != byte_of(messages[m], i))
        return format("{} -> {}: byte {} of {} is wrong", messages[m].from, messages[m].to, i,
                      messages[m].bytes);
  return "";
}

// Every pair of ranks of different hosts, several messages each; the last is larger than a
// slot.
std::vector<Message> all_messages() {
  std::vector<Message> all;
  for (int from = 0; from < kRanks; ++from)
    for (int to = 0; to < kRanks; ++to)
      for (const size_t bytes : {size_t(0), size_t(1), size_t(7), size_t(4097), size_t(1'200'001)})
        if (between_hosts(from, to)) all.push_back({from, to, bytes});
  return all;
}

// By message: "1 -> 2 by 0 on fake_0", as its sender has it.
std::set<std::string> ways(const Communicator& c) {
  std::set<std::string> found;
  for (const LinkInfo& link : c.links())
    if (link.from == c.rank() && between_hosts(link.from, link.to) && link.channel > 0)
      found.insert(format("{} -> {} by {} on {}", link.from, link.to, link.relay, link.nic));
  return found;
}

struct Level {
  Adapter adapters;
  const char* level;
  std::set<std::string> expected;  // what messages and rings together may use
};

}  // namespace

TEST_CASE("messages leave by the rail of their receiver, as the level has it", "[.][ib][relay]") {
  const std::vector<Level> levels = {
      // Each GPU has an adapter: by the other's where that is the receiver's rail.
      {Adapter::beside_each,
       "2",
       {"0 -> 2 by -1 on fake_0", "0 -> 3 by 1 on fake_1", "1 -> 2 by 0 on fake_0",
        "1 -> 3 by -1 on fake_1", "2 -> 0 by -1 on fake_0", "2 -> 1 by 3 on fake_1",
        "3 -> 0 by 2 on fake_0", "3 -> 1 by -1 on fake_1"}},
      {Adapter::beside_each,
       "1",
       {"0 -> 2 by -1 on fake_0", "0 -> 3 by 1 on fake_1", "1 -> 2 by 0 on fake_0",
        "1 -> 3 by -1 on fake_1", "2 -> 0 by -1 on fake_0", "2 -> 1 by 3 on fake_1",
        "3 -> 0 by 2 on fake_0", "3 -> 1 by -1 on fake_1"}},
      // Rings have relays.
      {Adapter::beside_each,
       "0",
       {"0 -> 2 by -1 on fake_0", "0 -> 3 by -1 on fake_0", "0 -> 3 by 1 on fake_1",
        "1 -> 2 by -1 on fake_1", "1 -> 2 by 0 on fake_0", "1 -> 3 by -1 on fake_1",
        "2 -> 0 by -1 on fake_0", "2 -> 1 by -1 on fake_0", "2 -> 1 by 3 on fake_1",
        "3 -> 0 by -1 on fake_1", "3 -> 0 by 2 on fake_0", "3 -> 1 by -1 on fake_1"}},
      // One adapter for both, as near to each: one of them sends for both (what goes along a ring
      // does not), or each for itself.
      {Adapter::beside_both,
       "2",
       {"0 -> 2 by -1 on fake_0", "0 -> 3 by -1 on fake_0", "1 -> 2 by -1 on fake_0",
        "1 -> 3 by 0 on fake_0", "2 -> 0 by -1 on fake_0", "2 -> 1 by -1 on fake_0",
        "3 -> 0 by -1 on fake_0", "3 -> 1 by 2 on fake_0"}},
      {Adapter::beside_both,
       "1",
       {"0 -> 2 by -1 on fake_0", "0 -> 3 by -1 on fake_0", "1 -> 2 by -1 on fake_0",
        "1 -> 3 by -1 on fake_0", "2 -> 0 by -1 on fake_0", "2 -> 1 by -1 on fake_0",
        "3 -> 0 by -1 on fake_0", "3 -> 1 by -1 on fake_0"}},
  };
  for (const Level& each : levels) {
    INFO("adapters " << int(each.adapters) << ", level " << each.level);
    const base::ScopedVariable level("COLLCTL_P2P_PXN_LEVEL", each.level);
    const Adapters fabric("fake_0:ib:dmabuf,fake_1:ib:dmabuf");
    const Machine machine(each.adapters);
    set_up_gpus(kRanks);
    std::mutex mutex;
    std::set<std::string> found;
    CHECK(with_gpu_ranks(two_hosts("ib"), [&](Communicator& c, Complaints& complaints) {
            if (const std::string wrong = send_all(c, all_messages()); !wrong.empty())
              complaints.add(wrong);
            const std::scoped_lock lock(mutex);
            found.merge(ways(c));
          }) == "");
    CHECK(found == each.expected);
  }
}

TEST_CASE("all-to-all between hosts keeps all adapters busy, through relays", "[.][ib][relay]") {
  for (const char* net : {"ib", "socket"})
    for (const char* proto : {"ll", "simple"}) {
      INFO(net << " " << proto);
      const Adapters fabric("fake_0:ib:dmabuf,fake_1:ib:dmabuf");
      const Machine machine(Adapter::beside_each);
      set_up_gpus(kRanks);
      fake_verbs::clear_posted();
      GpuJob job = two_hosts(net);
      job.options.proto = proto;
      CHECK(with_gpu_ranks(job, [&](Communicator& c, Complaints& complaints) {
              Stream stream(c);
              for (const uint64_t count : {0, 1, 7, 100'003, 300'001}) {
                const std::string wrong =
                    run_case(c, stream, {.collective = Collective::all_to_all, .count = count});
                if (!wrong.empty()) return complaints.add(wrong);
              }
              std::set<int> relays;
              for (const LinkInfo& link : c.links())
                if (link.from == c.rank() && link.relay >= 0) relays.insert(link.relay);
              if (relays != std::set<int>{c.rank() ^ 1}) complaints.add("no relay, or another");
            }) == "");
      std::map<std::string, uint64_t> bytes;
      for (const auto& post : fake_verbs::posted()) bytes[post.device] += post.bytes;
      if (std::string(net) == "ib") {
        CHECK(bytes["fake_0"] > 0);
        CHECK(bytes["fake_1"] > bytes["fake_0"] / 2);
        CHECK(bytes["fake_1"] < bytes["fake_0"] * 2);
      }
    }
}

TEST_CASE("the relay's process posts a message, and has no other part in it", "[ib][relay]") {
  for (const bool fds : {true, false}) {  // memory travels as a descriptor, or by name
    INFO(fds);
    const Adapters fabric("fake_0:ib:dmabuf,fake_1:ib:dmabuf");
    const Machine machine(Adapter::beside_each);
    REQUIRE(fake_cuda::counts() == fake_cuda::Counts{});
    fake_cuda::set_up({.devices = kRanks, .fd_handles = fds});
    constexpr size_t kBytes = 9'000'001;
    CHECK(in_processes(two_hosts("ib"), [](Communicator& c, Complaints& complaints) {
            const int32_t mine = ::getpid();
            const auto pids = c.gather_blobs({reinterpret_cast<const uint8_t*>(&mine), 4},
                                             Deadline::after_seconds(60));
            if (!pids) return complaints.add(pids.error().chain());
            int32_t relay = 0, source = 0;
            std::memcpy(&relay, (*pids)[0].data(), 4);
            std::memcpy(&source, (*pids)[1].data(), 4);
            // Ranks 0 and 3 do nothing but wait here.
            if (c.rank() == 1 || c.rank() == 2) {
              const std::string wrong = send_all(c, {{1, 2, kBytes}, {1, 2, 0}, {1, 2, 3}});
              if (!wrong.empty()) complaints.add(wrong);
            }
            complaints.add(c.rank(), c.barrier(Deadline::after_seconds(60)));
            if (c.rank() != 0) return;
            uint64_t by_relay = 0, by_source = 0;
            for (const auto& post : fake_verbs::posted()) {
              const bool on_rail = std::string_view(post.device) == "fake_0";
              if (post.opcode == 0xff) continue;
              if (post.process == relay && on_rail) by_relay += post.bytes;
              if (post.process == source) by_source += post.bytes;
            }
            if (by_relay < kBytes) complaints.add(format("the relay posted {} bytes", by_relay));
            if (by_source > kBytes / 100)
              complaints.add(format("the source posted {} bytes", by_source));
          }) == "");
  }
}

TEST_CASE("a level that was asked for and cannot be is refused", "[ib][relay]") {
  const Adapters fabric("fake_0:ib:dmabuf,fake_1:ib:dmabuf");
  const Machine machine(Adapter::beside_each);
  for (const char* asked : {"", "2"}) {
    INFO("level " << asked);
    const base::ScopedVariable level("COLLCTL_P2P_PXN_LEVEL", asked);
    REQUIRE(fake_cuda::counts() == fake_cuda::Counts{});
    fake_cuda::set_up({.devices = kRanks, .peers = "0-1,2-3"});  // the driver has none
    const Communicators ranks = start_gpu_job(two_hosts("ib"));
    std::vector<std::string> said(kRanks);
    on_all(kRanks, [&](int r) { said[size_t(r)] = send_all(*ranks[size_t(r)], {{1, 2, 1000}}); });
    for (const int r : {1, 2}) {
      CAPTURE(said[size_t(r)]);
      const bool refused = said[size_t(r)].find("PXN") != std::string::npos &&
                           said[size_t(r)].find("COLLCTL_P2P_PXN_LEVEL=0") != std::string::npos;
      CHECK(refused == (asked[0] != 0));
      CHECK(said[size_t(r)].empty() == (asked[0] == 0));
    }
  }
}

TEST_CASE("PXN_DISABLE forbids relays at every level", "[ib][relay]") {
  const Adapters fabric("fake_0:ib:dmabuf,fake_1:ib:dmabuf");
  const Machine machine(Adapter::beside_each);
  const base::ScopedVariable level("NCCL_P2P_PXN_LEVEL", "2"), none("NCCL_PXN_DISABLE", "1");
  set_up_gpus(kRanks);
  CHECK(with_gpu_ranks(two_hosts("ib"), [](Communicator& c, Complaints& complaints) {
          const std::string wrong = send_all(c, all_messages());
          if (!wrong.empty()) complaints.add(wrong);
          for (const LinkInfo& link : c.links())
            if (link.relay >= 0) complaints.add("a relay");
        }) == "");
}

namespace {

// Ranks as processes, of which the relay of 1 -> 2, rank 0, comes to harm; what the others must say
// of it. `before`: before that link is made.
enum class Harm : uint8_t { killed, stopped };
std::string with_harm(Harm harm, bool before) {
  // Objects that a killed process held are not given back.
  REQUIRE(fake_verbs::set_up({.devices = "fake_0:ib:dmabuf,fake_1:ib:dmabuf"}) == "");
  fake_verbs::clear_faults();  // makes the world that the processes share
  const Machine machine(Adapter::beside_each);
  set_up_gpus(kRanks);
  GpuJob job = two_hosts("ib");
  job.options.op_timeout_s = 3;
  job.options.start_timeout_s = 20;
  return in_processes(
      job,
      [&](Communicator& c, Complaints& complaints) {
        const int32_t mine = ::getpid();
        const auto pids = c.gather_blobs({reinterpret_cast<const uint8_t*>(&mine), 4},
                                         Deadline::after_seconds(60));
        if (!pids) return complaints.add(pids.error().chain());
        int32_t relay = 0;
        std::memcpy(&relay, (*pids)[0].data(), 4);
        const bool ends = c.rank() == 1 || c.rank() == 2;
        if (!before && ends)
          if (const std::string wrong = send_all(c, {{1, 2, 1000}}); !wrong.empty())
            complaints.add(wrong);
        if (!before) complaints.add(c.rank(), c.barrier(Deadline::after_seconds(60)));
        if (c.rank() == 0) {
          ::kill(mine, harm == Harm::killed ? SIGKILL : SIGSTOP);
          base::sleep_until(Deadline::after_seconds(60));
        }
        const Deadline late = Deadline::after_seconds(60);
        if (ends) {
          const auto harmed = [relay] {
            const char state = base::process_state(relay);
            return state == 0 || state == 'Z' || state == 'T';
          };
          while (!harmed() && !late.passed()) base::sleep_until(Deadline::after_ms(5));
          static_cast<void>(send_all(c, {{1, 2, size_t(before ? 1000 : 80'000'000)}}));
        }
        while (c.async_error() && !late.passed()) base::sleep_until(Deadline::after_ms(20));
        const Status status = c.async_error();
        if (c.rank() == 1) ::kill(relay, SIGKILL);
        if (status) return complaints.add(format("rank {} did not hear of it", c.rank()));
        const Error& error = status.error();
        const bool expected = harm == Harm::killed ? error.code == ErrorCode::lost
                                                   : error.code == ErrorCode::deadline;
        // A receiver cannot see what became of data that its sender has given to the relay: where
        // the sender waits for nobody it is named, of the same host, and the relay in the text.
        const bool named =
            error.rank == 0 || (harm == Harm::stopped && !before && error.rank == 1 &&
                                error.chain().find("rank 0") != std::string::npos);
        if (!expected || !named)
          complaints.add(format("rank {}: {}: {}", c.rank(), int(error.code), error.chain()));
      },
      0);
}

}  // namespace

TEST_CASE("the relay of a message that dies is lost, and named", "[ib][relay][faults]") {
  for (const bool before : {true, false}) {
    INFO("before the link is made: " << before);
    CHECK(with_harm(Harm::killed, before) == "");
  }
}

TEST_CASE("the relay of a message that stands still is named", "[.][ib][relay][faults]") {
  for (const bool before : {true, false}) {
    INFO("before the link is made: " << before);
    CHECK(with_harm(Harm::stopped, before) == "");
  }
}

TEST_CASE("who does not take a message is named, not its relay", "[ib][relay][faults]") {
  const Adapters fabric("fake_0:ib:dmabuf,fake_1:ib:dmabuf");
  const Machine machine(Adapter::beside_each);
  set_up_gpus(kRanks);
  GpuJob job = two_hosts("ib");
  job.options.op_timeout_s = 2;
  const Communicators ranks = start_gpu_job(job);
  std::string said;
  int blamed = -1;
  on_all(kRanks, [&](int r) {
    Communicator& c = *ranks[size_t(r)];
    if (r != 1 && r != 2) return;
    static_cast<void>(send_all(c, {{1, 2, 1000}}));
    if (r != 1) return;
    static_cast<void>(send_all(c, {{1, 2, 80'000'000}}));
    if (const Status status = c.async_error(); !status) {
      said = status.error().chain();
      blamed = status.error().rank;
    }
  });
  CAPTURE(said);
  CHECK(blamed == 2);
  CHECK(said.find("it only sends that for this rank to rank 2 (PXN)") != std::string::npos);
}

}  // namespace relay_messages_tests

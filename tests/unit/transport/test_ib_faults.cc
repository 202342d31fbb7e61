// The fault matrix of NET/IB: each fault of the fabric (tests/fake_verbs/control.h) in each phase
// of a connection. After it either every message has arrived right, or the end that was hit names
// the cause, the peer and the port, in time. The expected end follows from the rules of reliable
// connections: what the sender sends again until its retries are over does no harm; what outlives
// them, and what a key forbids, ends the connection at the requester with the status that the
// specification gives.
#ifdef COLLCTL_HAVE_FABRIC
#include <algorithm>
#include <cstdio>

#include "tests/unit/transport/ib_transfer.h"

namespace ib_faults_tests {

using namespace collctl;
using namespace collctl::test;
using fake_verbs::Fault;
using fake_verbs::FaultKind;

namespace {

enum class Phase { clear, data, immediate, flush };
const char* name_of(Phase phase) {
  const char* const names[] = {"clear to send", "data", "immediate", "flush"};
  return names[int(phase)];
}

// Which requests belong to a phase, by what they look like. IB announces large messages apart: data
// is a plain write, the immediate has none; entries of clear-to-send are 32 bytes each; only a
// flush reads.
Fault in_phase(Phase phase, Fault fault) {
  switch (phase) {
    case Phase::clear:
      fault.min_bytes = 32;
      fault.max_bytes = 32 * kIbSlots;
      break;
    case Phase::data:
      fault.opcode = "write";
      fault.min_bytes = kIbBytes;
      break;
    case Phase::immediate:
      fault.opcode = "write_imm";
      fault.max_bytes = 0;
      break;
    case Phase::flush:
      fault.opcode = "read";
      break;
  }
  return fault;
}

// Receivers write entries and flush; senders write data and announce it.
bool requester_is_receiver(Phase phase) {
  return phase == Phase::clear || phase == Phase::flush;
}

bool has(const std::optional<Error>& error, const std::string& text) {
  return error && error->chain().find(text) != std::string::npos;
}

// The end that made the request reports what became of it: status, peer, port. `both_use_it`: what
// failed serves the other end's requests as well; the first to be refused says so, and to the other
// the connection has failed.
void check_failed(const IbOutcome& out, Phase phase, const std::string& status,
                  bool both_use_it = false) {
  const bool receiver = requester_is_receiver(phase);
  const std::optional<Error>& error = receiver ? out.receiver : out.sender;
  INFO(name_of(phase) << ": " << out.text());
  REQUIRE(error);
  CHECK((out.sender && out.receiver));
  CHECK(error->code == ErrorCode::lost);
  const bool other_was_first = both_use_it && has(error, "work request flushed") &&
                               has(receiver ? out.sender : out.receiver, status);
  CHECK((has(error, status) || other_was_first));
  CHECK(has(error, "fake_0:1"));
  CHECK(out.wrong_bytes == 0);
  CHECK(out.arrived < kIbMessages);
  CHECK(error->rank == (receiver ? 2 : 5));
  CHECK(error->host == (receiver ? "host2" : "host5"));
}

std::vector<Phase> phases(bool gpu) {
  if (gpu) return {Phase::flush, Phase::data};
  return {Phase::clear, Phase::data, Phase::immediate};
}

}  // namespace

TEST_CASE("IB faults that retries mend leave the data right, in every phase") {
  struct Row {
    const char* name;
    Fault fault;
  };
  std::vector<Row> rows(6);
  rows[0] = {"lost twice", {.kind = FaultKind::kDrop, .times = 2, .value = 2}};
  rows[1] = {"acknowledgement lost twice", {.kind = FaultKind::kAckLost, .times = 2, .value = 2}};
  rows[2] = {"2 ms late", {.kind = FaultKind::kDelay, .times = 5, .us = 2000}};
  rows[3] = {"in any order", {.kind = FaultKind::kReorder, .times = 0, .us = 300}};
  rows[4] = {"50 MB/s", {.kind = FaultKind::kBandwidth, .times = 0, .value = 50'000'000}};
  rows[5] = {"never at once", {.kind = FaultKind::kDelay, .times = 0, .us = 20}};
  for (const bool gpu : {false, true})
    for (const Phase phase : phases(gpu))
      for (const Row& row : rows) {
        INFO(row.name << " in " << name_of(phase) << (gpu ? ", GPUs" : ""));
        Rig rig(ib_fabric({}, gpu));
        int number = -1;
        const IbOutcome out =
            run(rig, [&] { number = fake_verbs::add_fault(in_phase(phase, row.fault)); });
        INFO(out.text());
        CHECK(out.right);
        CHECK(fake_verbs::hits(number) > 0);
      }
}

TEST_CASE("IB faults that no retry mends end the connection, named, in every phase") {
  struct Row {
    const char* name;
    Fault fault;
    const char* says;
  };
  std::vector<Row> rows(4);
  rows[0] = {"lost for good",
             {.kind = FaultKind::kDrop, .times = 0, .value = 1000},
             "transport retry counter exceeded"};
  rows[1] = {"unheard for good",
             {.kind = FaultKind::kAckLost, .times = 0, .value = 1000},
             "transport retry counter exceeded"};
  rows[2] = {"key revoked", {.kind = FaultKind::kRevoke}, "remote access error"};
  rows[3] = {"adapter fails", {.kind = FaultKind::kStatus, .value = 19}, "fatal error"};
  for (const bool gpu : {false, true})
    for (const Phase phase : phases(gpu))
      for (const Row& row : rows) {
        // An immediate without data names no key.
        if (phase == Phase::immediate && row.fault.kind == FaultKind::kRevoke) continue;
        INFO(row.name << " in " << name_of(phase) << (gpu ? ", GPUs" : ""));
        Rig rig(ib_fabric({}, gpu));
        int number = -1;
        const IbOutcome out =
            run(rig, [&] { number = fake_verbs::add_fault(in_phase(phase, row.fault)); });
        CHECK(fake_verbs::hits(number) > 0);
        // A flush reads a slot that the sender may be writing with the same key.
        check_failed(out, phase, row.says,
                     phase == Phase::flush && row.fault.kind == FaultKind::kRevoke);
      }
}

TEST_CASE("IB faults: every status of a completion has its number and a hint") {
  for (int status = 1; status <= 21; ++status) {
    INFO("status " << status);
    Rig rig(ib_fabric());
    const IbOutcome out = run(rig, [&] {
      fake_verbs::add_fault(
          in_phase(Phase::immediate, {.kind = FaultKind::kStatus, .value = uint64_t(status)}));
    });
    check_failed(out, Phase::immediate, "status " + std::to_string(status) + ":");
    CHECK(!out.sender->hint.empty());
  }
}

TEST_CASE("IB faults: one wrong byte on the wire is one wrong byte in the slot") {
  // A real wire catches this by its checksums; here, that nothing else repairs or multiplies it.
  Rig rig(ib_fabric());
  int number = -1;
  const IbOutcome out = run(rig, [&] {
    number =
        fake_verbs::add_fault(in_phase(Phase::data, {.kind = FaultKind::kCorrupt, .times = 3}));
  });
  INFO(out.text());
  CHECK(fake_verbs::hits(number) == 3);
  CHECK(out.wrong_bytes == 3);
  CHECK(out.arrived == kIbMessages);
}

TEST_CASE(
    "IB faults: a port that goes down and comes back is not noticed, one that stays down is") {
  // One try takes 0.54 s, eight 4.3 s: more than the 2 s that a port may be down.
  const std::vector<std::pair<std::string, std::string>> patient = {
      {"COLLCTL_IB_TIMEOUT", "17"}, {"COLLCTL_IB_PORT_DOWN_TIMEOUT", "2"}};
  {
    Rig rig(ib_fabric(patient));
    std::thread friendly;
    const IbOutcome out = run(rig, [&] {
      fake_verbs::set_port("fake_0", 1, false);
      friendly = std::thread([] {
        // time is what is tested: a port that is down for a moment
        base::sleep_until(Deadline::after_ms(50));
        fake_verbs::set_port("fake_0", 1, true);
      });
    });
    friendly.join();
    INFO(out.text());
    CHECK(out.right);
  }
  Rig rig(ib_fabric(patient));
  const IbOutcome out = run(rig, [] { fake_verbs::set_port("fake_0", 1, false); });
  INFO(out.text());
  const std::optional<Error>& error = out.sender ? out.sender : out.receiver;
  REQUIRE(error);
  CHECK(error->code == ErrorCode::lost);
  CHECK(has(error, "fake_0:1 of this host has been down"));
}

TEST_CASE("IB faults: an adapter that dies is named at both ends") {
  Rig rig(ib_fabric());
  const IbOutcome out = run(rig, [] { fake_verbs::break_device("fake_0"); });
  INFO(out.text());
  for (const auto& error : {out.sender, out.receiver}) {
    REQUIRE(error);
    CHECK(has(error, "fake_0"));
  }
}

TEST_CASE("IB faults while connecting: refused with the cause, and nothing is left") {
  SECTION("the adapter dies") {
    Rig rig(ib_fabric());
    fake_verbs::break_device("fake_0");
    const Status opened = rig.open({kIbBytes, kIbSlots}, {});
    REQUIRE(!opened);
    INFO(opened.error().chain());
    CHECK(opened.error().chain().find("fake_0") != std::string::npos);
  }
  SECTION("no queue pair is left") {
    RowSetting setting = ib_fabric();
    setting.fabric = "fake_0:ib:pairs=1";
    Rig rig(setting);
    const Status opened = rig.open({kIbBytes, kIbSlots}, {});
    REQUIRE(!opened);
    INFO(opened.error().chain());
    CHECK(opened.error().chain().find("fake_0") != std::string::npos);
  }
  SECTION("two limited members of a partition: silence, and the first message says so") {
    RowSetting setting = ib_fabric();
    setting.fabric = "fake_0:ib:pkey=0x0001";
    Rig rig(setting);
    REQUIRE(rig.open({kIbBytes, kIbSlots}, {}));
    IbOutcome out;
    transfer(rig, 0, 2, out);
    out.receiver = rig.receiver.first_error();
    INFO(out.text());
    CHECK(out.arrived == 0);
    CHECK(has(out.receiver, "transport retry counter exceeded"));
    CHECK(has(out.receiver, "8 tries"));
  }
}

TEST_CASE("IB faults while closing: both ends come to an end in time, whatever the fabric does") {
  for (const char* what : {"port", "lost", "device"}) {
    INFO(what);
    Rig rig(ib_fabric());
    REQUIRE(rig.open({kIbBytes, kIbSlots}, {}));
    IbOutcome out;
    transfer(rig, 0, kIbBefore, out);
    REQUIRE(out.arrived == kIbBefore);
    if (what[0] == 'p') fake_verbs::set_port("fake_0", 1, false);
    if (what[0] == 'l')
      fake_verbs::add_fault({.kind = FaultKind::kDrop, .times = 0, .value = 1000});
    if (what[0] == 'd') fake_verbs::break_device("fake_0");
    const Deadline deadline = Deadline::after_seconds(30);
    (void)rig.sender.engine->stop(deadline);
    (void)rig.receiver.engine->stop(deadline);
    rig.sender.link.reset();
    rig.receiver.link.reset();
    CHECK(!deadline.passed());
  }
}

TEST_CASE("IB faults: with failover the traffic moves to the port that is left") {
  struct Row {
    const char* name;
    Fault fault;
  };
  std::vector<Row> rows(3);
  rows[0] = {"nothing gets through",
             {.kind = FaultKind::kDrop, .port = 1, .times = 0, .value = 1000}};
  rows[1] = {"all arrives, unheard",
             {.kind = FaultKind::kAckLost, .port = 1, .times = 0, .value = 1000}};
  rows[2] = {"the port goes down", {.kind = FaultKind::kPortDown, .port = 1}};
  for (const bool split : {false, true})
    for (const Row& row : rows) {
      INFO(row.name << " split " << split);
      RowSetting setting = ib_fabric({{"COLLCTL_IB_MERGE_NICS", "1"},
                                      {"COLLCTL_IB_PORT_FAILOVER", "1"},
                                      {"COLLCTL_IB_SPLIT_DATA_ON_QPS", split ? "1" : "0"}});
      setting.fabric = "fake_0:ib:ports=2";
      Rig rig(setting);
      int number = -1;
      const IbOutcome out = run(rig, [&] { number = fake_verbs::add_fault(row.fault); });
      INFO(out.text());
      CHECK(fake_verbs::hits(number) > 0);
      CHECK(out.right);
    }
}

}  // namespace ib_faults_tests

#endif

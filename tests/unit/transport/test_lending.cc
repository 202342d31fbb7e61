// Whether a receiver reads its sender's memory is found out when the connection is made, and both
// ends come to the same.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "tests/asleep.h"
#include "tests/catch.h"
#include "tests/unit/transport/block.h"

namespace lending_tests {

using namespace collctl;
using namespace collctl::test;

namespace {

constexpr const char* kRows[] = {"loopback", "shm"};

void set_mark(Rig& rig, base::MemoryMark senders, base::MemoryMark receivers) {
  rig.sender_spec.self.mark = rig.receiver_spec.peer.mark = senders;
  rig.receiver_spec.self.mark = rig.sender_spec.peer.mark = receivers;
}

void check_copied(Rig& rig, const std::string& why) {
  REQUIRE(rig.open({1024, 4}, {1024, 4}));
  for (const Side* side : {&rig.sender, &rig.receiver}) {
    CHECK_FALSE(side->link->via().ends_with("/CMA"));
    CHECK(side->link->why() ==
          (why.empty() ? "" : "messages are copied twice, not by CMA: " + why));
    CHECK(side->link->fifo(Protocol::simple)->flags == 0);
  }
}

}  // namespace

TEST_CASE("CPU ranks whose memory can be read lend, at both ends", "[lending]") {
  for (const char* name : kRows) {
    CAPTURE(name);
    Rig rig({.name = name});
    REQUIRE(rig.open({1024, 4}, {1024, 4}));
    for (const Side* side : {&rig.sender, &rig.receiver}) {
      CHECK(side->link->via().ends_with("/CMA"));
      CHECK(side->link->why().empty());
      CHECK(side->link->fifo(Protocol::simple)->flags == kernels::kFifoLends);
      CHECK(side->link->fifo(Protocol::ll)->flags == 0);
    }
    CHECK(rig.in(Protocol::simple)->process == ::getpid());
  }
}

TEST_CASE("a link without Simple lends nothing", "[lending]") {
  Rig rig({.name = "shm"});
  REQUIRE(rig.open({}, {1024, 4}));
  CHECK(rig.out(Protocol::simple) == nullptr);
  CHECK(rig.out(Protocol::ll)->flags == 0);
}

TEST_CASE("what is not asked for, or cannot be read, is copied, and why is said", "[lending]") {
  const base::MemoryMark mark = base::memory_mark();
  base::MemoryMark wrong = mark;
  wrong.value ^= 1;
  for (const char* name : kRows) {
    CAPTURE(name);
    for (const bool at_sender : {true, false}) {
      Rig rig({.name = name});
      set_mark(rig, at_sender ? base::MemoryMark{} : mark, at_sender ? mark : base::MemoryMark{});
      check_copied(rig, "");
    }
    Rig other({.name = name});
    set_mark(other, wrong, mark);
    check_copied(other, "process " + std::to_string(::getpid()) + " is another one here");
    Rig hidden({.name = name});
    hidden.receiver_spec.peer.mark.address = 8;
    check_copied(hidden, "process " + std::to_string(::getpid()) + ": Bad address");
  }
}

TEST_CASE("GPUs lend nothing", "[lending]") {
  Rig rig({.name = "shm", .gpu = true});
  set_mark(rig, base::memory_mark(), base::memory_mark());
  check_copied(rig, "");
}

// --- over sockets: sent out of the sender's memory, received as any slice ---

TEST_CASE("sockets send what is lent out of where it lies", "[lending]") {
  for (const int sockets : {1, 3}) {
    CAPTURE(sockets);
    Rig rig({.name = "net", .sockets = sockets});
    REQUIRE(rig.open({4096, 4}, {1024, 4}));
    Fifo& out = *rig.out(Protocol::simple);
    CHECK(out.flags == (kernels::kFifoProxyReads | kernels::kFifoSendsLent));
    CHECK((rig.out(Protocol::ll)->flags & kernels::kFifoSendsLent) == 0);
    CHECK((rig.in(Protocol::simple)->flags & kernels::kFifoSendsLent) == 0);
    std::vector<uint8_t> data, got;
    for (uint64_t step = 0; step < 30; ++step) {
      const size_t bytes = step % 3 == 0 ? 4096 : 17 * step;
      pattern(data, bytes, step);
      if (step % 4 == 3) {  // beside slices that are copied
        REQUIRE(put(out, data, soon()));
      } else {
        const kernels::Lent lent{reinterpret_cast<uintptr_t>(data.data()), bytes};
        const uint64_t slot = out.step % out.slot_count;
        std::memcpy(out.slots + slot * out.slot_bytes, &lent, sizeof lent);
        out.records[slot].bytes = kernels::kSlotLends;
        publish(out.tail, ++out.step, out.consumer_sleeps, out.bell_fd);
      }
      got.assign(bytes, 0xEE);
      REQUIRE(take(*rig.in(Protocol::simple), got, soon()));
      CHECK(got == data);
      CHECK(rig.in(Protocol::simple)->records[step % 4].bytes == bytes);
      // Only then is it free.
      REQUIRE(wait_ready(out, nullptr, soon(), {}, [&] { return load64(out.head) == out.step; }));
    }
  }
}

namespace {

void* filled(uint8_t value, size_t bytes) {
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(at != MAP_FAILED);
  std::memset(at, value, bytes);
  return at;
}

constexpr uint32_t kLong = 16 << 20;  // more than sockets keep

// `body`(under_way, rig, out, in): before such a slice has begun to go, and in the middle of it.
template <class Body>
void before_and_under_way(Body body) {
  for (const bool under_way : {false, true}) {
    CAPTURE(under_way);
    Rig rig({.name = "net"});
    REQUIRE(rig.open({kLong, 4}, {1024, 4}));
    body(under_way, rig, *rig.out(Protocol::simple), *rig.in(Protocol::simple));
  }
}

}  // namespace

TEST_CASE("what was taken back before it was sent does not go out", "[lending]") {
  before_and_under_way([](bool under_way, Rig& rig, Fifo& out, Fifo& in) {
    const base::Mapping data(filled(1, kLong), kLong);
    const auto record = std::atomic_ref<uint32_t>(out.records[0].bytes);
    if (under_way) {
      const kernels::Lent lent{reinterpret_cast<uintptr_t>(data.get()), kLong};
      std::memcpy(out.slots, &lent, sizeof lent);
      record = kernels::kSlotLends;
      // Nobody reads, so that it gets stuck.
      rig.receiver.engine->remove(rig.receiver.link.get());
    } else {
      record = kernels::kSlotTakenBack;
    }
    publish(out.tail, ++out.step, out.consumer_sleeps, out.bell_fd);
    if (under_way) {
      CHECK(test::wait_until_others_sleep());
      record = kernels::kSlotTakenBack;
      // The caller has something else there.
      REQUIRE(::mremap(filled(2, kLong), kLong, kLong, MREMAP_MAYMOVE | MREMAP_FIXED, data.get()) ==
              data.get());
      // Now it is read, by hand, until nothing more comes.
      for (int idle = 0; idle < 100;) {
        const auto moved = rig.receiver.link->progress();
        REQUIRE(moved);
        idle = *moved == transport::Progress::moved ? 0 : idle + 1;
        // time is what is tested: the sender's threads go on meanwhile
        base::sleep_until(Deadline::after_ms(1));
      }
    }
    std::vector<uint8_t> got(16);
    CHECK_FALSE(take(in, got, Deadline::after_ms(100)));
    CHECK_FALSE(rig.sender.has_error());
    CHECK(load64(out.head) == 0);
    if (under_way) {
      CHECK(in.slots[0] == 1);
      CHECK(std::memchr(in.slots, 2, kLong) == nullptr);
    }
  });
}

// --- and received where the receiver wants it ---

namespace {

// From before the sender puts it; the step it has now, plus `ahead`.
void want(Fifo& in, std::span<uint8_t> at, uint64_t ahead = 0) {
  const uint64_t step = in.step + ahead;
  kernels::Place& place = in.places[step % in.slot_count];
  place.address = reinterpret_cast<uintptr_t>(at.data());
  place.bytes = at.size();
  std::atomic_ref(place.step).store(step + 1, std::memory_order_release);
}

uint32_t record_of(const Fifo& in, uint64_t step) {
  return in.records[step % in.slot_count].bytes;
}

}  // namespace

TEST_CASE("sockets receive where a slice is wanted, if they know in time", "[lending]") {
  for (const int sockets : {1, 3}) {
    CAPTURE(sockets);
    Rig rig({.name = "net", .sockets = sockets});
    REQUIRE(rig.open({4096, 4}, {1024, 4}));
    // By hand, so that the places are there first.
    rig.receiver.engine->remove(rig.receiver.link.get());
    Fifo &out = *rig.out(Protocol::simple), &in = *rig.in(Protocol::simple);
    CHECK(in.flags == (kernels::kFifoProxyWrites | kernels::kFifoPlaces));
    CHECK((rig.in(Protocol::ll)->flags & kernels::kFifoPlaces) == 0);
    CHECK((out.flags & kernels::kFifoPlaces) == 0);
    std::vector<uint8_t> data[2], wanted[2], got;
    for (uint64_t step = 0; step < 40; step += 2) {
      // Both of a pair, one that has another size, or only the second: then it is not known yet
      // when the first comes.
      const uint64_t kind = step / 2 % 4;
      for (size_t i = 0; i < 2; ++i) {
        pattern(data[i], step % 3 == 0 ? 4096 : 17 * step + 1, step + i);
        wanted[i].assign(data[i].size() + (kind == 1 ? 1 : 0), 0xEE);
        if (kind < 2 || i == 1) want(in, wanted[i], i);
        REQUIRE(put(out, data[i], soon()));
      }
      for (size_t i = 0; i < 2; ++i) {
        CAPTURE(step, i);
        REQUIRE(wait_ready(in, nullptr, soon(), {}, [&] {
          REQUIRE(rig.receiver.link->progress());
          return load64(in.tail) > step + i;
        }));
        const bool placed = (record_of(in, step + i) & kernels::kSlotPlaced) != 0;
        if (kind == 0) CHECK(placed);
        if (kind == 1) CHECK_FALSE(placed);
        CHECK((record_of(in, step + i) & ~kernels::kSlotPlaced) == data[i].size());
        got.assign(data[i].size(), 0xEE);
        REQUIRE(take(in, got, soon()));
        CHECK((placed ? wanted[i] : got) == data[i]);
        if (!placed) CHECK(wanted[i] == std::vector<uint8_t>(wanted[i].size(), 0xEE));
      }
    }
  }
}

TEST_CASE("nothing is received any more where it was wanted once that is taken back", "[lending]") {
  before_and_under_way([](bool under_way, Rig& rig, Fifo& out, Fifo& in) {
    // Read by hand, so that it stops in the middle.
    rig.receiver.engine->remove(rig.receiver.link.get());
    std::vector<uint8_t> data(kLong, 1), wanted(kLong, 0);
    want(in, wanted);
    REQUIRE(rig.receiver.link->progress());
    if (under_way) {
      REQUIRE(put(out, data, soon()));
      const Deadline deadline = soon();
      while (wanted[0] == 0 && !deadline.passed()) REQUIRE(rig.receiver.link->progress());
      REQUIRE(wanted[0] == 1);
      CHECK(load64(in.tail) == 0);
    }
    rig.receiver.link->take_back();
    const std::vector<uint8_t> then = wanted;
    if (!under_way) REQUIRE(put(out, data, soon()));
    REQUIRE(wait_ready(in, nullptr, soon(), {}, [&] {
      REQUIRE(rig.receiver.link->progress());
      return load64(in.tail) == 1;
    }));
    CHECK(wanted == then);
    CHECK(std::count(wanted.begin(), wanted.end(), 0) > 0);
    CHECK(record_of(in, 0) == kLong);
    CHECK(in.slots[kLong - 1] == 1);
  });
}

TEST_CASE("who sends what was posted in any case is lent nothing", "[lending]") {
  // Tags would be made from memory that may be gone; helpers do not look again. And GPUs' kernels
  // keep what they last saw of a counter where places would be.
  for (const RowSetting& setting :
       {RowSetting{.name = "net", .macs = true}, RowSetting{.name = "net", .helpers = 1},
        RowSetting{.name = "net", .helpers = 0, .gpu = true}}) {
    Rig rig(setting);
    REQUIRE(rig.open({4096, 4}, {1024, 4}));
    CHECK(rig.out(Protocol::simple)->flags == kernels::kFifoProxyReads);
    CHECK(rig.in(Protocol::simple)->flags == kernels::kFifoProxyWrites);
  }
}

}  // namespace lending_tests

// The GPU's kernels as every build knows them: the launcher's table, which code a device runs, and
// how much data an LL128 slot holds.
#include "kernels/cuda/architectures.h"
#include "kernels/cuda/launcher/launcher.h"
#include "kernels/slices.h"
#include "tests/catch.h"

namespace gpu_launcher_tests {

using namespace collctl::kernels;
using collctl::kernels::cuda::code_for;
using collctl::kernels::cuda::launcher;

TEST_CASE("a launcher is whole whether or not there are kernels in it", "[kernels][gpu]") {
  const auto& l = launcher();
  CHECK(l.launch_works != nullptr);
  CHECK(l.window_part_bytes != nullptr);
  CHECK(l.window_host_bytes != nullptr);
  CHECK(l.window_own_bytes != nullptr);
  CHECK(l.window_serves != nullptr);
  REQUIRE(l.window_direct != nullptr);
  for (int c = 0; c < kCollectiveCount; ++c) {
    const bool moves =
        Collective(c) != Collective::barrier && Collective(c) != Collective::send_recv;
    CHECK(l.window_direct(Collective(c), DataType::float32, RedOp::sum, 4, 1 << 20) ==
          (l.built && moves));
  }
  CHECK(l.launch_window != nullptr);
  CHECK(l.torn_store_write != nullptr);
  CHECK(l.torn_store_read != nullptr);
  CHECK(l.peer_copy != nullptr);
  CHECK(l.peer_chase != nullptr);
  CHECK(l.error_text(1)[0] != '\0');
  if (l.built) {
    CHECK(l.architectures[0] != '\0');
    CHECK(l.most_works >= 30);
  } else {
    CHECK(l.why_not[0] != '\0');
    CHECK(l.launch_works({}) != 0);
    CHECK_FALSE(l.runs_on(90));
    CHECK_FALSE(l.has_type(DataType::float32, 90));
  }
}

// CUDA's rules: machine code runs on devices of the same generation (first digit) that are not
// older, the newest of these is taken; PTX is translated for any device that is not older than it.
TEST_CASE("a device takes its code by generation", "[kernels][gpu]") {
  struct Row {
    const char* list;
    int capability, code;
  };
  for (const Row& r : {Row{"80,90+PTX", 80, 80}, Row{"80,90+PTX", 86, 80}, Row{"80,90+PTX", 89, 80},
                       Row{"80,90+PTX", 90, 90}, Row{"80,90+PTX", 100, 90}, Row{"80,90+PTX", 75, 0},
                       Row{"80,90", 100, 0}, Row{"80,89,90+PTX", 89, 89}, Row{"90+PTX", 80, 0},
                       Row{"75,100+PTX", 80, 0}, Row{"75,80,90,100+PTX", 103, 100},
                       Row{"75,80,90,100+PTX", 120, 100}, Row{"", 90, 0}}) {
    CAPTURE(r.list, r.capability);
    CHECK(code_for(r.list, r.capability) == r.code);
  }
}

// 614,400 bytes are 4,800 lines of 128, so 4,800 x 120 bytes of data. 384 bytes are 3 lines, 360
// bytes of data; slices are cut at 16 bytes, so 352 can be used.
TEST_CASE("an LL128 slot holds 120 of each 128 bytes", "[kernels][gpu]") {
  CHECK(slot_data_bytes(614400, Protocol::ll128) == 576000);
  CHECK(slot_data_bytes(256, Protocol::ll128) == 240);
  CHECK(slot_data_bytes(384, Protocol::ll128) == 352);
  CHECK(slot_data_bytes(127, Protocol::ll128) == 0);
  // No slice is longer than its slot, however much is cut.
  for (uint32_t lines = 1; lines < 20; ++lines)
    for (uint64_t n = 1; n < 3000; n += 7) {
      const uint64_t room = slot_data_bytes(lines * 128, Protocol::ll128);
      const Slices s = cut_into_slices(n, 1, room);
      REQUIRE(s.elements_each <= room);
      REQUIRE(s.elements_each * s.count >= n);
      REQUIRE((s.elements_each + 119) / 120 <= lines);
    }
}

// The last step before 2^31 and 2^32, with 8 slots the last 8; none elsewhere.
TEST_CASE("LL slots are written whole before their flags wrap", "[kernels][gpu]") {
  for (const uint64_t wrap : {uint64_t(1) << 31, uint64_t(1) << 32, uint64_t(3) << 31}) {
    CHECK_FALSE(ll_writes_whole_slot(wrap - 9, 8));
    CHECK(ll_writes_whole_slot(wrap - 8, 8));
    CHECK(ll_writes_whole_slot(wrap - 1, 8));
    CHECK_FALSE(ll_writes_whole_slot(wrap, 8));
    CHECK_FALSE(ll_writes_whole_slot(wrap - 3, 2));
    CHECK(ll_writes_whole_slot(wrap - 2, 2));
  }
  CHECK_FALSE(ll_writes_whole_slot(0, 8));
}

}  // namespace gpu_launcher_tests

// Messages through one connection of NET/IB over the fabric of tests/fake_verbs, for tests of what
// becomes of them. Threads: the test's, and one that sends.
#pragma once
#include "tests/catch.h"
#include "tests/fake_verbs/control.h"
#include "tests/unit/transport/block.h"

namespace collctl::test {

// Above the threshold of messages that are announced apart.
inline constexpr uint32_t kIbBytes = 20000;
inline constexpr int kIbSlots = 4, kIbBefore = 6, kIbMessages = 24;

inline RowSetting ib_fabric(std::vector<std::pair<std::string, std::string>> more = {},
                            bool gpu = false) {
  RowSetting setting{.name = "net", .gpu = gpu};
  setting.fabric = gpu ? "fake_0:ib:dmabuf" : "fake_0:ib";
  // 8 tries of 4.2 ms: 34 ms.
  setting.knobs = {{"COLLCTL_IB_TIMEOUT", "10"}, {"COLLCTL_IB_RETRY_CNT", "7"}};
  for (auto& knob : more) setting.knobs.push_back(std::move(knob));
  return setting;
}

struct IbOutcome {
  bool right = false;  // every message arrived as it was sent
  int arrived = 0, wrong_bytes = 0;
  std::optional<Error> sender, receiver;
  std::string text() const {
    return "arrived " + std::to_string(arrived) + " wrong bytes " + std::to_string(wrong_bytes) +
           (sender ? " sender: " + sender->chain() : "") +
           (receiver ? " receiver: " + receiver->chain() : "");
  }
};

template <class Step>
bool until_error(Rig& rig, Deadline deadline, Step step) {
  while (!deadline.passed() && !rig.sender.has_error() && !rig.receiver.has_error())
    if (step(Deadline::after_ms(20))) return true;
  return false;
}

// Sends messages [first, last) while another thread takes them; ends early where an end fails.
inline void transfer(Rig& rig, int first, int last, IbOutcome& out) {
  const Deadline deadline = soon();
  std::thread sender([&] {
    std::vector<uint8_t> data;
    for (int i = first; i < last; ++i) {
      pattern(data, kIbBytes, uint64_t(i));
      if (!until_error(rig, deadline,
                       [&](Deadline d) { return put(*rig.out(Protocol::simple), data, d); }))
        return;
    }
  });
  std::vector<uint8_t> data, got(kIbBytes);
  for (int i = first; i < last; ++i) {
    pattern(data, kIbBytes, uint64_t(i));
    if (!until_error(rig, deadline,
                     [&](Deadline d) { return take(*rig.in(Protocol::simple), got, d); }))
      break;
    ++out.arrived;
    for (uint32_t k = 0; k < kIbBytes; ++k) out.wrong_bytes += got[k] != data[k];
  }
  sender.join();
}

// Some messages first, then the fault, then more.
inline IbOutcome run(Rig& rig, const std::function<void()>& spoil) {
  IbOutcome out;
  const Status opened = rig.open({kIbBytes, kIbSlots}, {});
  REQUIRE(opened);
  transfer(rig, 0, kIbBefore, out);
  REQUIRE(out.arrived == kIbBefore);
  spoil();
  transfer(rig, kIbBefore, kIbMessages, out);
  // Where one end fails, the other hears of it, in whatever order.
  const Deadline both = soon();
  while (rig.sender.has_error() != rig.receiver.has_error() && !both.passed())
    base::sleep_until(Deadline::after_ms(1));
  out.sender = rig.sender.first_error();
  out.receiver = rig.receiver.first_error();
  out.right = out.arrived == kIbMessages && out.wrong_bytes == 0 && !out.sender && !out.receiver;
  return out;
}

}  // namespace collctl::test

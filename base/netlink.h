// One question to the kernel by netlink and its answer, as attributes. The kernel answers while it
// is asked: nothing waits. Its answer is trusted no more than anybody's: lengths are checked.
// Threads: any.
#pragma once
#include <cstdint>
#include <functional>
#include <string_view>

#include "base/bytes.h"

namespace collctl::base {

class NetlinkQuestion {
 public:
  // `head`: of the protocol, after netlink's own.
  NetlinkQuestion(uint16_t type, ByteView head);
  void put(uint16_t attribute, ByteView value);
  void put(uint16_t attribute, std::string_view text);  // with its end
  template <class T>
  void put_number(uint16_t attribute, T value) {
    put(attribute, ByteView(reinterpret_cast<const uint8_t*>(&value), sizeof value));
  }
  // Attributes from here to the end are within this one.
  void begin_nest(uint16_t attribute);
  void end_nest();

  struct Answer {
    int error = 0;  // errno; 0: there is one
    Bytes payload;  // after netlink's head
  };
  // `protocol`: NETLINK_GENERIC, NETLINK_ROUTE.
  Answer ask(int protocol);

 private:
  Bytes bytes_;
  size_t nest_ = 0;
};

// Attributes one after the other, without their flags; what is cut short ends it.
void walk_attributes(ByteView bytes, const std::function<void(int attribute, ByteView)>& take);

}  // namespace collctl::base

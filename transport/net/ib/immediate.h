// The 32 bits of immediate data that announce a message: which stream, which message of it (its
// number's low bits), and how many bytes. As many bits as the streams' limits need for stream and
// size, the rest for the number: at least enough to tell apart what can be in flight. Both ends
// compute the same format from the same streams. Pure.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>

#include "transport/net/net.h"

namespace collctl::transport {

struct Announcement {
  int stream = 0;
  uint32_t number = 0;  // low bits
  uint32_t bytes = 0;
};

class ImmediateFormat {
 public:
  explicit ImmediateFormat(std::span<const NetStream> streams) {
    uint32_t most = 0, window = 1;
    int last = 0;
    for (size_t i = 0; i < streams.size(); ++i) {
      if (streams[i].window == 0) continue;
      last = int(i);
      most = std::max(most, streams[i].max_bytes);
      window = std::max(window, streams[i].window);
    }
    stream_bits_ = std::bit_width(unsigned(last));
    size_bits_ = std::bit_width(most);
    window_bits_ = std::bit_width(window - 1);
    number_bits_ = std::clamp(32 - stream_bits_ - size_bits_, 0, 24);
  }
  // Enough bits for one message of each slot; for twice as many, so that a repeated one is known.
  bool fits() const { return number_bits_ >= window_bits_; }
  bool tells_repeats() const { return number_bits_ > window_bits_; }

  uint32_t encode(const Announcement& a) const {
    const uint32_t number = number_bits_ == 0 ? 0 : a.number & ((1u << number_bits_) - 1);
    return uint32_t(uint64_t(a.stream) << (number_bits_ + size_bits_) |
                    uint64_t(number) << size_bits_ | a.bytes);
  }
  Announcement decode(uint32_t immediate) const {
    const uint64_t word = immediate;
    return {.stream = int(word >> (number_bits_ + size_bits_)),
            .number = uint32_t(word >> size_bits_ & ((uint64_t(1) << number_bits_) - 1)),
            .bytes = uint32_t(word & ((uint64_t(1) << size_bits_) - 1))};
  }
  // The message a number's low bits mean: the first at or after `from` that has them.
  uint64_t message(uint32_t number, uint64_t from) const {
    const uint64_t mask = (uint64_t(1) << number_bits_) - 1;
    return from + ((number - from) & mask);
  }

 private:
  int stream_bits_ = 0, size_bits_ = 0, window_bits_ = 0, number_bits_ = 0;
};

}  // namespace collctl::transport

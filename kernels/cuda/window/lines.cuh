// The two line protocols of the window kernels. A warp moves one unit of 512 wire bytes by one
// store of 16 bytes a lane; flags travel with the data, so nobody waits for a fence.
//
//   LL      32 lines of 16 bytes {data low, flag, data high, flag'}: 32 words of data. flag is the
//           low half of the epoch, flag' the low half with the high half mixed in: a line that
//           stayed unwritten for 2^32 epochs does not pass for new.
//   LL128   4 lines of 128 bytes, 8 lanes each: 15 words of data and the epoch: 60 words of data.
//           Wants that 128 bytes stored by one warp arrive as one (the torn-store test of the
//           path).
#pragma once
#include "kernels/cuda/window/call.cuh"

namespace collctl::kernels::cuda {

struct LaneData {
  uint64_t word[2];
};

template <Protocol kProtocol>
struct Lines;

template <>
struct Lines<Protocol::ll> {
  static constexpr Protocol kId = Protocol::ll;
  static constexpr int kUnitWords = 32;
  static constexpr int kLaneWords = 1;
  static __device__ int first_word(int lane) { return lane; }
  static __device__ int words_of(int) { return 1; }
  static __device__ void store(uint8_t* unit, int lane, const LaneData& d, uint64_t epoch) {
    const uint64_t a = (d.word[0] & 0xffffffffu) | uint64_t(uint32_t(epoch)) << 32;
    const uint64_t b = d.word[0] >> 32 | uint64_t(second_flag(epoch)) << 32;
    store_wire(unit + lane * 16, a, b);
  }
  static __device__ bool load(const uint8_t* unit, int lane, LaneData& d, uint64_t epoch) {
    uint64_t a, b;
    load_wire(unit + lane * 16, a, b);
    d.word[0] = (a & 0xffffffffu) | b << 32;
    return uint32_t(a >> 32) == uint32_t(epoch) && uint32_t(b >> 32) == second_flag(epoch);
  }
  // Each lane has looked at its own line: what it has is right.
  static __device__ void settle(const uint8_t*, int, LaneData&) {}
};

template <>
struct Lines<Protocol::ll128> {
  static constexpr Protocol kId = Protocol::ll128;
  static constexpr int kUnitWords = 60;
  static constexpr int kLaneWords = 2;
  static __device__ int first_word(int lane) { return lane / 8 * 15 + lane % 8 * 2; }
  static __device__ int words_of(int lane) { return lane % 8 == 7 ? 1 : 2; }
  static __device__ void store(uint8_t* unit, int lane, const LaneData& d, uint64_t epoch) {
    // Lanes that took different paths through users' memory must store together again.
    store_pack_together(unit + lane * 16, {{d.word[0], lane % 8 == 7 ? epoch : d.word[1]}}, true);
  }
  static __device__ bool load(const uint8_t* unit, int lane, LaneData& d, uint64_t epoch) {
    load_wire(unit + lane * 16, d.word[0], d.word[1]);
    return lane % 8 != 7 || d.word[1] == epoch;
  }
  // The flag was seen by one lane in a load that others took part in: what they have may be older.
  static __device__ void settle(const uint8_t* unit, int lane, LaneData& d) {
    load_wire(unit + lane * 16, d.word[0], d.word[1]);
  }
};

// The words of one lane out of users' memory, of any address: word w of `from`, which has `bytes`
// bytes.
template <class L>
__device__ __forceinline__ LaneData load_lane(const uint8_t* from, uint64_t bytes, uint64_t unit,
                                              int lane) {
  LaneData d{{0, 0}};
  const uint64_t at = (unit * L::kUnitWords + L::first_word(lane)) * 8;
#pragma unroll
  for (int i = 0; i < L::kLaneWords; ++i)
    if (i < L::words_of(lane) && at + 8 * i < bytes)
      d.word[i] = load_word(from + at + 8 * i, int64_t(bytes - at - 8 * i));
  __syncwarp();
  return d;
}
template <class L>
__device__ __forceinline__ void store_lane(uint8_t* to, uint64_t bytes, uint64_t unit, int lane,
                                           const LaneData& d) {
  const uint64_t at = (unit * L::kUnitWords + L::first_word(lane)) * 8;
#pragma unroll
  for (int i = 0; i < L::kLaneWords; ++i)
    if (i < L::words_of(lane) && at + 8 * i < bytes)
      store_word(to + at + 8 * i, int64_t(bytes - at - 8 * i), d.word[i]);
  __syncwarp();
}

// 32 bits hold what a bank does, and are divided in a tenth of the time of 64.
template <class L>
COLL_FN uint32_t units_of(uint64_t bytes) {
  return (uint32_t(bytes) + L::kUnitWords * 8 - 1) / (L::kUnitWords * 8);
}

// A user's buffer in units. kWords: it is made of whole aligned words, which are moved without a
// look at what else they might be: the code for that took longer than the words did.
template <class L, bool kWords>
struct UserUnits {
  uint8_t* at;
  uint64_t bytes;
  __device__ UserUnits(const uint8_t* p, uint64_t n) : at(const_cast<uint8_t*>(p)), bytes(n) {}
  __device__ __forceinline__ void load(uint32_t unit, int lane, LaneData& d) const {
    if constexpr (kWords) {
      each_word(unit, lane, [&](int w, uint64_t* p) { d.word[w] = load_volatile(p); });
    } else {
      d = load_lane<L>(at, bytes, unit, lane);
    }
  }
  __device__ __forceinline__ void store(uint32_t unit, int lane, const LaneData& d) const {
    if constexpr (kWords) {
      each_word(unit, lane, [&](int w, uint64_t* p) { *p = d.word[w]; });
    } else {
      store_lane<L>(at, bytes, unit, lane, d);
    }
  }

 private:
  // Those of a lane that the buffer has.
  template <class What>
  __device__ __forceinline__ void each_word(uint32_t unit, int lane, What what) const {
    const uint32_t first = unit * L::kUnitWords + L::first_word(lane), words = uint32_t(bytes) / 8;
    uint64_t* const p = reinterpret_cast<uint64_t*>(at) + first;
#pragma unroll
    for (int w = 0; w < L::kLaneWords; ++w)
      if (w < L::words_of(lane) && first + w < words) what(w, p + w);
  }
};

// Where the lines of `writer` lie at `reader` in this epoch (window_stand.cc says the same).
template <class L>
__device__ __forceinline__ uint8_t* bank_of(const Exchange& x, int reader, int writer,
                                            uint64_t epoch) {
  const bool ll = L::kId == Protocol::ll;
  const uint64_t bank = ll ? ll_bank_bytes(x.memory.nranks) : x.layout.ll128_bank_bytes;
  const uint64_t senders = uint64_t(x.memory.nranks - 1);
  const uint64_t place = (epoch & 1) * senders + place_of(writer, reader, x.memory.nranks);
  return x.part(reader) + (ll ? x.layout.ll : x.layout.ll128) + place * bank;
}

}  // namespace collctl::kernels::cuda

// In place of kernels/cuda/ptx.cuh: the same for threads of the emulated machine. The real ones'
// promises are kept, and nothing more: lines arrive late and in any order, an LL line in halves,
// one of LL128 as a whole if the warp stored it together; loads of two words may see two ages.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

#define COLL_BLOCK_SHARED(type, name) \
  static const char name##_of = 0;    \
  type& name = *static_cast<type*>(emulated::machine().shared(&name##_of, sizeof(type)))

namespace collctl::kernels::cuda {

inline constexpr int kWarp = 32;
inline constexpr uint32_t kAllLanes = ~uint32_t(0);

struct alignas(16) Pack {
  uint64_t word[2];
};

namespace emulation {

inline void want_aligned(const void* p, size_t to) {
  if (reinterpret_cast<uintptr_t>(p) % to != 0)
    emulated::machine().forbid("an access that is not aligned");
}
inline uint64_t load_half(const void* p) {
  return *static_cast<const volatile uint64_t*>(p);
}
// Either half first, and others in between.
inline Pack load_halves(const void* p) {
  want_aligned(p, 16);
  emulated::Machine& machine = emulated::machine();
  const auto* half = static_cast<const uint64_t*>(p);
  const uint64_t first = machine.random() & 1;
  Pack v;
  machine.look();
  v.word[first] = load_half(half + first);
  if (machine.tears()) machine.look();
  v.word[1 - first] = load_half(half + 1 - first);
  return v;
}
inline void post_halves(void* p, const Pack& v) {
  want_aligned(p, 16);
  emulated::Machine& machine = emulated::machine();
  auto* const to = static_cast<uint8_t*>(p);
  if (machine.tears()) {
    machine.post(to, &v.word[0], 8);
    machine.post(to + 8, &v.word[1], 8);
  } else {
    machine.post(to, v.word, 16);
  }
  machine.look();
}

}  // namespace emulation

inline Pack load_pack(const void* p) {
  return emulation::load_halves(p);
}
inline void store_pack_volatile(void* p, const Pack& v) {
  emulation::post_halves(p, v);
}
// The first lane of each line posts it, as one.
inline void store_pack_together(void* p, const Pack& v, bool stores) {
  constexpr int kLanes = 8;
  emulated::Machine& machine = emulated::machine();
  auto* const to = static_cast<uint8_t*>(p);
  const emulated::Brought& all = machine.meet(emulated::Meeting::store, kAllLanes, v.word[0],
                                              v.word[1], stores ? to : nullptr);
  const int first = int(threadIdx.x) % kWarp;
  if (first % kLanes != 0) return;
  uint64_t line[2 * kLanes];
  int lanes = 0;
  for (int i = first; i < first + kLanes; ++i) {
    if (all.to[i] == nullptr) continue;
    if (all.to[i] != all.to[first] + 16 * (i - first)) machine.forbid("a line with gaps");
    line[2 * lanes] = all.a[i];
    line[2 * lanes + 1] = all.b[i];
    ++lanes;
  }
  if (lanes == 0) return;
  if (lanes != kLanes) machine.forbid("a part of a line");
  emulation::want_aligned(all.to[first], sizeof line);
  machine.post(all.to[first], line, sizeof line);
  machine.look();
}
template <class T>
struct PlainPlace {
  T* at;
  void operator=(const T& v) const {
    emulation::want_aligned(at, sizeof v);
    emulated::machine().store(at, &v, sizeof v);
  }
};
template <class T>
PlainPlace<T> plain(T& place) {
  return {&place};
}
inline void store_pack(void* p, const Pack& v) {
  plain(*static_cast<Pack*>(p)) = v;
}

inline void store_wire(uint8_t* to, uint64_t a, uint64_t b) {
  emulation::post_halves(to, {{a, b}});
}
inline void load_wire(const uint8_t* from, uint64_t& a, uint64_t& b) {
  const Pack v = emulation::load_halves(from);
  a = v.word[0];
  b = v.word[1];
}
inline void store_together(uint8_t* to, uint64_t a, uint64_t b) {
  emulation::want_aligned(to, 16);
  const uint64_t both[2] = {a, b};
  emulated::machine().post(to, both, sizeof both);
}
inline void load_together(const uint8_t* from, uint64_t& a, uint64_t& b) {
  emulation::want_aligned(from, 16);
  emulated::machine().look();
  a = emulation::load_half(from);
  b = emulation::load_half(from + 8);
}

inline uint4 load_staged(const uint8_t* p) {
  emulation::want_aligned(p, 16);
  emulated::machine().look();
  uint4 v;
  std::memcpy(&v.x, p, sizeof v);
  return v;
}

inline uint64_t load_acquire(const uint64_t* p) {
  emulated::machine().look();
  return emulation::load_half(p);
}
inline void store_release(uint64_t* p, uint64_t v) {
  emulated::machine().fence();
  *static_cast<volatile uint64_t*>(p) = v;
}
inline void fence_system() {
  emulated::machine().fence();
}

inline void barrier_sync(int barrier, int count) {
  __syncwarp();
  emulated::machine().barrier(barrier, count, true);
}
template <int kCount>
inline void group_sync(int group) {
  barrier_sync(group + 1, kCount);
}
inline void barrier_arrive(int barrier, int count) {
  __syncwarp();
  emulated::machine().barrier(barrier, count, false);
}
inline bool barrier_any(int barrier, int count, bool mine) {
  __syncwarp();
  return emulated::machine().barrier(barrier, count, true, mine);
}

inline int64_t clock_ns() {
  emulated::machine().look();
  return emulated::machine().clock_ns();
}
inline void fetch_word(uint32_t) {}

}  // namespace collctl::kernels::cuda

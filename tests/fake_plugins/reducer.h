// The network that reduces of libnccl-net-reducesN.so: a process beside the ranks
// (reducer_process.cc) to which every member of a group is connected by a local socket. The first
// member of a group starts it and waits for its end, which is when a member has gone. On the
// sockets, either way: a Word and its bytes. The process greets with the word kHello when all
// members are there.
#pragma once
#include <cstdint>

namespace fake_plugin {

struct Word {
  uint32_t number;   // of the reduction in its group, from 0 on; the same for all members
  int16_t type, op;  // numbers of nccl.h
  uint64_t count;    // elements
};
inline constexpr uint32_t kHello = 0xfffffffe, kDiffer = 0xffffffff;

inline uint64_t element_bytes(int type) {
  constexpr uint8_t kBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return type >= 0 && type < int(sizeof kBytes) ? kBytes[type] : 0;
}

inline constexpr uint64_t kMostReducedBytes = 8u << 20;
inline constexpr int kListenerFd = 3;  // in the process, which takes the number of members

}  // namespace fake_plugin

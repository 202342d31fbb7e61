// Users' buffers in windows: memory of this rank (runtime/window/memory.h) that the other ranks of
// its team load and store directly, and it theirs. One UserWindows for each communicator
// (Communicator::windows()), a UserWindow for each registered range.
//
// Team: the ranks that can map each other's memory, in ascending order: those of this rank's host,
// however many other hosts have, or several teams of it where its GPUs do not all reach each other;
// and GPU ranks of several hosts where all GPUs of these are in one NVLink domain. Memory is passed
// as descriptors inside a host, by fabric handles beyond it. Each rank reserves one flat range of
// addresses with a slot of `stride` bytes for every member; a segment lies at the same offset in
// all slots, so a peer's address is arithmetic (kernels/contract/user_window.h).
//
// Order: register_windows() is collective over the whole communicator, several windows at once if
// wanted. deregister_windows() waits for nobody; by the next registration all ranks must have
// deregistered the same windows, which it checks. After deregistration a peer that still writes
// writes into memory that none reads: a segment lives as long as any rank maps it. Threads: one
// at a time, as of the communicator; a UserWindow may be read by any. Errors: usage for misuse (not
// allocated for windows, freed, beyond its allocation, overlapping, sizes that differ between
// ranks: the ranks are named), unavailable when addresses or descriptors run out, deadline naming
// the ranks that did not register, lost. Every rank gets an error when one rank has one, and then
// nothing was registered. Misuse leaves the communicator as it was; a deadline, a lost rank, or
// descriptors that run out while they are passed are its end.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "kernels/contract/user_window.h"
#include "kernels/contract/window.h"
#include "transport/device/device.h"
#include "transport/peer.h"

namespace collctl::runtime {

class Bootstrap;
struct Settings;

// Both are processes of one host that can pass each other descriptors.
bool pass_descriptors(const transport::PeerInfo& a, const transport::PeerInfo& b);
// By rank: the lowest rank of its team. Pure, the same on all ranks. A team are the ranks of one
// host that may map each other's memory and can pass descriptors; with `over_hosts` also the ranks
// of all hosts whose GPUs are in one NVLink domain.
std::vector<int> window_teams(std::span<const transport::PeerInfo> peers, const Settings& settings,
                              bool over_hosts = true);
// Teams cut where GPUs do not reach each other's memory, so that all of a team map all others: each
// rank is of the first part, by its lowest rank, whose members it reaches and who reach it.
// reach[r]: a byte for each member of r's team in ascending order, 0: out of reach; empty: all
// within.
std::vector<int> teams_within_reach(std::span<const int> teams, std::span<const Bytes> reach);
// Bytes of a slot: what WINDOW_STRIDE says, else the largest memory of all ranks, in whole 4 GiB,
// as far as the addresses of a process reach for all its ranks.
uint64_t window_stride(std::span<const transport::PeerInfo> peers, std::span<const int> teams,
                       uint64_t setting);

struct WindowRange {
  void* address = nullptr;
  uint64_t bytes = 0;  // > 0, the same on all ranks; any alignment
  // Why this rank has no memory to register: it takes part nonetheless, so that all learn of it.
  const Error* missing = nullptr;
};

class UserWindow {
 public:
  ~UserWindow();
  // Until it is deregistered or its communicator ends; then pointers into it are invalid.
  bool valid() const { return valid_.load(std::memory_order_acquire); }
  uint8_t* address() const { return address_; }  // as this rank registered it
  uint64_t bytes() const { return shadow_.bytes; }
  uint64_t number() const { return shadow_.number; }   // from 1, the same on all ranks
  std::span<const int> team() const { return team_; }  // ranks, ascending
  bool reaches(int rank) const;                        // it is of the team
  bool belongs_to(const class UserWindows& windows) const { return owner_ == &windows; }
  // Where this rank sees the `bytes` bytes from `offset` on in the window of `rank`. Errors
  // (usage): not of the team (named), beyond the window's end, deregistered.
  Result<uint8_t*> peer(int rank, uint64_t offset, uint64_t bytes) const;
  // For host code and for kernels; on CPU ranks they are one.
  const kernels::UserWindow& shadow() const { return shadow_; }
  const kernels::UserWindow* on_device() const { return shadow_.device; }

 private:
  friend class UserWindows;
  UserWindow() = default;
  std::atomic<bool> valid_{false};
  const UserWindows* owner_ = nullptr;
  int references_ = 1;  // registered so often
  uint8_t* address_ = nullptr;
  std::vector<int> team_;
  kernels::UserWindow shadow_{};
  transport::DeviceMemory device_copy_;
  std::shared_ptr<struct WindowPlacement> placement_;
};
using WindowPointer = std::shared_ptr<const UserWindow>;

struct WindowUsage {
  uint64_t windows = 0;
  uint64_t placements = 0;    // segments of all members, at one offset
  uint64_t mapped_bytes = 0;  // of addresses, of all members
  uint64_t stride_bytes = 0;  // of a slot; 0: nothing was registered yet
  uint64_t largest_free = 0;  // bytes in one piece of a slot
};

class UserWindows {
 public:
  struct Options {
    int rank = 0, nranks = 1;
    const std::vector<transport::PeerInfo>* peers = nullptr;
    std::vector<int> teams;     // window_teams()
    uint64_t stride_bytes = 0;  // window_stride()
    uint64_t comm_hash = 0;
    transport::DevicePointer device;  // null: CPU ranks
    Bootstrap* bootstrap = nullptr;
  };
  explicit UserWindows(Options options);
  ~UserWindows();  // deregisters everything
  UserWindows(const UserWindows&) = delete;
  UserWindows& operator=(const UserWindows&) = delete;

  std::span<const int> team() const;
  // All ranks together, the same number of ranges. A range that is registered already, exactly so
  // on all ranks, is counted once more and its window given back. Never null pointers.
  Result<std::vector<WindowPointer>> register_windows(std::span<const WindowRange> ranges,
                                                      Deadline deadline);
  // False: a registration was interrupted, so that ranks no longer know each other's state.
  bool in_step() const;
  // All or none. Errors (usage): deregistered already, of another communicator. The caller sees to
  // it that nothing of this rank uses them any more.
  Status deregister_windows(std::span<const WindowPointer> windows);

  // The window that the whole range lies in; null: none. A binary search.
  WindowPointer find(const void* address, uint64_t bytes) const;
  // Where the range lies in this rank's slot of the flat range; null: not wholly in one window.
  uint8_t* flat_address(const void* address, uint64_t bytes) const;
  // Null until something was registered.
  kernels::FlatRange flat() const;
  size_t count() const;  // of windows
  WindowUsage usage() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace collctl::runtime

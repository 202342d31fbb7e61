// State of UserWindows, and the steps of a registration. Private to runtime/window.
//
// A placement is one segment of each member of the team, at one offset of all slots. Its key are
// the segments' numbers by member, so members that register differently cut allocations still get
// equal offsets: the same segment may then lie in two placements. Windows share placements.
#pragma once
#include <map>
#include <memory>
#include <vector>

#include "runtime/window/memory.h"
#include "runtime/window/offsets.h"
#include "runtime/window/registration.h"
#include "runtime/window/space.h"
#include "runtime/window/user_window.h"

namespace collctl::runtime {

struct WindowPlacement {
  std::vector<uint64_t> segments;  // by member: the key
  std::vector<uint64_t> bytes;     // of each member's segment
  std::vector<bool> mapped;        // by member
  uint64_t offset = 0, reserved = 0;
  WindowHold hold;  // of the own segment
  int users = 0;
};

struct UserWindows::State {
  explicit State(Options options);

  Options o;
  std::vector<int> team;
  int team_rank = 0;
  bool over_hosts = false;  // the team has members that descriptors cannot be passed to
  std::unique_ptr<WindowSpace> space;
  WindowOffsets offsets;
  uint32_t calls = 0;  // of roll_call
  bool in_step = true;
  uint64_t last_number = 0;
  std::vector<std::shared_ptr<UserWindow>> windows;  // by address; they never overlap
  std::map<std::vector<uint64_t>, std::shared_ptr<WindowPlacement>> placements;
  transport::DeviceStream copies;  // GPU ranks

  // This rank's part of a registration.
  struct Attempt {
    Status status;
    Registration registration;
    std::vector<WindowHold> holds;                     // by range; empty where it is known
    std::vector<base::Fd> fds;                         // likewise
    std::vector<std::shared_ptr<UserWindow>> windows;  // known ones, later all
    std::span<const WindowRange> ranges;
  };
  Attempt prepare(std::span<const WindowRange> ranges);
  Status add_range(Attempt& attempt, const WindowRange& range, size_t index);
  Status check_overlap(std::span<const WindowRange> ranges, size_t index) const;
  Status open_space();
  uint64_t live_hash() const;

  // All ranks together: what each says.
  Result<std::vector<Registration>> gather(const Registration& mine, Deadline deadline);
  // All ranks together: maps what is new, and agrees that all could. Nothing is left when it fails.
  Status place_new(Attempt& attempt, std::span<const Registration> registrations,
                   Deadline deadline);
  Status place_range(Attempt& attempt, std::span<const Registration> registrations, size_t index,
                     Status& mine, Deadline deadline);
  Status exchange(WindowPlacement& placement, const base::Fd& own,
                  std::span<const Registration> registrations, size_t index, Status& mine,
                  Deadline deadline);
  bool is_neighbour(int rank) const;
  Status agree(const Status& mine, Deadline deadline);
  Status give_to_device(UserWindow& window);

  // Null: none holds the whole range. Until the next registration.
  const std::shared_ptr<UserWindow>* find(const void* address, uint64_t bytes) const;
  void enter(const std::shared_ptr<UserWindow>& window);
  // The window's pointers are invalid from now on; it leaves its placement.
  Status retire(UserWindow& window);
  Status leave(const std::shared_ptr<WindowPlacement>& placement);
};

}  // namespace collctl::runtime

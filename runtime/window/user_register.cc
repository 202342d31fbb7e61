// The steps of a registration: what a rank brings, what all map, and that all could.
#include <algorithm>
#include <utility>

#include "base/format.h"
#include "base/log.h"
#include "runtime/bootstrap/bootstrap.h"
#include "runtime/bootstrap/roll_call.h"
#include "runtime/window/user_state.h"

namespace collctl::runtime {
namespace {

constexpr uint64_t kUserFdTag = 0x5557494e444f57;  // with the communicator's hash

Error within_range(Error error, size_t index, size_t count) {
  if (count > 1) error.within(format("window {} of {}", index + 1, count));
  return error;
}

bool same_device(const transport::DevicePointer& a, const transport::DevicePointer& b) {
  return a == nullptr || b == nullptr ? a == b : a->handle() == b->handle();
}

}  // namespace

UserWindows::State::State(Options options) : o(std::move(options)), offsets(0) {
  for (int r = 0; r < o.nranks; ++r)
    if (o.teams[size_t(r)] == o.teams[size_t(o.rank)]) team.push_back(r);
  team_rank = int(std::lower_bound(team.begin(), team.end(), o.rank) - team.begin());
  over_hosts = !std::all_of(team.begin(), team.end(), [this](int r) { return is_neighbour(r); });
}

bool UserWindows::State::is_neighbour(int rank) const {
  return pass_descriptors((*o.peers)[size_t(o.rank)], (*o.peers)[size_t(rank)]);
}

Status UserWindows::State::open_space() {
  if (space != nullptr) return {};
  COLL_ASSIGN(auto reserved, WindowSpace::reserve(o.device, int(team.size()), o.stride_bytes));
  if (o.device != nullptr) {
    COLL_ASSIGN(copies, transport::DeviceStream::make(o.device));
  }
  space = std::move(reserved);
  offsets = WindowOffsets(space->stride());
  return {};
}

uint64_t UserWindows::State::live_hash() const {
  std::vector<std::pair<uint64_t, uint64_t>> live;
  for (const auto& window : windows)
    live.emplace_back(window->number(), uint64_t(window->references_));
  std::sort(live.begin(), live.end());
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const auto& [number, times] : live)
    for (const uint64_t part : {number, times}) hash = (hash ^ part) * 0x100000001b3;
  return hash;
}

UserWindows::State::Attempt UserWindows::State::prepare(std::span<const WindowRange> ranges) {
  Attempt attempt;
  attempt.ranges = ranges;
  attempt.registration.live = live_hash();
  attempt.status = open_space();
  if (ranges.empty() || ranges.size() > kMostRangesAtOnce)
    attempt.status = Error(ErrorCode::usage, format("register {} windows at once: expected 1 to {}",
                                                    ranges.size(), kMostRangesAtOnce));
  for (size_t i = 0; i < ranges.size() && attempt.status; ++i)
    if (Status added = add_range(attempt, ranges[i], i); !added)
      attempt.status = within_range(std::move(added.error()), i, ranges.size());
  if (!attempt.status) {
    attempt.registration.code = int32_t(attempt.status.error().code);
    attempt.registration.text = attempt.status.error().chain();
    attempt.registration.ranges.clear();
    attempt.registration.names.clear();
  }
  return attempt;
}

Status UserWindows::State::check_overlap(std::span<const WindowRange> ranges, size_t index) const {
  const auto begin = [](const WindowRange& r) { return reinterpret_cast<uintptr_t>(r.address); };
  const WindowRange& range = ranges[index];
  const auto overlaps = [&](const WindowRange& other) {
    return begin(range) < begin(other) + other.bytes && begin(other) < begin(range) + range.bytes;
  };
  for (const auto& window : windows) {
    const WindowRange other{window->address(), window->bytes()};
    if (overlaps(other))
      return Error(ErrorCode::usage,
                   format("{} bytes at {} overlap window {} ({} bytes at {})", range.bytes,
                          range.address, window->number(), other.bytes, other.address));
  }
  for (size_t i = 0; i < index; ++i)
    if (overlaps(ranges[i]))
      return Error(ErrorCode::usage, format("{} bytes at {} overlap window {} of the same call",
                                            range.bytes, range.address, i + 1));
  return {};
}

Status UserWindows::State::add_range(Attempt& attempt, const WindowRange& range, size_t index) {
  if (range.missing != nullptr) return Error(*range.missing);
  if (range.address == nullptr || range.bytes == 0)
    return Error(ErrorCode::usage,
                 format("a window of {} bytes at {}", range.bytes, range.address));
  RangeRegistration mine{};
  mine.bytes = range.bytes;
  COLL_ASSIGN(WindowHold hold, WindowHold::of(range.address, range.bytes));
  const WindowSegment& segment = hold.segment();
  if (!same_device(segment.device(), o.device))
    return Error(ErrorCode::usage,
                 format("the memory at {} belongs to {}, but rank {} uses {}", range.address,
                        segment.device() != nullptr ? segment.device()->text() : "the host", o.rank,
                        o.device != nullptr ? o.device->text() : "the host"),
                 "allocate it for the rank's own device");
  mine.segment = segment.id();
  mine.segment_bytes = segment.bytes();
  mine.segment_offset = uint64_t(static_cast<uint8_t*>(range.address) - segment.data());
  const auto* const at = find(range.address, range.bytes);
  std::shared_ptr<UserWindow> known = at != nullptr ? *at : nullptr;
  if (known != nullptr && known->address() == range.address && known->bytes() == range.bytes) {
    mine.known_as = known->number();
  } else {
    known.reset();
    COLL_TRY(check_overlap(attempt.ranges, index));
  }
  attempt.fds.emplace_back();
  if (known == nullptr && team.size() > 1) {
    COLL_ASSIGN(attempt.fds.back(), segment.export_fd());
  }
  if (over_hosts) {
    transport::FabricName name{};
    if (known == nullptr) {
      COLL_ASSIGN(name, segment.device_memory().export_fabric());
    }
    attempt.registration.names.push_back(name);
  }
  attempt.windows.push_back(std::move(known));
  attempt.holds.push_back(std::move(hold));
  attempt.registration.ranges.push_back(mine);
  return {};
}

Result<std::vector<Registration>> UserWindows::State::gather(const Registration& mine,
                                                             Deadline deadline) {
  auto blobs = roll_call(*o.bootstrap, calls++, "register windows", mine.encode(), deadline);
  auto registrations = blobs ? decode_registrations(*blobs)
                             : Result<std::vector<Registration>>(std::move(blobs.error()));
  in_step = in_step && registrations.ok();
  return registrations;
}

Status UserWindows::State::place_new(Attempt& attempt, std::span<const Registration> registrations,
                                     Deadline deadline) {
  std::vector<std::shared_ptr<UserWindow>> fresh;
  Status mine, exchanged;
  for (size_t i = 0; i < attempt.windows.size() && exchanged; ++i) {
    if (attempt.windows[i] != nullptr) continue;
    exchanged = place_range(attempt, registrations, i, mine, deadline);
    if (attempt.windows[i] != nullptr) fresh.push_back(attempt.windows[i]);
  }
  if (exchanged)
    exchanged = agree(mine, deadline);
  else
    in_step = false;
  if (exchanged) {
    last_number += fresh.size();
    return {};
  }
  // The first error is the one that counts.
  for (const auto& window : fresh) (void)retire(*window);
  return exchanged;
}

// Errors are of the exchange; what only this rank could not do is kept in `mine`, and the exchange
// goes on, so that nobody waits for this rank in vain.
Status UserWindows::State::place_range(Attempt& attempt,
                                       std::span<const Registration> registrations, size_t index,
                                       Status& mine, Deadline deadline) {
  std::vector<uint64_t> key, bytes;
  for (const int member : team) {
    const RangeRegistration& range = registrations[size_t(member)].ranges[index];
    key.push_back(range.segment);
    bytes.push_back(range.segment_bytes);
  }
  const uint64_t most = *std::max_element(bytes.begin(), bytes.end());
  auto& entry = placements[key];
  if (entry == nullptr) {
    const auto offset = offsets.take(most, WindowSpace::alignment_of(most, o.device != nullptr));
    if (!offset) {  // on all ranks of the team alike
      placements.erase(key);
      if (mine)
        mine = Error(ErrorCode::unavailable,
                     format("no room for {} bytes: rank {} has {} bytes of addresses for each "
                            "rank's windows, the largest free part has {}",
                            most, o.rank, space->stride(), offsets.largest_free()),
                     "deregister windows, or raise COLLCTL_WINDOW_STRIDE");
      return {};
    }
    entry = std::make_shared<WindowPlacement>();
    entry->segments = key;
    entry->bytes = bytes;
    entry->mapped.resize(team.size());
    entry->offset = *offset;
    entry->reserved = most;
    entry->hold = std::move(attempt.holds[index]);
  }
  std::shared_ptr<UserWindow> window(new UserWindow);
  window->placement_ = entry;
  window->team_ = team;
  window->address_ = static_cast<uint8_t*>(attempt.ranges[index].address);
  const bool placed = entry->users++ > 0;
  attempt.windows[index] = window;
  if (!placed) COLL_TRY(exchange(*entry, attempt.fds[index], registrations, index, mine, deadline));
  uint64_t number = last_number;
  for (size_t i = 0; i <= index; ++i)
    number += attempt.registration.ranges[i].known_as == 0 ? 1 : 0;
  window->shadow_ = {
      .base = space->base() + entry->offset + attempt.registration.ranges[index].segment_offset,
      .stride = space->stride(),
      .bytes = attempt.ranges[index].bytes,
      .number = number,
      .shadow = &window->shadow_,
      .device = &window->shadow_,
      .team_rank = team_rank,
      .team_size = int32_t(team.size()),
      .rank = o.rank,
      .nranks = o.nranks};
  if (o.device != nullptr && mine) mine = give_to_device(*window);
  return {};
}

// Descriptors go round the host; the names for other hosts came with the registrations.
Status UserWindows::State::exchange(WindowPlacement& placement, const base::Fd& own,
                                    std::span<const Registration> registrations, size_t index,
                                    Status& mine, Deadline deadline) {
  const int n = int(team.size());
  const uint64_t tag = kUserFdTag ^ o.comm_hash;
  const auto note = [&](int member, Status mapped) {
    if (mapped) placement.mapped[size_t(member)] = true;
    if (!mapped && mine)
      mine = std::move(mapped.error().within(format("memory of rank {}", team[size_t(member)])));
  };
  note(team_rank, space->map(team_rank, placement.offset, placement.hold.segment()));
  for (int i = 1; i < n; ++i) {
    const int peer = team[size_t((team_rank + i) % n)];
    if (is_neighbour(peer))
      COLL_TRY_IN(o.bootstrap->send_fd(peer, tag, own.get(), deadline), "register windows");
  }
  for (int i = 1; i < n; ++i) {
    const int member = (team_rank + n - i) % n, peer = team[size_t(member)];
    if (!is_neighbour(peer)) {
      const auto& names = registrations[size_t(peer)].names;
      if (index >= names.size())
        return Error(ErrorCode::lost, format("rank {} cannot share memory with other hosts", peer))
            .blame(peer)
            .within("register windows");
      if (mine)
        note(member, space->map_fabric(member, placement.offset, names[index],
                                       placement.bytes[size_t(member)]));
      continue;
    }
    auto fd = o.bootstrap->recv_fd(peer, tag, deadline);
    if (!fd) return std::move(fd.error()).within("register windows");
    if (!mine) continue;
    note(member,
         space->map_fd(member, placement.offset, fd->get(), placement.bytes[size_t(member)], peer));
  }
  return {};
}

Status UserWindows::State::agree(const Status& mine, Deadline deadline) {
  Registration registration;
  if (!mine) {
    registration.code = int32_t(mine.error().code);
    registration.text = mine.error().chain();
  }
  COLL_ASSIGN(const auto registrations, gather(registration, deadline));
  if (!mine) return Error(mine.error());
  return check_registrations(registrations, o.teams, *o.peers);
}

// The window's struct for kernels.
Status UserWindows::State::give_to_device(UserWindow& window) {
  COLL_ASSIGN(window.device_copy_,
              transport::DeviceMemory::make(o.device, sizeof(kernels::UserWindow), false));
  window.shadow_.device = reinterpret_cast<const kernels::UserWindow*>(window.device_copy_.data());
  COLL_TRY(copies.copy(window.device_copy_.data(), &window.shadow_, sizeof window.shadow_));
  return copies.synchronize(Deadline::after_seconds(10));
}

const std::shared_ptr<UserWindow>* UserWindows::State::find(const void* address,
                                                            uint64_t bytes) const {
  const auto* const at = static_cast<const uint8_t*>(address);
  const auto after =
      std::upper_bound(windows.begin(), windows.end(), at,
                       [](const uint8_t* a, const auto& window) { return a < window->address(); });
  if (after == windows.begin()) return nullptr;
  const auto& window = *std::prev(after);
  const auto offset = uint64_t(at - window->address());
  return offset <= window->bytes() && bytes <= window->bytes() - offset ? &window : nullptr;
}

void UserWindows::State::enter(const std::shared_ptr<UserWindow>& window) {
  const auto after =
      std::upper_bound(windows.begin(), windows.end(), window->address(),
                       [](const uint8_t* a, const auto& other) { return a < other->address(); });
  windows.insert(after, window);
  window->valid_.store(true, std::memory_order_release);
  COLL_INFO(init, "Window {} : {} bytes at {}, at {:#x} of {} slots of {:#x} bytes",
            window->number(), window->bytes(), static_cast<const void*>(window->address()),
            window->placement_->offset, team.size(), space->stride());
}

Status UserWindows::State::retire(UserWindow& window) {
  window.valid_.store(false, std::memory_order_release);
  window.device_copy_ = {};
  window.shadow_.device = nullptr;
  return leave(std::exchange(window.placement_, nullptr));
}

Status UserWindows::State::leave(const std::shared_ptr<WindowPlacement>& placement) {
  if (--placement->users > 0) return {};
  Status outcome;
  for (size_t member = 0; member < team.size(); ++member) {
    if (!placement->mapped[member]) continue;
    Status gone = space->unmap(int(member), placement->offset, placement->bytes[member]);
    if (!gone && outcome) outcome = std::move(gone);
  }
  // Also when something could not be unmapped: the other ranks know nothing of it.
  offsets.give(placement->offset, placement->reserved);
  placements.erase(placement->segments);
  return outcome;
}

}  // namespace collctl::runtime

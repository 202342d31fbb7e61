// One-sided operations over NET/IB: RDMA writes, reads and signals between this rank and others.
// Called by the runtime's one_sided_rdma, which waits, and chooses where all this is used.
//
// A link for each peer (link.h); what links share is here: ports with their completion
// queues, windows of this rank, memory to copy through where a caller's buffer lies in no window.
// Only connect() waits. Threads: one at a time. Owns everything except the windows' memory, which
// must outlive their admission. Everything is released at the end, queue pairs first.
#pragma once
#include <memory>

#include "transport/net/ib/one_sided/link.h"

namespace collctl::transport {

class IbOneSided {
 public:
  static constexpr uint32_t kStageBytes = 256 << 10;  // of a slot

  struct Options {
    std::vector<LinkSpec> peers;
    Services services;
    int signals = 0;
    IbOneSidedLink::OnSignal on_signal;
  };
  // Devices and ports for all peers. Errors: unavailable, usage (a knob that cannot be read).
  static Result<std::unique_ptr<IbOneSided>> open(Options options);
  ~IbOneSided();
  IbOneSided(const IbOneSided&) = delete;
  IbOneSided& operator=(const IbOneSided&) = delete;

  // Set-up of one link, as IbOneSidedLink has it. Errors are of this link: drop() it, and go on.
  Result<Bytes> describe(int peer);
  Status connect(int peer, ByteView described, Deadline deadline);
  void adopt(int peer, base::Fd control);
  void drop(int peer);

  IbOneSidedLink* link(int peer);  // null: none
  const std::map<int, std::unique_ptr<IbOneSidedLink>>& links() const { return links_; }

  // Lets peers read and write this memory as window `number`. Returns what they are told of it,
  // with the reason where it cannot be registered. `pages`: what is registered, whole pages around
  // the window.
  struct Range {
    uint8_t* address = nullptr;
    uint64_t bytes = 0;
    bool operator==(const Range&) const = default;
  };
  // One that is admitted already, the same, stays as it is registered.
  IbOneSidedLink::LocalWindow admit(uint64_t number, const Range& window, const Range& pages);
  void dismiss(uint64_t number);
  // The registration that the range lies in, of this rank's windows; null: none.
  const IbMemory* memory_of(const void* at, uint64_t bytes) const;
  uint8_t* stage(uint32_t slot) const {
    return static_cast<uint8_t*>(stages_.get()) + size_t(slot) * kStageBytes;
  }
  const IbMemory& stage_memory() const { return stage_memory_; }

  // Takes what has completed, checks ports after an event. True: something has happened.
  bool step();
  // Before sleeping on the descriptors: completions of what others do here, and, where it is
  // wanted, of what this rank asked for, make them readable. Then step() once more.
  void arm_came();
  void arm_asked();
  void add_interest(std::vector<pollfd>& fds) const;
  // After the sleep, with what add_interest() gave, filled in.
  void look(std::span<const pollfd> fds);
  void attach_bell(int fd);  // rung at events of devices; -1: no more

 private:
  struct Window {
    Range range;
    IbMemory memory;
  };
  explicit IbOneSided(Options options) : o_(std::move(options)) {}
  Status choose_ports_of_links();
  Status make_rails();
  bool take_all(size_t rail, IbCompletions& queue);
  void arm(IbCompletions IbOneSidedRail::*queue);
  std::vector<IbPort*> ports() const;
  Result<IbMemory> register_window(const Range& window, const Range& pages);

  Options o_;
  IbSettings settings_;
  std::shared_ptr<IbDevices> devices_;
  std::vector<IbOneSidedRail> rails_;
  std::map<int, std::vector<size_t>> uses_;  // rails, by peer
  base::Mapping stages_;
  IbMemory stage_memory_;
  std::map<uint64_t, Window> windows_;                    // by number
  std::map<const uint8_t*, uint64_t> by_address_;         // their numbers; they never overlap
  std::map<int, std::unique_ptr<IbOneSidedLink>> links_;  // gone before what they use
  std::map<std::pair<size_t, uint32_t>, IbOneSidedLink*> owners_;  // by rail and queue pair
  uint32_t seen_events_ = 0;
  bool port_down_ = false;
  int bell_fd_ = -1;
};

}  // namespace collctl::transport

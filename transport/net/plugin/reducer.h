// A head's end of an in-network reduction (a plugin's CollNet): one all-reduce of the plugin for
// every slot that the head's block sends into the network; its sum is what the block receives.
// Slots are in host memory (pinned for a GPU). All heads of a group cut alike and never more than
// one step's slot at once, so the network sees the same sequence from each.
//
// Set-up: listen() on all heads, the handles are exchanged, connect() on all heads. A plugin may
// wait for the others in its connect: it runs on a thread of its own, which is left to itself with
// all that it uses when the deadline passes or the abort word is raised. Threads: set-up on the one
// that wires; the link as transport.h. The link owns its memory; what a plugin has not returned
// when it is closed is kept until the process ends.
#pragma once
#include <optional>
#include <span>

#include "transport/device/device.h"
#include "transport/memory/fifo_memory.h"
#include "transport/net/plugin/lines.h"
#include "transport/net/plugin/timer.h"

namespace collctl::transport {

struct ReducerSpec {
  int channel = 0;
  std::string nic = {};  // of NicChoice
  PeerInfo self{};
  FifoGeometry geometry{};   // of Simple's slots, each way
  int heads = 0, index = 0;  // of the group; this rank's place in it
  uint32_t ranks = 1;        // whose average is wanted
  // Divides `count` elements in place. Where averages are.
  void (*divide)(kernels::DataType type, void* elements, uint64_t count, uint32_t divisor);
};

class ReducerLink : public Link {
 public:
  ~ReducerLink() override;  // waits shortly for what is in flight

  kernels::Fifo* fifo(kernels::Protocol protocol) override;  // into the network; Simple only
  kernels::Fifo* sums() { return &sums_; }                   // out of it
  const std::string& via() const override { return via_; }
  std::string nic() const override { return spec_.nic; }
  bool needs_progress() const override { return true; }
  Result<Progress> progress(const kernels::Fifo* awaited) override;
  void add_interest(std::vector<pollfd>& fds) override;
  bool arm() override;
  void disarm() override;
  bool drained() const override;
  void attach_bell(int fd) override;

 private:
  friend class ReducerHalf;
  struct Memory {  // slots of both ways
    base::Mapping plain[2];
    PinnedMemory pinned[2];
  };
  struct Step {
    void* request = nullptr;
    uint32_t bytes = 0;
    kernels::DataType type{};
    kernels::RedOp op{};
  };

  ReducerLink(const ReducerSpec& spec, std::shared_ptr<NetPlugin> plugin, int device, void* group,
              PluginTimer timer);
  Status prepare(const Services& services);
  const CollNetPluginCalls& calls() const;
  Error broken(const char* call, int code) const;
  uint64_t limit();
  Result<bool> post();
  Result<Step> step_of(uint64_t number) const;
  Result<bool> take();
  Result<bool> oldest_is_done();

  ReducerSpec spec_;
  std::shared_ptr<NetPlugin> plugin_;
  std::string via_;
  void* group_;
  std::unique_ptr<Memory> memory_ = std::make_unique<Memory>();
  void* handles_[2] = {};  // of the plugin, of `inputs_` and `sums_`
  int registered_ = 0;     // so many of them
  kernels::Fifo inputs_{}, sums_{};
  std::vector<Step> steps_;  // by slot
  uint64_t posted_ = 0, done_ = 0, seen_ = 0;
  bool oldest_done_ = false;
  PluginTimer timer_;
  std::optional<Error> error_;
};

class ReducerHalf {
 public:
  // Errors: unavailable: the plugin cannot.
  static Result<std::unique_ptr<ReducerHalf>> listen(const ReducerSpec& spec,
                                                     const Services& services);
  ~ReducerHalf();
  ReducerHalf(const ReducerHalf&) = delete;
  ReducerHalf& operator=(const ReducerHalf&) = delete;

  const PluginHandle& handle() const { return handle_; }
  // `handles`: those of all heads, by place. Errors: unavailable, deadline, lost (aborted).
  Result<std::unique_ptr<ReducerLink>> connect(std::span<const PluginHandle> handles,
                                               Deadline deadline);

 private:
  struct Attempt;
  ReducerHalf(const ReducerSpec& spec, const Services& services, int device);

  ReducerSpec spec_;
  Services services_;
  int device_;
  PluginHandle handle_{};
  void* listener_ = nullptr;
};

}  // namespace collctl::transport

// Branch: the hosts that an agent carries for its launcher (--tree-width): a HostPool of its own on
// the agent's poll loop, whose news go up as frames and which gets its words from there. Threads:
// the agent's.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "launcher/local/frame_parser.h"
#include "launcher/remote/branch_order.h"

namespace collctl::launcher {

class Branch {
 public:
  // An order that cannot be followed becomes what is said of all its hosts.
  explicit Branch(BranchOrder order);

  Deadline add_interest(std::vector<pollfd>& fds);
  void progress();
  using Send = std::function<void(AgentFrame, ByteView)>;
  // Sends what is new, while there is room above: else the hosts are held back.
  void report(const Send& send, const std::function<bool()>& full);
  // below and cut. False: malformed.
  bool handle(const RawFrame& frame);
  // Dismisses the agents and waits for them until the deadline.
  void leave(Deadline deadline);
  // The launcher is gone: so are the connections, which ends what the agents there run.
  void abandon();

 private:
  bool report_host(uint32_t host, const Send& send, const std::function<bool()>& full);

  size_t hosts_;
  std::unique_ptr<HostPool> pool_;
  std::optional<Error> error_;   // why there is no pool
  std::vector<HostPhase> told_;  // by host
  std::vector<Host> told_behind_;
};

}  // namespace collctl::launcher

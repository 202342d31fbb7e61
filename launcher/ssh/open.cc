// Chooses the SSH client for a host.
#include "launcher/ssh/clients.h"

namespace collctl::launcher {

Result<std::unique_ptr<HostChannel>> open_ssh_channel(const HostTarget& target,
                                                      const ChannelOptions& options,
                                                      const std::string& command) {
  return open_openssh_channel(target, options, command);
}

}  // namespace collctl::launcher

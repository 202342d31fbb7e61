// Chooses the SSH client for a host.
#include "launcher/ssh/clients.h"

namespace collctl::launcher {

Result<std::unique_ptr<HostChannel>> open_ssh_channel(const HostTarget& target,
                                                      const ChannelOptions& options,
                                                      const std::string& command) {
  // A name that ssh would take for an option, or that no host can have.
  if (target.name.empty() || target.name[0] == '-' ||
      target.name.find_first_of(" \t\r\n'\"\\;$`") != std::string::npos)
    return Error(ErrorCode::usage, "'" + target.name + "' is not a host name",
                 "expected a name, an alias of the SSH configuration or an address");
  switch (options.client) {
    case SshClient::libssh2:
      return open_libssh2_channel(target, options, command);
    case SshClient::openssh:
      return open_openssh_channel(target, options, command);
    case SshClient::automatic:
      break;
  }
  return open_automatic_channel(target, options, command);
}

}  // namespace collctl::launcher

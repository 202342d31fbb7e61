// The two SSH clients behind open_ssh_channel(), which chooses (open.cc).
#pragma once
#include <memory>
#include <string>

#include "launcher/ssh/channel.h"

namespace collctl::launcher {

// The system's ssh as a child process.
Result<std::unique_ptr<HostChannel>> open_openssh_channel(const HostTarget& target,
                                                          const ChannelOptions& options,
                                                          const std::string& command);
// libssh2, within this process.
std::unique_ptr<HostChannel> open_libssh2_channel(const HostTarget& target,
                                                  const ChannelOptions& options,
                                                  const std::string& command);
// libssh2, and the system's ssh where that cannot.
std::unique_ptr<HostChannel> open_automatic_channel(const HostTarget& target,
                                                    const ChannelOptions& options,
                                                    const std::string& command);
// The user and port asked for: the target's, else the options'; empty and 0: the configuration's.
std::string asked_user(const HostTarget& target, const ChannelOptions& options);
int asked_port(const HostTarget& target, const ChannelOptions& options);
std::string asked_key(const HostTarget& target, const ChannelOptions& options);
// Whether a program of this name is in PATH.
bool is_installed(const std::string& program);

}  // namespace collctl::launcher

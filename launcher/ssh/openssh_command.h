// The command line of the system's ssh for one host. Pure.
#pragma once
#include <string>
#include <vector>

#include "launcher/ssh/channel.h"

namespace collctl::launcher {

// `log`: where it writes its log, at DEBUG1.
std::vector<std::string> openssh_command(const HostTarget& target, const ChannelOptions& options,
                                         const std::string& command, const std::string& log);

}  // namespace collctl::launcher

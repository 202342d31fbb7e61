// How this host's memory is connected: channels that have modules, by the kernel's memory
// controllers (EDAC), and the rate at which these run, by the firmware's table (SMBIOS, type 17).
// Untrusted and bounded; virtual machines and containers mostly show neither. Threads: any; read
// when called.
#pragma once
#include <string>

namespace collctl::base {

struct MemoryChannels {
  int channels = 0;  // with a module; 0: not known
  double MTps = 0;   // 1e6 transfers a second of 8 bytes, the slowest module's; 0: not known
};
// `root`: of the file system, for tests.
MemoryChannels memory_channels(const std::string& root = "");

}  // namespace collctl::base

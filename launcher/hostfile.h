// The hosts of a job: the grammar of hostfiles and of -H. Pure: files come in through a function.
// Used by cmd. Every mistake is a usage error with file, line, column and what was expected.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace collctl::launcher {

struct HostSpec {
  std::string name;          // name, alias or address (IPv6 without brackets)
  std::string user;          // empty and 0 below: not said
  int port = 0;
  std::string key;           // identity file
  std::string jump;          // [user@]host[:port]
  std::string address;       // for data
  std::optional<int> slots;  // none: the GPUs found there, else 1
  int max_slots = 0;         // 0: no limit
  enum class Devices : uint8_t { unsaid, listed, all, none } devices = Devices::unsaid;
  std::vector<int> device_list;
  std::vector<std::string> nics;
  std::string rack;
  std::string path;   // of the binary on that host
  std::string where;  // "hosts.txt:3:1", "-H:1:1": the first mention
};

struct HostList {
  std::vector<HostSpec> hosts;        // in the order of their first mention, no name twice
  std::vector<std::string> warnings;  // at most one for each kind
};

// The text of a hostfile; "-" is standard input.
using ReadFile = std::function<Result<std::string>(const std::string& path)>;

// `hostfile` and `hosts` (the value of -H): either may be empty. An empty result is an error.
Result<HostList> read_hosts(const std::string& hostfile, const std::string& hosts,
                            const ReadFile& read);

}  // namespace collctl::launcher

// The hosts of a job: the grammar of hostfiles and of -H. Pure: files are read through a function.
// Used by cmd. Every mistake is a usage error with file, line, column and what was expected; its
// hint shows the line with a mark below the place, and after it the other mistakes of the file.
//
//   [user@]HOST[:N] [option...]      HOST: node07, node[01-16,20-24:2], 10.0.0.7, [fe80::1%eth0]
//   @NAME = HOST[:N] @OTHER ...      defines a group, in words between blanks or commas
//   @NAME [option...]                every host of a group that was defined above
//   slurm:LIST [option...]           Slurm's list of hosts: slurm:node[01-04],login1
//   !HOST  !@NAME                    leaves hosts out, wherever they were named
//   include FILE                     relative to this file
//   # comment                        also after a blank at the end of a line
//
// Options: slots=N max_slots=N user=U port=P key=F jump=[user@]host[:port] addr=IP
// devices=0,1|all|none nics=a,b rack=R path=P; a value with blanks stands in double quotes. -H
// takes the first, third, fourth and fifth form without options, comma separated. With a hostfile
// and -H the file says which hosts there are and -H selects among them; its :N and user@ replace
// the file's.
//
// The same host twice adds its slots (named n times without a number: n slots); all else it says
// must agree. Files of Open MPI, MPICH and DeepSpeed are accepted; parts that have no effect here
// become a warning.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/host.h"
#include "base/result.h"

namespace collctl::launcher {

inline constexpr size_t kMostHosts = 100'000;
inline constexpr size_t kMostMistakes = 20;             // of a hostfile, that are told
inline constexpr int kMostSlots = 65536;                // of one host
inline constexpr size_t kMostHostfileBytes = 16 << 20;  // all included files together

struct HostSpec {
  HostId id = HostId::none;  // its place in the list; a part of the list keeps it
  std::string name;          // name, alias or address (IPv6 without brackets)
  std::string user;          // empty and 0 below: not given
  int port = 0;
  std::string key;           // identity file
  std::string jump;          // [user@]host[:port]
  std::string address;       // for data
  std::optional<int> slots;  // none: the GPUs found there, else its cores
  int max_slots = 0;         // 0: no limit
  enum class Devices : uint8_t { unsaid, listed, all, none } devices = Devices::unsaid;
  std::vector<int> device_list;
  std::vector<std::string> nics;
  std::string rack;
  std::string path;   // of the binary on that host
  std::string where;  // "hosts.txt:3:1", "-H:1:1": the first mention

  Host host() const { return {id, name}; }
};

struct HostList {
  std::vector<HostSpec> hosts;        // in the order of their first mention, no name twice
  std::vector<std::string> warnings;  // at most one for each kind
};

// The text of a hostfile; "-" is standard input. A file longer than kMostHostfileBytes need not be
// read further than one byte beyond.
using ReadFile = std::function<Result<std::string>(const std::string& path)>;

// `hostfile` and `hosts` (the value of -H): either may be empty. An empty result is an error.
Result<HostList> read_hosts(const std::string& hostfile, const std::string& hosts,
                            const ReadFile& read);

// A hostfile that reads as this list again (`where` aside): one line a host.
std::string hostfile_text(const HostList& list);

}  // namespace collctl::launcher

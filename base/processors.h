// The processors of a host: cores, caches, NUMA nodes and what they are called, as the kernel shows
// them in sysfs. Read through a function from path to text, so that another root or a recorded
// machine reads the same way. Untrusted: counts are bounded, nonsense is left out. Used to place
// and bind CPU ranks, by their cost model, and by topology. Threads: any; values.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace collctl::base {

// The text of a file by its path from the root ("sys/devices/system/cpu/online"); empty when there
// is none.
using FileRead = std::function<std::optional<std::string>(const std::string& path)>;
FileRead read_below(const std::string& root = "/");  // the first 64 KiB of a file

inline constexpr int kMaxProcessors = 8192, kMaxNumaNodes = 1024;

// A logical processor. Numbers that the kernel does not show are 0.
struct Processor {
  int id = 0;
  int package = 0;       // socket
  int core = 0;          // lowest id among the threads of its physical core
  int numa = 0;          // index into Processors::nodes
  int cache_domain = 0;  // lowest id among those that share its last-level cache
};

struct NumaDomain {
  int id = 0;
  std::vector<int> processors;  // ids, ascending
  std::vector<int> distances;   // to the nodes in their order; 10 is itself
  uint64_t memory_bytes = 0;    // 0: the kernel does not say
  double memory_gbps = 0;       // 1e9 bytes/s that its own processors read; 0: unknown (no HMAT)
};

struct ProcessorModel {
  std::string vendor;  // "GenuineIntel", "AuthenticAMD", ...; may be empty
  std::string name;    // "AMD EPYC 9654 96-Core Processor"
  int family = 0, model = 0;
};

struct Processors {
  std::vector<Processor> online;  // by id; empty when the kernel shows none
  std::vector<NumaDomain> nodes;  // by id; one, with all, when the kernel shows none
  ProcessorModel model;
  uint64_t cache_bytes = 0;  // of one last-level cache; 0: unknown
  int packages = 0, cores = 0;

  const Processor* find(int id) const;
};
Processors read_processors(const FileRead& read);
const Processors& host_processors();  // of this host, read once

// "0-3,8,10-11" as the kernel writes lists; ascending, numbers below `most`.
std::vector<int> parse_number_list(const std::string& text, int most = kMaxProcessors);

}  // namespace collctl::base

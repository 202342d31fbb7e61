// `memory-test`: how fast a host copies in its memory, and each of its GPUs in its own, to it and
// from it; with every byte compared. One rank on each host measures all of it, one thing after the
// other. Part of `check`; hidden otherwise. Threads: values.
#pragma once
#include <string>
#include <vector>

#include "cmd/cli/parse.h"
#include "cmd/document/document.h"
#include "cmd/measure/task.h"
#include "cmd/text/console.h"

namespace collctl::cmd {

struct MemoryRow {
  std::string device;      // "host", "0000:4b:00.0"
  std::string model = {};  // of a GPU
  std::string what;        // "copy", "to device", "from device"
  double GBps = 0;         // a copy: read and written
  bool wrong = false;      // what arrived is not what was sent
  double pcie_GTps = 0;    // of the GPU's link after the copies; 0: not known, as what follows
  int pcie_lanes = 0;
  double pcie_GTps_most = 0;  // that card and slot can have
  int pcie_lanes_most = 0;
  int channels = 0;  // of the host's memory, where all of its processors may be used
  double MTps = 0;
  std::string busy = {};  // what others had of the host, or of the GPU, if it is much
};
struct MemoryReport {
  std::string host;
  std::vector<MemoryRow> rows = {};
};
// With its exit code. `json`: memory_json(), or the file that the report was read from.
Document memory_document(const MemoryReport& report, std::string json);
std::string memory_json(const MemoryReport& report);
Result<MemoryReport> read_memory(const std::string& json);

// On this host. Errors: unavailable, for GPUs that are here and cannot be used, or memory.
Result<MemoryReport> measure_memory();

extern const RankTask kMemoryTask;
Result<int> memory_command(const ParsedLine& line, Console& console);

}  // namespace collctl::cmd

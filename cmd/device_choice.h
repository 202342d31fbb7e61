// Where ranks of this host compute: on GPUs or on its cores (--device). Asked before ranks are
// started, by the process that starts them, and without waking CUDA: that takes long, and the ranks
// do it anyway. Threads: any.
#pragma once
#include <string>

#include "base/result.h"
#include "cmd/bench.h"
#include "cmd/options.h"

namespace collctl::cmd {

struct LocalGpus {
  int count = 0;        // that this process may use
  std::string why_not;  // when 0, or when this build cannot use them
};
// By NVML, and CUDA_VISIBLE_DEVICES.
LocalGpus local_gpus();

struct DeviceChoice {
  bool on_gpus = false;
  int gpus = 0;     // of this host
  std::string why;  // of an automatic choice, in words
};
// Error unavailable: --device cuda, and this host or build cannot.
Result<DeviceChoice> choose_device(DeviceWish wish);

// A measurement's line on the whole: says in `launch` which GPUs ranks on this host drive (one rank
// for each unless the line says how many), or that ranks on other hosts may.
struct SettledLine {
  BenchSpec spec;   // on hosts still with the wish: they have not been asked
  std::string why;  // as in DeviceChoice
};
Result<SettledLine> settle_line(const ParsedLine& line, LaunchOptions& launch);

// Error unavailable with the numbers and the ways out: more ranks than GPUs on a host.
Status check_gpus(const std::string& host, int ranks, int gpus, bool share);

}  // namespace collctl::cmd

// Where ranks of this host compute: on GPUs or on its cores (--device). Asked before ranks are
// started, by the process that starts them, and without waking CUDA: that takes long, and the ranks
// do it anyway. Threads: any.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cmd/cli/parse.h"
#include "cmd/job/job.h"

namespace collctl::cmd {

struct HostGpus {
  Host host;
  int usable = 0;       // by the job's ranks there
  int there = 0;        // NVIDIA devices that the host has, whether they can be used or not
  std::string why_not;  // when none is usable; empty: it has none
  // CUDA_VISIBLE_DEVICES of the ranks. Empty, or -1, is the user's word that no GPU is to be used.
  std::optional<std::string> visible;
  bool left_out = false;  // by devices=none in the hostfile: the same word
};
// This host's, by NVML and CUDA_VISIBLE_DEVICES.
HostGpus local_gpus();

struct DeviceChoice {
  bool on_gpus = false;
  std::string why;  // in words
};
// Where the ranks of these hosts compute. Error unavailable: --device cuda, and this host or build
// cannot; auto, and a host has GPUs that it cannot use, is told to use some that it does not have,
// or has none where others do. A job never changes to cores silently.
Result<DeviceChoice> choose_device(DeviceRequest request, const std::vector<HostGpus>& hosts);

// The line of a command on ranks on the whole: says in `launch` which GPUs ranks on this host drive
// (one rank for each unless the line says how many), or that ranks on other hosts may. On hosts the
// device is still as requested: they have not been asked. `read` makes the task of the line, for so
// many ranks (0: not known).
using ReadTask = std::function<Result<TaskSpec>(int ranks)>;
Result<TaskSpec> settle_line(const ParsedLine& line, LaunchOptions& launch, const ReadTask& read);
// --device.
DeviceRequest interpret_device(const ParsedLine& line);

// --on-loss shrink is for CPU ranks: an error of code usage elsewhere.
Status check_shrink(const LaunchOptions& launch, const DeviceChoice& choice);
// Error unavailable with the numbers and the ways out: more ranks than GPUs on a host.
Status check_gpus(const std::string& host, int ranks, int gpus, bool share);

}  // namespace collctl::cmd

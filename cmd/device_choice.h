// Where ranks of this host compute: on GPUs or on its cores (--device). Asked before ranks are
// started, by the process that starts them, and without waking CUDA: that takes long, and the ranks
// do it anyway. Threads: any.
#pragma once
#include <string>

#include "base/result.h"
#include "cmd/bench.h"

namespace collctl::cmd {

struct LocalGpus {
  int count = 0;        // that this process may use
  std::string why_not;  // when 0, or when this build cannot use them
};
// By NVML, and CUDA_VISIBLE_DEVICES.
LocalGpus local_gpus();
// How many of `found` GPUs the text of CUDA_VISIBLE_DEVICES leaves: its entries up to the first
// that names none (CUDA C++ programming guide). Pure.
int visible_gpus(const std::string& text, int found);

struct DeviceChoice {
  bool on_gpus = false;
  int gpus = 0;     // of this host
  std::string why;  // of an automatic choice, in words
};
// Error unavailable: --device cuda, and this host or build cannot.
Result<DeviceChoice> choose_device(DeviceWish wish);

// Error unavailable with the numbers and the ways out: more ranks than GPUs on a host.
Status check_gpus(const std::string& host, int ranks, int gpus, bool share);

}  // namespace collctl::cmd

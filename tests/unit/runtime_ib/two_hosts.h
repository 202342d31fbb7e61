// Two hosts of two GPUs each, joined by NVLink: an adapter beside the first of each host, or beside
// both. Rank r drives the GPU at bus 0x13 - r.
#pragma once
#include <unistd.h>

#include <optional>

#include "base/env.h"
#include "base/fd.h"
#include "base/whole_file.h"
#include "tests/unit/runtime_ib/adapters.h"

namespace collctl::runtime::testing {

inline std::string two_hosts_text(bool adapter_each) {
  const auto gpu = [](int rank) {
    const int other = rank ^ 1;
    return format(
        "<pci busid=\"0000:{:x}:00.0\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\" "
        "link_width=\"16\"><gpu dev=\"{}\" rank=\"{}\" sm=\"90\" gdr=\"1\"><nvlink "
        "target=\"0000:{:x}:00.0\" count=\"18\" tclass=\"0x030200\"/></gpu></pci>",
        0x13 - rank, 3 - rank, 3 - rank, 0x13 - other);
  };
  const auto socket = [](int numa, const std::string& inner) {
    return format(
        "<cpu numaid=\"{}\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" "
        "modelid=\"143\">{}</cpu>",
        numa, inner);
  };
  const auto below_switch = [](int number, const std::string& inner) {
    return format(
               "<pci busid=\"0000:0{}:00.0\" class=\"0x060400\" link_speed=\"32.0 GT/s PCIe\" "
               "link_width=\"16\">",
               number) +
           inner + "</pci>";
  };
  const auto nic = [](int number) {
    return format(
        "<pci busid=\"0000:2{}:00.0\" class=\"0x020700\" link_speed=\"32.0 GT/s PCIe\" "
        "link_width=\"16\"><nic><net name=\"fake_{}\" dev=\"{}\" speed=\"400000\" port=\"1\" "
        "latency=\"0.0\" guid=\"0x{}\" maxconn=\"131072\" gdr=\"1\"/></nic></pci>",
        number, number, number, number + 1);
  };
  const std::string near = socket(0, below_switch(1, nic(0) + gpu(0) + gpu(2)));
  const std::string others = gpu(1) + gpu(3);
  return "<system version=\"1\">" + near +
         socket(1, adapter_each ? below_switch(2, nic(1) + others) : others) + "</system>";
}

// That machine, as all ranks find it.
class TwoHosts {
 public:
  explicit TwoHosts(bool adapter_each) {
    const base::Fd file(::mkstemp(path_));
    REQUIRE(file);
    REQUIRE(base::write_file_atomically(path_, two_hosts_text(adapter_each)).ok());
    topo_.emplace("COLLCTL_TOPO_FILE", path_);
  }
  ~TwoHosts() { ::unlink(path_); }

 private:
  char path_[32] = "/tmp/collctl-machine-XXXXXX";
  std::optional<base::ScopedVariable> topo_;
  base::ScopedVariable there_{"FAKE_NVML", "4:90:0:hidden"};
};

inline GpuJob two_hosts_job() {
  GpuJob job;
  job.ranks = 4;
  job.hosts = {0, 0, 1, 1};
  job.options.op_timeout_s = 120;
  return job;
}

}  // namespace collctl::runtime::testing

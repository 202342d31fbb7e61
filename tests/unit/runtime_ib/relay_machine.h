// Two hosts of two GPUs each, joined by NVLink: ranks 0 and 1, 2 and 3; how their adapters lie, as
// a topology file that all ranks find.
#pragma once
#include <unistd.h>

#include <optional>

#include "base/env.h"
#include "base/fd.h"
#include "base/format.h"
#include "base/whole_file.h"
#include "tests/unit/runtime/gpu_processes.h"
#include "tests/unit/runtime_ib/adapters.h"

namespace collctl::runtime::testing {

constexpr int kRanks = 4;

enum class Adapter : uint8_t {
  beside_first,  // fake_0, below the switch of ranks 0 and 2; the others are on another socket
  beside_both,   // fake_0, and all GPUs below its switch
  beside_each,   // fake_0 for ranks 0 and 2, fake_1 for 1 and 3, on two sockets
};

// Rank r drives the GPU at bus 0x13 - r.
inline std::string machine_text(Adapter where) {
  const auto pci = [](const std::string& id, const char* kind, const std::string& inner) {
    return format(
        "<pci busid=\"{}\" class=\"{}\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">{}</pci>",
        id, kind, inner);
  };
  const auto gpu = [&](int rank) {
    return pci(format("0000:{:x}:00.0", 0x13 - rank), "0x030200",
               format("<gpu dev=\"{}\" rank=\"{}\" sm=\"90\" gdr=\"1\"><nvlink "
                      "target=\"0000:{:x}:00.0\" count=\"18\" tclass=\"0x030200\"/></gpu>",
                      3 - rank, 3 - rank, 0x13 - (rank ^ 1)));
  };
  const auto nic = [&](int number) {
    return pci(format("0000:2{}:00.0", number), "0x020700",
               format("<nic><net name=\"fake_{}\" dev=\"{}\" speed=\"400000\" port=\"1\" "
                      "latency=\"0.0\" guid=\"0x{}\" maxconn=\"131072\" gdr=\"1\"/></nic>",
                      number, number, number + 1));
  };
  const auto socket = [](int numa, const std::string& inner) {
    return format(
        "<cpu numaid=\"{}\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" "
        "modelid=\"143\">{}</cpu>",
        numa, inner);
  };
  const auto below_switch = [&](int number, const std::string& inner) {
    return pci(format("0000:0{}:00.0", number + 1), "0x060400", inner);
  };
  const std::string first = gpu(0) + gpu(2), others = gpu(1) + gpu(3);
  const std::string inner =
      where == Adapter::beside_both
          ? socket(0, below_switch(0, nic(0) + first + others))
          : socket(0, below_switch(0, nic(0) + first)) +
                socket(1,
                       where == Adapter::beside_each ? below_switch(1, nic(1) + others) : others);
  return "<system version=\"1\">" + inner + "</system>";
}

// That machine, as all ranks find it.
class Machine {
 public:
  explicit Machine(Adapter where = Adapter::beside_first) {
    const base::Fd file(::mkstemp(path_));
    REQUIRE(file);
    REQUIRE(base::write_file_atomically(path_, machine_text(where)).ok());
    topo_.emplace("COLLCTL_TOPO_FILE", path_);
  }
  ~Machine() { ::unlink(path_); }

 private:
  char path_[32] = "/tmp/collctl-machine-XXXXXX";
  std::optional<base::ScopedVariable> topo_;
  base::ScopedVariable there_{"FAKE_NVML", "4:90:0:hidden"};
  SmallBuffers buffers_;
};

inline GpuJob two_hosts(const std::string& net) {
  GpuJob job;
  job.ranks = kRanks;
  job.hosts = {0, 0, 1, 1};
  job.options.start_timeout_s = job.options.op_timeout_s = 120;
  job.options.net = net;
  return job;
}

}  // namespace collctl::runtime::testing

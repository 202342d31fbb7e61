// Whether GPUs use each other's memory: the topology's rules, against a driver that would allow
// all.
#include <unistd.h>

#include "base/env.h"
#include "base/fd.h"
#include "base/whole_file.h"
#include "tests/unit/runtime/gpu_fault_jobs.h"

namespace p2p_rules_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

namespace {

// Two GPUs on two sockets, whose driver would let them use each other's memory.
std::string two_sockets() {
  std::string sockets;
  for (const int gpu : {0, 1})
    sockets += format(
        "<cpu numaid=\"{}\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"143\">"
        "<pci busid=\"0000:{}:00.0\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\" "
        "link_width=\"16\"><gpu dev=\"{}\" rank=\"{}\" sm=\"90\"/></pci></cpu>",
        gpu, gpu == 0 ? "10" : "11", gpu, gpu);
  return "<system version=\"1\">" + sockets + "</system>";
}

}  // namespace

TEST_CASE("the topology's rules for P2P bind links and windows", "[gpu]") {
  char path[] = "/tmp/collctl-machine-XXXXXX";
  const base::Fd file(::mkstemp(path));
  REQUIRE(file);
  REQUIRE(base::write_file_atomically(path, two_sockets()).ok());
  const base::ScopedVariable machine("COLLCTL_TOPO_FILE", path);
  // GPUs of a file count where they are there.
  const base::ScopedVariable there("FAKE_NVML", "2:90:0:hidden");
  for (const char* level : {"", "PHB", "SYS"}) {
    INFO("COLLCTL_P2P_LEVEL=" << level);
    const base::ScopedVariable limit("COLLCTL_P2P_LEVEL", level);
    const bool allowed = std::string(level) == "SYS";
    set_up_gpus(2);
    CHECK(with_gpu_ranks(job_of(2), [&](Communicator& c, Complaints& complaints) {
            Stream stream(c);
            const std::string wrong =
                run_case(c, stream, {.collective = Collective::all_reduce, .count = 5000});
            if (!wrong.empty()) complaints.add(wrong);
            for (const LinkInfo& link : c.links())
              if (link.from != link.to && (link.via == "SHM") == allowed)
                complaints.add(format("{} -> {} via {}", link.from, link.to, link.via));
            if ((c.windows().team().size() == 2) != allowed)
              complaints.add(format("a team of {}", c.windows().team().size()));
          }) == "");
  }
  // A user who names a transport has it.
  set_up_gpus(2);
  CHECK(with_gpu_ranks(job_of(2, "p2p"), [&](Communicator& c, Complaints& complaints) {
          for (const LinkInfo& link : c.links())
            if (link.via == "SHM") complaints.add("via SHM");
        }) == "");
  ::unlink(path);
}

}  // namespace p2p_rules_tests

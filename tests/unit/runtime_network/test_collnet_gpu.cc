// The CollNet algorithm on GPU ranks (the fake driver): a head's slots for the network are pinned
// host memory, which its GPU fills and the plugin adds up.
#include <unistd.h>

#include "base/fd.h"
#include "base/whole_file.h"
#include "tests/unit/runtime/gpu_ranks.h"
#include "tests/unit/runtime/window/window_job.h"
#include "tests/unit/runtime_network/collnet_job.h"

namespace collnet_gpu_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

namespace {

GpuJob collnet_gpus(const std::vector<int>& hosts) {
  GpuJob job;
  job.ranks = int(hosts.size());
  job.hosts = hosts;
  job.options = collnet_only();
  return job;
}

}  // namespace

TEST_CASE("collnet: GPU ranks", "[collnet][gpu]") {
  for (const auto& hosts : {hosts_of({1, 1}), hosts_of({2, 2}), hosts_of({1, 2})}) {
    INFO(hosts.size() << " ranks");
    const Plugin plugin("reduces12");
    set_up_gpus(int(hosts.size()));
    CHECK(with_gpu_ranks(collnet_gpus(hosts), [](Communicator& c, Complaints& complaints) {
            Stream stream(c);
            for (const uint64_t count : {0, 1, 1003, 100'003})
              for (const RedOp op : {RedOp::sum, RedOp::max, RedOp::avg})
                for (const DataType type : {DataType::float32, DataType::bfloat16}) {
                  const std::string wrong =
                      wrong_in(c, stream, {.count = count, .type = type, .op = op});
                  if (!wrong.empty()) complaints.add(wrong);
                }
            bool through = false;
            for (const LinkInfo& link : c.links())
              through |= link.from == link.to && link.via.rfind("COLLNET/Sums/", 0) == 0;
            if (!through && c.rank() == 0) complaints.add("rank 0 has no link into the network");
          }) == "");
    CHECK(plugin.reductions() > 0);
  }
}

namespace {

// Two GPUs of each host, on two sockets.
std::string two_sockets() {
  std::string sockets;
  for (const int socket : {0, 1}) {
    std::string gpus;
    for (const int dev : {socket, socket + 2})
      gpus += format(
          "<pci busid=\"0000:1{}:00.0\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\" "
          "link_width=\"16\"><gpu dev=\"{}\" rank=\"{}\" sm=\"90\"/></pci>",
          dev, dev, dev);
    sockets += format(
        "<cpu numaid=\"{}\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" "
        "modelid=\"143\">{}</cpu>",
        socket, gpus);
  }
  return "<system version=\"1\">" + sockets + "</system>";
}

}  // namespace

// Which device is near to which GPU is this machine's own; test_plan_nics.cc has machines by file.
TEST_CASE("collnet: those heads have links that the plan has", "[collnet][gpu]") {
  char path[] = "/tmp/collctl-machine-XXXXXX";
  const base::Fd file(::mkstemp(path));
  REQUIRE(file);
  REQUIRE(base::write_file_atomically(path, two_sockets()).ok());
  const Variable machine("COLLCTL_TOPO_FILE", path);
  const Variable there("FAKE_NVML", "4:90:0:hidden");  // GPUs of a file count where they are there
  const Plugin plugin("reduces12");
  set_up_gpus(4);
  GpuJob job = collnet_gpus({0, 0, 1, 1});
  job.options.channels = 2;
  std::atomic<int> heads{0};
  CHECK(with_gpu_ranks(job, [&](Communicator& c, Complaints& complaints) {
          Stream stream(c);
          if (const std::string wrong = wrong_in(c, stream, {.count = 100'003}); !wrong.empty())
            complaints.add(wrong);
          std::vector<uint8_t> data(400'012);
          const Operation op{.input = data.data(), .output = data.data(), .count = 100'003};
          const auto plan = c.plan_for({&op, 1});
          if (!plan) return complaints.add(c.rank(), plan.error());
          for (const kernels::Work& work : plan->ops[0].works) {
            const bool linked = std::ranges::any_of(c.links(), [&](const LinkInfo& link) {
              return link.from == link.to && link.channel == work.channel;
            });
            if (linked != (work.tree.up == c.rank()))
              complaints.add(format("channel {} of rank {}", int(work.channel), c.rank()));
            heads += linked;
          }
        }) == "");
  CHECK(heads == 2 * 2);  // hosts x channels
  ::unlink(path);
}

namespace {

// The ranks' errors when one of them does not come to the second operation.
std::string said_without(int still) {
  GpuJob job = collnet_gpus({0, 0, 1});
  job.options.op_timeout_s = 3;
  job.options.channels = 1;
  std::string text;
  const Communicators ranks = start_gpu_job(job);
  on_all(3, [&](int r) {
    Communicator& c = *ranks[size_t(r)];
    Stream stream(c);
    (void)wrong_in(c, stream, {.count = 1000});
    if (r != still) {
      (void)wrong_in(c, stream, {.count = 1000});
      return;
    }
    const Deadline deadline = Deadline::after_seconds(30);
    while (c.async_error() && !deadline.passed()) base::sleep_until(Deadline::after_ms(5));
  });
  for (const auto& rank : ranks) {
    const Status status = rank->async_error();
    if (status) return "no error";
    text += format("{} {} ", code_name(status.error().code), status.error().rank);
  }
  return text;
}

}  // namespace

// In a process of its own: what the network has not given back stays.
TEST_CASE("collnet: a GPU rank that stands still is named by all", "[collnet][gpu]") {
  const Plugin plugin("reduces12");
  CHECK(in_child([] {
          fake_cuda::set_up({.devices = 3});
          return said_without(1);
        }) == "deadline 1 deadline 1 deadline 1 ");
  CHECK(in_child([] {
          fake_cuda::set_up({.devices = 3});
          return said_without(2);
        }) == "deadline 2 deadline 2 deadline 2 ");
}

TEST_CASE("collnet: GPU ranks are told why they cannot have it", "[collnet][gpu]") {
  const Plugin plugin("fake12");  // a network that only carries
  set_up_gpus(2);
  CHECK(with_gpu_ranks(collnet_gpus({0, 1}), [](Communicator& c, Complaints& complaints) {
          Stream stream(c);
          const std::string said = wrong_in(c, stream, {.count = 5});
          if (said.find("collnet needs in-network reduction, and there is none") ==
              std::string::npos)
            complaints.add("said: " + said);
        }) == "");
}

}  // namespace collnet_gpu_tests

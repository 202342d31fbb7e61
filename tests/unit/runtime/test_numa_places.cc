// Memory and threads of GPU ranks on machines with several NUMA nodes: near the GPU. The virtual
// machine of tests/rdma_vm has two nodes and a device on the second one where the fake driver's
// last GPU is; elsewhere the tests say why they are skipped.
#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <thread>

#include "base/host_facts.h"
#include "base/numa.h"
#include "base/processors.h"
#include "tests/catch.h"
#include "tests/skip.h"
#include "tests/unit/runtime/gpu_ranks.h"
#include "transport/device/device.h"

namespace numa_places_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

namespace {

struct Place {
  int near = -1, far = -1;  // the GPU's node, and another
};

// GPU 0's, when it is the only one; none where the machine has one node or reports none.
std::optional<Place> place_of_gpu() {
  auto device = transport::Device::open(0);
  REQUIRE(device);
  Place place;
  place.near = base::pci_numa_node((*device)->facts().bus_id);
  for (const base::NumaDomain& node : base::host_processors().nodes)
    if (node.id != place.near && !node.processors.empty()) place.far = node.id;
  if (place.near >= 0 && place.far >= 0) return place;
  collctl::test::skip((*device)->facts().bus_id +
                      " is no device with a node on a machine with several");
  return std::nullopt;
}

// How many pages of the memory lie on each node; negative: the kernel's reason for a page.
std::map<int, size_t> nodes_of(uint8_t* at, uint64_t bytes) {
  const auto page = uint64_t(::sysconf(_SC_PAGESIZE));
  std::vector<void*> pages;
  for (uint64_t i = 0; i < bytes; i += page) pages.push_back(at + i);
  std::vector<int> status(pages.size(), -1);
  REQUIRE(::syscall(SYS_move_pages, 0, pages.size(), pages.data(), nullptr, status.data(), 0) == 0);
  std::map<int, size_t> count;
  for (const int node : status) ++count[node];
  return count;
}

// The kernel's record of each mapping of /dev/shm in this process: pages by node, "N0=17".
std::vector<std::string> shared_mappings() {
  std::vector<std::string> found;
  std::ifstream in("/proc/self/numa_maps");
  for (std::string line; std::getline(in, line);)
    if (line.find("file=/dev/shm/") != std::string::npos) found.push_back(line);
  return found;
}

// Threads of this process that may run on just these processors.
int threads_bound_to(const std::vector<int>& processors) {
  int bound = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    cpu_set_t set;
    if (::sched_getaffinity(std::stoi(task.path().filename()), sizeof set, &set) != 0) continue;
    bool same = CPU_COUNT(&set) == int(processors.size());
    for (const int id : processors) same = same && CPU_ISSET(id, &set);
    bound += same ? 1 : 0;
  }
  return bound;
}

const std::vector<int>& processors_of(int node) {
  const auto& nodes = base::host_processors().nodes;
  return std::find_if(nodes.begin(), nodes.end(), [&](const auto& n) { return n.id == node; })
      ->processors;
}

}  // namespace

TEST_CASE("pinned memory lies on the GPU's node, whoever asks for it", "[numa][may_skip]") {
  set_up_gpus(1);
  const std::optional<Place> place = place_of_gpu();
  if (!place) return;
  std::thread([&] {
    REQUIRE(base::run_on_node(place->far));
    std::vector<uint8_t> plain(1 << 20, 1);  // what would happen without
    const auto plain_on = nodes_of(plain.data(), plain.size());
    CHECK(plain_on.contains(place->far));
    CHECK_FALSE(plain_on.contains(place->near));
    auto device = transport::Device::open(0);
    REQUIRE(device);
    auto memory = transport::PinnedMemory::make(*device, 1 << 20);
    REQUIRE(memory);
    CHECK(nodes_of(memory->data(), 1 << 20) == std::map<int, size_t>{{place->near, 256}});
  }).join();
}

// The machine has a device at the address of the last GPU only, that of rank 1.
TEST_CASE("the host's part of a link lies and runs on the GPU's node", "[numa][may_skip]") {
  set_up_gpus(1);
  const std::optional<Place> place = place_of_gpu();
  if (!place) return;
  set_up_gpus(2);
  const std::string near = format("N{}=", place->near), far = format("N{}=", place->far);
  const auto reduce = [&](Communicator& c, Complaints& complaints) {
    if (c.rank() == 1 && !base::run_on_node(place->far)) complaints.add("cannot go far");
    Stream stream(c);
    const std::string wrong =
        run_case(c, stream, {.collective = Collective::all_reduce, .count = 50000});
    if (!wrong.empty()) complaints.add(wrong);
  };
  GpuJob job;
  job.options.transport = "net";
  const int before = threads_bound_to(processors_of(place->near));
  CHECK(with_gpu_ranks(job, [&](Communicator& c, Complaints& complaints) {
          reduce(c, complaints);
          if (c.rank() != 1) return;
          // The progress thread, and one helper for each of the rank's links.
          const int bound = threads_bound_to(processors_of(place->near)) - before;
          if (bound < 2) complaints.add(format("{} threads are bound to the GPU's node", bound));
        }) == "");
  job.options.transport = "shm";
  CHECK(with_gpu_ranks(job, [&](Communicator& c, Complaints& complaints) {
          reduce(c, complaints);
          if (c.rank() != 1) return;
          int wholly_near = 0;
          for (const std::string& mapping : shared_mappings())
            wholly_near +=
                mapping.find(near) != std::string::npos && mapping.find(far) == std::string::npos;
          if (wholly_near == 0) complaints.add("no shared memory lies on the GPU's node alone");
        }) == "");
}

}  // namespace numa_places_tests

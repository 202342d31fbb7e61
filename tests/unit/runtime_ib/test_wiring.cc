// Real machines, from their topology files: two of each, with all their GPUs and adapters. The
// plan's network devices and relays are those of the ranks' links, and the adapters carry the data.
#include <unistd.h>

#include <optional>
#include <set>

#include "base/env.h"
#include "base/fd.h"
#include "base/whole_file.h"
#include "runtime/links/edges.h"
#include "tests/unit/runtime/gpu_job.h"
#include "tests/unit/runtime_ib/adapters.h"

namespace wiring_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

namespace {

// The devices that a test's machine has of a file.
struct Devices {
  std::vector<std::string> nets;
  int sm = 0;
  bool whole = true;  // nothing but the file decides how the machine is seen

  void collect(const std::vector<topology::Pci>& devices) {
    for (const topology::Pci& pci : devices) {
      if (pci.gpu) {
        sm = pci.gpu->sm.value_or(0);
        // The fake driver's are in domain 0, and the order of ids decides between equal paths.
        whole = whole && topology::bus_id_text(pci.bus_id).starts_with("0000:");
      }
      for (const topology::Nic& nic : pci.nics)
        for (const topology::Net& net : nic.nets) {
          nets.push_back(net.name);
          whole = whole && net.gdr.has_value();
        }
      collect(pci.children);
    }
  }
};

void replace_all(std::string& text, const std::string& what, const std::string& by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
}

// A file whose GPUs are at the fake driver's places, in the same order: bus 0x10 + rank, which its
// ordinals count from the other end.
struct Machine {
  topology::System system;
  std::string text;
  Devices devices;
  int gpus = 0;

  explicit Machine(const std::string& file) : system(machine_of(file)) {
    text = data_text(data_path(file));
    const std::vector<int64_t> ids = gpus_of(system);
    gpus = int(ids.size());
    for (const topology::Cpu& cpu : system.cpus) {
      devices.collect(cpu.children);
      devices.whole = devices.whole && cpu.nics.empty();
    }
    // No other device is one of this machine.
    replace_all(text, "\"0000:", "\"00f0:");
    for (int rank = 0; rank < gpus; ++rank) {
      std::string id = topology::bus_id_text({ids[size_t(rank)]});
      const std::string now = format("0000:{:02x}:00.0", 0x10 + rank);
      if (text.find(id) == std::string::npos) id.replace(0, 4, "00f0");
      replace_all(text, id, "gpu-" + std::to_string(rank) + "-");
      replace_all(text, "gpu-" + std::to_string(rank) + "-", now);
    }
  }
  std::string adapters() const {
    std::string all;
    for (const std::string& name : devices.nets)
      all += (all.empty() ? "" : ",") + name + ":ib:dmabuf";
    return all;
  }
};

// For each rank what the pure plan of the same two machines gives.
std::vector<CommShape> planned(const std::string& file, int ranks) {
  ::GpuPlanJob job = gpu_job(ranks, file);
  job.gdr = true;
  return job.shapes();
}

std::string try_machine(const std::string& file, std::set<std::string>& carried) {
  const Machine machine(file);
  const int ranks = 2 * machine.gpus;
  const std::vector<CommShape> shapes = planned(file, ranks);
  char path[] = "/tmp/collctl-machine-XXXXXX";
  const base::Fd made(::mkstemp(path));
  REQUIRE(made);
  REQUIRE(base::write_file_atomically(path, machine.text).ok());
  const base::ScopedVariable topo("COLLCTL_TOPO_FILE", path);
  const std::string nvml = format("{}:{}:0:hidden", machine.gpus, machine.devices.sm);
  const base::ScopedVariable there("FAKE_NVML", nvml.c_str());
  const SmallBuffers buffers;
  // From sm 90 on GPUs see what arrives in order, without a flush.
  const Adapters fabric(fake_verbs::Setup{.devices = machine.adapters(), .hold_us = 0});
  REQUIRE(fake_cuda::counts() == fake_cuda::Counts{});
  fake_cuda::set_up({.devices = machine.gpus, .sm = machine.devices.sm});
  fake_verbs::clear_posted();
  runtime::testing::GpuJob job;
  job.ranks = ranks;
  job.device_of = [&](int rank) { return machine.gpus - 1 - rank % machine.gpus; };
  for (int rank = 0; rank < ranks; ++rank) job.hosts.push_back(rank / machine.gpus);
  job.options.start_timeout_s = job.options.op_timeout_s = 180;
  std::mutex mutex;
  std::set<std::string> expected;
  std::string wrong = with_gpu_ranks(job, [&](Communicator& c, Complaints& complaints) {
    Stream stream(c);
    for (const Collective collective : {Collective::all_reduce, Collective::all_to_all}) {
      const std::string bad = run_case(c, stream, {.collective = collective, .count = 70'000});
      if (!bad.empty()) return complaints.add(bad);
    }
    for (const LinkInfo& link : c.links()) {
      if (job.hosts[size_t(link.from)] == job.hosts[size_t(link.to)]) continue;
      const Edge edge{link.channel, link.from, link.to};
      // A relay has the sender's.
      const int end = link.to == c.rank() ? link.to : link.from;
      const std::string nic = nic_of(end, edge, shapes[size_t(end)]).name;
      const int relay = relay_of(end, edge, shapes[size_t(end)]).by;
      if (link.nic != nic || link.relay != relay)
        complaints.add(format("rank {}: channel {} {} -> {}: {} by {}, planned {} by {}", c.rank(),
                              link.channel, link.from, link.to, link.nic, link.relay, nic, relay));
      const std::scoped_lock lock(mutex);
      if (link.from == c.rank()) expected.insert(nic);
    }
  });
  for (const auto& post : fake_verbs::posted()) carried.insert(post.device);
  if (carried != expected) wrong += "other adapters than planned carried data";
  ::unlink(path);
  return wrong;
}

}  // namespace

TEST_CASE("links of real machines are made as planned, and their adapters carry the data",
          "[.][ib][wiring]") {
  int tried = 0;
  for (const std::string& path : data_files()) {
    const std::string file = path.substr(path.rfind('/') + 1);
    if (path != data_path(file)) continue;  // of other makers' GPUs
    const Machine machine(file);
    const Devices& devices = machine.devices;
    // One adapter for all has not the queues that all-to-all of 16 ranks takes.
    if (devices.nets.size() < 2 || !devices.whole || machine.gpus < 2) continue;
    INFO(file);
    std::set<std::string> carried;
    CHECK(try_machine(file, carried) == "");
    CHECK(carried.size() > devices.nets.size() / 2);
    ++tried;
  }
  CHECK(tried >= 4);
}

}  // namespace wiring_tests

#include <unistd.h>

#include <algorithm>

#include "base/host_facts.h"
#include "launcher/remote/probe.h"
#include "tests/catch.h"

namespace remote_probe_tests {

using namespace collctl;
using namespace collctl::launcher;

TEST_CASE("the facts of this host are plausible", "[probe]") {
  const auto gathered = gather_facts("9.9");
  REQUIRE(gathered.ok());
  const HostFacts& facts = *gathered;
  CHECK(facts.host == base::host_name());
  CHECK(facts.version == "9.9");
  CHECK(facts.binary.size() == 64);
  CHECK(facts.system.kernel.find('.') != std::string::npos);
  CHECK(facts.system.libc.find('.') != std::string::npos);
  CHECK(facts.system.machine != "");
  CHECK(facts.cores >= 1);
  CHECK(facts.memory_bytes > 1 << 24);
  CHECK(facts.open_files.soft >= 3);
  CHECK(facts.open_files.hard >= facts.open_files.soft);
  CHECK(facts.locked_memory.hard >= facts.locked_memory.soft);
  if (facts.processes.limit != base::kUnlimited) CHECK(facts.processes.used >= 1);
  if (facts.has_shm) CHECK(facts.shm_bytes >= facts.shm_free_bytes);
  CHECK(facts.clock_ns > 1'600'000'000'000'000'000);
  const auto loopback = std::find_if(facts.interfaces.begin(), facts.interfaces.end(),
                                     [](const auto& i) { return i.loopback; });
  REQUIRE(loopback != facts.interfaces.end());
  CHECK(loopback->mtu > 1000);
  if (loopback->up)
    CHECK(std::any_of(loopback->addresses.begin(), loopback->addresses.end(),
                      [](const auto& a) { return a.text == "127.0.0.1" && a.prefix == 8; }));
}

TEST_CASE("facts travel as JSON", "[probe]") {
  HostFacts facts;
  facts.host = "n\xff\"1";
  facts.version = "1";
  facts.binary = "abc";
  facts.system = {"6.1", "x86_64", "2.36"};
  facts.cores = 8;
  facts.memory_bytes = uint64_t(1) << 40;
  facts.locked_memory = {65536, base::kUnlimited};
  facts.open_files = {1024, 4096};
  facts.processes = {1000, 7};
  facts.has_shm = true;
  facts.shm_bytes = 64 << 20;
  facts.shm_free_bytes = 1;
  facts.cgroup.memory_bytes = 5;
  facts.cgroup.cores = 1.5;
  facts.nvidia = {"550.54", {"H200", "H200"}, 2};
  facts.rdma = {{"mlx5_0", 1, "ACTIVE", "400 Gb/sec", "InfiniBand"}};
  facts.interfaces = {{"eth0", true, false, 9000, 25000, {{"10.0.0.1", 24}, {"fe80::1", 64}}}};
  facts.clock_ns = 1'700'000'000'000'000'001;
  const auto read = facts_from_json(facts_to_json(facts));
  REQUIRE(read.ok());
  CHECK(read->host == "n\xef\xbf\xbd\"1");  // bytes that are no text are replaced
  CHECK(read->system.libc == "2.36");
  CHECK(read->memory_bytes == facts.memory_bytes);
  CHECK(read->locked_memory.soft == 65536);
  CHECK(read->locked_memory.hard == base::kUnlimited);
  CHECK(read->processes.limit == 1000);
  CHECK(read->processes.used == 7);
  CHECK(read->has_shm);
  CHECK(read->shm_free_bytes == 1);
  CHECK(read->cgroup.memory_bytes == 5u);
  CHECK(read->cgroup.cores == 1.5);
  CHECK_FALSE(read->cgroup.pids);
  CHECK(read->nvidia.gpus.size() == 2);
  CHECK(read->nvidia.on_pci == 2);
  CHECK(read->rdma[0].state == "ACTIVE");
  CHECK(read->interfaces[0].speed_mbps == 25000);
  CHECK(read->interfaces[0].addresses[1].prefix == 64);
  CHECK(read->clock_ns == facts.clock_ns);
  facts.has_shm = false;
  facts.processes = {};
  CHECK(facts_from_json(facts_to_json(facts))->processes.limit == base::kUnlimited);
  CHECK_FALSE(facts_from_json(facts_to_json(facts))->has_shm);
}

}  // namespace remote_probe_tests

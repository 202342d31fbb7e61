// Processors from a made-up sysfs: a map from path to text.
#include <map>

#include "base/format.h"
#include "base/processors.h"
#include "tests/catch.h"

namespace collctl::base::processors_tests {
namespace {

struct Machine {
  std::map<std::string, std::string> files;
  FileRead read() const {
    return [this](const std::string& path) -> std::optional<std::string> {
      const auto found = files.find(path);
      if (found == files.end()) return std::nullopt;
      return found->second;
    };
  }
  void processor(int id, int package, const std::string& threads, const std::string& cache) {
    const std::string at = format("sys/devices/system/cpu/cpu{}/", id);
    files[at + "topology/physical_package_id"] = format("{}\n", package);
    files[at + "topology/thread_siblings_list"] = threads;
    files[at + "cache/index0/level"] = "1\n";
    files[at + "cache/index0/shared_cpu_list"] = threads;
    files[at + "cache/index1/level"] = "3\n";
    files[at + "cache/index1/shared_cpu_list"] = cache;
    files[at + "cache/index1/size"] = "16384K\n";
  }
};

}  // namespace

TEST_CASE("a server of two sockets with hyper-threads is read") {
  Machine m;
  m.files["sys/devices/system/cpu/online"] = "0-7\n";
  m.files["sys/devices/system/node/online"] = "0,2\n";
  m.files["sys/devices/system/node/node0/cpulist"] = "0-1,4-5\n";
  m.files["sys/devices/system/node/node0/distance"] = "10 21\n";
  m.files["sys/devices/system/node/node0/meminfo"] =
      "Node 0 MemTotal:    1024 kB\nNode 0 MemFree: 1 kB\n";
  m.files["sys/devices/system/node/node0/access0/initiators/read_bandwidth"] = "204800\n";
  m.files["sys/devices/system/node/node2/cpulist"] = "2-3,6-7\n";
  m.files["sys/devices/system/node/node2/distance"] = "21 10\n";
  for (int id = 0; id < 8; ++id)
    m.processor(id, id % 4 / 2, format("{},{}\n", id % 4, id % 4 + 4),
                id % 4 < 2 ? "0-1,4-5\n" : "2-3,6-7\n");
  m.files["proc/cpuinfo"] =
      "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n"
      "model name\t: Intel(R) Xeon(R) Platinum 8480C\n";
  const Processors p = read_processors(m.read());
  REQUIRE(p.online.size() == 8);
  CHECK(p.packages == 2);
  CHECK(p.cores == 4);
  CHECK(p.cache_bytes == size_t{16} << 20);
  REQUIRE(p.find(6) != nullptr);
  CHECK(p.find(6)->core == 2);
  CHECK(p.find(6)->numa == 1);
  CHECK(p.find(6)->package == 1);
  CHECK(p.find(6)->cache_domain == 2);
  CHECK(p.find(8) == nullptr);
  REQUIRE(p.nodes.size() == 2);
  CHECK(p.nodes[1].id == 2);
  CHECK(p.nodes[0].distances == std::vector<int>{10, 21});
  CHECK(p.nodes[0].memory_bytes == 1 << 20);
  CHECK(p.nodes[0].memory_gbps == 204.8);
  CHECK(p.nodes[1].memory_gbps == 0);
  CHECK(p.model.vendor == "GenuineIntel");
  CHECK(p.model.family == 6);
  CHECK(p.model.model == 143);
  CHECK(p.model.name == "Intel(R) Xeon(R) Platinum 8480C");
}

TEST_CASE("a machine that shows little is read as far as it goes") {
  Machine m;
  CHECK(read_processors(m.read()).online.empty());
  CHECK(read_processors(m.read()).nodes.size() == 1);
  m.files["sys/devices/system/cpu/online"] = "0,3";
  m.files["proc/cpuinfo"] = "CPU implementer\t: 0x41\nCPU part\t: 0xd4f\n";
  const Processors p = read_processors(m.read());
  REQUIRE(p.online.size() == 2);
  CHECK(p.nodes[0].processors == std::vector<int>{0, 3});
  CHECK(p.find(3)->core == 3);
  CHECK(p.find(3)->cache_domain == 3);
  CHECK(p.cores == 2);
  CHECK(p.model.vendor == "ARM");
  CHECK(p.model.model == 0xd4f);
}

TEST_CASE("nonsense in place of numbers is bounded") {
  CHECK(parse_number_list("0-99999999999").size() == size_t(kMaxProcessors));
  CHECK(parse_number_list("x").empty());
  CHECK(parse_number_list("3-1,2").size() == 1);
  CHECK(parse_number_list("1,1,0") == std::vector<int>{0, 1});
  Machine m;
  m.files["sys/devices/system/cpu/online"] = "1";
  m.files["sys/devices/system/cpu/cpu1/topology/physical_package_id"] = "-1";
  m.files["sys/devices/system/cpu/cpu1/cache/index0/level"] = "999999999999999999999";
  CHECK(read_processors(m.read()).find(1)->package == 0);
}

}  // namespace collctl::base::processors_tests

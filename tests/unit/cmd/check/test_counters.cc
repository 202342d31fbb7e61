// Counters of GPUs by a stand-in NVML, and what their growth during a check is held for.
#include "cmd/check/counters.h"

#include <stdlib.h>

#include <algorithm>

#include "base/clock.h"
#include "tests/catch.h"
#include "tests/fake_drivers/nvml_control.h"

namespace check_counters_tests {

using namespace collctl;
using namespace collctl::cmd;
using base::CounterOf;
using base::DeviceCounters;

namespace {

class Gpus {
 public:
  explicit Gpus(const char* world) { ::setenv("FAKE_NVML", world, 1); }
  ~Gpus() { ::unsetenv("FAKE_NVML"); }
};

DeviceCounters gpus_now() {
  DeviceCounters read;
  base::read_gpu_counters(read);
  return read;
}

const Finding* find(const std::vector<Finding>& all, const std::string& name) {
  const auto at = std::find_if(all.begin(), all.end(),
                               [&](const Finding& finding) { return finding.name == name; });
  return at == all.end() ? nullptr : &*at;
}

}  // namespace

TEST_CASE("What grew on GPUs is a finding with the GPU's name", "[check][counters]") {
  const Gpus gpus("2:80:4:switch");
  fake_nvml::set_counter(1, "ecc_uncorrected", 5);
  fake_nvml::set_counter(1, "pcie_replays", 9);  // years old
  const DeviceCounters before = gpus_now();
  CHECK(before.looked_at == 2 * (3 + 4 + 4 * 4 + 1 + 4));
  CHECK(find(counter_findings({HostId{0}, "node03"}, before, gpus_now()),
             "counters/pcie_replays") == nullptr);

  fake_nvml::set_counter(1, "ecc_uncorrected", 7);
  fake_nvml::set_counter(0, "nvlink 3 replay", 11);
  fake_nvml::set_counter(0, "pcie_replays", 2);
  fake_nvml::set_counter(1, "throttled_thermal_ns", 250'000'000);
  fake_nvml::set_counter(1, "throttled_power_ns", 999);  // below what is told
  const auto found = counter_findings({HostId{0}, "node03"}, before, gpus_now());
  const Finding* ecc = find(found, "counters/ecc_uncorrected");
  REQUIRE(ecc != nullptr);
  CHECK(ecc->status == FindingStatus::fail);
  CHECK(ecc->at.kind == SubjectKind::gpu);
  CHECK(ecc->at.host.name == "node03");
  CHECK(ecc->at.device == "0000:11:00.0");
  CHECK(ecc->measured == "2");
  CHECK_FALSE(ecc->remedy.empty());
  const Finding* link = find(found, "counters/nvlink_replay 3");
  REQUIRE(link != nullptr);
  CHECK(link->at.device == "0000:10:00.0");
  CHECK(link->status == FindingStatus::fail);
  const Finding* heat = find(found, "counters/throttled_thermal_ns");
  REQUIRE(heat != nullptr);
  CHECK(heat->message.find("250 ms") != std::string::npos);
  const Finding* pcie = find(found, "counters/pcie_replays");
  REQUIRE(pcie != nullptr);
  CHECK(pcie->status == FindingStatus::warn);
  CHECK(find(found, "counters/throttled_power_ns") == nullptr);
  CHECK(find(found, "counters/read") != nullptr);
  for (const char* name : {"nvlink 3 replay", "pcie_replays"}) fake_nvml::set_counter(0, name, 0);
  for (const char* name :
       {"ecc_uncorrected", "pcie_replays", "throttled_thermal_ns", "throttled_power_ns"})
    fake_nvml::set_counter(1, name, 0);
}

TEST_CASE("What was bad before the check is no pass", "[check][counters]") {
  struct Case {
    const char* counter;
    FindingStatus status;
  };
  const Case cases[] = {{"rows_remap_pending", FindingStatus::fail},
                        {"rows_remap_failed", FindingStatus::fail},
                        {"ecc_uncorrected", FindingStatus::fail},
                        {"lifetime_ecc_uncorrected", FindingStatus::warn},
                        {"rows_remapped_corrected", FindingStatus::pass},
                        {"ecc_corrected", FindingStatus::pass}};
  for (const Case& each : cases) {
    INFO(each.counter);
    const Gpus gpus("2:80:4:switch");
    fake_nvml::set_counter(1, each.counter, 3);
    const DeviceCounters now = gpus_now();
    const auto found = counter_findings({HostId{0}, "node03"}, now, now);
    fake_nvml::set_counter(1, each.counter, 0);
    const Finding* one = find(found, std::string("counters/") + each.counter);
    CHECK((one == nullptr ? FindingStatus::pass : one->status) == each.status);
    if (one == nullptr) continue;
    CHECK(one->at.kind == SubjectKind::gpu);
    CHECK(one->at.host.name == "node03");
    CHECK(one->at.device == "0000:11:00.0");
    CHECK(one->measured == "3");
    CHECK(one->message.starts_with("node03: 0000:11:00.0: "));
    CHECK_FALSE(one->remedy.empty());
  }
}

TEST_CASE("Xids of this boot: those of the GPU fail, those of programs are told",
          "[check][counters]") {
  const auto of = [](const char* name) {
    DeviceCounters now;
    now.counters = {{CounterOf::gpu, "0000:10:00.0", name, 1}};
    const auto found = counter_findings({HostId{0}, "a"}, {}, now);
    const Finding* one = find(found, std::string("counters/") + name);
    REQUIRE(one != nullptr);
    return one->status;
  };
  for (const char* fatal :
       {"earlier_xid 48", "earlier_xid 64", "earlier_xid 74", "earlier_xid 79", "earlier_xid 95",
        "earlier_xid 119", "earlier_xid 136", "earlier_xid 143", "earlier_xid 149",
        "earlier_xid 154", "earlier_xid 154 Node Reboot Required", "earlier_xid 158",
        "earlier_xid 171"})
    CHECK(of(fatal) == FindingStatus::fail);
  // A row that serves again, corrected errors, a link that goes on, a recovery that was done.
  for (const char* harmless : {"earlier_xid 63", "earlier_xid 94", "earlier_xid 121",
                               "earlier_xid 149 nonfatal", "earlier_xid 154 None"})
    CHECK(of(harmless) == FindingStatus::warn);
  for (const char* programs :
       {"earlier_xid 13", "earlier_xid 31", "earlier_xid 4", "earlier_xid 790"})
    CHECK(of(programs) == FindingStatus::warn);
  CHECK(of("xid 13") == FindingStatus::fail);  // during the check no program but ours ran
  CHECK(of("xid 107") == FindingStatus::warn);
}

TEST_CASE("GPUs that do not count by NVLink count all together", "[check][counters]") {
  const Gpus gpus("1:90:18:switch");
  const DeviceCounters before = gpus_now();
  fake_nvml::set_counter(0, "nvlinks crc_flit", uint64_t{1} << 40);
  const auto found = counter_findings({HostId{0}, "a"}, before, gpus_now());
  const Finding* crc = find(found, "counters/nvlink_crc_flit");
  REQUIRE(crc != nullptr);
  CHECK(crc->measured == "1099511627776");
  CHECK(crc->status == FindingStatus::warn);
  fake_nvml::set_counter(0, "nvlinks crc_flit", 0);
}

TEST_CASE("errors of NVLink 5 and of the link to the CPU", "[check][counters]") {
  const Gpus gpus("1:100:18:switch");
  const char* fields[] = {"field 206", "field 221", "field 231"};
  for (const char* field : fields) fake_nvml::set_counter(0, field, 1);
  const DeviceCounters before = gpus_now();
  for (const char* field : fields) fake_nvml::set_counter(0, field, uint64_t{1} << 33);
  const auto found = counter_findings({HostId{0}, "a"}, before, gpus_now());
  fake_nvml::clear_counters();
  const Finding* malformed = find(found, "counters/nvlink_malformed");
  REQUIRE(malformed != nullptr);
  CHECK(malformed->status == FindingStatus::fail);
  CHECK(malformed->measured == "8589934591");
  const Finding* symbols = find(found, "counters/nvlink_symbol_errors");
  REQUIRE(symbols != nullptr);
  CHECK(symbols->status == FindingStatus::warn);
  const Finding* c2c = find(found, "counters/c2c_errors 0");  // the first of five
  REQUIRE(c2c != nullptr);
  CHECK(c2c->status == FindingStatus::warn);
  CHECK(c2c->message.find("5 counters") != std::string::npos);
}

TEST_CASE("the state of devices after the check, as far as nobody has told it",
          "[check][counters]") {
  const Host host{HostId{0}, "n1"};
  base::HostState state;
  base::DeviceState& gpu = state.devices.emplace_back();
  gpu.kind = CounterOf::gpu;
  gpu.device = "0000:10:00.0";
  gpu.model = "NVIDIA H200";
  gpu.add("nvlinks", "18");
  gpu.add("nvlinks_active", "16");
  state.counters.counters = {{CounterOf::gpu, "0000:10:00.0", "earlier_xid 74", 1},
                             {CounterOf::gpu, "0000:10:00.0", "rows_remap_pending", 1},
                             {CounterOf::gpu, "0000:10:00.0", "earlier_xid 48", 1}};
  HostCounters read;
  read.state.state = state;
  const std::map<Host, HostCounters> after{{host, read}};
  const auto names = [&](const std::vector<Finding>& told) {
    std::vector<std::string> list;
    for (const Finding& finding : later_states(after, told)) list.push_back(finding.name);
    return list;
  };
  using List = std::vector<std::string>;
  CHECK(names({}) == List{"counters/state/nvlinks_active", "counters/state/earlier_xid 74",
                          "counters/state/rows_remap_pending", "counters/state/earlier_xid 48"});
  Finding known{.at = {.kind = SubjectKind::gpu, .host = host, .device = "0000:10:00.0"}};
  std::vector<Finding> told;
  for (const char* name :
       {"doctor/state/earlier_xid 48", "counters/rows_remap_pending", "counters/xid 74"}) {
    known.name = name;
    told.push_back(known);
  }
  CHECK(names(told) == List{"counters/state/nvlinks_active"});
  for (Finding& finding : told) finding.at.device = "0000:11:00.0";  // another's
  CHECK(names(told).size() == 4);
  read.state = {.state = std::nullopt, .missing = "no answer"};
  const auto missing = later_states({{host, read}}, {});
  REQUIRE(missing.size() == 1);
  CHECK(missing[0].status == FindingStatus::not_tested);
}

TEST_CASE("What many links of a GPU repeat is one line, with the worst of them",
          "[check][counters]") {
  DeviceCounters before, after;
  for (int link = 0; link < 18; ++link)
    after.counters.push_back({CounterOf::gpu, "0000:10:00.0",
                              "nvlink_crc_data " + std::to_string(link),
                              uint64_t(link == 7 ? 200 : 10)});
  const auto found = counter_findings({HostId{0}, "a"}, before, after);
  const auto told = std::count_if(found.begin(), found.end(), [](const Finding& finding) {
    return finding.status == FindingStatus::warn && finding.at.kind == SubjectKind::gpu;
  });
  CHECK(told == 1);
  const Finding* crc = find(found, "counters/nvlink_crc_data 0");
  REQUIRE(crc != nullptr);
  CHECK(crc->measured == "370");
  CHECK(crc->message.ends_with("(18 counters: 370 more; most: nvlink_crc_data 7, 200 more)"));
}

TEST_CASE("Ports, interfaces, PCI devices, retransmissions", "[check][counters]") {
  DeviceCounters before, after;
  const auto count = [&](CounterOf kind, const char* device, const char* name, uint64_t was,
                         uint64_t is) {
    if (was > 0) before.counters.push_back({kind, device, name, was});
    after.counters.push_back({kind, device, name, is});
  };
  count(CounterOf::nic, "mlx5_2 port 1", "symbol_error", 10, 14);
  count(CounterOf::nic, "mlx5_2 port 1", "out_of_sequence", 0, 3);
  count(CounterOf::nic, "eth0", "rx_crc_errors", 0, 1);
  count(CounterOf::nic, "eth1", "rx_dropped", 50, 90);  // 40: nothing to tell
  count(CounterOf::nic, "eth2", "tx_errors", 100, 4);   // the driver was loaded again
  count(CounterOf::nic, "eth3", "fec_corrected", 5, uint64_t{1} << 50);  // as it should
  count(CounterOf::nic, "eth3", "fec_uncorrected", 5, 6);
  count(CounterOf::nic, "eth3", "phy_symbol_errors", 0, 1);
  count(CounterOf::pci, "0000:3b:00.0", "aer_correctable BadTLP", 1, 2);
  count(CounterOf::pci, "0000:3b:00.0", "aer_nonfatal Timeout", 0, 2);
  count(CounterOf::host, "tcp", "OutSegs", 1000, 11000);
  count(CounterOf::host, "tcp", "RetransSegs", 5, 505);
  const auto found = counter_findings({HostId{0}, "n1"}, before, after);
  const auto status = [&](const char* name) {
    const Finding* finding = find(found, name);
    return finding == nullptr ? FindingStatus::pass : finding->status;
  };
  CHECK(status("counters/symbol_error") == FindingStatus::fail);
  CHECK(find(found, "counters/symbol_error")->at.device == "mlx5_2 port 1");
  CHECK(status("counters/out_of_sequence") == FindingStatus::warn);
  CHECK(status("counters/rx_crc_errors") == FindingStatus::fail);
  CHECK(status("counters/fec_uncorrected") == FindingStatus::fail);
  CHECK(status("counters/phy_symbol_errors") == FindingStatus::fail);
  CHECK(find(found, "counters/fec_corrected") == nullptr);
  CHECK(find(found, "counters/rx_dropped") == nullptr);
  CHECK(find(found, "counters/tx_errors") == nullptr);
  CHECK(status("counters/aer_correctable BadTLP") == FindingStatus::warn);
  CHECK(status("counters/aer_nonfatal Timeout") == FindingStatus::fail);
  REQUIRE(find(found, "counters/RetransSegs") != nullptr);
  CHECK(find(found, "counters/RetransSegs")->measured == "5");
  CHECK(found.size() == 9);

  // One in two hundred segments: a network that is used.
  after.counters.back().value = 55;
  CHECK(find(counter_findings({HostId{0}, "n1"}, before, after), "counters/RetransSegs") ==
        nullptr);
}

TEST_CASE("The agent's answer and its argument", "[check][counters]") {
  const auto answer = counters_answer("");
  REQUIRE(answer.ok());
  const auto read = record_of<DeviceCounters>(*answer);
  REQUIRE(read.ok());
  CHECK(read->looked_at > 0);
  CHECK_FALSE(counters_answer("12x").ok());
}

}  // namespace check_counters_tests

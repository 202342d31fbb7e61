// Recordings of machines, replayed: nothing is said of healthy ones, and every fault by its name.
#include "cmd/doctor/state.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "base/format.h"
#include "base/whole_file.h"
#include "cmd/doctor/doctor.h"
#include "cmd/doctor/state_rules.h"
#include "tests/catch.h"
#include "tests/places.h"
#include "tests/unit/base/root_folder.h"
#include "tests/unit/cmd/doctor/doctor_hosts.h"

namespace doctor_state_tests {

using namespace doctor_tests;
using base::CounterOf;
using base::DeviceState;
using base::HostState;

namespace {

StateRecording recorded(const std::string& name) {
  const auto text = base::read_file(
      format("{}/tests/unit/cmd/doctor/recorded/{}.json", collctl::test::source_folder(), name),
      1 << 20);
  REQUIRE(text.ok());
  auto recording = read_recording(*text);
  INFO(name << ": " << (recording ? "" : recording.error().chain()));
  REQUIRE(recording.ok());
  return std::move(*recording);
}

const std::vector<std::string> kMachines{"hgx-h100", "dgx-a100", "vm-h200",   "two-h200", "l40s",
                                         "rtx4090",  "gb200",    "container", "cpu"};

std::vector<Finding> judged(const std::vector<HostState>& states) {
  std::vector<StateOfHost> hosts;
  for (size_t i = 0; i < states.size(); ++i)
    hosts.push_back({{HostId(i), format("node{}", i + 1)}, &states[i]});
  return state_findings(hosts);
}

std::vector<Finding> bad(const std::vector<HostState>& states) {
  std::vector<Finding> found = judged(states);
  std::erase_if(found, [](const Finding& f) { return f.status == FindingStatus::pass; });
  return found;
}

DeviceState& device(HostState& state, const std::string& name) {
  for (DeviceState& each : state.devices)
    if (each.device == name) return each;
  FAIL("no device " << name);
  return state.devices.front();
}

void set(HostState& state, const std::string& name, const char* fact, const char* value) {
  DeviceState& at = device(state, name);
  for (base::StateFact& known : at.facts)
    if (known.name == fact) {
      known.value = value;
      return;
    }
  at.add(fact, value);
}

}  // namespace

TEST_CASE("nothing is said of healthy machines", "[doctor][state]") {
  std::vector<HostState> all;
  for (const std::string& name : kMachines) {
    INFO(name);
    const StateRecording recording = recorded(name);
    CHECK(recording.source.starts_with(name == "two-h200" ? "recorded" : "composed"));
    // Alone, and as one of three.
    for (const std::vector<HostState>& hosts :
         {std::vector{recording.state}, std::vector(3, recording.state)})
      for (const Finding& finding : bad(hosts)) {
        // A container says that it cannot see the kernel's log.
        INFO(finding.message);
        CHECK(name == "container");
        CHECK(finding.name == "state");
        CHECK(finding.status == FindingStatus::warn);
        CHECK(finding.message.find("could not be read: Xids") != std::string::npos);
      }
    for (const Finding& finding : judged({recording.state}))
      if (finding.name == "state") CHECK(finding.n > 60);
    all.push_back(recording.state);
  }
  for (const Finding& finding : bad(all)) {
    INFO(finding.message);
    // In one list they start their kernels with different words; no device is unlike its peers.
    CHECK(finding.status == FindingStatus::warn);
    CHECK(finding.at.kind == SubjectKind::host);
  }
}

TEST_CASE("every fact that is wrong is named with its device and a remedy", "[doctor][state]") {
  struct Fault {
    const char *machine, *device, *fact, *value;
    FindingStatus status;
    std::string expected;
    const char *too = nullptr, *too_value = "";  // another fact that goes with it
  };
  constexpr auto fail = FindingStatus::fail, told = FindingStatus::warn;
  const char *gpu = "0000:43:00.0", *ib = "mlx5_3 port 1";
  const std::vector<Fault> faults{
      {"hgx-h100", gpu, "answer", "GPU is lost", fail, "an answer"},
      {"hgx-h100", gpu, "recovery_action", "1", fail, "0"},
      {"hgx-h100", gpu, "ecc_pending", "off", fail, "on"},
      {"hgx-h100", gpu, "mig_pending", "on", fail, "off"},
      {"hgx-h100", gpu, "pages_pending", "on", fail, "off"},
      {"hgx-h100", gpu, "nvlinks_active", "17", fail, "18"},
      {"dgx-a100", "0000:4e:00.0", "nvlinks_active", "11", fail, "12"},
      {"hgx-h100", gpu, "nvlinks_active", "0", fail, "18"},
      {"hgx-h100", gpu, "nvlink_MBps", "20000", fail, "26562"},
      {"hgx-h100", gpu, "fabric", "in progress", fail, "completed"},
      {"hgx-h100", gpu, "fabric", "not started", fail, "completed"},
      {"gb200", "0009:01:00.0", "fabric_status", "Unknown Error", fail, "ok"},
      {"gb200", "0009:01:00.0", "fabric_health", "169", fail,
       "no degraded bandwidth, broken route or wrong configuration"},
      {"gb200", "0009:01:00.0", "fabric_health", "154", fail,
       "no degraded bandwidth, broken route or wrong configuration"},
      {"gb200", "0009:01:00.0", "fabric_health", "682", fail,
       "no degraded bandwidth, broken route or wrong configuration"},
      {"gb200", "0009:01:00.0", "fabric_health", "166", told, "no recovery that goes on"},
      {"gb200", "0009:01:00.0", "fabric_health", "106", told, "no recovery that goes on"},
      {"gb200", "0009:01:00.0", "fabric_clique", "5", told, "32766"},
      {"hgx-h100", gpu, "pcie_width", "8", fail, "16"},
      {"l40s", "0000:98:00.0", "pcie_width", "4", fail, "16"},
      {"hgx-h100", gpu, "process", "4242 python3 71000 MiB", told, "none"},
      {"hgx-h100", gpu, "process", "4242 ?", told, "none"},
      {"hgx-h100", gpu, "persistence", "off", told, "on"},
      {"hgx-h100", gpu, "display", "on", told, "off"},
      {"hgx-h100", gpu, "power_limit_mW", "500000", told, "700000"},
      {"hgx-h100", gpu, "power_limit_mW", "750000", told, "700000"},
      {"hgx-h100", gpu, "clock_MHz", "1410", told, "1980"},
      {"hgx-h100", gpu, "clock_MHz", "2010", told, "1980"},
      {"hgx-h100", gpu, "vbios", "96.00.74.00.01", told, "96.00.89.00.01"},
      {"hgx-h100", gpu, "ecc", "off", fail, "on", "ecc_pending", "off"},
      {"hgx-h100", gpu, "mig", "on", fail, "off", "mig_pending", "on"},
      {"hgx-h100", gpu, "pcie_GTps_most", "16", told, "32"},
      {"hgx-h100", gpu, "pcie_width_most", "8", told, "16", "pcie_width", "8"},
      {"hgx-h100", ib, "pcie_width", "8", fail, "16"},
      {"hgx-h100", ib, "pcie_GTps", "16", fail, "32"},
      {"hgx-h100", ib, "rate_Mbps", "800000", told, "at most 503808"},
      {"hgx-h100", ib, "pkeys", "0x8001 0xffff", told, "0xffff"},
      {"l40s", "mlx5_1 port 1", "gid_types", "IB/RoCE v1", told, "IB/RoCE v1, RoCE v2"},
      {"hgx-h100", ib, "pkeys_full", "0", told, "1 or more"},
      {"hgx-h100", ib, "firmware", "28.35.1012", told, "28.39.3560"},
      {"hgx-h100", "ens6f0np0", "pcie_GTps_most", "8", told, "16"},
      {"hgx-h100", "ens6f0np0", "pcie_width_most", "8", told, "16"},
      {"l40s", "ens3f0np0", "module_uW", "12.5", told, "at least 39.8"},
      {"l40s", "ens3f0np0", "module_tx_uW", "100.9", told, "at least 101.2"},
      {"l40s", "ens3f0np0", "module_vendor", "OTHER", told, "ACME"},
      {"l40s", "ens3f0np0", "module_part", "Q56-200G-FR4", told, "Q56-200G-SR4"},
      {"l40s", "ens3f0np0", "module_C", "76.0", told, "below 75.0"},
      {"l40s", "ens3f0np0", "pfc", "00000000", told, "00010000"},
      {"l40s", "ens3f0np0", "dscp", "26:4", told, "26:3"},
      {"l40s", "ens3f0np0", "ecn_np", "00000000", told, "11111111"},
      {"l40s", "ens3f0np0", "ecn_rp", "00000000", told, "11111111"},
      {"hgx-h100", "host", "governor", "powersave", told, "performance"},
      {"hgx-h100", "host", "iommu", "intel_iommu=on", told, "iommu=pt"},
      {"hgx-h100", "host", "hugepages_MiB", "1500000", told, "at most 1031898"},
      {"hgx-h100", "host", "hugepages_MiB", "1024", told, "0"},
      {"gb200", "host", "imex_channels", "0", told, "1 or more"},
      {"hgx-h100", "host", "tmp_free_MiB", "12", told, "256"},
  };
  std::set<std::string> seen;
  for (const Fault& fault : faults) {
    INFO(fault.machine << " " << fault.device << ": " << fault.fact << " " << fault.value);
    std::vector<HostState> hosts(3, recorded(fault.machine).state);
    set(hosts[1], fault.device, fault.fact, fault.value);
    if (fault.too != nullptr) set(hosts[1], fault.device, fault.too, fault.too_value);
    const auto found = bad(hosts);
    for (const Finding& finding : found) UNSCOPED_INFO(finding.message);
    REQUIRE(found.size() == 1);
    const Finding& one = found.front();
    CHECK(one.name == format("state/{}", fault.fact));
    CHECK(one.status == fault.status);
    CHECK(one.at.host.name == "node2");
    CHECK(one.at.device == (std::string(fault.device) == "host" ? "" : fault.device));
    CHECK(one.measured == fault.value);
    CHECK(one.expected == fault.expected);
    CHECK(one.message.starts_with("node2: "));
    CHECK(one.message.find(fault.value) != std::string::npos);
    CHECK_FALSE(one.remedy.empty());
    seen.insert(
        format("{} {}", counter_kind_word(device(hosts[1], fault.device).kind), fault.fact));
  }
  for (const std::string& fact : judged_facts()) {
    INFO(fact);
    CHECK(seen.contains(fact));
  }
}

TEST_CASE("counters that are bad at any age are judged for a job's devices alone",
          "[doctor][state]") {
  struct Fault {
    CounterOf kind;
    const char *device, *name;
    uint64_t value;
    FindingStatus status;
  };
  constexpr auto fail = FindingStatus::fail, told = FindingStatus::warn, pass = FindingStatus::pass;
  for (const Fault& fault : std::vector<Fault>{
           {CounterOf::gpu, "0000:52:00.0", "rows_remap_failed", 1, fail},
           {CounterOf::gpu, "0000:52:00.0", "rows_remap_pending", 1, fail},
           {CounterOf::gpu, "0000:52:00.0", "ecc_uncorrected", 1, fail},
           {CounterOf::gpu, "0000:52:00.0", "lifetime_ecc_uncorrected", 1, told},
           {CounterOf::gpu, "0000:52:00.0", "earlier_xid 79", 1, fail},
           {CounterOf::gpu, "0000:52:00.0", "earlier_xid 13", 4, told},
           {CounterOf::gpu, "0000:52:00.0", "ecc_corrected", 90, pass},
           {CounterOf::pci, "0000:52:00.0", "aer_nonfatal CmpltTO", 1, fail},
           {CounterOf::pci, "0000:52:00.0", "aer_fatal DLP", 2, fail},
           {CounterOf::pci, "0000:51:01.0", "aer_fatal SDES", 1, fail},  // a bridge above
           {CounterOf::pci, "0000:52:00.0", "aer_nonfatal UnsupReq", 7, pass},
           {CounterOf::pci, "0000:e8:00.0", "aer_fatal DLP", 2, pass},  // a disk's
           {CounterOf::nic, "mlx5_4 port 1", "link_downed", 61, told},
           {CounterOf::nic, "mlx5_4 port 1", "link_downed", 59, pass},  // in 30 days
           {CounterOf::nic, "mlx5_4 port 1", "symbol_error", 7201, told},
           {CounterOf::nic, "mlx5_4 port 1", "link_error_recovery", 100, told},
           {CounterOf::nic, "ens6f0np0", "fec_uncorrected", 7201, told},
           {CounterOf::nic, "ens6f0np0", "fec_uncorrected", 7199, pass},
           {CounterOf::nic, "ens6f0np0", "fec_corrected", uint64_t{1} << 50, pass},
           {CounterOf::nic, "ens6f0np0", "phy_symbol_errors", 7201, told},
           {CounterOf::nic, "ens6f0np0", "carrier_down_count", 4000, told},
           {CounterOf::nic, "eno2", "carrier_down_count", 4000, pass}}) {
    INFO(fault.device << " " << fault.name << " " << fault.value);
    HostState state = recorded("hgx-h100").state;
    state.counters.counters.push_back({fault.kind, fault.device, fault.name, fault.value});
    const auto found = bad({state});
    if (fault.status == pass) {
      CHECK(found.empty());
      continue;
    }
    REQUIRE(found.size() == 1);
    CHECK(found[0].name == format("state/{}", fault.name));
    CHECK(found[0].status == fault.status);
    CHECK(found[0].at.device == fault.device);
    CHECK(found[0].message.find(fault.device) != std::string::npos);
    CHECK_FALSE(found[0].remedy.empty());
    // Without the time that the host is up a rate is not known.
    state.uptime_s = 0;
    CHECK(bad({state}).size() == (fault.kind == CounterOf::nic ? 0 : 1));
  }
}

TEST_CASE("values that only look wrong accuse nobody", "[doctor][state]") {
  const auto quiet = [](const char* machine, auto change) {
    HostState state = recorded(machine).state;
    change(state);
    const auto found = bad({state});
    for (const Finding& finding : found) UNSCOPED_INFO(finding.message);
    return found.empty();
  };
  // One GPU of eight, given to a virtual machine without its fabric.
  CHECK(quiet("vm-h200", [](HostState& state) {
    std::erase_if(state.devices, [](const DeviceState& each) {
      return each.kind == CounterOf::gpu && each.device != "0000:0a:00.0";
    });
    set(state, "0000:0a:00.0", "fabric", "in progress");
    set(state, "0000:0a:00.0", "nvlinks_active", "0");
  }));
  // Two boards on one bridge of three.
  CHECK(quiet("l40s", [](HostState& state) {
    for (const char* gpu : {"0000:17:00.0", "0000:65:00.0", "0000:98:00.0", "0000:ca:00.0"}) {
      device(state, gpu).model = "NVIDIA A100 80GB PCIe";
      set(state, gpu, "nvlinks", "12");
      set(state, gpu, "nvlinks_active", "4");
    }
  }));
  CHECK(quiet("hgx-h100", [](HostState& state) {
    set(state, "0000:1b:00.0", "process", "2011 nvidia-cuda-mps 30 MiB");
  }));
  // A slow port on half of its lanes loses nothing.
  for (const char* fact : {"pcie_width", "pcie_GTps"})
    CHECK(quiet("hgx-h100", [&](HostState& state) { set(state, "ens6f0np0", fact, "8"); }));
  // How fast it could be is not known.
  CHECK(
      quiet("vm-h200", [](HostState& state) { set(state, "mlx5_0 port 1", "pcie_GTps", "2.5"); }));
  CHECK(quiet("hgx-h100", [](HostState& state) {
    set(state, "mlx5_7 port 1", "state", "DOWN");
    set(state, "mlx5_7 port 1", "pkeys_full", "0");
  }));
}

TEST_CASE("a link with too few lanes that is also too slow: one finding of each",
          "[doctor][state]") {
  HostState state = recorded("hgx-h100").state;
  set(state, "mlx5_3 port 1", "pcie_width", "8");
  set(state, "mlx5_3 port 1", "pcie_GTps", "16");
  const auto found = bad({state});
  REQUIRE(found.size() == 2);
  CHECK(found[0].name == "state/pcie_width");
  CHECK(found[1].name == "state/pcie_GTps");
}

TEST_CASE("boards of which all NVLinks are connected, alone", "[doctor][state]") {
  for (const auto& [model, links] : {std::pair("NVIDIA A100-SXM4-40GB", "11"),
                                     {"NVIDIA A100-SXM4-80GB", "11"},
                                     {"NVIDIA H100 80GB HBM3", "17"},
                                     {"NVIDIA H200", "17"},
                                     {"NVIDIA H20", "17"},
                                     {"NVIDIA B200", "17"},
                                     {"NVIDIA GB200", "17"},
                                     {"NVIDIA GB300", "17"},
                                     {"NVIDIA B300 SXM6 AC", "17"}}) {
    INFO(model);
    HostState state = recorded("two-h200").state;
    for (DeviceState& each : state.devices) {
      if (each.kind != CounterOf::gpu) continue;
      each.model = model;
      set(state, each.device, "nvlinks_active", links);
    }
    const auto found = bad({state});
    REQUIRE(found.size() == 2);
    for (const Finding& finding : found) {
      CHECK(finding.name == "state/nvlinks_active");
      CHECK(finding.status == FindingStatus::fail);
    }
  }
}

TEST_CASE("a GPU that is divided is told for that, and not for its NVLinks", "[doctor][state]") {
  const auto divide = [](HostState& state, const DeviceState& gpu) {
    for (const auto& [fact, value] :
         {std::pair("mig", "on"), {"mig_pending", "on"}, {"nvlinks_active", "0"}})
      set(state, gpu.device, fact, value);
  };
  std::vector<HostState> hosts(3, recorded("hgx-h100").state);
  divide(hosts[1], device(hosts[1], "0000:43:00.0"));
  const auto found = bad(hosts);
  REQUIRE(found.size() == 1);
  CHECK(found[0].name == "state/mig");
  CHECK(found[0].status == FindingStatus::fail);
  // Divided all for several users.
  for (HostState& host : hosts)
    for (const DeviceState& each : host.devices)
      if (each.kind == CounterOf::gpu) divide(host, each);
  const auto all = bad(hosts);
  CHECK(all.size() == 24);
  for (const Finding& finding : all) {
    CHECK(finding.name == "state/mig");
    CHECK(finding.status == FindingStatus::warn);
    CHECK(finding.expected == "off");
  }
}

TEST_CASE("ECC that is off is told where no peer has it on, but of boards for screens",
          "[doctor][state]") {
  HostState state = recorded("hgx-h100").state;
  std::erase_if(state.devices, [](const DeviceState& each) {
    return each.kind == CounterOf::gpu && each.device != "0000:43:00.0";
  });
  for (const char* fact : {"ecc", "ecc_pending"}) set(state, "0000:43:00.0", fact, "off");
  for (const std::vector<HostState>& hosts : {std::vector{state}, std::vector(2, state)}) {
    const auto found = bad(hosts);
    REQUIRE(found.size() == hosts.size());
    for (const Finding& finding : found) {
      CHECK(finding.name == "state/ecc");
      CHECK(finding.status == FindingStatus::warn);
      CHECK(finding.expected == "on");
      CHECK_FALSE(finding.remedy.empty());
    }
  }
  device(state, "0000:43:00.0").model = "NVIDIA RTX A6000";
  CHECK(bad({state}).empty());
}

TEST_CASE("GPUs of which none is the usual are told once, and nobody is accused",
          "[doctor][state]") {
  std::vector<HostState> hosts(2, recorded("hgx-h100").state);
  for (DeviceState& each : hosts[1].devices)
    if (each.kind == CounterOf::gpu) {
      set(hosts[1], each.device, "ecc", "off");
      set(hosts[1], each.device, "ecc_pending", "off");
    }
  const auto found = bad(hosts);
  REQUIRE(found.size() == 1);
  CHECK(found[0].status == FindingStatus::warn);
  CHECK(found[0].message.find("16 alike differ: off on 8, on on 8") != std::string::npos);
}

TEST_CASE("doctor has the state of hosts, or says that it was not read", "[doctor][state]") {
  Survey survey = healthy(3);
  for (SurveyedHost& host : survey.hosts) host.state.state = recorded("hgx-h100").state;
  CHECK(failures(diagnose_hosts(survey)).empty());
  set(*survey.hosts[2].state.state, "0000:d1:00.0", "pcie_width", "4");
  const Diagnosis diagnosis = diagnose_hosts(survey);
  CHECK(failures(diagnosis) == std::set<std::string>{"state/pcie_width n2"});
  CHECK(diagnosis.verdict().code() == ErrorCode::failed);
  const std::string text = text_of(survey, diagnosis);
  CHECK(text.find("n2: 0000:d1:00.0 (NVIDIA H100 80GB HBM3)") != std::string::npos);
  CHECK(text.find("pcie_width 4 !") != std::string::npos);
  survey.hosts[2].state = {.state = std::nullopt, .missing = "it did not answer"};
  CHECK(failures(diagnose_hosts(survey)) == std::set<std::string>{"state n2"});
  CHECK(diagnose_hosts(survey).verdict().exit_code() == 8);
}

TEST_CASE("states are written as files that are read again, one for each host", "[doctor][state]") {
  const base::testing::Root root;
  const HostState state = recorded("l40s").state;
  const std::vector<StateOfHost> hosts{
      {{HostId{0}, "a"}, &state}, {{HostId{1}, "a"}, &state}, {{HostId{2}, "../b"}, &state}};
  const std::string folder = root.text() + "/made";
  REQUIRE(write_recordings(folder, hosts).ok());
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.insert(entry.path().filename());
    const auto text = base::read_file(entry.path(), 1 << 20);
    REQUIRE(text.ok());
    const auto again = read_recording(*text);
    REQUIRE(again.ok());
    CHECK(again->source == "recorded");
    CHECK(json_of(again->state) == json_of(state));
  }
  CHECK(names == std::set<std::string>{"a-0.json", "a-1.json", "_.._b.json"});
  CHECK_FALSE(write_recordings(root.text() + "/no/such", hosts).ok());
  for (const char* odd : {"", "{}", R"({"schema":"collctl.doctor/1"})"})
    CHECK_FALSE(read_recording(odd).ok());
}

TEST_CASE("a switch that is so on most of its peers is told, and fails nobody", "[doctor][state]") {
  HostState state = recorded("hgx-h100").state;
  bool first = true;
  for (const DeviceState& each : std::vector(state.devices)) {
    if (each.kind != CounterOf::gpu || std::exchange(first, false)) continue;
    set(state, each.device, "ecc", "off");
    set(state, each.device, "ecc_pending", "off");
  }
  const auto found = bad({state});
  CHECK(found.size() == 7);
  for (const Finding& finding : found) {
    CHECK(finding.status == FindingStatus::warn);
    CHECK(finding.expected == "on");
  }
}

TEST_CASE("recordings of a folder are judged as if their hosts had been asked", "[doctor][state]") {
  const base::testing::Root root;
  HostState good = recorded("hgx-h100").state, odd = good;
  for (DeviceState& gpu : odd.devices)
    for (auto& fact : gpu.facts)
      if (fact.name == "ecc") fact.value = "off";
  const std::vector<StateOfHost> hosts{
      {{HostId{0}, "a"}, &good}, {{HostId{1}, "b"}, &odd}, {{HostId{2}, "c"}, &good}};
  REQUIRE(write_recordings(root.text() + "/made", hosts).ok());
  const auto survey = replayed_survey(root.text() + "/made");
  REQUIRE(survey.ok());
  REQUIRE(survey->hosts.size() == 3);
  CHECK(survey->hosts[1].spec.name == "b");
  const Diagnosis replayed = diagnose_states(*survey);
  const std::vector<Finding> asked = state_findings(hosts);
  REQUIRE(replayed.checks.size() == asked.size());
  for (size_t i = 0; i < asked.size(); ++i) {
    CHECK(replayed.checks[i].name == asked[i].name);
    CHECK(replayed.checks[i].at == asked[i].at);
    CHECK(replayed.checks[i].message == asked[i].message);
    CHECK(replayed.checks[i].code == asked[i].code);
  }
  CHECK(replayed.verdict().exit_code() == 1);
  CHECK(std::ranges::any_of(replayed.checks, [](const Finding& f) {
    return f.status == FindingStatus::fail && f.at.host.name == "b";
  }));
}

TEST_CASE("a recording that cannot be read is not tested, and named", "[doctor][state]") {
  const base::testing::Root root;
  const HostState state = recorded("cpu").state;
  const std::vector<StateOfHost> hosts{{{HostId{0}, "a"}, &state}};
  REQUIRE(write_recordings(root.text() + "/made", hosts).ok());
  root.file("made/broken.json", "{");
  root.file("made/notes.txt", "no recording");
  const auto survey = replayed_survey(root.text() + "/made");
  REQUIRE(survey.ok());
  REQUIRE(survey->hosts.size() == 2);
  const Diagnosis diagnosis = diagnose_states(*survey);
  CHECK(diagnosis.verdict().exit_code() == 8);
  CHECK(std::ranges::any_of(diagnosis.checks, [](const Finding& f) {
    return f.status == FindingStatus::not_tested &&
           f.message.find("broken.json") != std::string::npos;
  }));
  root.file("empty/notes.txt", "");
  for (const char* folder : {"/empty", "/none"}) {
    const auto none = replayed_survey(root.text() + folder);
    REQUIRE_FALSE(none.ok());
    CHECK(none.error().code == ErrorCode::usage);
    CHECK(none.error().message.find(folder) != std::string::npos);
  }
}

}  // namespace doctor_state_tests

// Facts of GPUs by a stand-in NVML, and its troubles.
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>

#include "base/format.h"
#include "cmd/doctor/state.h"
#include "tests/catch.h"
#include "tests/fake_drivers/nvml_control.h"

namespace doctor_gpu_state_tests {

using namespace collctl;
using namespace collctl::cmd;
using base::DeviceState;
using base::HostState;

namespace {

class Gpus {
 public:
  explicit Gpus(const char* world) { ::setenv("FAKE_NVML", world, 1); }
  ~Gpus() {
    fake_nvml::clear_counters();
    ::unsetenv("FAKE_NVML");
  }
};

HostState gpus_now() {
  HostState state;
  base::read_gpu_states(state);
  return state;
}

std::string value(const HostState& state, size_t gpu, const char* fact) {
  REQUIRE(gpu < state.devices.size());
  const std::string* known = state.devices[gpu].find(fact);
  return known == nullptr ? "" : *known;
}

}  // namespace

TEST_CASE("how a GPU is set is read as NVML says it", "[doctor][state]") {
  const Gpus gpus("2:90:18:switch");
  const auto set = [](const char* name, uint64_t number) {
    fake_nvml::set_counter(0, name, number);
  };
  set("vbios", 0x89);
  set("ecc", 1);
  set("ecc_pending", 0);
  set("persistence", 1);
  set("display", 0);
  set("mig", 0);
  set("mig_pending", 1);
  set("power_limit_mW", 500000);
  set("power_default_mW", 700000);
  set("clock_MHz", 1980);
  set("clock_default_MHz", 1980);
  set("recovery_action", 2);
  set("link_MBps", 26562);
  set("fabric_state", 3);
  set("fabric_health", 1);
  set("fabric_clique", 7);
  const HostState state = gpus_now();
  REQUIRE(state.devices.size() == 2);
  CHECK(state.unread.empty());
  CHECK(state.devices[0].device == "0000:10:00.0");
  CHECK(state.devices[0].model == "Fake GPU");
  const std::pair<const char*, const char*> wanted[] = {
      {"vbios", "96.00.89"},
      {"ecc", "on"},
      {"ecc_pending", "off"},
      {"persistence", "on"},
      {"display", "off"},
      {"mig", "off"},
      {"mig_pending", "on"},
      {"power_limit_mW", "500000"},
      {"clock_MHz", "1980"},
      {"recovery_action", "2"},
      {"nvlinks", "18"},
      {"nvlinks_active", "18"},
      {"nvlink_MBps", "26562"},
      {"fabric", "completed"},
      {"fabric_status", "ok"},
      {"fabric_health", "1"},
      {"fabric_clique", "7"},
      {"fabric_cluster", "00000000000000000000000000000000"},
      {"power_default_mW", "700000"},
      {"clock_default_MHz", "1980"}};
  for (const auto& [fact, text] : wanted) {
    INFO(fact);
    CHECK(value(state, 0, fact) == text);
  }
  // The other has none of it but its links, of which the last is down.
  CHECK(value(state, 1, "ecc").empty());
  CHECK(value(state, 1, "fabric").empty());
  CHECK(value(state, 1, "nvlinks_active") == "17");
  CHECK(value(state, 1, "nvlinks_down") == "17");
}

TEST_CASE("links of GPUs before Hopper are asked one by one", "[doctor][state]") {
  const Gpus gpus("1:80:12:switch");
  const HostState state = gpus_now();
  CHECK(value(state, 0, "nvlinks") == "12");
  CHECK(value(state, 0, "nvlinks_active") == "12");
}

TEST_CASE("processes on a GPU are named, but for those that only draw and this one",
          "[doctor][state]") {
  const Gpus gpus("1:90:0:switch");
  fake_nvml::set_counter(0, "process 999999999", uint64_t{71} << 30);
  fake_nvml::set_counter(0, "process 888888888", ~uint64_t{0});
  fake_nvml::set_counter(0, "process 777777777", 1);
  fake_nvml::set_counter(0, "graphics 777777777", 1);
  fake_nvml::set_counter(0, "graphics 666666666", 1);
  fake_nvml::set_counter(0, format("process {}", ::getpid()), 5);
  const HostState state = gpus_now();
  std::vector<std::string> found;
  for (const base::StateFact& fact : state.devices.at(0).facts)
    if (fact.name == "process") found.push_back(fact.value);
  std::sort(found.begin(), found.end());
  CHECK(found ==
        std::vector<std::string>{"777777777 ? 0 MiB", "888888888 ?", "999999999 ? 72704 MiB"});
  CHECK(value(state, 0, "graphics_processes") == "2");
  const auto users = base::gpu_users();
  REQUIRE(users.size() == 1);
  CHECK(users.begin()->first == state.devices[0].device);
  CHECK(users.begin()->second.ends_with(" is on it"));
  for (int pid = 0; pid < 100; ++pid)  // more than are asked for first
    fake_nvml::set_counter(0, format("process {}", 1'000'000'000 + pid), 1 << 20);
  CHECK(std::ranges::count_if(gpus_now().devices.at(0).facts, [](const base::StateFact& fact) {
          return fact.name == "process";
        }) == 103);
}

TEST_CASE("a GPU that does not answer is a fact, and what is refused is said", "[doctor][state]") {
  const Gpus gpus("3:90:4:switch");
  fake_nvml::set_counter(0, "ecc error", 15);          // lost
  fake_nvml::set_counter(0, "persistence error", 15);  // said once
  fake_nvml::set_counter(1, "open error", 999);
  fake_nvml::set_counter(2, "ecc error", 4);  // no permission
  const HostState state = gpus_now();
  REQUIRE(state.devices.size() == 3);
  CHECK(value(state, 0, "answer") == "an error");
  CHECK(std::ranges::count_if(state.devices[0].facts, [](const base::StateFact& fact) {
          return fact.name == "answer";
        }) == 1);
  CHECK(state.devices[1].device == "GPU 1");
  CHECK(value(state, 1, "answer") == "an error");
  CHECK(state.unread == std::vector<std::string>{"0000:12:00.0: ECC mode: an error"});
  fake_nvml::set_counter(1, "open error", 4);  // handed to another container
  CHECK(gpus_now().devices.size() == 2);
}

TEST_CASE("where NVML does not start that is said, if there are GPUs", "[doctor][state]") {
  const Gpus gpus("fails");
  HostState state;
  base::read_gpu_states(state);
  CHECK(state.unread.empty());
  state.devices.emplace_back().kind = base::CounterOf::gpu;
  base::read_gpu_states(state);
  CHECK(state.unread == std::vector<std::string>{"NVML: Driver Not Loaded"});
}

TEST_CASE("the agent's answer about its state", "[doctor][state]") {
  const auto answer = state_answer();
  REQUIRE(answer.ok());
  const auto state = state_of_answer(*answer);
  REQUIRE(state.ok());
  CHECK(json_of(*state) == *answer);
  for (const char* odd :
       {"", "{}", "[1]", R"({"uptime_s":-1})", R"({"uptime_s":1,"devices":[{"kind":"gpu"}]})"})
    CHECK_FALSE(state_of_answer(odd).ok());
}

}  // namespace doctor_gpu_state_tests

#include "base/interface_choice.h"
#include "tests/unit/cmd/doctor/doctor_hosts.h"

namespace doctor_rdma_tests {

using namespace doctor_tests;

TEST_CASE("doctor: GIDs of active ports, and the way into the GPUs' memory", "[doctor]") {
  Survey survey = healthy(2);
  const auto port = [](int number, const char* state, const char* link,
                       std::vector<base::RdmaGid> gids) {
    return base::RdmaPortDetail{number, state,          "LinkUp", "400 Gb/sec (4X NDR)",
                                link,   std::move(gids)};
  };
  const base::RdmaGid v1{0, "RoCE v1", "fe80::1", "eth2"},
      v2{3, "RoCE v2", "::ffff:10.0.0.7", "eth2"}, v6{1, "RoCE v2", "fe80::1", "eth2"},
      ib{0, "IB", "fe80::2", ""};
  for (SurveyedHost& host : survey.hosts) {
    host.facts->locked_memory = {base::kUnlimited, base::kUnlimited};
    host.facts->rdma = {{"mlx5_0", 1, "ACTIVE", "400 Gb/sec (4X NDR)", "Ethernet"}};
    host.facts->rdma_devices = {
        {"mlx5_0",
         "0000:18:00.0",
         0,
         "28.39.1002",
         "",
         {"eth2"},
         {port(1, "ACTIVE", "Ethernet", {v1, v6, v2}), port(2, "DOWN", "Ethernet", {})}},
        {"mlx5_1",
         "0000:19:00.0",
         0,
         "28.39.1002",
         "",
         {},
         {port(1, "ACTIVE", "InfiniBand", {ib})}}};
    host.facts->gpu_direct = {.gpus = 8,
                              .rdma_devices = 2,
                              .kernel = "6.1.0",
                              .driver = "550.54",
                              .open_driver = true,
                              .module = "",
                              .iommu = "identity",
                              .redirecting = {},
                              .acs_known = true};
  }
  // All is well; the GID of IPv4 is the one.
  Diagnosis good = diagnose_hosts(survey);
  CHECK(failures(good).empty());
  CHECK(good.verdict().exit_code() == 0);
  int gids = 0;
  for (const Finding& check : good.checks)
    if (check.name == "gid" && check.at.device == "mlx5_0:1") {
      ++gids;
      CHECK(check.measured == "3 RoCE v2 ::ffff:10.0.0.7");
    }
  CHECK(gids == 2);
  // The facts that travel between hosts keep it all.
  const auto back = launcher::facts_from_json(launcher::facts_to_json(*survey.hosts[0].facts));
  REQUIRE(back);
  CHECK(back->rdma_devices == survey.hosts[0].facts->rdma_devices);
  CHECK(back->gpu_direct == survey.hosts[0].facts->gpu_direct);
  // Only link-local of v1 left; the other host has neither DMA-BUF nor a module.
  survey.hosts[0].facts->rdma_devices[0].ports[0].gids = {v1};
  survey.hosts[1].facts->gpu_direct.open_driver = false;
  survey.hosts[1].facts->rdma_devices[1].firmware = "28.38.1000";
  const Diagnosis bad = diagnose_hosts(survey);
  CHECK(failures(bad) == std::set<std::string>{"gid n0", "gdr n1"});
  CHECK(bad.verdict().code() == ErrorCode::failed);
  const std::string text = text_of(survey, bad);
  CHECK(text.find("mlx5_0 port 1 has no GID of RoCE v2") != std::string::npos);
  CHECK(text.find("-> modprobe nvidia_peermem") != std::string::npos);
  CHECK(odd_ones(bad).count("firmware n1") + odd_ones(bad).count("firmware n0") > 0);
  // A bridge that redirects is odd, with its remedy, and no failure.
  survey.hosts[1].facts->gpu_direct.open_driver = true;
  survey.hosts[1].facts->gpu_direct.redirecting = {"0000:11:00.0"};
  const Diagnosis redirected = diagnose_hosts(survey);
  CHECK(odd_ones(redirected).count("gdr n1") == 1);
  CHECK(text_of(survey, redirected).find("-> on bare metal, turn it off") != std::string::npos);
}

TEST_CASE("doctor: only NICs that jobs may use are looked at", "[doctor]") {
  Survey survey = healthy(2);
  for (SurveyedHost& host : survey.hosts) {
    host.facts->locked_memory = {base::kUnlimited, base::kUnlimited};
    host.facts->rdma_devices.clear();
    host.facts->rdma.clear();
    for (const char* name : {"mlx5_0", "mlx5_1"}) {
      host.facts->rdma.push_back({name, 1, "ACTIVE", "400 Gb/sec (4X NDR)", "InfiniBand"});
      base::RdmaDevice device;
      device.name = name;
      device.ports.push_back(
          {1, "ACTIVE", "LinkUp", "400 Gb/sec (4X NDR)", "InfiniBand", {{0, "IB", "fe80::2", ""}}});
      host.facts->rdma_devices.push_back(device);
    }
  }
  // A GID is missing where no job goes.
  survey.hosts[1].facts->rdma_devices[1].ports[0].gids.clear();
  CHECK(failures(diagnose_hosts(survey)) == std::set<std::string>{"gid n1"});
  Survey chosen = survey;
  chosen.choice.rdma = "=mlx5_0:1";
  for (SurveyedHost& host : chosen.hosts) keep_chosen(host, chosen.choice);
  CHECK(chosen.hosts[1].facts->rdma_devices.size() == 1);
  const Diagnosis good = diagnose_hosts(chosen);
  CHECK(failures(good).empty());
  CHECK(text_of(chosen, good).find("1 of 2 RDMA ports (IB_HCA==mlx5_0:1)") != std::string::npos);
  // None of a host is among them; to exclude all is reported, and no failure.
  Survey none = survey;
  none.choice.rdma = "mlx4_0";
  keep_chosen(none.hosts[1], none.choice);
  none.hosts[0].facts->rdma_devices[0].name = none.hosts[0].facts->rdma[0].device = "mlx4_0";
  keep_chosen(none.hosts[0], none.choice);
  CHECK(failures(diagnose_hosts(none)).contains("nics n1"));
  CHECK_FALSE(failures(diagnose_hosts(none)).contains("nics n0"));
  Survey excluded = survey;
  excluded.choice.rdma = "^mlx";
  for (SurveyedHost& host : excluded.hosts) keep_chosen(host, excluded.choice);
  CHECK(failures(diagnose_hosts(excluded)).empty());
  // The same of interfaces, where a name goes before the rule of which carry data.
  Survey named = healthy(2);
  for (SurveyedHost& host : named.hosts) {
    REQUIRE_FALSE(host.facts->interfaces.empty());
    host.facts->interfaces.push_back(base::NetInterface(host.facts->interfaces.back()));
    host.facts->interfaces.back().name = "docker7";
    host.facts->interfaces.back().addresses = {{"10.9.0." + host.spec.name.substr(1), 24}};
    base::judge_interfaces(host.facts->interfaces, {});  // as each host does it
  }
  CHECK(usable_addresses(named.hosts)[1].size() == 1);
  named.choice.interfaces = "docker";
  for (SurveyedHost& host : named.hosts) keep_chosen(host, named.choice);
  const auto usable = usable_addresses(named.hosts);
  REQUIRE(usable[1].size() == 1);
  CHECK(usable[1][0].interface == "docker7");
}

TEST_CASE("doctor: a host that sends endless lists of RDMA devices is refused", "[doctor]") {
  HostFacts facts = facts_of(1);
  facts.rdma_devices.resize(base::kMostRdmaDevices + 1);
  const auto read = launcher::facts_from_json(launcher::facts_to_json(facts));
  REQUIRE_FALSE(read);
  CHECK(read.error().message.find("rdma_devices") != std::string::npos);
}

}  // namespace doctor_rdma_tests

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/unit/cmd/doctor/doctor_hosts.h"

namespace doctor_doctor_tests {

using namespace doctor_tests;

namespace {

using Names = std::set<std::string>;

}  // namespace

TEST_CASE("hosts in order pass", "[doctor]") {
  const Diagnosis diagnosis = diagnose_hosts(healthy(4));
  CHECK(failures(diagnosis) == Names{});
  CHECK(odd_ones(diagnosis) == Names{});
  CHECK(diagnosis.verdict().code() == ErrorCode{});
  CHECK(diagnosis.culprits.empty());
  CHECK(diagnosis.verdict().reasons().empty());
}

TEST_CASE("the odd one out is found", "[doctor]") {
  const auto with = [](auto change) {
    Survey survey = healthy(4);
    change(*survey.hosts[2].facts);
    return diagnose_hosts(survey);
  };
  // Differences that only are worth a look.
  Diagnosis diagnosis = with([](HostFacts& f) { f.system.kernel = "5.15"; });
  CHECK(odd_ones(diagnosis) == Names{"kernel n2"});
  CHECK(diagnosis.verdict().code() == ErrorCode{});
  diagnosis = with([](HostFacts& f) { f.cores = 2; });
  CHECK(odd_ones(diagnosis) == Names{"cores n2"});
  diagnosis = with([](HostFacts& f) { f.cores = 2, f.processors = 4; });
  CHECK(odd_ones(diagnosis) == Names{"cores n2"});
  CHECK(std::ranges::any_of(diagnosis.checks, [](const Finding& f) {
    return f.name == "cores" && f.status == FindingStatus::warn &&
           f.message ==
               "2 of the machine's 4 processors may be used (by affinity or a cpuset); 2 here, 4 "
               "on most hosts";
  }));
  diagnosis = with([](HostFacts& f) { f.memory_bytes -= 64 << 20; });
  CHECK(odd_ones(diagnosis) == Names{});
  diagnosis = with([](HostFacts& f) { f.memory_bytes /= 2; });
  CHECK(odd_ones(diagnosis) == Names{"memory n2"});
  // Differences that break jobs.
  diagnosis = with([](HostFacts& f) { f.version = "0.9"; });
  CHECK(failures(diagnosis) == Names{"version n2"});
  CHECK(diagnosis.verdict().code() == ErrorCode::failed);
  diagnosis = with([](HostFacts& f) { f.binary = std::string(64, 'b'); });
  CHECK(failures(diagnosis) == Names{"version n2"});
  diagnosis = with([](HostFacts& f) { f.binary = std::string(64, 'b'), f.system.machine = "m"; });
  CHECK(failures(diagnosis) == Names{"machine n2"});
  diagnosis = with([](HostFacts& f) { f.interfaces[2].mtu = 1500; });
  CHECK(failures(diagnosis) == Names{"network n2"});
  diagnosis = with([](HostFacts& f) { f.interfaces[2].speed_mbps = 1000; });
  CHECK(failures(diagnosis) == Names{"network n2"});
  diagnosis = with([](HostFacts& f) { f.nvidia = {"550", {"H200"}, 1}; });
  CHECK(failures(diagnosis) == Names{"driver n2", "gpus n2"});
  diagnosis = with([](HostFacts& f) {
    f.locked_memory = {base::kUnlimited, base::kUnlimited};
    f.rdma = {{"mlx5_0", 1, "ACTIVE", "400 Gb/sec", "InfiniBand"}};
  });
  CHECK(failures(diagnosis) == Names{"rdma n2"});
  // Two against two: nobody is the odd one, so all are named.
  Survey survey = healthy(4);
  survey.hosts[0].facts->nvidia.driver = survey.hosts[1].facts->nvidia.driver = "535";
  survey.hosts[2].facts->nvidia.driver = survey.hosts[3].facts->nvidia.driver = "550";
  CHECK(failures(diagnose_hosts(survey)).size() == 4);
}

TEST_CASE("GPUs whose driver does not start fail, with its word and remedy", "[doctor]") {
  Survey survey = healthy(3);
  for (SurveyedHost& host : survey.hosts) host.facts->nvidia = {"550.54", {"H200"}, 1};
  CHECK(failures(diagnose_hosts(survey)) == Names{});
  survey.hosts[1].gpus = {"the CUDA driver: start: CUDA_ERROR_SYSTEM_NOT_READY",
                          "is nvidia-fabricmanager running?"};
  const Diagnosis diagnosis = diagnose_hosts(survey);
  CHECK(failures(diagnosis) == Names{"gpus n1"});
  CHECK(diagnosis.verdict().code() == ErrorCode::failed);
  const auto at = std::ranges::find_if(diagnosis.checks, [](const Finding& check) {
    return check.name == "gpus" && check.at.host.name == "n1";
  });
  CHECK(at->message == survey.hosts[1].gpus.message);
  CHECK(at->remedy == survey.hosts[1].gpus.hint);
}

TEST_CASE("what a host says of its GPUs' driver is read, or is an error", "[doctor]") {
  const auto said = gpus_of_answer(R"({"message":"it does not start","hint":"restart it"})");
  REQUIRE(said.ok());
  CHECK(said->message == "it does not start");
  CHECK(said->hint == "restart it");
  CHECK(gpus_of_answer("{}").ok() == false);
  const auto own = gpus_answer();  // of this machine, with GPUs or without
  REQUIRE(own.ok());
  CHECK(gpus_of_answer(*own).ok());
}

TEST_CASE("GPUs on PCI call for a driver and its GPUs, also where no host has them", "[doctor]") {
  for (const int hosts : {1, 2}) {
    Survey survey = healthy(hosts);
    for (SurveyedHost& host : survey.hosts) host.facts->nvidia.on_pci = 2;
    const Diagnosis unloaded = diagnose_hosts(survey);
    CHECK(unloaded.verdict().code() == ErrorCode::failed);
    std::set<std::string> wanted;
    for (int i = 0; i < hosts; ++i) {
      wanted.insert(format("driver n{}", i));
      wanted.insert(format("gpus n{}", i));
    }
    CHECK(failures(unloaded) == wanted);
    for (SurveyedHost& host : survey.hosts) host.facts->nvidia = {"550", {"H200", "H200"}, 2};
    CHECK(failures(diagnose_hosts(survey)).empty());
    for (SurveyedHost& host : survey.hosts) host.facts->nvidia.gpus.pop_back();  // one of the two
    const Diagnosis fewer = diagnose_hosts(survey);
    CHECK(failures(fewer).size() == size_t(hosts));
    CHECK(failures(fewer).count("gpus n0") == 1);
    const auto check = std::find_if(fewer.checks.begin(), fewer.checks.end(),
                                    [](const Finding& c) { return c.name == "gpus"; });
    CHECK(check->message == "PCI shows 2 NVIDIA GPUs, the driver has 1 of them");
  }
}

TEST_CASE("limits of one host fail by themselves", "[doctor]") {
  const auto failed = [](auto change) {
    Survey survey = healthy(1);
    change(*survey.hosts[0].facts);
    return failures(diagnose_hosts(survey));
  };
  CHECK(failed([](HostFacts&) {}) == Names{});
  CHECK(failed([](HostFacts& f) { f.open_files.hard = 1024; }) == Names{"files n0"});
  CHECK(failed([](HostFacts& f) { f.processes = {4096, 100}; }) == Names{});
  CHECK(failed([](HostFacts& f) { f.processes = {164, 100}; }) == Names{});
  CHECK(failed([](HostFacts& f) { f.processes = {163, 100}; }) == Names{"nproc n0"});
  CHECK(failed([](HostFacts& f) { f.processes = {100, 300}; }) == Names{"nproc n0"});
  CHECK(failed([](HostFacts& f) { f.has_shm = false; }) == Names{"shm n0"});
  CHECK(failed([](HostFacts& f) { f.shm_free_bytes = 31 << 20; }) == Names{"shm n0"});
  CHECK(failed([](HostFacts& f) { f.shm_free_bytes = 32 << 20; }) == Names{});
  CHECK(failed([](HostFacts& f) { f.cgroup.pids = 64; }) == Names{});
  CHECK(failed([](HostFacts& f) { f.cgroup.pids = 64, f.cgroup.pids_used = 10; }) ==
        Names{"cgroup n0"});
  CHECK(failed([](HostFacts& f) { f.cgroup.memory_bytes = 100 << 20; }) == Names{"cgroup n0"});
  const base::RdmaPort port{"mlx5_0", 1, "ACTIVE", "400 Gb/sec", "InfiniBand"};
  CHECK(failed([&](HostFacts& f) { f.rdma = {port}; }) == Names{"memlock n0"});
  CHECK(failed([&](HostFacts& f) {
          f.rdma = {port};
          f.locked_memory.soft = base::kUnlimited;
        }) == Names{});
}

TEST_CASE("few processes: what there may be, what is in use, what to do", "[doctor]") {
  Survey survey = healthy(1);
  survey.hosts[0].facts->processes = {163, 100};
  const Diagnosis diagnosis = diagnose_hosts(survey);
  const auto check = std::find_if(diagnosis.checks.begin(), diagnosis.checks.end(),
                                  [](const Finding& c) { return c.name == "nproc"; });
  REQUIRE(check != diagnosis.checks.end());
  CHECK(check->measured == "163");
  CHECK(check->expected == "164");
  CHECK(check->message ==
        "100 of the 163 processes and threads that this user may have are in use; a rank a core "
        "takes 64 more");
  CHECK(check->remedy.find("ulimit -u") != std::string::npos);
}

TEST_CASE("clocks are compared with each other, not with ours", "[doctor]") {
  Survey survey = healthy(5);
  for (auto& host : survey.hosts) host.clock_offset_s = 3600;  // it is our clock that is wrong
  CHECK(failures(diagnose_hosts(survey)) == Names{});
  survey.hosts[3].clock_offset_s = 3590;
  const Diagnosis diagnosis = diagnose_hosts(survey);
  CHECK(failures(diagnosis) == Names{"clock n3"});
  for (const Finding& check : diagnosis.checks)
    if (check.status == FindingStatus::fail)
      CHECK(check.message == "its clock is 10.000 s behind that of the other hosts");
  // Not more than what could be measured.
  survey.hosts[3].clock_offset_s = 3600.7;
  survey.hosts[3].clock_error_s = 0.3;
  CHECK(failures(diagnose_hosts(survey)) == Names{});
}

TEST_CASE("a host that cannot be asked is a failure of its own", "[doctor]") {
  Survey survey = healthy(3);
  survey.hosts[1].facts.reset();
  survey.hosts[1].error = Error(ErrorCode::launch, "n1: connection refused", "start sshd there");
  std::erase_if(survey.pairs, [](const PairResult& p) { return p.from == 1 || p.to == 1; });
  const Diagnosis diagnosis = diagnose_hosts(survey);
  CHECK(failures(diagnosis) == Names{"connect n1"});
  CHECK(diagnosis.verdict().code() == ErrorCode::launch);
  REQUIRE(diagnosis.culprits.size() == 1);
  CHECK(diagnosis.culprits[0].name == "n1");
  const std::string text = text_of(survey, diagnosis);
  CHECK(text.find("collctl doctor: 3 hosts, 1 could not be asked\n") == 0);
  // Named once, as who is at fault.
  CHECK(text.find("at fault:\n  host n1: connection refused\n    -> start sshd there\n") !=
        std::string::npos);
  CHECK(text.find("failed:") == std::string::npos);
  CHECK(text.find("\nverdict: FAILED (launch): 1 of 3 hosts (n1): connect failed on 1 host\n") !=
        std::string::npos);
}

TEST_CASE("a host that cannot be asked outweighs what fails on others, before and after it",
          "[doctor]") {
  for (const size_t lost : {size_t(0), size_t(2)}) {
    Survey survey = healthy(3);
    survey.hosts[lost].facts.reset();
    survey.hosts[lost].error = Error(ErrorCode::launch, "connection refused", "start sshd there");
    std::erase_if(survey.pairs, [&](const PairResult& p) {
      return size_t(p.from) == lost || size_t(p.to) == lost;
    });
    survey.hosts[1].facts->shm_free_bytes = 1;
    survey.untested_pairs = 1;
    const Diagnosis diagnosis = diagnose_hosts(survey);
    CHECK(diagnosis.verdict().exit_code() == 4);
    CHECK(
        text_of(survey, diagnosis)
            .find("connect failed on 1 host, shm failed on 1 host, not everything was tested\n") !=
        std::string::npos);
  }
}

TEST_CASE("failed pairs blame a host or a link", "[doctor]") {
  Survey survey = healthy(4);
  const auto fail = [&](int from, int to, ReachEnd end) {
    for (PairResult& pair : survey.pairs)
      if (pair.from == from && pair.to == to) pair.result.end = end, pair.result.text = "x";
  };
  fail(1, 2, ReachEnd::no_route);
  Diagnosis diagnosis = diagnose_hosts(survey);
  CHECK(failures(diagnosis) == Names{"reach n1"});
  CHECK(diagnosis.verdict().code() == ErrorCode::failed);
  REQUIRE(diagnosis.culprits.size() == 1);
  CHECK(diagnosis.culprits[0].kind == SubjectKind::link);
  CHECK(diagnosis.culprits[0].name == "n1 -> n2");
  CHECK(diagnosis.culprits[0].evidence == "the test of the network between them failed");
  survey = healthy(4);
  fail(1, 2, ReachEnd::mtu);
  diagnosis = diagnose_hosts(survey);
  const auto narrow = std::ranges::find(diagnosis.checks, FindingStatus::fail, &Finding::status);
  REQUIRE(narrow != diagnosis.checks.end());
  CHECK(narrow->measured == "mtu");
  CHECK(narrow->remedy.find("switch ports of the network one MTU") != std::string::npos);
  // Everybody fails with host 3: it is host 3 alone.
  survey = healthy(4);
  for (int other = 0; other < 3; ++other) {
    fail(other, 3, ReachEnd::timeout);
    fail(3, other, ReachEnd::timeout);
  }
  diagnosis = diagnose_hosts(survey);
  REQUIRE(diagnosis.culprits.size() == 1);
  CHECK(diagnosis.culprits[0].kind == SubjectKind::host);
  CHECK(diagnosis.culprits[0].name == "n3");
  CHECK(diagnosis.culprits[0].confidence == 1);
  CHECK(text_of(survey, diagnosis)
            .find("at fault:\n  host n3: 6 of 6 tests of the network with it failed\n") !=
        std::string::npos);
  // With two hosts nobody can tell which one it is.
  survey = healthy(2);
  fail(0, 1, ReachEnd::timeout);
  fail(1, 0, ReachEnd::timeout);
  for (const Culprit& culprit : diagnose_hosts(survey).culprits)
    CHECK(culprit.kind == SubjectKind::link);
  // One routed way that works is enough.
  survey = healthy(2);
  survey.pairs[0].shared = false;
  survey.pairs.push_back(
      {0, 1, "eth1", false, {1, "10.9.0.1", ReachEnd::no_route, 0, "no way there"}});
  CHECK(failures(diagnose_hosts(survey)) == Names{});
  survey.pairs.back().shared = true;
  CHECK(failures(diagnose_hosts(survey)) == Names{"reach n0"});
}

TEST_CASE("one host under two names is no host's fault, and has the addresses that it has",
          "[doctor]") {
  Survey survey = healthy(3);
  for (size_t i = 0; i < 3; ++i) survey.hosts[i].facts->place = format("boot{}-1", i);
  CHECK(same_host(survey.hosts, 2) == 2);
  survey.hosts[2].facts = survey.hosts[0].facts;
  std::erase_if(survey.pairs,
                [](const PairResult& pair) { return pair.from == 2 || pair.to == 2; });
  CHECK(same_host(survey.hosts, 2) == 0);
  CHECK(pairs_to_test(survey.hosts, 1) == std::vector<std::pair<int, int>>{{0, 1}, {1, 0}});
  const Diagnosis diagnosis = diagnose_hosts(survey);
  CHECK(failures(diagnosis) == Names{"reach n2"});
  REQUIRE(diagnosis.culprits.size() == 1);
  CHECK(diagnosis.culprits[0].kind == SubjectKind::launcher);
  CHECK(diagnosis.culprits[0].evidence == "its list has a host twice: n0 and n2 are one host");
  // Containers of several machines may have one address; that is another fault.
  survey.hosts[2].facts->place = "boot2-1";
  CHECK(failures(diagnose_hosts(survey)) == Names{"reach n0", "reach n2"});
}

TEST_CASE("what is dialled", "[doctor]") {
  Survey survey = healthy(3);
  auto usable = usable_addresses(survey.hosts);
  REQUIRE(usable[1].size() == 1);  // not loopback, docker or link-local
  CHECK(usable[1][0].address == "10.0.0.1");
  CHECK(network_of(usable[1][0]) == "10.0.0.0/24");
  CHECK(network_of({"e", "fd00:1::77", 64, 0, 0}) == "fd00:1::/64");
  CHECK(network_of({"e", "10.1.2.255", 25, 0, 0}) == "10.1.2.128/25");
  // An address that two hosts have belongs to neither.
  survey.hosts[2].facts->interfaces[2].addresses[0].text = "10.0.0.1";
  usable = usable_addresses(survey.hosts);
  CHECK(usable[1].empty());
  CHECK(usable[2].empty());
  survey.pairs.clear();
  CHECK(failures(diagnose_hosts(survey)) == Names{"reach n1", "reach n2"});

  const UsableAddress a{"eth0", "10.0.0.1", 24, 0, 0}, b{"eth0", "10.0.0.2", 24, 0, 0},
      b2{"eth1", "10.9.0.2", 24, 0, 0}, b6{"eth0", "fd00::2", 64, 0, 0};
  auto dialled = addresses_to_dial({a}, {b, b2, b6}, "");
  REQUIRE(dialled.size() == 1);
  CHECK(dialled[0].at.address == "10.0.0.2");
  CHECK(dialled[0].shared);
  dialled = addresses_to_dial({a}, {b2, b6}, "");
  REQUIRE(dialled.size() == 2);
  CHECK_FALSE(dialled[0].shared);
  dialled = addresses_to_dial({a}, {b, b2}, "10.9.0.2");
  REQUIRE(dialled.size() == 1);
  CHECK(dialled[0].at.interface == "eth1");
  CHECK(addresses_to_dial({a}, {b}, "10.7.7.7")[0].at.interface == "");
}

TEST_CASE("many hosts are tested along a ring and a matching", "[doctor]") {
  std::vector<SurveyedHost> hosts(64);
  for (auto& host : hosts) host.facts.emplace();
  CHECK(pairs_to_test(hosts, 1).size() == 64 * 63);
  hosts.resize(101);
  for (auto& host : hosts) host.facts.emplace();
  const auto pairs = pairs_to_test(hosts, 1);
  CHECK(pairs.size() >= 2 * 101);
  CHECK(pairs.size() <= 3 * 101);
  std::set<int> from, to;
  for (const auto& [a, b] : pairs) {
    CHECK(a != b);
    from.insert(a);
    to.insert(b);
  }
  CHECK(from.size() == 101);
  CHECK(to.size() == 101);
  CHECK(pairs_to_test(hosts, 2) != pairs);
  hosts[5].facts.reset();
  for (const auto& [a, b] : pairs_to_test(hosts, 1)) CHECK((a != 5 && b != 5));
  Survey survey = healthy(3);
  survey.untested_pairs = 7;
  const Diagnosis diagnosis = diagnose_hosts(survey);
  CHECK(diagnosis.verdict().code() == ErrorCode::incomplete);
  CHECK(failures(diagnosis) == Names{"reach "});
}

TEST_CASE("the doctor's JSON has the fields of the contract", "[doctor]") {
  Survey survey = healthy(3);
  survey.hosts[1].facts->shm_free_bytes = 1;
  survey.hosts[2].client = "libssh2: 10.0.0.2:22";
  const std::string text = doctor_json(survey, diagnose_hosts(survey));
  const auto j = nlohmann::json::parse(text);
  CHECK(j["schema"] == "collctl.doctor/1");
  CHECK(j["hosts"].size() == 3);
  CHECK(j["hosts"][1]["facts"]["cores"] == 4);
  CHECK(j["verdict"]["ok"] == false);
  CHECK(j["verdict"]["reasons"][0]["message"] == "shm failed on 1 host");
  size_t failed = 0;
  for (const auto& check : j["checks"]) {
    for (const char* key : {"name", "host", "peer", "device", "status", "measured", "expected",
                            "unit", "message", "remedy"})
      CHECK(check.contains(key));
    if (check["status"] == "fail") {
      ++failed;
      CHECK(check["host"] == "n1");
    }
    if (check["name"] == "reach") CHECK(check["measured"] == 50.0);
  }
  CHECK(failed == 1);
  const auto back = read_survey(text);
  REQUIRE(back.ok());
  REQUIRE(back->hosts.size() == 3);
  for (int i = 0; i < 3; ++i) {
    CHECK(back->hosts[size_t(i)].spec.name == format("n{}", i));
    CHECK(back->hosts[size_t(i)].client == survey.hosts[size_t(i)].client);
    CHECK_FALSE(back->hosts[size_t(i)].error);
  }
}

TEST_CASE("a table shows what differs and folds what does not", "[doctor]") {
  Survey survey = healthy(3);
  survey.hosts[1].facts->system.kernel = "5.15\033[31m";
  survey.hosts[2].client = "libssh2: 10.0.0.2:22";
  const std::string text = text_of(survey, diagnose_hosts(survey));
  INFO(text);
  CHECK(text.find("same on all hosts: version 1.0, machine x86_64, glibc 2.36, cores 4") !=
        std::string::npos);
  CHECK(text.find("\nn2: libssh2: 10.0.0.2:22\n") != std::string::npos);
  CHECK(text.find("host  connect  kernel       clock    reach\n") != std::string::npos);
  CHECK(text.find("n1    0.30 s   5.15?[31m *  +0.0 ms  2/2 50 us\n") != std::string::npos);
  CHECK(text.find("to know:\n  kernel: n1: 5.15?[31m here, 6.1 on most hosts\n") !=
        std::string::npos);
  CHECK(text.find('\033') == std::string::npos);
  CHECK(text.find("verdict: passed\n") != std::string::npos);
}

}  // namespace doctor_doctor_tests

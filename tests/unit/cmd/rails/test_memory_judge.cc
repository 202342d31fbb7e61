// GPU memory over NICs of clusters made by hand, with a fault in a known place: who is named once
// what is open has been measured again, what is told, and what is not tested.
#include <functional>

#include "base/format.h"
#include "cmd/rails/memory_judge.h"
#include "cmd/rails/usual.h"
#include "tests/catch.h"

namespace memory_judge_tests {

using namespace collctl;
using namespace collctl::cmd;
using runtime::kHostMemory;
using runtime::MemoryChoice;
using runtime::MemoryFlow;
using runtime::MemoryTrial;
using runtime::MemoryWay;

namespace {

// One end of a direction; what it makes of the speed, of 47 that host memory has.
struct End {
  int host = 0, gpu = kHostMemory, nic = 0;
  bool sends = false;
};
using Speed = std::function<double(const End& end, int time)>;  // GB/s; 0: wrong data
using Use = std::function<runtime::MemoryUse(const End& end)>;

constexpr double kWire = 47;

struct Cluster {
  int hosts = 3, gpus = 4, nics = 4;
  bool sockets = false, all_near = false;
  MemoryChoice memory = MemoryChoice::gpu;
  Use use = [](const End&) { return runtime::MemoryUse{MemoryWay::direct, "DMA-BUF"}; };
  std::function<std::vector<runtime::RailFact>(int host)> facts = nullptr;

  std::vector<runtime::RailHost> machines() const {
    std::vector<runtime::RailHost> list;
    for (int h = 0; h < hosts; ++h) {
      runtime::RailHost& host = list.emplace_back();
      host.host = {HostId(int32_t(h)), format("n{}", h)};
      for (int n = 0; n < nics; ++n) {
        runtime::RailNic& nic = host.nics.emplace_back();
        nic.name = format("{}{}", sockets ? "eth" : "mlx5_", n);
        nic.rate_mbps = 400000;
        if (sockets) continue;
        nic.link_layer = base::drivers::kLinkInfiniBand;
        nic.lid = uint16_t(1 + h * nics + n);
      }
      for (int g = 0; g < gpus; ++g) {
        runtime::RailGpu& gpu = host.gpus.list.emplace_back();
        gpu.ordinal = g;
        gpu.bus_id = format("0000:{:x}0:00.0", g + 1);
        gpu.model = "H200";
        for (int n = 0; n < nics; ++n)
          gpu.nics.push_back({.path = "PIX", .near = all_near || n == g * nics / gpus});
      }
      if (facts) host.gpus.facts = facts(h);
    }
    return list;
  }

  MemoryFlow flow(const End& out, const End& in, const Speed& speed, int time) const {
    MemoryFlow made{.end = RailEnd::ok, .text = {}, .out = {}, .in = {}};
    if (out.gpu != kHostMemory) made.out = use(out);
    if (in.gpu != kHostMemory) made.in = use(in);
    made.GBps = made.both_GBps = std::min(speed(out, time), speed(in, time));
    if (made.GBps == 0) {
      made.end = RailEnd::bad_data;
      made.text = "byte 0 of a message is 0x1, 0x2 was sent";
    }
    return made;
  }

  void measure(RailsReport& report, const runtime::HostRounds& rounds, const Speed& speed,
               int time) const {
    const auto list = machines();
    for (const auto& round : rounds)
      for (const auto& [a, b] : round)
        for (MemoryTrial trial : runtime::plan_trials(list[size_t(a)], list[size_t(b)], {a, b},
                                                      report.one_host, false, 2)) {
          const End from{trial.from, trial.from_gpu, trial.from_nic, true};
          const End to{trial.to, trial.to_gpu, trial.to_nic, false};
          trial.there = flow(from, to, speed, time);
          trial.back = flow({to.host, to.gpu, to.nic, true}, {from.host, from.gpu, from.nic, false},
                            speed, time);
          trial.latency_us = 3;
          report.trials.push_back(std::move(trial));
        }
  }

  // As rank 0 has it done.
  RailsReport report(const Speed& speed) const {
    RailsReport all;
    all.memory = memory;
    all.message_bytes = 1 << 20;
    for (const runtime::RailHost& host : machines()) {
      RailsHost& out = all.hosts.emplace_back();
      out.host = host.host;
      out.gpus = host.gpus;
      for (const runtime::RailNic& nic : host.nics)
        out.nics.push_back({.name = nic.name,
                            .link = sockets ? "Ethernet" : "InfiniBand",
                            .rdma = !sockets,
                            .rate_Gbps = 400});
    }
    measure(all, runtime::memory_rounds(std::vector<bool>(size_t(hosts), gpus > 0)), speed, 0);
    for (int round = 0; round < runtime::kMostMemoryAgain; ++round) {
      const std::vector<int> open = gpus_in_doubt(all, 0.7);
      if (open.empty()) break;
      measure(all, runtime::memory_rounds_again(open, hosts, round), speed, 1 + round);
    }
    return all;
  }
};

double at_wire(const End&, int) {
  return kWire;
}

ErrorCode code(const MemoryFindings& found) {
  return Verdict(found.checks, std::nullopt, found.summary).code();
}

std::vector<std::string> accused(const MemoryFindings& found) {
  std::vector<std::string> names;
  for (const Culprit& one : found.culprits) names.push_back(one.name);
  return names;
}
using Names = std::vector<std::string>;

const Finding& first(const MemoryFindings& found, const std::string& name) {
  for (const Finding& finding : found.checks)
    if (finding.name == name) return finding;
  FAIL("no finding is called " << name);
  return found.checks.front();
}
size_t count(const MemoryFindings& found, FindingStatus status) {
  return size_t(std::count_if(found.checks.begin(), found.checks.end(),
                              [&](const Finding& f) { return f.status == status; }));
}

}  // namespace

TEST_CASE("GPU memory that is as fast as host memory passes", "[rails]") {
  const auto report = Cluster{}.report(at_wire);
  const MemoryFindings found = judge_memories(report, 0.7);
  CHECK(code(found) == ErrorCode{});
  // Four GPUs of each host, there and back; and of each two of three hosts GPU to GPU.
  CHECK(found.tried == 3 * 4 * 2 + 3 * 4 * 2);
  CHECK(found.good == found.tried);
  CHECK(found.checks.size() == found.tried);
  CHECK(found.worst.size() == 6);
  CHECK(gpus_in_doubt(report, 0.7).empty());
}

TEST_CASE("what lies between a GPU and its NIC is named by direction", "[rails]") {
  const int hosts = GENERATE(2, 3, 6);
  const auto report = Cluster{.hosts = hosts}.report(
      [](const End& end, int) { return end.host == 1 && end.gpu == 3 && end.sends ? 11 : kWire; });
  const MemoryFindings found = judge_memories(report, 0.7);
  CHECK(code(found) == ErrorCode::failed);
  CHECK(accused(found) == Names{"n1 GPU 3 -> mlx5_3"});
  const Finding& blamed = first(found, "blame");
  CHECK(blamed.message.starts_with(
      "n1 GPU 3 -> mlx5_3: 11 of 47 GB/s, host memory 47, GPUDirect (DMA-BUF) ("));
  CHECK(blamed.at.host.name == "n1");
  CHECK(blamed.n == blamed.of);
  CHECK(found.unexplained.empty());
  // The other way, and both.
  const auto into = Cluster{.hosts = hosts}.report(
      [](const End& end, int) { return end.host == 0 && end.gpu == 2 && !end.sends ? 11 : kWire; });
  CHECK(accused(judge_memories(into, 0.7)) == Names{"n0 mlx5_2 -> GPU 2"});
  const auto both = Cluster{.hosts = hosts}.report(
      [](const End& end, int) { return end.host == 0 && end.gpu == 2 ? 11 : kWire; });
  CHECK(accused(judge_memories(both, 0.7)) == Names{"n0 GPU 2 - mlx5_2"});
}

TEST_CASE("a GPU, a NIC and a host are told apart where measurements can", "[rails]") {
  Cluster cluster{.gpus = 4, .nics = 4, .all_near = true};
  CHECK(accused(judge_memories(cluster.report([](const End& end, int) {
          return end.host == 1 && end.gpu == 3 ? 11 : kWire;
        }),
                               0.7)) == Names{"n1 0000:40:00.0"});
  CHECK(accused(judge_memories(cluster.report([](const End& end, int) {
          return end.host == 2 && end.nic == 1 && end.gpu != kHostMemory ? 11 : kWire;
        }),
                               0.7)) == Names{"n2 mlx5_1"});
  // Half of its GPUs share a NIC.
  cluster = {.gpus = 4, .nics = 2};
  CHECK(accused(judge_memories(cluster.report([](const End& end, int) {
          return end.host == 2 && end.nic == 1 && end.gpu != kHostMemory ? 11 : kWire;
        }),
                               0.7)) == Names{"n2 mlx5_1"});
  cluster = {.facts = [](int host) {
    std::vector<runtime::RailFact> list;
    if (host == 1) list.push_back({"", "ACS redirects", "turn it off"});
    if (host == 1) list.push_back({"0000:ff:00.0", "of another", "device"});
    return list;
  }};
  const auto report = cluster.report(
      [](const End& end, int) { return end.host == 1 && end.gpu != kHostMemory ? 11 : kWire; });
  const MemoryFindings found = judge_memories(report, 0.7);
  CHECK(accused(found) == Names{"n1"});
  const Finding& blamed = first(found, "blame");
  CHECK(blamed.message.ends_with("; ACS redirects"));
  CHECK(blamed.remedy == "turn it off");
  CHECK(blamed.at.kind == SubjectKind::host);
}

TEST_CASE("facts of a device are those of its own paths", "[rails]") {
  const Cluster cluster{.facts = [](int) {
    return std::vector<runtime::RailFact>{{"mlx5_3", "x8 of x16", "reseat it"},
                                          {"mlx5_2", "gen3 of gen5", "reseat that"}};
  }};
  const MemoryFindings found = judge_memories(cluster.report([](const End& end, int) {
    return end.host == 1 && end.gpu == 3 ? 23 : kWire;
  }),
                                              0.7);
  const Finding& blamed = first(found, "blame");
  CHECK(blamed.message.ends_with("; x8 of x16"));
  CHECK(blamed.remedy == "reseat it");
}

TEST_CASE("where all GPUs are slower than host memory nobody is named without a fact", "[rails]") {
  const Speed slow = [](const End& end, int) { return end.gpu != kHostMemory ? 11 : kWire; };
  const MemoryFindings found = judge_memories(Cluster{}.report(slow), 0.7);
  CHECK(code(found) == ErrorCode{});
  CHECK(found.culprits.empty());
  CHECK(count(found, FindingStatus::warn) == 2);  // sending, receiving
  CHECK(first(found, "slower").message.find("the paths of one kind (") != std::string::npos);
  const Cluster cluster{.facts = [](int host) {
    std::vector<runtime::RailFact> list;
    if (host == 2) list.push_back({"", "the IOMMU translates", "iommu=pt"});
    return list;
  }};
  const MemoryFindings known = judge_memories(cluster.report(slow), 0.7);
  CHECK(code(known) == ErrorCode::failed);
  CHECK(accused(known) == Names{"n2", "n2"});
  CHECK(first(known, "blame").remedy == "iommu=pt");
}

TEST_CASE("over sockets the GPU's memory is held against other GPUs alone", "[rails]") {
  Cluster cluster{.nics = 1, .sockets = true, .use = [](const End&) {
                    return runtime::MemoryUse{MemoryWay::staged, "sockets carry host memory"};
                  }};
  const MemoryFindings found = judge_memories(
      cluster.report([](const End& end, int) { return end.gpu != kHostMemory ? 5 : kWire; }), 0.7);
  CHECK(code(found) == ErrorCode{});
  CHECK(count(found, FindingStatus::warn) == 0);
  const MemoryFindings one = judge_memories(cluster.report([](const End& end, int) {
    return end.gpu == kHostMemory ? kWire : end.host == 0 && end.gpu == 1 ? 1 : 5;
  }),
                                            0.7);
  CHECK(accused(one) == Names{"n0 GPU 1 - eth0"});
}

TEST_CASE("GPUDirect that one host lacks is that host's fault, that all lack is told", "[rails]") {
  Cluster cluster;
  cluster.use = [](const End& end) {
    return end.host == 1 ? runtime::MemoryUse{MemoryWay::refused, "no peer memory module"}
                         : runtime::MemoryUse{MemoryWay::direct, "DMA-BUF"};
  };
  const Speed speed = [](const End& end, int) {
    return end.host == 1 && end.gpu != kHostMemory ? 20 : kWire;
  };
  const MemoryFindings found = judge_memories(cluster.report(speed), 0.7);
  CHECK(code(found) == ErrorCode::failed);
  CHECK(accused(found) == Names{"n1"});
  CHECK(first(found, "gpudirect").message.find("no peer memory module; others have it") !=
        std::string::npos);
  CHECK(found.summary == Names{"n1 has no GPUDirect, others have"});
  cluster.use = [](const End&) {
    return runtime::MemoryUse{MemoryWay::refused, "no peer memory module"};
  };
  const MemoryFindings none = judge_memories(cluster.report(at_wire), 0.7);
  CHECK(code(none) == ErrorCode{});
  CHECK(none.culprits.empty());
  CHECK(count(none, FindingStatus::warn) == 3);
}

TEST_CASE("a GPU is not blamed for NICs that are slow with host memory", "[rails]") {
  const auto report = Cluster{}.report(
      [](const End& end, int) { return end.host == 1 && end.nic == 2 ? 12 : kWire; });
  const MemoryFindings found = judge_memories(report, 0.7);
  CHECK(found.culprits.empty());
  CHECK(code(found) == ErrorCode{});
  // Broken ones leave it untested, and are told themselves.
  const MemoryFindings broken = judge_memories(Cluster{}.report([](const End& end, int) {
    return end.host == 1 && end.nic == 2 ? 0 : kWire;
  }),
                                               0.7);
  CHECK(broken.culprits.empty());
  CHECK(code(broken) == ErrorCode::bad_data);
  CHECK(first(broken, "host-path").code == ErrorCode::bad_data);
  CHECK(count(broken, FindingStatus::not_tested) > 0);
}

TEST_CASE("what was bad once and good again is nobody's fault; wrong data is", "[rails]") {
  const auto once = Cluster{}.report([](const End& end, int time) {
    return end.host == 1 && end.gpu == 3 && time == 0 ? 11 : kWire;
  });
  const MemoryFindings good = judge_memories(once, 0.7);
  CHECK(good.culprits.empty());
  CHECK(code(good) == ErrorCode{});
  CHECK(first(good, "again").status == FindingStatus::warn);
  const MemoryFindings wrong = judge_memories(Cluster{}.report([](const End& end, int) {
    return end.host == 1 && end.gpu == 3 && !end.sends ? 0 : kWire;
  }),
                                              0.7);
  CHECK(code(wrong) == ErrorCode::bad_data);
  CHECK(accused(wrong) == Names{"n1 mlx5_3 -> GPU 3"});
}

TEST_CASE("GPU memory that was asked for and is not there was not tested", "[rails]") {
  Cluster cluster{.gpus = 0};
  CHECK(code(judge_memories(cluster.report(at_wire), 0.7)) == ErrorCode::incomplete);
  cluster.memory = MemoryChoice::automatic;
  CHECK(judge_memories(cluster.report(at_wire), 0.7).checks.empty());
  RailsReport report = cluster.report(at_wire);
  report.hosts[1].gpus.why_none = "the driver does not start";
  const MemoryFindings found = judge_memories(report, 0.7);
  CHECK(code(found) == ErrorCode::incomplete);
  REQUIRE(found.checks.size() == 1);
  CHECK(found.checks[0].message == "n1: GPU memory was not measured: the driver does not start");
  // Sizes that were asked for as well.
  report = Cluster{}.report(at_wire);
  report.sizes = {8, 1 << 20};
  CHECK(code(judge_memories(report, 0.7)) == ErrorCode::incomplete);
  for (MemoryTrial& trial : report.trials) trial.curve = {{8, 1, 1}, {1 << 20, 40, 40}};
  CHECK(code(judge_memories(report, 0.7)) == ErrorCode{});
}

TEST_CASE("results with GPU memory travel whole, and only what is possible is read", "[rails]") {
  RailsReport report = Cluster{.hosts = 2}.report(at_wire);
  report.sizes = {8, 64};
  report.trials.back().curve = {{8, 0.5, 0.25, 0.7}, {64, 1, 2}};
  report.hosts[0].gpus.facts.push_back({"mlx5_0", "x8 of x16", "reseat it"});
  JsonWriter json(JsonWriter::Numbers::exact);
  json.begin_object();
  write_rails(json, report);
  const std::string text = json.end_object().take();
  const auto back = read_rails(text);
  INFO((back ? "" : back.error().chain()));
  REQUIRE(back);
  CHECK(back->memory == MemoryChoice::gpu);
  CHECK(back->hosts[0].gpus == report.hosts[0].gpus);
  REQUIRE(back->trials.size() == report.trials.size());
  CHECK(back->trials.back().curve.size() == 2);
  CHECK(back->trials.back().curve[0].both_GBps == 0.7);
  CHECK(back->trials.back().curve[1].back_GBps == 2);
  CHECK(back->trials.back().there.out.how == "DMA-BUF");
  CHECK(judge_memories(*back, 0.7).tried == judge_memories(report, 0.7).tried);
  report.trials[0].from_gpu = 4;
  JsonWriter wrong(JsonWriter::Numbers::exact);
  wrong.begin_object();
  write_rails(wrong, report);
  CHECK(!read_rails(wrong.end_object().take()));
}

TEST_CASE("a large size is the largest that the time allows there, back and both ways", "[rails]") {
  constexpr uint64_t kMost = uint64_t{1} << 30, kLeast = 8 << 20;
  CHECK(runtime::large_size(kMost, kLeast, 48, 0.07) == kMost);
  CHECK(runtime::large_size(kMost, kLeast, 48, 0.06) == kMost / 8);
  CHECK(runtime::large_size(kMost, kLeast, 1, 0.06) == 16 << 20);
  CHECK(runtime::large_size(kMost, kLeast, 0.1, 0.06) == 0);
  CHECK(runtime::large_size(kMost, kLeast, 48, 0) == 0);
  CHECK(runtime::large_size(0, kLeast, 48, 1) == 0);
}

TEST_CASE("each host with GPUs meets two others, whatever the number of hosts", "[rails]") {
  for (const int hosts : {2, 3, 4, 7, 64, 501}) {
    INFO(hosts << " hosts");
    std::vector<int> partners(size_t(hosts), 0);
    const auto rounds = runtime::memory_rounds(std::vector<bool>(size_t(hosts), true));
    for (const auto& round : rounds)
      for (const auto& [a, b] : round) ++partners[size_t(a)], ++partners[size_t(b)];
    const int wanted = std::min(hosts - 1, runtime::kMemoryPartners);
    for (const int met : partners) CHECK(met >= wanted);
    CHECK(rounds.size() <= 3);
    for (int round = 0; round < 2; ++round) {
      bool met = false;
      for (const auto& again : runtime::memory_rounds_again({hosts - 1}, hosts, round))
        for (const auto& [a, b] : again) met |= a == hosts - 1 || b == hosts - 1;
      CHECK(met);
    }
  }
  CHECK(runtime::memory_rounds({false, false, false}).empty());
  CHECK(runtime::memory_rounds({true, false}).size() == 1);
}

}  // namespace memory_judge_tests

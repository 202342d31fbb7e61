// Reports of the suite `gpus`, judged: who is named for one slow pair, GPU, direction or host,
// and what is said and not held against anybody.
#include <algorithm>

#include "base/format.h"
#include "cmd/check/gpus.h"
#include "tests/catch.h"

namespace check_gpus_tests {

using namespace collctl;
using namespace collctl::cmd;

namespace {

// A GPU pair's share of what is usual.
using Part = std::function<double(int from, int to, PairFigure figure)>;
constexpr double kUsual[kPairFigures] = {380, 370, 340, 330, 700, 1.5};
const Floors kNone;

std::string bus(int gpu) {
  return format("0000:{}0:00.0", gpu + 1);
}

GpuReport host(int number, int gpus, const Part& part = nullptr, const std::string& path = "NVL") {
  GpuReport report{
      .host = {HostId{number}, format("n{}", number)}, .gpus = {}, .pairs = {}, .legs = {}};
  for (int g = 0; g < gpus; ++g) {
    report.gpus.push_back({.device = bus(g), .model = "NVIDIA H100 80GB HBM3", .numa = 0});
    if (gpus > 2) {
      GpuEnd& end = report.gpus.back();
      end.to_all = end.from_all = 400;
      end.sends_of_all = end.gets_of_all = 390;
    }
    report.legs.push_back(
        {.gpu = g, .node = 0, .distance = 10, .to_GBps = 55, .from_GBps = 54, .both_GBps = 95});
  }
  for (int a = 0; a < gpus; ++a)
    for (int b = 0; b < gpus; ++b) {
      if (a == b) continue;
      GpuPair& pair = report.pairs.emplace_back();
      pair.from = a;
      pair.to = b;
      pair.path = path;
      for (size_t f = 0; f < kPairFigures; ++f) {
        const double of = part ? part(a, b, PairFigure(f)) : 1;
        pair.figures[f] = PairFigure(f) == PairFigure::latency ? kUsual[f] / of : kUsual[f] * of;
      }
    }
  return report;
}

GpusFindings judged(std::vector<GpuReport> reports, const Floors& floors = kNone) {
  return judge_gpus(reports, 0.7, floors);
}
std::vector<std::string> names(const GpusFindings& found) {
  std::vector<std::string> list;
  for (const Culprit& culprit : found.culprits)
    list.push_back(format("{} {}", subject_word(culprit.kind), culprit.name));
  std::sort(list.begin(), list.end());
  return list;
}
using Names = std::vector<std::string>;
const Culprit& first(const GpusFindings& found) {
  REQUIRE_FALSE(found.culprits.empty());
  return found.culprits[0];
}
const Finding* find(const GpusFindings& found, const std::string& name) {
  const auto at = std::ranges::find(found.findings, name, &Finding::name);
  REQUIRE(at != found.findings.end());
  return &*at;
}
// Speeds of everything between these two; `back`: the other way as well.
Part slow_pair(int from, int to, bool back, double part = 0.3) {
  return [=](int a, int b, PairFigure figure) {
    if (figure == PairFigure::latency) return 1.0;
    const bool forth = a == from && b == to, against = a == to && b == from;
    if (figure == PairFigure::both && (forth || against)) return (1 + part) / 2;
    return forth || (back && against) ? part : 1.0;
  };
}
Part slow_gpu(int gpu, bool out, bool in) {
  return [=](int a, int b, PairFigure figure) {
    if (figure == PairFigure::latency) return 1.0;
    if (figure == PairFigure::both) return a == gpu || b == gpu ? 0.6 : 1.0;
    return (out && a == gpu) || (in && b == gpu) ? 0.2 : 1.0;
  };
}

}  // namespace

TEST_CASE("gpus: good hosts have nobody at fault, and say what the worst was", "[check]") {
  const GpusFindings found = judged({host(1, 8), host(2, 8)});
  CHECK(found.culprits.empty());
  CHECK(found.suspects.empty());
  for (const Finding& finding : found.findings) CHECK(finding.status == FindingStatus::pass);
  const Finding* write = find(found, "gpus/write");
  CHECK(write->measured == "380");
  CHECK(write->expected == "266");
  CHECK(write->unit == "GB/s");
  CHECK(find(found, "gpus/latency")->unit == "us");
}

TEST_CASE("gpus: a slow pair is the link, a slow direction that direction", "[check]") {
  const GpusFindings both = judged({host(1, 8, slow_pair(2, 5, true))});
  CHECK(names(both) == Names{"link n1 0000:30:00.0 - n1 0000:60:00.0"});
  CHECK(first(both).host.name == "n1");
  CHECK(both.suspects.size() == 1);
  const GpusFindings one = judged({host(1, 8, slow_pair(2, 5, false))});
  CHECK(names(one) == Names{"link n1 0000:30:00.0 -> n1 0000:60:00.0"});
  // A speed both ways that is good leaves open which way it is.
  const GpusFindings open = judged({host(1, 8, [](int a, int b, PairFigure figure) {
    return a == 2 && b == 5 && figure < PairFigure::both ? 0.3 : 1.0;
  })});
  CHECK(open.culprits.size() == 1);
  CHECK(first(open).kind == SubjectKind::link);
  // With one figure alone it is told as well.
  const GpusFindings alone = judged({host(1, 8, [](int a, int b, PairFigure figure) {
    return a == 2 && b == 5 && figure == PairFigure::kernel_read ? 0.5 : 1.0;
  })});
  CHECK(names(alone) == Names{"link n1 0000:30:00.0 - n1 0000:60:00.0"});
  CHECK(first(alone).evidence.find("kernel-read 165.0 GB/s, 330.0 is usual") != std::string::npos);
}

TEST_CASE("gpus: a GPU whose pairs are all slow is that GPU, with its direction", "[check]") {
  const GpusFindings all = judged({host(1, 8, slow_gpu(3, true, true))});
  CHECK(names(all) == Names{"gpu n1 0000:40:00.0"});
  CHECK(find(all, "gpus/blame")->reason.empty());
  CHECK(find(all, "gpus/blame")->at.device == "0000:40:00.0");
  const GpusFindings out = judged({host(1, 8, slow_gpu(3, true, false))});
  CHECK(names(out) == Names{"gpu n1 0000:40:00.0"});
  CHECK(find(out, "gpus/blame")->reason == "sends");
  const GpusFindings in = judged({host(1, 4, slow_gpu(3, false, true))});
  CHECK(names(in) == Names{"gpu n1 0000:40:00.0"});
  CHECK(find(in, "gpus/blame")->reason == "receives");
  const GpusFindings late = judged({host(1, 8, [](int a, int b, PairFigure figure) {
    return figure == PairFigure::latency && (a == 3 || b == 3) ? 0.4 : 1.0;
  })});
  CHECK(names(late) == Names{"gpu n1 0000:40:00.0"});
}

TEST_CASE("gpus: hosts are held against each other, and what one cannot tell is the host's",
          "[check]") {
  const Part half = [](int, int, PairFigure) { return 0.5; };
  CHECK(names(judged({host(1, 8), host(2, 8, half), host(3, 8)})) == Names{"host n2"});
  CHECK(names(judged({host(1, 8, half)})).empty());  // alone: nothing to hold it against
  // Two GPUs: one of them or the link, on this host in any case.
  const GpusFindings two = judged({host(1, 2, slow_pair(0, 1, false, 0.1))});
  CHECK(names(two) == Names{"host n1"});
  CHECK(first(two).evidence.find("cannot say which") != std::string::npos);
  // Other paths are another kind.
  CHECK(names(judged({host(1, 4), host(2, 4), host(3, 4, half, "SYS")})).empty());
}

TEST_CASE("gpus: a floor of the board holds where all are alike, over NVLink only", "[check]") {
  const Floors floors = {{.gpu = "H100 80GB HBM3",
                          .what = "peer_read",
                          .GBps = 335,
                          .source = "Azure",
                          .date = "2026-05"}};
  const Part slow = [](int, int, PairFigure figure) {
    return figure == PairFigure::read ? 0.8 : 1.0;
  };
  const GpusFindings found = judged({host(1, 8, slow)}, floors);
  CHECK(names(found) == Names{"host n1"});
  CHECK(first(found).evidence.find("at least 335 GB/s (Azure, 2026-05)") != std::string::npos);
  CHECK(names(judged({host(1, 8)}, floors)).empty());
  // The worst pair has what it is held against: the floor, unless 0.7 of what is usual is more.
  const Finding read = *find(judged({host(1, 8)}, floors), "gpus/read");
  CHECK(read.measured == "370");
  CHECK(read.expected == "335");
  CHECK(read.basis == "Azure, 2026-05");
  CHECK(find(judged({host(1, 8)}, floors), "gpus/write")->expected == "266");
  CHECK(find(judged({host(1, 8, nullptr, "PIX")}, floors), "gpus/read")->expected == "259");
  Floors low = floors;
  low[0].GBps = 200;
  CHECK(find(judged({host(1, 8)}, low), "gpus/read")->expected == "259");
  CHECK(names(judged({host(1, 8, slow, "PIX")}, floors)).empty());
}

TEST_CASE("gpus: wrong data is the pair's whatever its speed", "[check]") {
  GpuReport report = host(1, 8);
  report.pairs[0].wrong = {"read"};
  const GpusFindings found = judged({report});
  CHECK(names(found) == Names{"link n1 0000:10:00.0 - n1 0000:20:00.0"});
  CHECK(find(found, "gpus/blame")->code == ErrorCode::bad_data);
}

TEST_CASE("gpus: pairs without peer access are told, and held against nobody", "[check]") {
  GpuReport report = host(1, 4);
  for (GpuPair& pair : report.pairs)
    if (pair.from + pair.to == 1) {
      pair.figures = {};
      pair.why = "GPU 0 cannot access the memory of GPU 1";
    }
  const GpusFindings found = judged({report});
  CHECK(found.culprits.empty());
  const Finding* told = find(found, "gpus/peer-access");
  CHECK(told->status == FindingStatus::warn);
  CHECK(told->n == 2);
  CHECK(told->message.find("go through host memory") != std::string::npos);
  GpuReport none = host(1, 2);
  none.no_kernels = "built without nvcc";
  for (GpuPair& pair : none.pairs)
    for (const PairFigure figure :
         {PairFigure::kernel_write, PairFigure::kernel_read, PairFigure::latency})
      pair.figures[size_t(figure)] = 0;
  const GpusFindings rest = judged({none});
  CHECK(find(rest, "gpus/kernels")->code == ErrorCode::incomplete);
  CHECK(find(judged({host(1, 1)}), "gpus/pairs")->message == "n1: one GPU, so there is no pair");
}

TEST_CASE("gpus: a slot, the memory of a node, and a GPU slow only in a crowd", "[check]") {
  GpuReport slot = host(1, 8);
  slot.legs[4].to_GBps = 12;
  CHECK(names(judged({slot})) == Names{"gpu n1 0000:50:00.0"});
  GpuReport memory = host(1, 8);
  for (HostLeg& leg : memory.legs) leg.from_GBps = 20;
  const GpusFindings found = judged({memory, host(2, 8), host(3, 8)});
  CHECK(names(found) == Names{"host n1"});
  CHECK(first(found).evidence.find("memory of NUMA node 0") != std::string::npos);
  GpuReport crowd = host(1, 8);
  crowd.gpus[6].gets_of_all = 100;
  const GpusFindings one = judged({crowd});
  CHECK(names(one) == Names{"gpu n1 0000:70:00.0"});
  CHECK(find(one, "gpus/blame")->reason == "receives");
  GpuReport wrong = host(1, 2);
  wrong.legs[1].wrong = true;
  CHECK(find(judged({wrong}), "gpus/blame")->code == ErrorCode::bad_data);
}

TEST_CASE("gpus: a busy host is excused down to half of what is asked", "[check]") {
  GpuReport busy = host(1, 8, slow_pair(2, 5, true, 0.5));
  busy.busy = "others took 7 of 8 cores";
  const GpusFindings found = judged({busy});
  CHECK(found.culprits.empty());
  CHECK(find(found, "gpus/busy")->code == ErrorCode::incomplete);
  CHECK(find(found, "gpus/busy")->reason == kBusyHost);
  GpuReport slow = host(1, 8, slow_pair(2, 5, true, 0.3));
  slow.busy = busy.busy;
  CHECK(names(judged({slow})).size() == 1);
}

TEST_CASE("gpus: what was measured again counts where it is better, and wrong data stays",
          "[check]") {
  GpuReport first = host(1, 4, slow_gpu(1, true, true));
  first.pairs[3].wrong = {"write"};
  first.busy = "others";
  keep_better(first, host(1, 4));
  CHECK(first.busy.empty());
  for (const GpuPair& pair : first.pairs)
    for (size_t f = 0; f < kPairFigures; ++f) CHECK(pair.figures[f] == Approx(kUsual[f]));
  CHECK(first.pairs[3].wrong == Names{"write"});
  GpuReport second = host(1, 4);
  keep_better(second, host(1, 4, [](int, int, PairFigure) { return 0.5; }));
  CHECK(second.pairs[0].of(PairFigure::write) == Approx(380));
  CHECK(second.pairs[0].of(PairFigure::latency) == Approx(1.5));
}

}  // namespace check_gpus_tests

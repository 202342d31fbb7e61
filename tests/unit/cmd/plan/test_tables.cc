// The tables of `plan` on recorded values: a row for every size, and why, where the choice changes.
#include "cmd/plan/cpu.h"
#include "tests/catch.h"
#include "topology/xml/xml.h"

namespace plan_tables_tests {

using namespace collctl;
using namespace collctl::cmd;
using kernels::AlgorithmId;
using kernels::Protocol;

namespace {

std::string from_mark(const std::string& text, const std::string& mark) {
  INFO(text);
  const size_t at = text.find(mark);
  REQUIRE(at != std::string::npos);
  return text.substr(at);
}

TopoView cores(int count) {
  TopoView view;
  view.source = "test";
  base::Processors processors;
  processors.packages = 1;
  processors.cores = count;
  processors.nodes.resize(1);
  for (int id = 0; id < count; ++id) {
    processors.online.push_back({.id = id, .core = id});
    processors.nodes[0].processors.push_back(id);
  }
  view.processors = std::move(processors);
  return view;
}

// Two GPUs below one switch, and a NIC.
TopoView gpus() {
  const char* const text =
      "<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\" vendor=\"GenuineIntel\" "
      "familyid=\"6\" modelid=\"85\"><pci busid=\"0000:10:00.0\" class=\"0x060400\" "
      "link_speed=\"16.0 GT/s PCIe\" link_width=\"16\">"
      "<pci busid=\"0000:11:00.0\" class=\"0x030200\" link_speed=\"16.0 GT/s PCIe\" "
      "link_width=\"16\"><gpu dev=\"0\" rank=\"0\" sm=\"80\" gdr=\"1\"/></pci>"
      "<pci busid=\"0000:12:00.0\" class=\"0x030200\" link_speed=\"16.0 GT/s PCIe\" "
      "link_width=\"16\"><gpu dev=\"1\" rank=\"1\" sm=\"80\" gdr=\"1\"/></pci>"
      "<pci busid=\"0000:13:00.0\" class=\"0x020000\" link_speed=\"16.0 GT/s PCIe\" "
      "link_width=\"16\"><nic><net name=\"n0\" dev=\"0\" speed=\"200000\" port=\"1\" "
      "guid=\"0x1\" gdr=\"1\"/></nic></pci></pci></cpu></system>";
  auto read = topology::read_xml(text, "two.xml");
  REQUIRE(read);
  auto view = view_of(std::move(read->system), "two.xml", {});
  REQUIRE(view);
  return std::move(*view);
}

PlanRow row(uint64_t bytes, AlgorithmId algorithm, Protocol protocol, double us,
            const std::string& why) {
  PlanRow made;
  made.bytes = bytes;
  made.algorithm = algorithm;
  made.protocol = protocol;
  made.channels = 2;
  made.threads = algorithm == AlgorithmId::one_shot ? 0 : 256;
  made.expected_us = us;
  made.limited_by = "PCI";
  made.why = why;
  made.algbw_gbps = double(bytes) / us / 1e3;
  made.busbw_gbps = made.algbw_gbps;
  return made;
}

}  // namespace

TEST_CASE("plan's table for GPUs: a row for each size, and a reason for each run of one choice",
          "[plan]") {
  PlanSpec spec;
  spec.sizes = {8};
  auto plan = make_job_plan(gpus(), std::move(spec));
  REQUIRE(plan);
  plan->rows = {row(8, AlgorithmId::one_shot, Protocol::simple, 8.25, "one-shot; 2 us before tree"),
                row(1024, AlgorithmId::tree, Protocol::ll, 10, "tree ll; 1 us before ring"),
                row(1 << 20, AlgorithmId::tree, Protocol::ll, 100, "tree ll; 5 us before ring"),
                row(1 << 30, AlgorithmId::ring, Protocol::simple, 50000, "ring; 9 us before tree")};
  CHECK(from_mark(plan_text(*plan, 0), "#      size") ==
        "#      size  algo      proto   channels  threads   time   algbw   busbw  limited by\n"
        "#       (B)                                        (us)  (GB/s)  (GB/s)\n"
        "          8  one-shot  simple         2        -  8.250  0.0010  0.0010  PCI\n"
        "       1024  tree      ll             2      256  10.00   0.102   0.102  PCI\n"
        "    1048576  tree      ll             2      256  100.0   10.49   10.49  PCI\n"
        " 1073741824  ring      simple         2      256  50000   21.47   21.47  PCI\n"
        "#\n"
        "# why: 8 B: one-shot; 2 us before tree\n"
        "# why: 1 KiB to 1 MiB: tree ll; 1 us before ring; at the end 5 us before ring\n"
        "# why: 1 GiB: ring; 9 us before tree\n");
  // The same reason at both ends is shown once.
  plan->rows[2].why = plan->rows[1].why;
  CHECK(plan_text(*plan, 0).find("# why: 1 KiB to 1 MiB: tree ll; 1 us before ring\n") !=
        std::string::npos);
  // Words of a file cannot reach the terminal as more than text.
  plan->rows[0].limited_by = "\x1b[31m";
  CHECK(plan_text(*plan, 0).find('\x1b') == std::string::npos);
}

TEST_CASE("plan's details: what was weighed and what could not serve", "[plan]") {
  PlanSpec spec;
  spec.sizes = {8};
  auto plan = make_job_plan(gpus(), std::move(spec));
  REQUIRE(plan);
  plan->rows = {row(8, AlgorithmId::ring, Protocol::ll, 8, "ring")};
  runtime::WeighedChoice ring, tree, shot;
  ring.algorithm = AlgorithmId::ring;
  ring.protocol = Protocol::ll;
  ring.us = 8;
  tree.algorithm = AlgorithmId::tree;
  tree.protocol = Protocol::simple;
  tree.us = 12.5;
  shot.algorithm = AlgorithmId::one_shot;
  shot.protocol = Protocol::simple;
  shot.unavailable = "no P2P";
  plan->rows[0].weighed = {ring, tree, shot};
  const std::string text = plan_text(*plan, 1);
  CHECK(text.find("# 8 B: ring ll 8.000, tree simple 12.50 us\n") != std::string::npos);
  CHECK(text.find("# not one-shot simple: no P2P\n") != std::string::npos);
  CHECK(plan_text(*plan, 0).find("no P2P") == std::string::npos);
}

TEST_CASE("plan's table for CPU ranks: a reason where the choice changes", "[plan]") {
  PlanSpec spec;
  spec.sizes = {8};
  auto plan = make_cpu_plan(cores(4), std::move(spec));
  REQUIRE(plan);
  const auto cpu_row = [](uint64_t bytes, AlgorithmId algorithm, double us) {
    CpuPlanRow made;
    made.bytes = bytes;
    made.choice.algorithm = algorithm;
    made.choice.protocol = Protocol::simple;
    made.choice.channels = 1;
    made.choice.expected.us = us;
    made.choice.expected.limited_by = "copies";
    made.choice.why = "1 us before ring";
    made.algbw_gbps = double(bytes) / us / 1e3;
    made.busbw_gbps = 1.5 * made.algbw_gbps;
    return made;
  };
  plan->rows = {cpu_row(8, AlgorithmId::one_shot, 4), cpu_row(64, AlgorithmId::one_shot, 4),
                cpu_row(1 << 20, AlgorithmId::two_shot, 512)};
  CHECK(from_mark(cpu_plan_text(*plan), "#   size") ==
        "#   size  algo      proto   channels   time   algbw   busbw  limited by\n"
        "#    (B)                               (us)  (GB/s)  (GB/s)\n"
        "       8  one-shot  simple         1  4.000  0.0020  0.0030  copies\n"
        "      64  one-shot  simple         1  4.000  0.0160  0.0240  copies\n"
        " 1048576  two-shot  simple         1  512.0   2.048   3.072  copies\n"
        "# why: from 8 B: one-shot simple; 1 us before ring\n"
        "# why: from 1 MiB: two-shot simple; 1 us before ring\n");
}

TEST_CASE("ranks in a line: sixteen and the last", "[plan]") {
  std::vector<int> ranks;
  for (int rank = 0; rank < 16; ++rank) ranks.push_back(rank);
  CHECK(shortened_ranks(ranks, "-") == "0-1-2-3-4-5-6-7-8-9-10-11-12-13-14-15");
  ranks.push_back(16);
  CHECK(shortened_ranks(ranks, " ") == "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16");
  ranks.push_back(17);
  CHECK(shortened_ranks(ranks, " ") == "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 ... 17");
  CHECK(shortened_ranks({}, " ").empty());
}

}  // namespace plan_tables_tests

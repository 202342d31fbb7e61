// `plan` of GPU ranks against what the start of a communicator comes to on the same machine, and
// the choice by hand.
#include <nlohmann/json.hpp>
#include <regex>

#include "base/env.h"
#include "base/format.h"
#include "cmd/plan/plan.h"
#include "cmd/verify/buffer_shape.h"
#include "tests/catch.h"
#include "tests/how_much.h"
#include "tests/unit/runtime/gpu_job.h"
#include "tests/unit/runtime/gpu_ranks.h"
#include "topology/xml/xml.h"

namespace plan_plan_gpu_tests {

using namespace collctl;
using namespace collctl::cmd;
using kernels::AlgorithmId;
using kernels::Collective;
using kernels::Protocol;
using runtime::testing::host_launcher;

namespace {

// Two H100 that 18 NVLinks join.
std::string pair_xml() {
  std::string text;
  for (const char* rank : {"0", "1"})
    text += format(
        "<pci busid=\"0000:1{0}:00.0\" class=\"0x030200\" vendor=\"0x10de\" device=\"0x2330\" "
        "link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"><gpu dev=\"{0}\" sm=\"90\" rank=\"{0}\" "
        "gdr=\"1\"><nvlink target=\"0000:1{1}:00.0\" count=\"18\" "
        "tclass=\"0x030200\"/></gpu></pci>",
        rank, *rank == '0' ? "1" : "0");
  return "<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\" vendor=\"GenuineIntel\" "
         "familyid=\"6\" modelid=\"143\">" +
         text + "</cpu></system>";
}

JobPlan planned(const std::string& xml, PlanSpec spec) {
  auto read = topology::read_xml(xml, "node.xml");
  REQUIRE(read.ok());
  auto view = view_of(std::move(read->system), "node.xml", {});
  REQUIRE(view.ok());
  spec.launcher = &host_launcher();
  auto plan = make_job_plan(std::move(*view), std::move(spec));
  INFO((plan.ok() ? "" : plan.error().chain()));
  REQUIRE(plan.ok());
  return std::move(*plan);
}

// Nothing looks at what these point to.
runtime::Operation operation_of(Collective collective, uint64_t count) {
  runtime::Operation op;
  op.collective = collective;
  op.count = count;
  op.input = reinterpret_cast<const void*>(uintptr_t(1) << 40);
  op.output = reinterpret_cast<void*>(uintptr_t(1) << 41);
  return op;
}

}  // namespace

// A communicator's start, with the hosts' reports of their GPUs (make_gpu_shape), and then with its
// memory: one host maps all of it, and its lines come whole.
TEST_CASE("plan chooses for GPUs what ranks on them choose", "[gpu]") {
  const std::vector<uint64_t> sizes{8, 4096, 256 << 10, 1 << 20, 2 << 20, 64 << 20};
  int compared = 0, windows = 0;
  for (const int nodes : {1, 2, 3}) {
    GpuPlanJob job = gpu_job(8 * nodes);
    runtime::CommOptions options;
    options.device = 0;
    auto settings = runtime::read_settings(options);
    REQUIRE(settings.ok());
    job.settings = *settings;
    job.gdr = true;  // as the file says
    runtime::CommShape shape = job.shapes()[0];
    shape.gpu_window = nodes == 1;
    shape.no_window = "the ranks are on several hosts";
    shape.window_serves = host_launcher().window_serves;
    shape.ll128_passed = shape.no_ll128.empty();
    for (int c = 0; c < kernels::kCollectiveCount; ++c) {
      const auto collective = Collective(c);
      if (collective == Collective::send_recv || collective == Collective::barrier) continue;
      if (!test::nightly() && nodes > 1 && c % 2 != nodes % 2) continue;
      PlanSpec spec;
      spec.nodes = nodes;
      spec.collective = collective;
      spec.sizes = sizes;
      const JobPlan plan = planned(data_text(data_path(kH100)), spec);
      for (size_t i = 0; i < sizes.size(); ++i) {
        const PlanRow& row = plan.rows[i];
        const auto op =
            operation_of(collective, size_point(collective, sizes[i], 8 * nodes, 4).count);
        auto run = make_plan({&op, 1}, shape, {});
        INFO(name_of(collective) << " of " << sizes[i] << " on " << nodes << " nodes");
        REQUIRE(run.ok());
        REQUIRE(run->ops.size() == 1);
        const runtime::PlannedOp& ran = run->ops[0];
        CHECK(ran.algorithm == row.algorithm);
        CHECK(ran.protocol == row.protocol);
        CHECK(ran.channels == row.channels);
        CHECK(ran.threads == row.threads);
        CHECK(ran.expected_us == row.expected_us);
        ++compared;
        windows += ran.by_window_kernel;
      }
    }
  }
  CHECK(compared == (test::nightly() ? 3 : 2) * 8 * 6);
  // Both kinds were among them.
  CHECK(windows > 0);
  CHECK(windows < compared);
}

TEST_CASE("a plan over network devices of unknown speed says what it assumes", "[gpu]") {
  PlanSpec spec;
  spec.sizes = {1 << 20};
  spec.nodes = 2;
  const std::regex speed(" speed=\"[0-9]+\"");
  for (const bool known : {true, false}) {
    const std::string xml = data_text(data_path(kH100));
    const JobPlan plan = planned(known ? xml : std::regex_replace(xml, speed, ""), spec);
    const auto expected = nlohmann::json::parse(plan_json(plan))["choices"][0]["expected"];
    CHECK(expected["source"] == (known ? "model" : "assumed"));
    CHECK(expected.contains("unknown") == !known);
    if (!known) CHECK(expected["unknown"].get<std::string>().ends_with(" of node.xml"));
  }
}

TEST_CASE("plan of GPUs that map each other's memory, by hand", "[gpu]") {
  PlanSpec spec;
  spec.sizes = {4096, 2 << 20};
  auto choices = runtime::parse_choices("", "simple", 0);
  REQUIRE(choices.ok());
  spec.choices = *choices;
  const JobPlan plan = planned(pair_xml(), spec);
  // One-shot simple of two ranks: 1.2 us of launch, 7.0 of flags, 4096 bytes at 328 GB/s.
  const PlanRow& small = plan.rows[0];
  CHECK(small.algorithm == AlgorithmId::one_shot);
  CHECK(small.channels == 1);
  CHECK(small.threads == 0);  // the kernel's own
  CHECK(std::abs(small.expected_us - (1.2 + 7.0 + 4096 / 328e3)) < 1e-9);
  CHECK(small.limited_by == "latency: launch and flags of 2 ranks");
  // The stand-in's window kernels end at 1 MiB.
  const PlanRow& large = plan.rows[1];
  CHECK(large.algorithm != AlgorithmId::one_shot);
  CHECK(large.threads > 0);
  for (const runtime::WeighedChoice& way : large.weighed)
    if (way.algorithm == AlgorithmId::two_shot)
      CHECK(way.unavailable.find("two-shot has no kernel for allreduce of 2097152 bytes") == 0);
  const std::string text = plan_text(plan, 0);
  CHECK(text.find("one-shot  simple         1        -  8.212") != std::string::npos);
  for (const auto& finding : plan.view.findings)
    CHECK(finding.what.find("no GPU kernels") == std::string::npos);
}

TEST_CASE("plan without P2P between two GPUs has the window in host memory, without LL128",
          "[gpu]") {
  const base::ScopedVariable off("NCCL_P2P_DISABLE", "1");
  PlanSpec spec;
  spec.sizes = {8};
  const JobPlan plan = planned(pair_xml(), spec);
  int refused = 0;
  for (const runtime::WeighedChoice& way : plan.rows[0].weighed)
    if (way.algorithm == AlgorithmId::one_shot) {
      CHECK(way.unavailable.empty() == (way.protocol != Protocol::ll128));
      refused += !way.unavailable.empty();
    }
  CHECK(refused == 1);
}

}  // namespace plan_plan_gpu_tests

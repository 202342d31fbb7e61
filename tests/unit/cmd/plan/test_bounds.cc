// No plan promises more than the wires of the machine carry. The bound is of the file alone: the
// rates of its links, without anything that the model assumes.
#include <pugixml.hpp>

#include "base/env.h"
#include "base/format.h"
#include "cmd/plan/plan.h"
#include "tests/catch.h"
#include "tests/how_much.h"
#include "tests/unit/runtime/gpu_ranks.h"
#include "tests/unit/topology/data_files.h"
#include "topology/xml/xml.h"

namespace plan_bounds_tests {

using namespace collctl;
using namespace collctl::cmd;
using kernels::Collective;
using runtime::testing::host_launcher;

namespace {

constexpr double kUnbounded = 1e9;  // GB/s: the file does not say

// One way, after line coding: "16.0 GT/s PCIe" on 16 lanes is 31.5 GB/s.
double pci_wire(const pugi::xml_node& device) {
  const double giga = std::strtod(device.attribute("link_speed").value(), nullptr);
  const int lanes = device.attribute("link_width").as_int();
  if (giga <= 0 || lanes <= 0) return kUnbounded;
  return giga * lanes / 8 * (giga < 8 ? 8.0 / 10 : 128.0 / 130);
}

// A link between GPUs, one way, from the makers' data sheets.
double fabric_wire(const pugi::xml_node& gpu, const std::string& kind) {
  if (kind == "xgmi") return 64;
  const int sm = gpu.attribute("sm").as_int();
  return sm >= 100 ? 50 : sm == 86 ? 14.1 : sm >= 70 || sm == 0 ? 25 : 20;
}

struct Wires {
  double pci = kUnbounded;  // of the GPU's own link and those above it
  double own = kUnbounded;  // of its own
  double fabric = 0;        // NVLink, xGMI, C2C
};

std::vector<Wires> wires_of(const std::string& text) {
  pugi::xml_document xml;
  REQUIRE(xml.load_string(text.c_str()));
  std::vector<Wires> all;
  for (const pugi::xpath_node& found : xml.select_nodes("//gpu")) {
    const pugi::xml_node gpu = found.node();
    if (gpu.attribute("rank").as_int(0) < 0) continue;
    Wires& wires = all.emplace_back();
    wires.own = pci_wire(gpu.parent());
    for (pugi::xml_node at = gpu.parent(); std::string(at.name()) == "pci"; at = at.parent())
      wires.pci = std::min(wires.pci, pci_wire(at));
    for (const pugi::xml_node& link : gpu.children()) {
      const std::string kind = link.name();
      if (kind == "nvlink" || kind == "xgmi")
        wires.fabric += link.attribute("count").as_int(1) * fabric_wire(gpu, kind);
      if (kind == "c2c")
        wires.fabric += link.attribute("count").as_int(1) * link.attribute("bw").as_double() / 1e3;
    }
  }
  return all;
}

// The bytes that enter or leave the GPU that has least.
double bound_of(const std::vector<Wires>& all, bool p2p) {
  double least = kUnbounded;
  for (const Wires& wires : all)
    least = std::min(least, p2p ? wires.own + wires.fabric : wires.pci);
  return least;
}

}  // namespace

TEST_CASE("no plan of a node promises more than its narrowest wire carries", "[gpu][plan]") {
  int bounded = 0, through_host = 0;
  size_t turn = 0;
  test::Part part(test::Sweep::committed_machines);
  for (const std::string& path : data_files()) {
    const std::string text = data_text(path);
    const std::vector<Wires> wires = wires_of(text);
    if (wires.size() < 2 || !part.takes()) continue;
    for (const bool p2p : {true, false}) {
      const double bound = bound_of(wires, p2p);
      if (bound >= kUnbounded) continue;
      const base::ScopedVariable off("NCCL_P2P_DISABLE", p2p ? "0" : "1");
      const std::vector all{Collective::all_reduce, Collective::all_gather, Collective::broadcast};
      const std::vector one{all[turn++ % all.size()]};
      for (const Collective collective : test::nightly() ? all : one) {
        auto read = topology::read_xml(text, path);
        REQUIRE(read.ok());
        auto view = view_of(std::move(read->system), path, {});
        if (!view.ok()) continue;
        PlanSpec spec;
        spec.collective = collective;
        spec.sizes = {1 << 20, 16 << 20, 1 << 30};
        spec.launcher = &host_launcher();
        const auto plan = make_job_plan(std::move(*view), std::move(spec));
        if (!plan.ok()) continue;
        if (plan->parts.size() > 1 || plan->cluster.ranks() < 2) continue;
        for (const PlanRow& row : plan->rows) {
          INFO(path << ", P2P " << p2p << ", " << name_of(collective) << " of " << row.bytes << ": "
                    << row.busbw_gbps << " GB/s by " << name_of(row.algorithm) << ", "
                    << row.limited_by);
          CHECK(row.busbw_gbps <= bound);
          ++bounded;
          // Nor does any other way that was weighed.
          for (const runtime::WeighedChoice& way : row.weighed) {
            if (!way.unavailable.empty() || way.us <= 0) continue;
            INFO("weighed: " << name_of(way.algorithm) << " " << name_of(way.protocol));
            CHECK(row.busbw_gbps * row.expected_us / way.us <= bound);
            through_host += row.limited_by.find("through host memory") != std::string::npos;
          }
        }
      }
    }
  }
  CHECK(bounded > (test::nightly() ? 300 : 20));
  CHECK(through_host > 0);
}

}  // namespace plan_bounds_tests

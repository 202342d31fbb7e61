// The options that only `plan` reads as it does: its protocols are those of the model of GPU ranks.
#include "cmd/cli/option_rows.h"
#include "cmd/measure/options.h"
#include "cmd/plan/plan.h"
#include "kernels/algo/algorithms.h"
#include "topology/cluster/cluster.h"

namespace collctl::cmd {
namespace {

using kernels::Protocol;

std::vector<std::string> planned_protocols() {
  std::vector<std::string> names;
  for (int i = 0; i < kernels::kProtocolCount; ++i)
    names.emplace_back(kernels::name_of(Protocol(i)));
  names.emplace_back("all");
  return names;
}

}  // namespace

std::vector<std::string> planned_operations() {
  std::vector<std::string> names;
  for (const BenchOp& op : bench_ops()) names.emplace_back(name_of(op));
  return names;
}

void add_plan_options(std::vector<Option>& t) {
  using namespace kinds;
  const Adder sizes{t, Group::sizes, kPlan};
  sizes("e,max-bytes", size("128M"), to<&SizeRange::max_bytes>, "largest size");
  sizes("bytes", repeatable(size("none")), to<&PlanSpec::sizes>, "this size only");
  const Adder choose{t, Group::select, kPlan};
  choose.in(kPlan | kTopo)("nodes", integer("N", 1, topology::kMaxClusterNodes, "1"),
                           to<&PlanSpec::nodes>, "how many such nodes",
                           "The channels of a node differ between one node and several, because "
                           "with several they also use the network.");
  // The collective, before it was a word (cmd/cli/foreign_options.cc).
  choose("op", one_of("NAME", planned_operations(), "allreduce"), "the collective").hidden = true;
  choose("algo", some_of("NAME", algorithm_names(), "chosen"),
         "algorithms to choose from, comma separated");
  choose("proto", some_of("NAME", planned_protocols(), "chosen"),
         "protocols to choose from, comma separated");
  const Adder output{t, Group::output, kPlan};
  output("v,verbose", count(), "what the search tried, and the times each size was weighed by");
}

}  // namespace collctl::cmd

// The options that only `plan` reads as it does: its --op is a collective, and its protocols are
// those of the model of GPU ranks.
#include "cmd/cli/option_rows.h"
#include "cmd/measure/options.h"
#include "cmd/plan/plan.h"
#include "kernels/algo/algorithms.h"
#include "topology/cluster/cluster.h"

namespace collctl::cmd {
namespace {

using kernels::Protocol;

std::vector<std::string> planned_operations() {
  std::vector<std::string> names;
  for (const BenchOp& op : bench_ops()) names.emplace_back(name_of(op));
  return names;
}

std::vector<std::string> planned_protocols() {
  std::vector<std::string> names;
  for (int i = 0; i < kernels::kProtocolCount; ++i)
    names.emplace_back(kernels::name_of(Protocol(i)));
  names.emplace_back("all");
  return names;
}

}  // namespace

void add_plan_options(std::vector<Option>& t) {
  const Adder sizes{t, Group::sizes, kPlan};
  sizes({.name = "max-bytes",
         .letter = 'e',
         .kind = ValueKind::size,
         .value = "SIZE",
         .fallback = "128M",
         .help = "largest size"});
  sizes({.name = "bytes",
         .kind = ValueKind::size,
         .value = "SIZE",
         .fallback = "none",
         .repeatable = true,
         .help = "this size only"});
  const Adder choose{t, Group::select, kPlan};
  choose({.name = "nodes",
          .kind = ValueKind::integer,
          .value = "N",
          .fallback = "1",
          .minimum = 1,
          .maximum = topology::kMaxClusterNodes,
          .scopes = kPlan | kTopo,
          .help = "how many such nodes",
          .more = "The channels of a node differ between one node and several, because with "
                  "several they also use the network."});
  choose({.name = "op",
          .kind = ValueKind::choice,
          .value = "NAME",
          .fallback = "allreduce",
          .allowed = planned_operations(),
          .help = "the collective, or pattern of messages"});
  choose({.name = "algo",
          .kind = ValueKind::choices,
          .value = "NAME",
          .fallback = "chosen",
          .allowed = algorithm_names(),
          .help = "algorithms to choose from, comma separated"});
  choose({.name = "proto",
          .kind = ValueKind::choices,
          .value = "NAME",
          .fallback = "chosen",
          .allowed = planned_protocols(),
          .help = "protocols to choose from, comma separated"});
  const Adder output{t, Group::output, kPlan};
  output({.name = "verbose",
          .letter = 'v',
          .kind = ValueKind::count,
          .help = "what the search tried, and the times each size was weighed by"});
}

}  // namespace collctl::cmd

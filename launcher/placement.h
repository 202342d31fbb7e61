// Which cores each local rank is bound to. Pure: the facts come in as values. Used by cmd when it
// starts a local job.
#pragma once
#include <string>
#include <vector>

#include "base/host_facts.h"
#include "base/result.h"

namespace collctl::launcher {

enum class BindTo { none, core, numa };

// "none", "core" or "numa"; anything else: usage error.
Result<BindTo> parse_bind_to(const std::string& text);

// One core list per rank (empty: not bound). `cores` are the ones we may use. core: one core each,
// in order, again from the first when ranks outnumber them. numa: ranks in equal blocks over the
// nodes that have usable cores, each bound to all usable cores of its node.
std::vector<std::vector<int>> place_local(int ranks, BindTo bind_to, const std::vector<int>& cores,
                                          const std::vector<base::NumaNode>& nodes);

}  // namespace collctl::launcher

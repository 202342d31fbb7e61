// Shapes and operations to be planned, and the check that schedules of messages match.
#pragma once
#include <map>
#include <tuple>

#include "kernels/algo/algorithms.h"
#include "runtime/plan/cost.h"
#include "runtime/plan/planner.h"
#include "runtime/plan/shape.h"
#include "tests/catch.h"

namespace collctl::runtime::testing {

using kernels::AlgorithmId;
using kernels::PairStep;
using kernels::Protocol;

// As on one host without memory that all ranks map; with_windows() adds it.
inline CommShape shape_of(int rank, int nranks, int channels = 1) {
  const std::vector<uint64_t> hashes(size_t(nranks), 7);
  const HostGroups hosts = group_by_host(hashes);
  CommShape shape;
  shape.rank = rank;
  shape.nranks = nranks;
  shape.channels = make_channels(hosts, rank, channels, LocalTree::binary);
  shape.slot_bytes[int(Protocol::simple)] = 64 << 10;
  shape.slot_bytes[int(Protocol::ll)] = 16 << 10;
  shape.tree_depth = tree_depth(hosts, LocalTree::binary);
  shape.default_channels = channels;
  shape.no_window = "SHM_DISABLE is set";
  return shape;
}

inline CommShape with_windows(CommShape shape) {
  shape.window_bytes = 256 << 10;
  shape.window_channels = int(shape.channels.size());
  shape.no_window.clear();
  return shape;
}

inline std::vector<uint8_t> g_in(64 << 20), g_out(64 << 20);

inline Operation operation(Collective c, uint64_t count, int root = 0) {
  return {
      .collective = c, .input = g_in.data(), .output = g_out.data(), .count = count, .root = root};
}

inline Choices choices(const char* algo, const char* proto, int channels = 0) {
  auto parsed = parse_choices(algo, proto, channels);
  REQUIRE(parsed);
  return *parsed;
}

inline Error plan_error(const Operation& op, const CommShape& shape, const Choices& c = {}) {
  auto plan = make_plan({&op, 1}, shape, c);
  REQUIRE_FALSE(plan);
  return plan.error();
}

// Every (from, to, k-th of the pair) message of all ranks' schedules with the step numbers of both
// ends; the schedules are executed with unbounded patience: nobody may wait for somebody who is
// behind for ever.
inline void run_schedules(const std::vector<std::vector<PairStep>>& steps) {
  const size_t n = steps.size();
  std::vector<size_t> at(n), sent(n);
  std::map<std::pair<size_t, size_t>, std::vector<uint64_t>> wires;  // bytes under way
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t r = 0; r < n; ++r) {
      if (at[r] == steps[r].size()) continue;
      const PairStep& s = steps[r][at[r]];
      if (sent[r] == at[r]) {  // the send of this step comes first and needs an empty wire
        if (s.send_peer >= 0 && s.send_peer != int(r)) {
          auto& wire = wires[{r, size_t(s.send_peer)}];
          if (!wire.empty()) continue;
          wire.push_back(s.send_count);
        }
        ++sent[r];
        moved = true;
      }
      if (s.recv_peer >= 0 && s.recv_peer != int(r)) {
        auto& wire = wires[{size_t(s.recv_peer), r}];
        if (wire.empty()) continue;
        REQUIRE(wire.front() == s.recv_count);
        wire.clear();
      }
      ++at[r];
      moved = true;
    }
  }
  for (size_t r = 0; r < n; ++r) REQUIRE(at[r] == steps[r].size());
  for (auto& [pair, wire] : wires) REQUIRE(wire.empty());
}

}  // namespace collctl::runtime::testing

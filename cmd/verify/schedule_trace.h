// ScheduleTrace: the schedules of all ranks for one row, and the path of one output element back
// through them: which hops it took and which inputs it is made of. Built by the diagnosis on rank 0
// from what every rank recorded of its own plan; values; one thread.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/record.h"
#include "kernels/record/event.h"
#include "runtime/plan/plan.h"

namespace collctl::cmd {

// One receiving verb of one rank, from one of its peers.
struct Hop {
  int rank = -1, peer = -1, channel = -1, part = 0;
  uint32_t event = 0;
  int operation = 0;  // of the schedule
  auto operator<=>(const Hop&) const = default;
};

// Origin of an output element: inputs, and hops with the inputs that came through each.
struct Origin {
  struct Leaf {
    int rank;
    uint64_t element;  // of that rank's input
  };
  struct Edge {
    Hop hop;
    size_t first_leaf, end_leaf;
  };
  std::vector<Leaf> leaves;
  std::vector<Edge> edges;  // of a chain: the earliest hop first
};

struct WrittenBy {  // the last verb that writes an output element
  int channel = -1;
  uint64_t chunk = 0;  // by place in the output, of the channel
  uint64_t step = 0;   // receiving verbs of the rank and channel before it
  kernels::Verb verb{};
  std::vector<int> peers;
};

class ScheduleTrace {
 public:
  // One rank's share: its plans recorded, which run one after another, with the addresses of its
  // buffers. Empty when they have more verbs than are worth sending around.
  static Bytes describe(std::span<const runtime::Plan> plans, const void* input,
                        const void* output);
  // All ranks' shares, by rank. False when any is empty or malformed: nothing can be traced.
  bool load(const std::vector<Bytes>& shares, uint32_t element_bytes);

  // False when the element cannot be followed (no verb writes it).
  bool origin(int rank, uint64_t output_element, Origin& origin) const;
  bool written_by(int rank, uint64_t output_element, WrittenBy& written) const;
  uint64_t step_of(const Hop& hop) const;  // receiving verbs of the rank and channel before it
  kernels::Verb verb_of(const Hop& hop) const;

 private:
  struct Place {  // of an event in a lane
    int part = 0;
    uint32_t event = 0;
  };
  struct Lane {  // one rank's work of one operation on one channel
    uint32_t element_bytes = 1;
    std::vector<std::vector<kernels::Event>> parts = {};
    std::map<int, std::vector<Place>> sends = {};  // by peer, in order
    // Which message from its peer an event takes: (part, event, which peer of it) -> number.
    std::map<std::tuple<int, uint32_t, int>, uint32_t> message = {};
  };
  using LaneKey = std::pair<int, int>;  // operation, those of a later plan behind; channel
  struct RankSchedule {
    uint64_t input = 0, output = 0;  // addresses
    std::map<LaneKey, Lane> lanes;
  };
  struct Share {  // as it travels
    uint64_t input = 0, output = 0;
    std::vector<std::pair<LaneKey, Lane>> lanes;
  };
  static void fields(Record& io, Share& share);

  // Ranks that an event takes data from, and from where: the event that sent or staged it, and how
  // far into that event's chunk. False when there is none.
  struct Source {
    int rank = -1;
    Place place;
    uint64_t delta = 0;
  };
  std::vector<int> peers_of(int rank, const kernels::Event& event) const;
  bool find_sender(int rank, const LaneKey& key, const Place& place, int which, uint64_t delta,
                   Source& source) const;
  bool find_stager(int rank, const LaneKey& key, const Place& place, int peer, uint64_t delta,
                   Source& source) const;
  static void number_messages(Lane& lane);
  bool find_writer(const RankSchedule& schedule, uint64_t address, LaneKey& lane,
                   Place& place) const;
  bool walk(int rank, const LaneKey& key, const Place& place, uint64_t delta, Origin& origin,
            int depth) const;
  bool walk_read(int rank, const LaneKey& key, const Place& place, uint64_t address, Origin& origin,
                 int depth) const;

  uint32_t element_bytes_ = 1;
  std::vector<RankSchedule> ranks_;
};

}  // namespace collctl::cmd

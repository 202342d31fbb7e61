#include "cmd/verify/schedule_trace.h"

#include <algorithm>

#include "kernels/record/schedule.h"

namespace collctl::cmd {

using kernels::shape_of;
using kernels::Verb;

namespace {

constexpr size_t kMaxEvents = 200'000;  // of one rank; 10 MB to send around

constexpr int kOperationsOfPlan = 64;
constexpr size_t kMostParts = 16;

// The number of a plan's operation, alike on all ranks: of the ways that messages go a rank has
// only those that its own need.
int number_in_plan(const runtime::PlannedOp& op, size_t place) {
  if (op.collective != kernels::Collective::send_recv) return int(place);
  return int(op.protocol) * 4 + op.by_window_kernel * 2 + op.by_copies;
}

bool covers(uint64_t begin, uint64_t bytes, uint64_t address) {
  return address >= begin && address - begin < bytes;
}

// In bytes alone.
void event_fields(Record& io, kernels::Event& event) {
  io.number("verb", event.verb, kernels::kVerbCount);
  for (uint64_t* const number : {&event.from, &event.to, &event.n, &event.at})
    io.field("number", *number);
  for (int32_t& peer : event.recv) io.field("recv", peer);
  for (int32_t& peer : event.send) io.field("send", peer);
}

}  // namespace

void ScheduleTrace::fields(Record& io, Share& share) {
  io.field("input", share.input);
  io.field("output", share.output);
  const auto part = [&](std::vector<kernels::Event>& events) {
    io.list(
        "events", events, [&](kernels::Event& event) { event_fields(io, event); }, kMaxEvents);
  };
  io.list("lanes", share.lanes, [&](std::pair<LaneKey, Lane>& each) {
    auto& [key, lane] = each;
    io.field("operation", key.first);
    io.field("channel", key.second);
    io.field("element_bytes", lane.element_bytes, 1, 8);
    io.list("parts", lane.parts, part, kMostParts);
  });
}

Bytes ScheduleTrace::describe(std::span<const runtime::Plan> plans, const void* input,
                              const void* output) {
  size_t events = 0;
  Share share{uint64_t(reinterpret_cast<uintptr_t>(input)),
              uint64_t(reinterpret_cast<uintptr_t>(output)),
              {}};
  for (size_t p = 0; p < plans.size(); ++p)
    for (size_t o = 0; o < plans[p].ops.size(); ++o) {
      const runtime::PlannedOp& op = plans[p].ops[o];
      const int number = int(p) * kOperationsOfPlan + number_in_plan(op, o);
      for (const kernels::Work& work : op.works) {
        auto schedule = kernels::record(work);
        if (!schedule) return {};
        for (const auto& part : schedule->parts) events += part.size();
        if (events > kMaxEvents) return {};
        share.lanes.push_back({{number, int(work.channel)},
                               {kernels::element_size(work.type), std::move(schedule->parts)}});
      }
    }
  ByteWriter writer;
  Record io(writer);
  fields(io, share);
  return writer.take();
}

// Messages between two ranks keep their order: the k-th sent is the k-th received. A fifo is used
// by one part only, so the order of a part is the order of its fifos. Empty chunks send nothing.
void ScheduleTrace::number_messages(Lane& lane) {
  std::map<int, uint32_t> received;
  for (int p = 0; p < int(lane.parts.size()); ++p) {
    const auto& part = lane.parts[size_t(p)];
    for (uint32_t e = 0; e < part.size(); ++e) {
      if (part[e].n == 0 || kernels::uses_window(part[e].verb)) continue;
      for (int i = 0; i < kernels::kMaxFanIn; ++i)
        if (part[e].recv[i] >= 0) lane.message[{p, e, i}] = received[part[e].recv[i]]++;
      for (int32_t peer : part[e].send)
        if (peer >= 0) lane.sends[peer].push_back({p, e});
    }
  }
}

bool ScheduleTrace::load(const std::vector<Bytes>& shares, uint32_t element_bytes) {
  element_bytes_ = element_bytes;
  ranks_.clear();
  for (const Bytes& share : shares) {
    if (share.empty()) return false;
    Record io(share);
    Share told;
    fields(io, told);
    if (!io.status() || !io.rest().empty()) return false;
    RankSchedule& schedule = ranks_.emplace_back(RankSchedule{told.input, told.output, {}});
    for (auto& [key, lane] : told.lanes) {
      number_messages(lane);
      schedule.lanes.emplace(key, std::move(lane));
    }
  }
  return true;
}

bool ScheduleTrace::find_writer(const RankSchedule& schedule, uint64_t address, LaneKey& key,
                                Place& place) const {
  bool found = false;
  for (const auto& [lane_key, lane] : schedule.lanes) {
    for (int p = 0; p < int(lane.parts.size()); ++p) {
      const auto& part = lane.parts[size_t(p)];
      for (uint32_t e = 0; e < part.size(); ++e) {
        const kernels::Event& event = part[e];
        if (!shape_of(event.verb).writes ||
            !covers(event.to, event.n * lane.element_bytes, address))
          continue;
        key = lane_key;
        place = {p, e};
        found = true;
      }
    }
  }
  return found;
}

bool ScheduleTrace::origin(int rank, uint64_t output_element, Origin& origin) const {
  origin = {};
  const RankSchedule& schedule = ranks_[size_t(rank)];
  const uint64_t address = schedule.output + output_element * element_bytes_;
  LaneKey key;
  Place place;
  if (!find_writer(schedule, address, key, place)) return false;
  const kernels::Event& event = schedule.lanes.at(key).parts[size_t(place.part)][place.event];
  return walk(rank, key, place, address - event.to, origin, 0);
}

std::vector<int> ScheduleTrace::peers_of(int rank, const kernels::Event& event) const {
  std::vector<int> peers;
  for (int32_t peer : event.recv)
    if (peer >= 0) peers.push_back(peer);
  for (int peer = 0; kernels::reads_all_peers(event.verb) && peer < int(ranks_.size()); ++peer)
    if (peer != rank) peers.push_back(peer);
  return peers;
}

bool ScheduleTrace::find_sender(int rank, const LaneKey& key, const Place& place, int which,
                                uint64_t delta, Source& source) const {
  const Lane& lane = ranks_[size_t(rank)].lanes.at(key);
  const int peer = lane.parts[size_t(place.part)][place.event].recv[which];
  const auto& other = ranks_[size_t(peer)].lanes;
  const auto sender = other.find(key);
  const auto message = lane.message.find({place.part, place.event, which});
  if (sender == other.end() || message == lane.message.end()) return false;
  const auto sent = sender->second.sends.find(rank);
  if (sent == sender->second.sends.end() || message->second >= sent->second.size()) return false;
  source = {peer, sent->second[message->second], delta};
  return true;
}

// The stager of the same piece, counted from the operation's first.
bool ScheduleTrace::find_stager(int rank, const LaneKey& key, const Place& place, int peer,
                                uint64_t delta, Source& source) const {
  const auto& reader = ranks_[size_t(rank)].lanes.at(key).parts[size_t(place.part)];
  const auto turns = [](const kernels::Event& event) { return event.verb == Verb::next_piece; };
  const auto wanted = std::count_if(reader.begin(), reader.begin() + place.event, turns);
  const auto owner = ranks_[size_t(peer)].lanes.find(key);
  if (owner == ranks_[size_t(peer)].lanes.end()) return false;
  const Lane& lane = owner->second;
  const uint64_t at = reader[place.event].at + delta;
  for (int p = 0; p < int(lane.parts.size()); ++p) {
    const auto& part = lane.parts[size_t(p)];
    ptrdiff_t piece = 0;
    for (uint32_t e = 0; e < part.size() && piece <= wanted; ++e) {
      const kernels::Event& event = part[e];
      piece += turns(event);
      const bool stages = event.verb == Verb::stage || event.verb == Verb::reduce_and_stage;
      if (piece != wanted || !stages || !covers(event.at, event.n * lane.element_bytes, at))
        continue;
      source = {peer, {p, e}, at - event.at};
      return true;
    }
  }
  return false;
}

// The value that an event had at `delta` bytes into its chunk: what it received and what it read.
bool ScheduleTrace::walk(int rank, const LaneKey& key, const Place& place, uint64_t delta,
                         Origin& origin, int depth) const {
  // A value passes each rank at most twice (up and down, or round and round).
  if (depth > 3 * int(ranks_.size()) + 3) return false;
  const Lane& lane = ranks_[size_t(rank)].lanes.at(key);
  const kernels::Event& event = lane.parts[size_t(place.part)][place.event];
  const std::vector<int> peers = peers_of(rank, event);
  for (size_t i = 0; i < peers.size(); ++i) {
    const int peer = peers[i];
    if (size_t(peer) >= ranks_.size()) return false;
    Source source;
    const bool known = kernels::uses_window(event.verb)
                           ? find_stager(rank, key, place, peer, delta, source)
                           : find_sender(rank, key, place, int(i), delta, source);
    const size_t first = origin.leaves.size();
    if (!known || !walk(peer, key, source.place, source.delta, origin, depth + 1)) return false;
    origin.edges.push_back({{rank, peer, key.second, place.part, place.event, key.first},
                            first,
                            origin.leaves.size()});
  }
  if (!shape_of(event.verb).reads) return true;
  return walk_read(rank, key, place, event.from + delta, origin, depth);
}

// Contents of an address when an event read it: an earlier write of this rank, else its input.
bool ScheduleTrace::walk_read(int rank, const LaneKey& key, const Place& place, uint64_t address,
                              Origin& origin, int depth) const {
  const RankSchedule& schedule = ranks_[size_t(rank)];
  const Lane& lane = schedule.lanes.at(key);
  const auto& part = lane.parts[size_t(place.part)];
  auto wrote = [&](const kernels::Event& event) {
    return shape_of(event.verb).writes && covers(event.to, event.n * lane.element_bytes, address);
  };
  for (uint32_t e = place.event; e-- > 0;)
    if (wrote(part[e]))
      return walk(rank, key, {place.part, e}, address - part[e].to, origin, depth + 1);
  if (part[place.event].verb == Verb::send_from_output) {
    // Written by the other half of a split, which ran before as far as this chunk goes.
    for (int p = 0; p < int(lane.parts.size()); ++p)
      for (uint32_t e = 0; p != place.part && e < lane.parts[size_t(p)].size(); ++e)
        if (wrote(lane.parts[size_t(p)][e]))
          return walk(rank, key, {p, e}, address - lane.parts[size_t(p)][e].to, origin, depth + 1);
    return false;
  }
  // An earlier plan's, of whatever channel.
  for (auto at = schedule.lanes.rbegin(); at != schedule.lanes.rend(); ++at) {
    const auto& [other, lane_before] = *at;
    if (other.first / kOperationsOfPlan >= key.first / kOperationsOfPlan) continue;
    for (int p = 0; p < int(lane_before.parts.size()); ++p)
      for (auto e = uint32_t(lane_before.parts[size_t(p)].size()); e-- > 0;) {
        const kernels::Event& event = lane_before.parts[size_t(p)][e];
        if (shape_of(event.verb).writes &&
            covers(event.to, event.n * lane_before.element_bytes, address))
          return walk(rank, other, {p, e}, address - event.to, origin, depth + 1);
      }
  }
  if (address < schedule.input) return false;
  origin.leaves.push_back({rank, (address - schedule.input) / element_bytes_});
  return true;
}

uint64_t ScheduleTrace::step_of(const Hop& hop) const {
  for (const auto& [key, lane] : ranks_[size_t(hop.rank)].lanes) {
    if (key != LaneKey{hop.operation, hop.channel} || size_t(hop.part) >= lane.parts.size())
      continue;
    const auto& part = lane.parts[size_t(hop.part)];
    const auto end = part.begin() + std::min<ptrdiff_t>(hop.event, ptrdiff_t(part.size()));
    return uint64_t(std::count_if(part.begin(), end, [](const kernels::Event& event) {
      return event.n > 0 && shape_of(event.verb).receives &&
             (event.recv[0] >= 0 || kernels::reads_all_peers(event.verb));
    }));
  }
  return 0;
}

Verb ScheduleTrace::verb_of(const Hop& hop) const {
  for (const auto& [key, lane] : ranks_[size_t(hop.rank)].lanes)
    if (key == LaneKey{hop.operation, hop.channel} && size_t(hop.part) < lane.parts.size())
      return lane.parts[size_t(hop.part)][hop.event].verb;
  return Verb::recv;
}

bool ScheduleTrace::written_by(int rank, uint64_t output_element, WrittenBy& written) const {
  const RankSchedule& schedule = ranks_[size_t(rank)];
  LaneKey key;
  Place place;
  if (!find_writer(schedule, schedule.output + output_element * element_bytes_, key, place))
    return false;
  const Lane& lane = schedule.lanes.at(key);
  const kernels::Event& event = lane.parts[size_t(place.part)][place.event];
  written = {};
  written.channel = key.second;
  written.verb = event.verb;
  written.step = step_of({rank, -1, key.second, place.part, place.event, key.first});
  for (const auto& part : lane.parts)
    for (const kernels::Event& other : part)
      written.chunk += other.n > 0 && shape_of(other.verb).writes && other.to < event.to;
  written.peers = peers_of(rank, event);
  return true;
}

}  // namespace collctl::cmd

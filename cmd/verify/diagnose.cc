#include "cmd/verify/diagnose.h"

#include <algorithm>
#include <set>

#include "base/format.h"
#include "cmd/verify/schedule_trace.h"

namespace collctl::cmd {

using kernels::Collective;

namespace {

constexpr size_t kMostHops = 64;      // that a fault names
constexpr size_t kTracedSamples = 6;  // of each rank
constexpr size_t kMaxShareBytes = size_t(32) << 20;

struct RankReport {
  static constexpr const char* kRecord = "findings of a rank";
  CheckResult check;
  TagFindings tags = {};
  Bytes schedule = {};  // of ScheduleTrace
};
void fields(Record& io, RankReport& report) {
  CheckResult& c = report.check;
  for (uint64_t* const number : {&c.bad_outputs, &c.first_output, &c.last_output, &c.still_poisoned,
                                 &c.bad_inputs, &c.first_input, &c.guard_bytes})
    io.field("number", *number);
  io.field("bad", report.tags.bad);
  const auto sample = [&](TagSample& each) {
    io.field("element", each.element);
    io.field("foreign_rank", each.foreign_rank);
    io.field("foreign_element", each.foreign_element);
    const auto state = [&](TagState& one) { io.number("state", one, kTagStates); };
    io.list("states", each.states, state, kMaxTaggedRanks);
  };
  io.list("samples", report.tags.samples, sample, kMaxTagSamples);
  io.field("schedule", report.schedule, kMaxShareBytes);
}

// Verdict of all states of a sample together, and the ranks that it is about.
struct SampleVerdict {
  TagState state = TagState::right;
  std::set<int> ranks;
};
SampleVerdict verdict_of(const TagSample& sample, bool sums) {
  SampleVerdict verdict;
  std::set<TagState> seen;
  for (size_t r = 0; r < sample.states.size(); ++r) {
    if (sample.states[r] == TagState::right) continue;
    seen.insert(sample.states[r]);
    if (sums) verdict.ranks.insert(int(r));
  }
  if (seen.size() == 1) verdict.state = *seen.begin();
  if (seen.size() > 1) verdict.state = TagState::damaged;
  return verdict;
}

// The whole of one rank's second run: the state most samples show.
SampleVerdict verdict_of(const TagFindings& tags, bool sums) {
  std::map<TagState, size_t> votes;
  for (const TagSample& sample : tags.samples) ++votes[verdict_of(sample, sums).state];
  SampleVerdict best;
  size_t most = 0;
  for (const auto& [state, count] : votes)
    if (count > most) most = count, best.state = state;
  for (const TagSample& sample : tags.samples) {
    const SampleVerdict one = verdict_of(sample, sums);
    if (one.state == best.state) best.ranks.insert(one.ranks.begin(), one.ranks.end());
  }
  // A bit that flips before a rank adds its share can look like another weight; data from
  // elsewhere comes in stretches.
  if (best.state == TagState::foreign && sums && tags.bad <= 2) best.state = TagState::damaged;
  return best;
}

// Finds the hops that explain most wrong samples of all ranks and lie on no right element's way.
class HopSearch {
 public:
  HopSearch(const ScheduleTrace& trace, const std::vector<RankReport>& reports, const BenchOp& op)
      : trace_(trace),
        reports_(reports),
        sums_(has_op(op)),
        same_index_(like(op) == Collective::all_reduce || like(op) == Collective::broadcast ||
                    like(op) == Collective::all_gather) {}

  std::vector<Hop> run() {
    for (size_t rank = 0; rank < reports_.size(); ++rank) {
      const TagFindings& tags = reports_[rank].tags;
      const TagState state = verdict_of(tags, sums_).state;
      const size_t stride = std::max<size_t>(1, tags.samples.size() / kTracedSamples);
      for (size_t s = 0; s < tags.samples.size(); s += stride)
        vote(int(rank), tags.samples[s], state);
    }
    std::vector<Hop> best;
    int most = 0;
    for (const auto& [hop, score] : votes_) most = std::max(most, score);
    for (const auto& [hop, score] : votes_)
      if (score == most) best.push_back(hop);
    return best;
  }

 private:
  void vote(int rank, const TagSample& sample, TagState state) {
    Origin origin;
    if (!trace_.origin(rank, sample.element, origin)) return;
    const SampleVerdict verdict = verdict_of(sample, sums_);
    const bool by_ranks = sums_ && state != TagState::damaged && state != TagState::unwritten;
    if (by_ranks && verdict.state != state) return;
    std::vector<std::pair<Hop, size_t>> explaining;  // with the number of inputs behind it
    for (const auto& edge : origin.edges) {
      std::set<int> behind;
      for (size_t i = edge.first_leaf; i < edge.end_leaf; ++i) behind.insert(origin.leaves[i].rank);
      const bool includes =
          std::includes(behind.begin(), behind.end(), verdict.ranks.begin(), verdict.ranks.end());
      const bool exact = behind.size() == verdict.ranks.size();
      if (by_ranks && (!includes || (!exact && state != TagState::foreign))) continue;
      explaining.emplace_back(edge.hop, behind.size());
    }
    // Weights agree by chance in half the elements: the hop with the fewest inputs is the one.
    size_t fewest = SIZE_MAX;
    for (const auto& [hop, inputs] : explaining) fewest = std::min(fewest, inputs);
    const std::set<Hop> cleared = hops_of_right_elements(sample.element);
    for (const auto& [hop, inputs] : explaining) {
      if (cleared.count(hop) != 0 || (by_ranks && inputs != fewest)) continue;
      auto at = std::ranges::find_if(votes_,
                                     [&, h = hop](const auto& entry) { return entry.first == h; });
      if (at == votes_.end()) at = votes_.insert(at, {hop, 0});
      ++at->second;
    }
  }

  // Where ranks hold the same element, those that have it right got it over sound hops.
  std::set<Hop> hops_of_right_elements(uint64_t element) const {
    std::set<Hop> hops;
    if (!same_index_) return hops;
    for (size_t rank = 0; rank < reports_.size(); ++rank) {
      const TagFindings& tags = reports_[rank].tags;
      const bool all_known = tags.bad <= tags.samples.size();
      const bool wrong = std::ranges::any_of(
          tags.samples, [&](const TagSample& s) { return s.element == element; });
      Origin origin;
      if (wrong || !all_known || !trace_.origin(int(rank), element, origin)) continue;
      for (const auto& edge : origin.edges) hops.insert(edge.hop);
    }
    return hops;
  }

  const ScheduleTrace& trace_;
  const std::vector<RankReport>& reports_;
  bool sums_, same_index_;
  std::vector<std::pair<Hop, int>> votes_;  // in the order found: along the way of the data
};

std::string list_ranks(const std::set<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  size_t shown = 0;
  for (int rank : ranks) {
    if (shown == 8) return text + format(" and {} more", ranks.size() - shown);
    text += format("{}{}", shown++ == 0 ? "" : ", ", rank);
  }
  return text;
}

class FaultWords {
 public:
  FaultWords(const DiagnosisCase& wrong, const ScheduleTrace* trace, const std::vector<Hop>& hops,
             bool direct)
      : key_(wrong.key),
        sums_(has_op(wrong.key.collective)),
        direct_(direct),
        trace_(trace),
        hops_(hops),
        tagged_(wrong.place.nranks <= kMaxTaggedRanks) {}

  DataFault output_fault(int rank, const RankReport& report) const {
    const uint64_t size = kernels::element_size(key_.type);
    const CheckResult& check = report.check;
    DataFault fault;
    fault.rank = rank;
    fault.first_element = check.first_output;
    fault.first_byte = check.first_output * size;
    fault.last_byte = check.last_output * size + size - 1;
    fault.bad_elements = check.bad_outputs;
    const uint64_t span = check.last_output - check.first_output + 1;
    std::string text =
        span == 1 ? format("rank {}: element {}", rank, check.first_output)
                  : format("rank {}: elements {}..{}", rank, check.first_output, check.last_output);
    text += format(" (bytes {}..{}", fault.first_byte, fault.last_byte);
    text += span == check.bad_outputs ? ")" : format(", {} elements wrong)", check.bad_outputs);
    fault.message = text + cause(report, fault) + place(rank, report, fault);
    return fault;
  }

  DataFault stray_fault(int rank, const CheckResult& check) const {
    DataFault fault;
    fault.rank = rank;
    fault.kind = "overrun";
    fault.bad_elements = check.bad_inputs;
    fault.first_element = check.first_input;
    fault.message = check.guard_bytes != 0
                        ? format("rank {}: {} bytes beside its buffers were overwritten", rank,
                                 check.guard_bytes)
                        : format("rank {}: {} elements of its input were changed, the first is {}",
                                 rank, check.bad_inputs, check.first_input);
    return fault;
  }

 private:
  // Sets kind and peer, and says what is wrong with the elements.
  std::string cause(const RankReport& report, DataFault& fault) const {
    const SampleVerdict verdict = verdict_of(report.tags, sums_);
    if (hops_.size() == 1) fault.peer = hops_[0].peer;
    if (verdict.ranks.size() == 1) fault.peer = *verdict.ranks.begin();
    const std::string whose = sums_ ? list_ranks(verdict.ranks) : "";
    const bool unwritten = report.check.still_poisoned == report.check.bad_outputs;
    switch (unwritten ? TagState::unwritten : verdict.state) {
      case TagState::right:
        fault.kind = "corrupted";
        if (!tagged_)
          return format(" are wrong; more than {} ranks cannot be told apart by tags",
                        kMaxTaggedRanks);
        return " are wrong; the same schedule on tagged integers gave the right result here, so "
               "the "
               "fault is intermittent";
      case TagState::missing:
        fault.kind = "missing";
        return sums_ ? format(" lack the contribution of {}", whose)
                     : " hold nothing of what was sent";
      case TagState::doubled:
        fault.kind = "doubled";
        return sums_ ? format(" hold the contribution of {} twice", whose)
                     : " were added to themselves";
      case TagState::foreign:
        fault.kind = "foreign";
        if (sums_) return format(" hold a contribution of {} from elsewhere", whose);
        return foreign_words(report, fault);
      case TagState::damaged:
        fault.kind = "corrupted";
        return " are damaged: bits changed in transit";
      case TagState::unwritten:
        fault.kind = "unwritten";
        return " were never written";
    }
    return "";
  }

  std::string foreign_words(const RankReport& report, DataFault& fault) const {
    for (const TagSample& sample : report.tags.samples) {
      if (sample.foreign_rank < 0) continue;
      fault.peer = sample.foreign_rank;
      return format(" hold other data: element {} is element {} of rank {}'s input", sample.element,
                    sample.foreign_element, sample.foreign_rank);
    }
    return " hold other data";
  }

  // Sets channel, chunk and step, and says where it went wrong and who wrote it here.
  std::string place(int rank, const RankReport& report, DataFault& fault) const {
    if (direct_) return "; it moved directly between the ranks' windows, which is not traced";
    if (trace_ == nullptr) return "; the schedule is too long to be traced";
    std::string text;
    for (const Hop& hop : hops_)
      if (fault.hops.size() < kMostHops) fault.hops.push_back({hop.peer, hop.rank});
    WrittenBy written;
    const bool known = trace_->written_by(rank, report.check.first_output, written);
    if (known) {
      fault.channel = written.channel;
      fault.chunk = written.chunk;
      fault.step = written.step;
      text = format("; written in channel {}, chunk {}, step {} by {}", written.channel,
                    written.chunk, written.step, kernels::name_of(written.verb));
      if (!written.peers.empty())
        text += " from " + list_ranks({written.peers.begin(), written.peers.end()});
    }
    if (hops_.size() == 1) {
      const Hop& hop = hops_[0];
      fault.channel = hop.channel;
      fault.step = trace_->step_of(hop);
      text += format("; went wrong at rank {} in channel {}, step {}, {} from rank {}", hop.rank,
                     hop.channel, fault.step, kernels::name_of(trace_->verb_of(hop)), hop.peer);
    } else if (!hops_.empty()) {
      text += "; went wrong on one of the hops";
      for (size_t i = 0; i < hops_.size() && i < 8; ++i)
        text += format("{} {} -> {}", i == 0 ? "" : ",", hops_[i].peer, hops_[i].rank);
      if (hops_.size() > 8) text += ", ...";
      text += format(" of channel {}", hops_[0].channel);
    }
    return text;
  }

  const RowKey& key_;
  bool sums_, direct_;
  const ScheduleTrace* trace_;
  const std::vector<Hop>& hops_;
  bool tagged_;
};

std::vector<DataFault> faults_of(const DiagnosisCase& wrong, const ScheduleTrace* trace,
                                 const std::vector<RankReport>& reports, bool direct) {
  std::vector<Hop> hops;
  if (trace != nullptr) hops = HopSearch(*trace, reports, wrong.key.collective).run();
  const FaultWords words(wrong, trace, hops, direct);
  std::vector<DataFault> faults;
  size_t left_out = 0;
  auto add = [&](DataFault fault) {
    if (faults.size() < kMaxFaultRecords)
      faults.push_back(std::move(fault));
    else
      ++left_out;
  };
  for (size_t rank = 0; rank < reports.size(); ++rank) {
    const CheckResult& check = reports[rank].check;
    if (check.bad_outputs != 0) add(words.output_fault(int(rank), reports[rank]));
    if (check.bad_inputs != 0 || check.guard_bytes != 0) add(words.stray_fault(int(rank), check));
  }
  if (left_out != 0)
    faults.back().message += format(" (and {} more findings like these)", left_out);
  return faults;
}

}  // namespace

Result<std::vector<DataFault>> diagnose(const DiagnosisCase& wrong) {
  RankReport mine{wrong.check};
  if (wrong.place.nranks <= kMaxTaggedRanks) {
    COLL_ASSIGN(mine.tags, run_tags({wrong.communicator, wrong.stream, wrong.key, wrong.place,
                                     wrong.buffers}));
  }
  std::vector<runtime::Plan> plans;
  for (const Submission& operations : submissions_for(wrong.key, wrong.place, wrong.buffers)) {
    COLL_ASSIGN(runtime::Plan plan, wrong.communicator.plan_for(operations));
    plans.push_back(std::move(plan));
  }
  mine.schedule =
      ScheduleTrace::describe(plans, wrong.buffers.input->data() + wrong.buffers.input_at,
                              wrong.buffers.output->data() + wrong.buffers.output_at);
  COLL_ASSIGN(const std::vector<Bytes> all,
              wrong.communicator.gather_blobs(encoded(mine), wrong.deadline));
  if (wrong.place.rank != 0) return std::vector<DataFault>{};
  std::vector<RankReport> reports;
  std::vector<Bytes> shares;
  for (const Bytes& blob : all) {
    COLL_ASSIGN(RankReport report, decoded<RankReport>(blob));
    for (TagSample& sample : report.tags.samples)
      sample.states.resize(std::min(sample.states.size(), size_t(wrong.place.nranks)));
    shares.push_back(std::move(report.schedule));
    reports.push_back(std::move(report));
  }
  ScheduleTrace trace;
  const bool traced = trace.load(shares, kernels::element_size(wrong.key.type));
  const bool direct = !plans.empty() && !plans[0].ops.empty() && plans[0].ops[0].direct;
  return faults_of(wrong, traced ? &trace : nullptr, reports, direct);
}

}  // namespace collctl::cmd

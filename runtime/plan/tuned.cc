// The planner's part with a tuner (tuner.h): the table that it edits, and the choice that follows.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/format.h"
#include "runtime/plan/candidates.h"
#include "runtime/plan/gpu_cost.h"
#include "runtime/plan/tuner.h"

namespace collctl::runtime {
namespace {

using kernels::AlgorithmId;
using kernels::Protocol;

// THE table of NCCL's algorithms, by number: what of ours does the same.
struct TunerRow {
  const char* name;
  const char* missing;  // why nothing does
};
constexpr TunerRow kTunerRows[TunerTable::kAlgorithms] = {
    {"Tree", nullptr},
    {"Ring", nullptr},
    {"CollNetDirect", "in-network reduction goes by chains here (CollNetChain)"},
    {"CollNetChain", nullptr},
    {"NVLS", "there is no reduction by NVLink multicast here"},
    {"NVLSTree", "there is no reduction by NVLink multicast here"},
    {"PAT", "there is no PAT here (all-gather in log2 n messages: bruck)"},
};
constexpr const char* kTunerProtocolNames[TunerTable::kProtocols] = {"LL", "LL128", "Simple"};

struct Entry {
  int algorithm = -1, protocol = -1;
};

std::string text_of(const Entry& entry) {
  return format("{}/{}", tuner_algorithm_name(entry.algorithm),
                tuner_protocol_name(entry.protocol));
}

const float& at(const TunerTable& table, const Entry& entry) {
  return table.us[entry.algorithm][entry.protocol];
}

template <class Each>
void for_each_entry(Each each) {
  for (int a = 0; a < TunerTable::kAlgorithms; ++a)
    for (int p = 0; p < TunerTable::kProtocols; ++p) each(Entry{a, p});
}

// The first with the least time; nothing: all are ignored.
Entry least_of(const TunerTable& table) {
  Entry least;
  for_each_entry([&](const Entry& entry) {
    if (at(table, entry) < 0) return;
    if (least.algorithm < 0 || at(table, entry) < at(table, least)) least = entry;
  });
  return least;
}

int count_of(const TunerTable& table) {
  int count = 0;
  for_each_entry([&](const Entry& entry) { count += at(table, entry) >= 0 ? 1 : 0; });
  return count;
}

std::optional<Entry> entry_of(const detail::PlanCandidate& c) {
  const std::optional<int> number = tuner_algorithm(c.row->id);
  if (!number) return {};
  return Entry{*number, tuner_protocol(c.protocol)};
}

TunerTable table_of(const std::vector<detail::PlanCandidate>& all) {
  TunerTable table;
  for_each_entry([&](const Entry& e) { table.us[e.algorithm][e.protocol] = -1; });
  for (const detail::PlanCandidate& c : all) {
    const std::optional<Entry> entry = entry_of(c);
    if (!entry) continue;
    float& us = table.us[entry->algorithm][entry->protocol];
    if (us < 0 || float(c.time.us) < us) us = float(c.time.us);
  }
  return table;
}

// FNV-1a, over what all ranks say alike.
uint64_t question_of(const Operation& op, const TunerQuestion& question) {
  uint64_t h = 0xcbf29ce484222325;
  for (const uint64_t word :
       {uint64_t(op.collective), question.bytes, op.count, uint64_t(op.type), uint64_t(op.op),
        uint64_t(int64_t{op.root}), op.chunk_elements, uint64_t(question.registered)})
    for (int byte = 0; byte < 8; ++byte) h = (h ^ (word >> (8 * byte) & 0xff)) * 0x100000001b3;
  return h;
}

PlainChoice plain(const Operation& op, const detail::PlanCandidate& c) {
  return {.algorithm = c.row->id,
          .protocol = c.protocol,
          .channels = int(detail::cut_parts(op.count, c.channels).size()),
          .us = c.time.us};
}

std::string text_of(const PlainChoice& choice) {
  return format("{}/{}, {} channel{}", kernels::name_of(choice.algorithm),
                kernels::name_of(choice.protocol), choice.channels,
                choice.channels == 1 ? "" : "s");
}

// The impossible part of an answer, in words; empty: all can be tried.
std::string nonsense_of(const TunerAnswer& answer) {
  std::string what;
  for_each_entry([&](const Entry& entry) {
    if (std::isnan(at(answer.table, entry)) && what.empty())
      what = format("the time of {} is no number", text_of(entry));
  });
  if (what.empty() && (answer.channels < 0 || answer.channels > kernels::kMaxChannels))
    what =
        format("it wants {} channels, and 1 to {} can be", answer.channels, kernels::kMaxChannels);
  return what;
}

// Why the entry that the tuner gives the least time is none that can be had.
std::string why_not(const Entry& entry, const Choices& choices) {
  if (const char* missing = tuner_algorithm_missing(entry.algorithm); missing != nullptr)
    return missing;
  if (!choices.algo.empty() || !choices.proto.empty())
    return format("algorithm '{}' and protocol '{}' were asked for",
                  choices.algo.empty() ? "all" : choices.algo,
                  choices.proto.empty() ? "all" : choices.proto);
  return "it was -1 in the table: it cannot run that here";
}

// The one with the least time: by the table where it has a number there, else its own.
const detail::PlanCandidate* pick(const std::vector<detail::PlanCandidate>& all,
                                  const TunerTable& table, bool table_only) {
  const detail::PlanCandidate* best = nullptr;
  const auto cost = [&](const detail::PlanCandidate& c) {
    const std::optional<Entry> entry = entry_of(c);
    return entry ? double(at(table, *entry)) : double(float(c.time.us));
  };
  const auto better = [&](const detail::PlanCandidate& c) {
    if (best == nullptr || cost(c) < cost(*best)) return true;
    return cost(c) == cost(*best) && c.time.us < best->time.us;
  };
  for (const detail::PlanCandidate& c : all) {
    const std::optional<Entry> entry = entry_of(c);
    if (entry ? at(table, *entry) < 0 : table_only) continue;
    if (better(c)) best = &c;
  }
  return best;
}

}  // namespace

bool is_tuned(kernels::Collective collective) {
  using kernels::Collective;
  switch (collective) {
    case Collective::all_reduce:
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::broadcast:
    case Collective::reduce:
      return true;
    default:
      return false;
  }
}

std::optional<int> tuner_algorithm(AlgorithmId algorithm) {
  switch (algorithm) {
    case AlgorithmId::tree:
    case AlgorithmId::tree_split:
      return 0;
    case AlgorithmId::ring:
      return 1;
    case AlgorithmId::collnet:
      return 3;
    default:
      return {};
  }
}

int tuner_protocol(Protocol protocol) {
  return protocol == Protocol::ll ? 0 : protocol == Protocol::ll128 ? 1 : 2;
}

const char* tuner_algorithm_name(int number) {
  return kTunerRows[number].name;
}

const char* tuner_protocol_name(int number) {
  return kTunerProtocolNames[number];
}

const char* tuner_algorithm_missing(int number) {
  return kTunerRows[number].missing;
}

Result<detail::Chosen> detail::tuned(const Operation& op, const CommShape& shape,
                                     const Choices& choices, bool registered, const Chosen& own,
                                     const std::vector<PlanCandidate>& all,
                                     const CandidatesOf& candidates_of) {
  Tuner& tuner = *shape.tuner;
  const TunerQuestion question{.collective = op.collective,
                               .bytes = moved_bytes(op.collective, shape.nranks, bytes_of(op)),
                               .registered = registered};
  Chosen chosen = own;
  TunedChoice& said = chosen.tuned.emplace();
  said.own = plain(op, own.candidate);
  said.question = question_of(op, question);
  said.bytes = question.bytes;
  const std::string what = format("{} of {} bytes", name_of(op.collective), question.bytes);
  // Ours then, unless that would be another than the user has asked for.
  const auto ours = [&](ErrorCode code, const std::string& why) -> Result<Chosen> {
    COLL_TRY(tuner.refuse(Error(code, format("{}: {}: {}", tuner.text(), what, why))));
    chosen.candidate = own.candidate;
    chosen.why = format("ours, because of the tuner: {}; {}", why, own.why);
    return chosen;
  };

  const TunerTable before = table_of(all);
  auto asked = tuner.ask(question, before);
  if (!asked) return ours(asked.error().code, asked.error().message);
  TunerAnswer& answer = *asked;
  if (const std::string odd = nonsense_of(answer); !odd.empty())
    return ours(ErrorCode::unavailable, odd);
  const bool edited = answer.table != before;
  const Entry least = least_of(answer.table);
  const auto channels_text = [&] {
    return answer.channels == 0
               ? std::string()
               : format("{} channel{}", answer.channels, answer.channels == 1 ? "" : "s");
  };
  if (least.algorithm >= 0 && at(before, least) < 0) {
    said.wish = text_of(least);
    return ours(ErrorCode::unavailable,
                format("it wants {}: {}", said.wish, why_not(least, choices)));
  }
  // Unavailable entries that it gave a time are not least, so nobody wants them.
  for_each_entry([&](const Entry& e) {
    if (at(before, e) < 0) answer.table.us[e.algorithm][e.protocol] = -1;
  });
  const bool single = count_of(answer.table) == 1 && count_of(before) > 1;
  const PlanCandidate* best = edited ? pick(all, answer.table, single) : &own.candidate;
  if (best == nullptr) return ours(ErrorCode::unavailable, "it leaves nothing to choose from");
  chosen.candidate = *best;
  const std::optional<Entry> entry = entry_of(*best);
  said.followed = (edited && entry.has_value()) || answer.channels > 0;
  if (edited && entry) said.wish = text_of(*entry);
  if (answer.channels > 0) said.wish += (said.wish.empty() ? "" : ", ") + channels_text();
  std::string less;
  if (answer.channels > 0 && choices.channels > 0) {
    less = format("; {} were asked for by name", choices.channels);
  } else if (answer.channels > 0) {
    const int have = int(shape.channels.size());
    if (answer.channels > have) less = format("; there are {}", have);
    Choices one = choices;
    one.algorithms = 1u << int(best->row->id);
    one.protocols = 1u << int(best->protocol);
    one.channels = std::min(answer.channels, have);
    for (PlanCandidate& c : candidates_of(op, shape, one)) chosen.candidate = std::move(c);
  }
  chosen.why =
      said.followed
          ? format("tuner: {}{}; ours: {}, {:.1f} us, this by our model {:.1f} us", said.wish, less,
                   text_of(said.own), said.own.us, chosen.candidate.time.us)
          : format("ours, the tuner {}; {}",
                   edited ? "made nothing faster than it" : "changed nothing", own.why);
  return chosen;
}

}  // namespace collctl::runtime

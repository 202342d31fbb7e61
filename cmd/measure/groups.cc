#include "cmd/measure/groups.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <utility>

#include "base/format.h"
#include "base/host_facts.h"
#include "base/number_ranges.h"
#include "base/processors.h"
#include "base/whole_number.h"
#include "cmd/text/sizes.h"

namespace collctl::cmd {
namespace {

constexpr const char* kForms = "4 or div:4, mod:2, and:0x7, or:0x7, ranks:0-3,8/4-7, host or numa";
constexpr std::string_view kRanks = "ranks:";
constexpr int kMostNumber = 1 << 20;
constexpr size_t kMostSplitText = 1 << 20;  // each rank by its number

struct Form {
  const char* prefix;
  SplitBy by;
};
constexpr Form kNumbered[] = {{"div:", SplitBy::division},
                              {"mod:", SplitBy::remainder},
                              {"and:", SplitBy::mask_and},
                              {"or:", SplitBy::mask_or}};

// Decimal, or hexadecimal after 0x as masks are written.
int number_of(std::string_view text) {
  const bool hex = text.starts_with("0x") || text.starts_with("0X");
  if (hex) text.remove_prefix(2);
  return base::whole_number(text, hex ? 16 : 10).value_or(-1);
}

// The next number of `text`, which it loses; -1: there is none, or it is too large.
int take_number(std::string_view& text) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  text.remove_prefix(size_t(end - text.data()));
  return error == std::errc() && value < kMostSplitRanks ? value : -1;
}

// "0-3,8/4-7": the group of each rank, all of which are there once. Empty: it is no such list.
std::vector<int> read_list(std::string_view text) {
  std::vector<int> list;
  for (int group = 0;; text.remove_prefix(1)) {
    const int first = take_number(text);
    int last = first;
    if (text.starts_with('-')) {
      text.remove_prefix(1);
      last = take_number(text);
    }
    if (first < 0 || last < first) return {};
    if (size_t(last) >= list.size()) list.resize(size_t(last) + 1, -1);
    for (int rank = first; rank <= last; ++rank)
      if (std::exchange(list[size_t(rank)], group) != -1) return {};
    if (text.empty()) break;
    if (text[0] != ',' && text[0] != '/') return {};
    group += text[0] == '/';
  }
  return std::ranges::count(list, -1) == 0 ? list : std::vector<int>();
}

// Equal of ranks of one group.
using Colour = std::pair<uint64_t, int>;

Colour colour_of(const SplitRule& rule, int rank, const RankSite& site) {
  switch (rule.by) {
    case SplitBy::division:
      return {0, rank / rule.number};
    case SplitBy::remainder:
      return {0, rank % rule.number};
    case SplitBy::mask_and:
      return {0, rank & rule.number};
    case SplitBy::mask_or:
      return {0, rank | rule.number};
    case SplitBy::ranks:
      return {0, size_t(rank) < rule.list.size() ? rule.list[size_t(rank)] : -1};
    case SplitBy::host:
      return {site.host, 0};
    case SplitBy::numa:
      return {site.host, site.numa};
    case SplitBy::nothing:
      break;
  }
  return {0, 0};
}

}  // namespace

std::string SplitRule::text() const {
  switch (by) {
    case SplitBy::nothing:
      return "";
    case SplitBy::division:
      return format("{}", number);
    case SplitBy::remainder:
      return format("mod:{}", number);
    case SplitBy::mask_and:
      return format("and:{:#x}", number);
    case SplitBy::mask_or:
      return format("or:{:#x}", number);
    case SplitBy::ranks:
      break;
    case SplitBy::host:
      return "host";
    case SplitBy::numa:
      return "numa";
  }
  std::string text;
  for (const std::vector<int>& group : groups_of(*this, int(list.size())))
    text += (text.empty() ? std::string(kRanks) : "/") + base::number_ranges(group, ",");
  return text;
}

Status SplitRule::fits(int ranks) const {
  if (by != SplitBy::ranks || int(list.size()) == ranks) return {};
  return Error(ErrorCode::usage,
               format("--split {}: it lists {} ranks, the job has {}", text(), list.size(), ranks));
}

Result<SplitRule> parse_split(const std::string& text) {
  if (text.empty()) return SplitRule{};
  if (text == "host") return SplitRule{SplitBy::host, 0};
  if (text == "numa") return SplitRule{SplitBy::numa, 0};
  if (text.starts_with(kRanks)) {
    SplitRule listed{SplitBy::ranks, 0, read_list(std::string_view(text).substr(kRanks.size()))};
    if (!listed.list.empty()) return listed;
    return Error(ErrorCode::usage,
                 format("--split {}: expected groups of ranks as in ranks:0-3,8/4-7, with every "
                        "rank once",
                        text));
  }
  SplitRule rule{SplitBy::division, 0};
  std::string_view digits = text;
  for (const Form& form : kNumbered)
    if (text.starts_with(form.prefix)) {
      rule.by = form.by;
      digits.remove_prefix(std::string_view(form.prefix).size());
    }
  rule.number = number_of(digits);
  const bool mask = rule.by == SplitBy::mask_and || rule.by == SplitBy::mask_or;
  if (rule.number < (mask ? 0 : 1) || rule.number > kMostNumber)
    return Error(ErrorCode::usage, format("--split {}: expected {}", text, kForms));
  return rule;
}

Status read_value(const Option&, const std::vector<std::string>& given, SplitRule& rule) {
  COLL_ASSIGN(rule, parse_split(given.back()));
  return {};
}

void value_field(base::Record& io, const Option&, const char* name, SplitRule& rule,
                 const SplitRule&) {
  std::string text = rule.text();
  io.field(name, text, kMostSplitText);
  if (!io.reading()) return;
  const auto read = parse_split(text);
  if (!read) return io.fail(name, "a rule of --split");
  rule = *read;
}

Groups groups_of(const SplitRule& rule, std::span<const RankSite> sites) {
  Groups groups;
  std::map<Colour, size_t> known;
  for (int rank = 0; rank < int(sites.size()); ++rank) {
    const auto [at, fresh] =
        known.emplace(colour_of(rule, rank, sites[size_t(rank)]), groups.size());
    if (fresh) groups.emplace_back();
    groups[at->second].push_back(rank);
  }
  return groups;
}

Groups groups_of(const SplitRule& rule, int ranks) {
  return groups_of(rule, std::vector<RankSite>(size_t(ranks)));
}

int group_of(const Groups& groups, int rank) {
  for (size_t i = 0; i < groups.size(); ++i)
    if (std::ranges::find(groups[i], rank) != groups[i].end()) return int(i);
  return -1;
}

std::string group_name(int group, const std::vector<int>& ranks) {
  return format("group {} (rank{} {})", group, ranks.size() == 1 ? "" : "s", rank_ranges(ranks));
}

Error in_its_group(const Groups& groups, Error error) {
  const int group = error.rank < 0 ? -1 : group_of(groups, error.rank);
  if (group < 0) return error;
  const std::string name = group_name(group, groups[size_t(group)]);
  if (!error.has_said(name)) error.within(name);
  return error;
}

Result<int> numa_node(const runtime::Communicator& communicator) {
  if (const auto device = communicator.device()) {
    const std::string& bus_id = device->facts().bus_id;
    const int node = base::pci_numa_node(bus_id);
    if (node >= 0 || base::host_processors().nodes.size() <= 1) return std::max(node, 0);
    return Error(ErrorCode::unavailable,
                 format("--split numa: the kernel does not say to which NUMA node GPU {} belongs",
                        bus_id))
        .blame(communicator.rank());
  }
  const base::Processors& processors = base::host_processors();
  std::set<int> nodes;
  for (const int core : base::affinity_cores())
    if (const base::Processor* const at = processors.find(core)) nodes.insert(at->numa);
  if (nodes.size() <= 1) return nodes.empty() ? 0 : *nodes.begin();
  return Error(ErrorCode::usage,
               format("--split numa: rank {} (host {}) may run on {} NUMA nodes",
                      communicator.rank(), base::host_name(), nodes.size()),
               "--bind-to numa gives each rank one")
      .blame(communicator.rank());
}

}  // namespace collctl::cmd

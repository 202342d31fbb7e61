// --split: the ranks of a job in groups that do the same at the same time. The option's meaning,
// and the ranks of each group. Pure but for numa_node(). Threads: values.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/record.h"
#include "base/result.h"
#include "cmd/cli/command.h"
#include "runtime/communicator/communicator.h"

namespace collctl::cmd {

enum class SplitBy : uint8_t { nothing, division, remainder, mask_and, mask_or, ranks, host, numa };
struct SplitRule {
  SplitBy by = SplitBy::nothing;
  int number = 0;              // of the first four
  std::vector<int> list = {};  // ranks: the group of each rank

  explicit operator bool() const { return by != SplitBy::nothing; }
  // Whether it can be known before the ranks are there.
  bool by_rank() const { return by < SplitBy::host; }
  std::string text() const;  // as --split takes it; "" of nothing
  // Whether a job of so many ranks can be split by it. Error: usage.
  Status fits(int ranks) const;
};
inline constexpr int kMostSplitRanks = 65536;
// "4" or "div:4", "mod:2", "and:0x7", "or:0x7", "ranks:0-3,8/4-7", "host", "numa"; "" is nothing.
// Error: usage.
Result<SplitRule> parse_split(const std::string& text);

// As an option's value, and as a field of its record (cmd/cli/bind.h).
Status read_value(const Option& option, const std::vector<std::string>& given, SplitRule& rule);
void value_field(base::Record& io, const Option& option, const char* name, SplitRule& rule,
                 const SplitRule& least);

// Where a rank is, for the last two.
struct RankSite {
  uint64_t host = 0;  // equal on one host
  int numa = 0;
};
// The members of each group, ascending; groups in the order of their first. Sites by rank.
using Groups = std::vector<std::vector<int>>;
Groups groups_of(const SplitRule& rule, std::span<const RankSite> sites);
// The same for a rule by rank.
Groups groups_of(const SplitRule& rule, int ranks);
int group_of(const Groups& groups, int rank);  // -1: in none

// "group 1 (ranks 2-3)"
std::string group_name(int group, const std::vector<int>& ranks);

// With the group of the rank at fault, where the error knows one and does not name it yet.
Error in_its_group(const Groups& groups, Error error);

// The NUMA node of this process's processors, or of its rank's GPU. Errors: usage: it may run on
// several; unavailable: the kernel does not say.
Result<int> numa_node(const runtime::Communicator& communicator);

// A group as the header has it.
struct GroupLine {
  std::vector<int> ranks;
  std::vector<std::string> hosts;
};

}  // namespace collctl::cmd

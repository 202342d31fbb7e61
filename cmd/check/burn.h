// The suite `burn` in its parts: burn-test on many hosts at the same time, in stretches with a
// collective between them, and what the reports of all hosts say together. Judging and drawing are
// pure. Threads: one.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "base/json_writer.h"
#include "base/record.h"
#include "cmd/burn/burn.h"
#include "cmd/burn/place.h"
#include "cmd/judge/finding.h"

namespace collctl::cmd {

// How many hosts burn at the same time: each has a process here. And how often that many.
inline constexpr size_t kBurnAtOnce = 256;
int burn_turns(int hosts);

// A device with what all stretches have seen of it.
struct BurntDevice {
  Host host;
  BurnDevice device;
};
inline constexpr const char* kEarlierRun = "an earlier run";  // against which a stretch is wrong
// Adds the report of a host's stretch, which began so many seconds after the first. The same
// product in another stretch must have the same bits.
void add_burnt(std::vector<BurntDevice>& all, const Host& host, const BurnReport& report,
               double since_s);

// Whether it is a core, and not the host that stands for all.
bool is_core(const BurnDevice& device);

// Products of two GPUs that differ, by their places in the list: that of one under suspicion from
// that of another; and where, when both compute them again.
struct BurnDifference {
  size_t device = 0, other = 0;
  std::string what;
  std::optional<BurnSpot> first = {};  // none: they are alike again, or
  std::string why = {};                // it was not found
};
// At most kMostDifferences, without the places.
inline constexpr size_t kMostDifferences = 4;
std::vector<BurnDifference> differences_of(std::span<const BurntDevice> all);

struct BurnFindings {
  std::vector<Finding> findings;
  std::vector<Culprit> culprits;
};
// `below`: of the median of three or more GPUs of a model, less is slow.
BurnFindings judge_burnt(std::span<const BurntDevice> all, double below,
                         std::span<const BurnDifference> differences = {});

// The part that stays in the report: GPUs, hosts, cores with a fault; of many fewer samples.
std::vector<BurntDevice> kept_burnt(std::vector<BurntDevice> all);
// The key `burn`.
void write_burnt(JsonWriter& json, const std::vector<BurntDevice>& burnt);
void read_burnt(Record& io, std::vector<BurntDevice>& burnt);
// Power, clock and temperatures over time; empty: there is no sample.
std::string burn_svg(const std::vector<BurntDevice>& burnt);

}  // namespace collctl::cmd

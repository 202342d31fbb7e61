// Every way that another library was measured in, size by size.
#include <algorithm>

#include "base/format.h"
#include "cmd/report/report.h"
#include "cmd/text/sizes.h"

namespace collctl::cmd {
namespace {

// In the order in which they appear first.
std::vector<std::string> variants_of(const BenchReport& report, Timing BenchRow::*place) {
  std::vector<std::string> names;
  for (const BenchRow& row : report.rows)
    for (const VersusTiming& other : (row.*place).versus)
      if (std::ranges::find(names, other.variant) == names.end()) names.push_back(other.variant);
  std::ranges::sort(names);
  return names;
}

std::string cell_of(const Timing& timing, const std::string& variant) {
  for (const VersusTiming& other : timing.versus)
    if (other.variant == variant)
      return four_digits(other.time_us) + (&other == &timing.versus[0] ? "*" : " ");
  return "- ";
}

std::string table_of(const BenchReport& report, Timing BenchRow::*place, const char* words) {
  const std::vector<std::string> names = variants_of(report, place);
  if (names.size() < 2) return "";
  std::string text = format("#\n# {}, us, {} (* the best):\n#{:>12}  {:>10}",
                            report.closing ? report.closing->other : "the other library", words,
                            "size", "collctl");
  for (const std::string& name : names) text += format("  {:>11} ", name);
  text += "\n";
  for (const BenchRow& row : report.rows) {
    if (!(row.*place).measured) continue;
    text += format("{:>13}  {:>10}", row.bytes, four_digits((row.*place).time_us));
    for (const std::string& name : names) text += format("  {:>12}", cell_of(row.*place, name));
    text += "\n";
  }
  return text;
}

}  // namespace

std::string variant_tables(const BenchReport& report) {
  return table_of(report, &BenchRow::out_of_place, "out of place") +
         table_of(report, &BenchRow::in_place, "in place");
}

}  // namespace collctl::cmd

// The fate of hosts over the checks of a history: which failures are new, which go on, which are
// gone, whose hosts are well again, and which speeds decline. A failure, a pass and a speed count
// where the same thing was looked at: the host, the suite, the level. Pure. Threads: values.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cmd/check/check.h"
#include "cmd/check/history.h"
#include "cmd/document/document.h"

namespace collctl::cmd {

// open: its host is in none of the newer checks of its peers, so nobody knows.
enum class TrendState : uint8_t { fresh, ongoing, open, better };
inline constexpr int kTrendStates = 4;
const char* trend_word(TrendState state);  // "new", "ongoing", "open", "better": stable

struct TrendFinding {
  TrendState state{};
  Finding finding;                // as the last check that has it
  int64_t since = 0, last = 0;    // it fails in all from .. to that looked at it
  int64_t well = 0;               // better: the first check without it
  size_t failed = 0, looked = 0;  // so many checks of those that looked at it
  size_t after = 0;               // newer checks of its host that did not
};

// A speed in GB/s over the checks that measured it in the same way.
struct TrendFigure {
  std::string what;  // of a finding its check; of two NICs "path"
  Subject at;
  std::string level, version, hosts;               // hosts: of a figure of all of them, folded
  std::string size;                                // "bus bandwidth at 4 MiB"; may be empty
  std::vector<std::pair<int64_t, double>> values;  // by time
  size_t spoilt = 0;                               // further ones, while others had the host
  double first = 0, median = 0, last = 0, worst = 0;
  // Medians of the first and the last third; 0: too few values.
  double early = 0, late = 0;
  bool declines = false;
};

// unsure: it failed, and no newer check has passed all that this check looked at.
enum class HostState : uint8_t { well, well_again, unsure, fails };
inline constexpr int kHostStates = 4;
const char* host_word(HostState state);  // "well", "well-again", "unsure", "fails": stable
struct TrendHost {
  Host host;
  HostState state{};
  size_t checks = 0, failed = 0;
  int64_t since = 0, last = 0;               // in this state; the newest check that it is in
  bool missing = false;                      // newer checks of its peers are without it
  std::vector<std::string> not_passed = {};  // unsure: suites
};

struct TrendRun {
  std::string file = {}, version = {}, level = {};
  int64_t unix_s = 0;
  int exit_code = 0;
  std::vector<std::string> hosts = {};
};
struct Trend {
  double below = 0;
  std::vector<TrendRun> runs;  // by time
  std::vector<TrendHost> hosts;
  std::vector<TrendFinding> findings;  // new, ongoing, open, better
  std::vector<TrendFigure> figures;    // those that decline first, the most of it first
  std::vector<Culprit> culprits;       // of the newest check of each host
  std::vector<Host> well_again() const;
};

// Place of a check's suite among suites(); their number: it is none of them.
size_t suite_of(const std::string& check);
// trend_figures.cc. Medians of thirds: declines if the late one has less than `below` of the early
// one, and less by more than values scatter from one to the next. Fewer than six values say
// nothing, and neither does one that is far away.
void judge_figure(TrendFigure& figure, double below);

class TrendMaker {
 public:
  void add(const PastCheck& check);
  // `only`: about these hosts alone; empty: about all. Errors: usage, no check has one of them.
  Result<Trend> make(double below, const std::vector<std::string>& only);

 private:
  enum class Look : uint8_t { none, ok, bad };
  struct Past {
    TrendRun run;
    CheckLevel level{};
    std::set<Host> hosts, bad;
    std::map<Host, std::vector<Look>> looks;  // by suite
    std::vector<bool> asked, done;            // by suite
    std::vector<Finding> failures;
    std::set<std::string> failing;  // their names
    std::vector<Culprit> culprits;
    PathMatrix paths;
    int64_t time() const { return run.unix_s; }
  };
  struct Looked {
    const Past* past;
    bool fails;
  };
  // Name, from where, where to, level, version, hosts, size.
  using Key = std::tuple<std::string, Subject, std::string, std::string, std::string, std::string>;
  void add_looks(const CheckReport& report, Past& past) const;
  void add_figures(const PastCheck& check);
  static std::optional<bool> look(const Past& past, const Past& failed, const Finding& finding);
  std::optional<TrendFinding> follow(const std::string& name) const;
  TrendHost follow_host(const Host& host) const;
  bool is_missing(const Host& host) const;
  std::vector<Past> all_;
  std::map<Key, TrendFigure> figures_;
};

// trend_report.cc: the document of it, with all that there is to print. `files`: that were skipped.
Document trend_document(const Trend& trend, const std::string& folder, const HistoryFiles& files);
// trend_json.cc.
void write_trend(JsonWriter& json, const Trend& trend, const std::string& folder,
                 const HistoryFiles& files);
// trend_svg.cc: the speeds over time, a panel for each check; empty: none was measured twice.
std::string trend_svg(const Trend& trend);
// A curve in at most so many characters, from _ (less than half of the best) to @.
std::string spark(const std::vector<std::pair<int64_t, double>>& values, size_t most);

}  // namespace collctl::cmd

// One saved run against another. A figure is slower when it has less than `below` of what it was
// and less than figures of its kind scatter by from the one run to the other, so that the noise of
// short measurements is no finding; a kind is slower as a whole when its median is, beyond doubt.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/format.h"
#include "cmd/judge/json.h"
#include "cmd/measure/timing.h"
#include "cmd/report/compare.h"
#include "cmd/text/provenance.h"
#include "cmd/text/sizes.h"
#include "cmd/text/table.h"

namespace collctl::cmd {
namespace {

// A check that has the matrix of paths, too.
const char* const kMedianOfPaths = "pairs/paths";
constexpr double kSpoiltBelow = 0.2;  // no busy host explains less
constexpr double kTimeBelow = 0.5;    // of a latency: twice as long
constexpr double kScatters = 3.5;     // deviations; of a few hundred healthy figures none is beyond
constexpr double kSure = 3;           // standard errors of a median
constexpr double kLeastRatio = 1e-6;  // what no byte passes any more has none

struct DiffRow {
  FigureKey key;
  Figure was, is;
  double ratio = 0, limit = 0;  // less than the limit is slower
  bool slower = false, folded = false, spoilt = false;
};

// Figures of one kind that are all slower, or a host's paths of one direction: told once.
struct Fold {
  std::string name, unit;
  std::vector<double> was, is, ratios;
};

// The median, the lower one of an even number. None: 0.
double lower_median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + ptrdiff_t((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// By how much values of a normal distribution deviate, from the median of the deviations: a few
// that are far away do not change it.
double deviation(const std::vector<double>& values, double from) {
  std::vector<double> far;
  for (const double value : values) far.push_back(std::fabs(value - from));
  return 1.4826 * lower_median(std::move(far));
}

class Diff {
 public:
  Diff(const ComparedRun& was, const ComparedRun& is, double below)
      : was_(was), is_(is), below_(below) {}
  Document run();

 private:
  void pair_up(const Figures& before, const Figures& after);
  void judge();
  void judge_kind(const std::string& name, const std::vector<DiffRow*>& rows);
  void fold_paths();
  void fold(std::string name, const std::vector<DiffRow*>& rows);
  void tell_findings();
  void failures_of(const ComparedRun& a, const ComparedRun& b, std::vector<Finding>& list) const;
  void write_rows(JsonWriter& json, const char* name, const std::vector<DiffRow>& rows) const;
  Table table() const;
  Facts counts() const;
  std::vector<std::string> summary() const;
  const char* change(double ratio, bool slower) const {
    return slower ? "slower" : ratio > 1 / std::max(below_, 0.01) ? "faster" : "";
  }
  size_t slower() const { return size_t(std::ranges::count_if(rows_, &DiffRow::slower)); }

  const ComparedRun &was_, &is_;
  const double below_;
  std::vector<DiffRow> rows_, once_;
  std::vector<Fold> folds_;
  std::vector<std::string> missing_;
  std::vector<Finding> came_, went_, findings_;
};

void Diff::pair_up(const Figures& before, const Figures& after) {
  for (const auto& [key, old] : before) {
    const auto at = after.find(key);
    if (at == after.end() || at->second.unit != old.unit) {
      missing_.push_back(key.first + (key.second == 0 ? "" : " " + human_bytes(key.second)));
      continue;
    }
    const Figure& now = at->second;
    // A path that had nothing before cannot have less.
    if (old.number <= 0 || (now.number <= 0 && !old.from.named())) continue;
    DiffRow row{.key = key, .was = old, .is = now};
    row.ratio = old.less_is_better() ? old.number / now.number : now.number / old.number;
    row.spoilt = old.spoilt || now.spoilt;
    row.limit = row.spoilt ? std::min(below_, kSpoiltBelow) : below_;
    // A latency is one time, which scatters more than a rate over many.
    if (old.less_is_better() && key.second == 0) row.limit = std::min(row.limit, kTimeBelow);
    (old.once ? once_ : rows_).push_back(std::move(row));
  }
}

void Diff::judge() {
  std::map<std::pair<std::string, bool>, std::vector<DiffRow*>> kinds;
  for (DiffRow& row : rows_) kinds[{row.was.kind, row.spoilt}].push_back(&row);
  for (const auto& [kind, rows] : kinds) judge_kind(kind.first, rows);
}

void Diff::judge_kind(const std::string& name, const std::vector<DiffRow*>& rows) {
  std::vector<double> logs;
  for (const DiffRow* row : rows) logs.push_back(std::log(std::max(row->ratio, kLeastRatio)));
  const double limit = std::log(std::max(rows.front()->limit, kLeastRatio));
  const double usual = median(logs);
  const double doubt = kSure * 1.2533 * deviation(logs, usual) / std::sqrt(double(rows.size()));
  if (rows.size() > 1 && usual + doubt < limit) {
    std::vector<DiffRow*> slow;
    for (DiffRow* row : rows)
      if (row->ratio < row->limit) slow.push_back(row);
    for (DiffRow* row : slow) row->slower = true;
    if (slow.size() > 1) fold(name, slow);
    return;
  }
  // One alone says nothing of how it scatters.
  const double scatter = rows.size() > 1 ? kScatters * deviation(logs, 0) : 0;
  for (DiffRow* row : rows) {
    row->limit *= std::exp(-scatter);
    row->slower = row->ratio < row->limit;
  }
}

void Diff::fold(std::string name, const std::vector<DiffRow*>& rows) {
  Fold& made = folds_.emplace_back(Fold{std::move(name), rows.front()->was.unit, {}, {}, {}});
  for (DiffRow* row : rows) {
    row->folded = true;
    made.was.push_back(row->was.number);
    made.is.push_back(row->is.number);
    made.ratios.push_back(row->ratio);
  }
}

// Slower paths of one direction are one line where they are most of a host's.
void Diff::fold_paths() {
  std::map<std::pair<Host, bool>, std::vector<DiffRow*>> all;
  for (DiffRow& row : rows_) {
    if (!row.was.from.named()) continue;
    all[{row.was.from, true}].push_back(&row);
    all[{row.was.to, false}].push_back(&row);
  }
  for (const auto& [end, rows] : all) {
    std::vector<DiffRow*> slow;
    for (DiffRow* row : rows)
      if (row->slower && !row->folded) slow.push_back(row);
    if (slow.size() > 1 && 2 * slow.size() > rows.size())
      fold(format("paths {} {}, {} of {}", end.second ? "from" : "to", end.first, slow.size(),
                  rows.size()),
           slow);
  }
}

void Diff::failures_of(const ComparedRun& a, const ComparedRun& b,
                       std::vector<Finding>& list) const {
  for (const Finding& finding : a.judged.checks) {
    if (!fails(finding)) continue;
    const bool both = std::ranges::any_of(b.judged.checks, [&](const Finding& other) {
      return fails(other) && name_of_finding(other) == name_of_finding(finding);
    });
    if (!both) list.push_back(finding);
  }
}

void Diff::tell_findings() {
  findings_ = came_;
  const auto tell = [&](const std::string& what, const std::string& unit, double was, double is,
                        double expected) {
    Finding& finding = findings_.emplace_back(Finding{.name = "slower"});
    finding.reason = "slower";
    finding.measured = format("{:.6g}", is);
    finding.expected = format("{:.6g}", expected);
    finding.unit = unit;
    finding.fail(ErrorCode::failed,
                 format("{}: {} {}, was {}", what, four_digits(is), unit, four_digits(was)));
  };
  for (const Fold& one : folds_) {
    const double was = median(one.was);
    tell(one.name + ", in the median", one.unit, was, median(one.is),
         one.unit == "us" ? was / below_ : below_ * was);
  }
  for (const DiffRow& row : rows_)
    if (row.slower && !row.folded)
      tell(format("{} {}", row.key.first, size_text(row.key)), row.was.unit, row.was.number,
           row.is.number,
           row.was.less_is_better() ? row.was.number / row.limit : row.limit * row.was.number);
}

void Diff::write_rows(JsonWriter& json, const char* name, const std::vector<DiffRow>& rows) const {
  json.key(name).begin_array();
  for (const DiffRow& row : rows) {
    json.begin_object();
    write_key(json, row.key, row.was);
    json.field("was", row.was.number).field("is", row.is.number).field("ratio", row.ratio);
    if (!row.was.once) json.field("slower", row.slower).field("limit", row.limit);
    if (row.spoilt) json.field("spoilt", true);
    json.end_object();
  }
  json.end_array();
}

Table Diff::table() const {
  Table table{titled({"<what", "size", "was", "is", "ratio", "<change", "<unit"}), {"change"}};
  const auto add = [&](const std::string& what, const std::string& size, double was, double is,
                       double ratio, const char* how, const std::string& unit) {
    table.add({what, size, four_digits(was), four_digits(is), ratio_text(ratio), how, unit});
  };
  for (const Fold& one : folds_)
    add(one.name, "-", median(one.was), median(one.is), median(one.ratios), "slower", one.unit);
  for (const DiffRow& row : rows_) {
    // Only those of many paths that changed.
    const char* how = change(row.ratio, row.slower);
    if (row.folded || row.spoilt > row.slower || (row.was.from.named() && *how == 0)) continue;
    add(row.key.first, size_text(row.key), row.was.number, row.is.number, row.ratio, how,
        row.was.unit);
  }
  return table;
}

Facts Diff::counts() const {
  Facts facts;
  const auto tell = [&](std::string line) { facts.lines.push_back(std::move(line)); };
  size_t paths = 0, spoilt = 0;
  double logs = 0, least = below_;
  std::string widest;
  for (const DiffRow& row : rows_) {
    paths += row.was.from.named() && !row.spoilt && *change(row.ratio, row.slower) == 0;
    spoilt += row.spoilt;
    logs += std::log(std::max(row.ratio, kLeastRatio));
    if (!row.spoilt && row.limit < least) {
      least = row.limit;
      widest = row.was.kind;
    }
  }
  if (paths > 0)
    tell(format("{} within {:g} of what they were are not shown", counted(paths, "path"), below_));
  if (!widest.empty())
    tell(format("{} scatter so much that less than {:.2g} of one counts, not {:g}", widest, least,
                below_));
  if (spoilt > 0)
    tell(format(
        "{} figures were spoilt, as others had the host meanwhile: only less than {:g} counts",
        spoilt, std::min(below_, kSpoiltBelow)));
  if (!once_.empty()) {
    std::vector<double> ratios;
    for (const DiffRow& row : once_) ratios.push_back(row.ratio);
    tell(format("{} single connections are not judged: ratios from {:.2f} to {:.2f}, median {:.2f}",
                once_.size(), *std::ranges::min_element(ratios), *std::ranges::max_element(ratios),
                median(ratios)));
  }
  if (!rows_.empty())
    tell(
        format("{} of {} timings are slower than {:g} of what they were; geometric mean of the "
               "ratios {:.3f}",
               slower(), rows_.size(), below_, std::exp(logs / double(rows_.size()))));
  return facts;
}

std::vector<std::string> Diff::summary() const {
  std::vector<std::string> lines;
  if (!came_.empty()) lines.push_back(format("{} failed that did not before", came_.size()));
  if (slower() > 0) lines.push_back(format("{} of {} timings are slower", slower(), rows_.size()));
  if (!findings_.empty() && findings_.back().status == FindingStatus::not_tested)
    lines.push_back(findings_.back().message);
  return lines;
}

Document Diff::run() {
  const bool choices =
      (was_.bench && has_choices(*was_.bench)) || (is_.bench && has_choices(*is_.bench));
  Figures before = figures_of(was_, choices), after = figures_of(is_, choices);
  before.merge(path_figures(was_.paths));
  after.merge(path_figures(is_.paths));
  // The matrix says more than its median.
  if (!was_.paths.ends.empty() && !is_.paths.ends.empty()) {
    before.erase({kMedianOfPaths, 0});
    after.erase({kMedianOfPaths, 0});
  }
  pair_up(before, after);
  judge();
  fold_paths();
  failures_of(is_, was_, came_);
  failures_of(was_, is_, went_);
  tell_findings();
  const auto worst_first = [](const DiffRow& a, const DiffRow& b) {
    return std::tuple(!a.slower, a.ratio) < std::tuple(!b.slower, b.ratio);
  };
  std::ranges::stable_sort(rows_, worst_first);
  std::ranges::stable_sort(once_, worst_first);
  std::ranges::stable_sort(
      folds_, [](const Fold& a, const Fold& b) { return median(a.ratios) < median(b.ratios); });
  if (!missing_.empty())
    findings_.emplace_back(Finding{.name = "missing"})
        .leave_out(
            format("{} was measured in the first only{}", missing_.front(),
                   missing_.size() == 1 ? "" : format(", and {} more", missing_.size() - 1)));
  if (before.empty() && came_.empty() && was_.judged.checks.empty() && is_.judged.checks.empty())
    findings_.emplace_back(Finding{.name = "nothing"})
        .leave_out("neither has timings or checks that could be compared");
  JsonWriter json;
  begin_document(json, "collctl.diff/1").key("was");
  write_run(json, was_);
  json.key("is");
  write_run(json, is_);
  json.field("below", below_);
  write_rows(json, "timings", rows_);
  write_rows(json, "once", once_);
  Record io(json);
  io.field("came", described(came_));
  io.field("went", described(went_));
  io.field("missing", missing_);
  const std::vector<std::string> reasons = summary();
  const Verdict verdict(findings_, std::nullopt, reasons);
  write_checks(json, findings_, {});
  write_verdict(json, verdict);
  Document made{.title = format("{} against {}", is_.name, was_.name),
                .parts = {{Facts{{run_line("was ", was_), run_line("is  ", is_)}}}},
                .summary = joined(reasons),
                .json = json.end_object().take() + "\n",
                .rows = "timings"};
  made.heading = made.title;
  made.judged = judgement_of(made.json);
  Facts went;
  for (const Finding& finding : went_)
    went.lines.push_back(
        format("no longer failing: {}: {}", name_of_finding(finding), finding.message));
  made.parts.push_back({std::move(went), Shown::always, true});
  made.parts.push_back({table(), Shown::always, true});
  made.parts.push_back({counts(), Shown::always, true});
  return made;
}

}  // namespace

Document diff_runs(const ComparedRun& was, const ComparedRun& is, double below) {
  return Diff(was, is, below).run();
}

}  // namespace collctl::cmd

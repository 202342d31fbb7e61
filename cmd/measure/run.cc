#include "cmd/measure/run.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/env.h"
#include "base/format.h"
#include "cmd/measure/fields.h"
#include "cmd/text/sizes.h"

namespace collctl::cmd {

BenchRun::BenchRun(const BenchSpec& spec, Everyone& everyone, CostWatch* own_cost,
                   const Continued* continued)
    : spec_(spec),
      everyone_(everyone),
      communicator_(everyone.own()),
      continued_(continued),
      until_(base::knob_text(base::KnobId::until)),
      memory_(communicator_),
      stream_(communicator_),
      own_cost_(own_cost),
      observers_(observers_of(spec, everyone)),
      checker_(spec, everyone, stream_) {}

Status BenchRun::run() {
  COLL_ASSIGN(const uint64_t plateau, this->plateau());
  COLL_ASSIGN(const MeasuredRows rows,
              MeasuredRows::make(spec_, communicator_.size(), continued_, plateau));
  COLL_TRY(memory_.reserve(spec_, rows.sizes().back(), everyone_.whole(), everyone_.deadline()));
  if (!spec_.versus.empty()) {
    COLL_ASSIGN(auto made,
                start_versus(spec_, everyone_, rows.sizes(), memory_, stream_, own_cost_));
    versus_ = made.get();
    observers_.push_back(std::move(made));
  }
  HeaderFacts facts;
  facts.window_bytes = memory_.windows().bytes();
  for (const auto& observer : observers_) observer->tell(facts);
  everyone_.tell(facts);
  COLL_TRY(everyone_.meet());  // buffers may take long to make
  if (!continued_)
    COLL_TRY(send_header(spec_, facts, everyone_.whole(), everyone_.out(), everyone_.deadline()));
  timer_.emplace(spec_, everyone_, stream_, observers_, versus_);
  everyone_.out().task.phase(everyone_.whole().rank(), "measure");
  const base::HostLoad load_before = base::host_load();
  for (const RowSeries& series : rows.series()) COLL_TRY(this->series(rows, series));
  RankClosing mine{.before = load_before, .after = base::host_load()};
  BenchClosing closing;
  for (const auto& observer : observers_) COLL_TRY(observer->closing(mine, closing));
  COLL_TRY(send_closing(std::move(mine), std::move(closing), everyone_.whole(), everyone_.out(),
                        everyone_.deadline()));
  return memory_.windows().give_back(everyone_.deadline());
}

// Several choices: those that cannot serve a size are left out; one alone, or all, is an error.
Status BenchRun::series(const MeasuredRows& rows, const RowSeries& series) {
  std::map<uint64_t, Error> refused;  // by size: why, until a choice serves it
  std::set<uint64_t> served;
  for (size_t i = 0; i < rows.choices().size(); ++i) {
    const auto& [algorithm, protocol] = rows.choices()[i];
    std::vector<uint64_t> able = rows.sizes();
    if (rows.choices().size() > 1) {
      COLL_TRY(communicator_.set_choices(algorithm, protocol, spec_.channels));
      timer_->choices_changed();
      std::erase_if(able, [&](uint64_t asked) {
        auto serves =
            plans_of(communicator_, submissions_for(memory_.of(rows.key(series, asked), false)));
        if (!serves) refused.insert_or_assign(asked, std::move(serves.error()));
        return !serves;
      });
      COLL_TRY(everyone_.agree(rows.sizes(), able, refused));
    }
    served.insert(able.begin(), able.end());
    before_ = {};
    for (RowToMeasure& next : rows.left(series, i, able)) {
      COLL_ASSIGN(const bool fits, fit_in_time(rows, series, next));
      if (!fits) continue;
      const uint64_t bytes = next.key.size.bytes;
      if (everyone_.whole().rank() == 0)
        everyone_.out().task.progress(
            format("{}, {} of {}", human_bytes(bytes), next.place, rows.total()));
      COLL_TRY_IN(row(next), format("{} of {} bytes", name_of(next.key.collective), bytes));
    }
  }
  for (const auto& [asked, why] : refused)
    if (served.count(asked) == 0) return why;
  return {};
}

// The least of what the ranks' machines ask for; 0: no such row is wanted.
Result<uint64_t> BenchRun::plateau() {
  if (!spec_.plateau) return uint64_t{0};
  COLL_ASSIGN(const int64_t least,
              everyone_.largest(-int64_t(plateau_bytes(plateau_facts(everyone_.whole())))));
  return uint64_t(-least);
}

// The last row by what the one before has taken on the slowest rank, so that all agree; false: it
// is left out.
Result<bool> BenchRun::fit_in_time(const MeasuredRows& rows, const RowSeries& series,
                                   RowToMeasure& row) {
  if (!rows.ends_in_plateau() || row.asked != rows.sizes().back()) return true;
  COLL_ASSIGN(const int64_t slowest, everyone_.largest(before_.ns));
  row.asked = bytes_in_time(row.asked, {before_.bytes, slowest});
  if (row.asked > 0) row.key = rows.key(series, row.asked);
  return row.asked > 0;
}

Status BenchRun::row(const RowToMeasure& row) {
  Placements placements;
  for (bool more = true; more;) {
    if (spec_.in_place != InPlace::in_place) {
      COLL_ASSIGN(placements[0], placement(row, false));
    }
    if (spec_.in_place != InPlace::out_of_place && has_in_place_form(row.key.collective)) {
      COLL_ASSIGN(placements[1], placement(row, true));
    }
    COLL_ASSIGN(more, again());
  }
  const Placement& timed = placements[spec_.in_place == InPlace::in_place];
  before_ = {row.asked, timed.times.block_ns() / spec_.iterations};
  return tell(row, placements);
}

// Whether the row is measured once more: until any rank has found the file, which all learn at the
// same time.
Result<bool> BenchRun::again() {
  if (until_.empty()) return false;
  const uint8_t found = ::access(until_.c_str(), F_OK) == 0;
  COLL_ASSIGN(const auto all, everyone_.gather({&found, 1}));
  return std::ranges::all_of(all,
                             [](const Bytes& told) { return told.size() == 1 && told[0] == 0; });
}

Result<BenchRun::Placement> BenchRun::placement(const RowToMeasure& row, bool in_place) {
  const PlacedRow placed = memory_.of(row.key, in_place);
  Placement result;
  result.measured = true;
  COLL_TRY(checker_.prepare(placed));
  // In place the result of one iteration is the input of the next: zeros stay zeros, whereas data
  // would grow to infinities and denormals whose arithmetic is slower than the user's.
  if (in_place) COLL_TRY(placed.buffers.output->zero(placed.buffers.output_bytes));
  COLL_ASSIGN(result.times, timer_->time(row, placed));
  if (checker_.wanted()) {
    COLL_ASSIGN(result.check, checker_.check(placed));
  }
  if (versus_ != nullptr && spec_.versus_watched) {
    COLL_ASSIGN(result.others_wrong, check_others(placed));
  }
  return result;
}

Result<std::vector<uint64_t>> BenchRun::check_others(const PlacedRow& placed) {
  std::vector<uint64_t> wrong;
  COLL_ASSIGN(const std::vector<VersusRun> others, versus_->runs(placed, {}));
  for (const VersusRun& other : others) {
    COLL_ASSIGN(const CheckResult check, checker_.check(placed, *other.timed));
    wrong.push_back(check.wrong(kernels::element_size(placed.key.type)));
  }
  return wrong;
}

// Rank 0, and who wants rows, learns all ranks' times.
Status BenchRun::tell(const RowToMeasure& row, const Placements& placements) {
  const RowKey& key = row.key;
  const uint32_t size = kernels::element_size(key.type);
  ByteWriter writer;
  for (const Placement& placement : placements) {
    placement.times.put(writer);
    writer.put(placement.check.wrong(size));
    for (const uint64_t others : placement.others_wrong) writer.put(others);
  }
  COLL_ASSIGN(const std::vector<Bytes> blobs,
              communicator_.gather_blobs(writer.bytes(), everyone_.deadline()));
  std::array<AllTimes, 2> all{AllTimes(placements[0].times), AllTimes(placements[1].times)};
  uint64_t wrong[2] = {0, 0};
  std::array<std::vector<std::pair<uint64_t, int>>, 2> others;  // wrong, and on which rank first
  for (size_t p = 0; p < 2; ++p) others[p].resize(placements[p].others_wrong.size(), {0, -1});
  for (size_t rank = 0; rank < blobs.size(); ++rank) {
    ByteReader reader(blobs[rank]);
    for (size_t p = 0; p < 2; ++p) {
      all[p].add(reader, spec_.sync_each ? size_t(spec_.iterations) : 0);
      wrong[p] += reader.get<uint64_t>();
      for (auto& [sum, first] : others[p]) {
        const auto mine = reader.get<uint64_t>();
        sum += mine;
        if (mine > 0 && first < 0) first = int(rank);
      }
    }
    if (!reader.ok() || !reader.at_end())
      return Error{ErrorCode::defect, "a rank's times have the wrong length"};
  }
  BenchOut& out = everyone_.row_out();
  if (communicator_.rank() == 0 || out.every_rank) {
    COLL_ASSIGN(BenchRow told, described(row));
    Timing* timings[2] = {&told.out_of_place, &told.in_place};
    for (size_t p = 0; p < 2; ++p) {
      if (!placements[p].measured) continue;
      *timings[p] = timer_->merged(key, placements[p].times, all[p]);
      const auto& variants = placements[p].times.variants;
      for (VersusTiming& other : timings[p]->versus) {
        const auto at = size_t(std::ranges::find(variants, other.variant) - variants.begin());
        if (at >= others[p].size()) continue;
        other.wrong = int64_t(others[p][at].first);
        other.wrong_rank = others[p][at].second;
      }
      told.warmup = std::max(told.warmup, placements[p].times.warmed);
      if (checker_.wanted()) timings[p]->wrong = int64_t(wrong[p]);
    }
    COLL_TRY(out.on(told));
  }
  for (const auto& observer : observers_) COLL_TRY(observer->row_over());
  for (const bool in_place : {false, true})
    if (wrong[in_place] != 0)
      COLL_TRY(checker_.explain(memory_.of(key, in_place), placements[in_place].check));
  return everyone_.hand_over();
}

// The row without its times: what ran.
Result<BenchRow> BenchRun::described(const RowToMeasure& measured) {
  const RowKey& key = measured.key;
  BenchRow row{.bytes = key.size.bytes,
               .count = key.size.count,
               .type = key.type,
               .op = key.op,
               .has_op = has_op(key.collective),
               .root = key.root,
               .number = measured.number};
  COLL_ASSIGN(const std::vector<runtime::Plan> plans,
              plans_of(communicator_, submissions_for(memory_.of(key, false))));
  const auto [expected, largest] =
      planned_steps(plans, {timer_->operations(), spec_.cuda_graph > 0});
  if (largest == nullptr) return row;
  row.algorithm = kernels::name_of(largest->algorithm);
  row.protocol = kernels::name_of(largest->protocol);
  row.channels = largest->channels;
  row.direct = largest->direct;
  if (largest->tuned)
    row.tuned = {.followed = largest->tuned->followed,
                 .wish = largest->tuned->wish,
                 .algorithm = kernels::name_of(largest->tuned->own.algorithm),
                 .protocol = kernels::name_of(largest->tuned->own.protocol),
                 .channels = largest->tuned->own.channels,
                 .time_us = largest->tuned->own.us};
  // Iterations with a barrier before each begin apart, and each is waited for: no model has that.
  if (communicator_.size() > 1 && expected.us > 0 && has_expectation(key.collective) &&
      !spec_.sync_each)
    row.expected = {
        expected.us,
        double(row.bytes) / expected.us / 1e3 * bus_factor(key.collective, communicator_.size()),
        expected.limited_by, expected.source(), expected.unknown};
  return row;
}

}  // namespace collctl::cmd

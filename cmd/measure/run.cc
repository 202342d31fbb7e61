#include "cmd/measure/run.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/env.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "cmd/measure/closing.h"
#include "cmd/measure/header.h"
#include "cmd/text/sizes.h"
#include "cmd/verify/diagnose.h"

namespace collctl::cmd {

using kernels::Collective;

namespace {

// A broken link breaks every row: the first few say all there is to say.
constexpr int kMaxExplained = 4;

// Another library's turns and ours alternate, so that what the machine does meanwhile meets both.
constexpr int kTurns = 5;
// Of CPU ranks, blocks that move less than this have as many turns: somebody else's millisecond on
// a core is long beside them.
constexpr uint64_t kShortBlockBytes = uint64_t{64} << 20;
constexpr int64_t kLongShortBlockNs = 100'000'000;
constexpr int kMostCheckThreads = 8;
// An operation takes longer while it is new: it maps pages, opens connections, loads kernels, wakes
// cores. So long it warms up, counted by what its first operations took.
constexpr int64_t kWarmNs = 2'000'000;
constexpr int64_t kMostWarming = 2000;
constexpr int64_t kSettleNs = 5'000'000;
constexpr int64_t kMostSettling = 100'000;

}  // namespace

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
      observers_(observers_of(spec, everyone)) {}

const DataOracle& BenchRun::oracle(const RowKey& key) {
  const DataKind kind{key.type, has_op(key.collective), key.op, communicator_.size()};
  if (!oracle_ || !(oracle_->kind() == kind))
    oracle_ = std::make_unique<DataOracle>(kind, communicator_.rank());
  return *oracle_;
}

Status BenchRun::run() {
  COLL_ASSIGN(const MeasuredRows rows, MeasuredRows::make(spec_, communicator_.size(), continued_));
  COLL_TRY(memory_.reserve(spec_, rows.sizes().back(), everyone_.whole(), everyone_.deadline()));
  if (!spec_.versus.empty()) {
    COLL_ASSIGN(auto versus,
                start_versus(spec_, everyone_, rows.sizes(), memory_, stream_, own_cost_));
    versus_ = versus.get();
    observers_.push_back(std::move(versus));
  }
  HeaderFacts facts;
  facts.window_bytes = memory_.windows().bytes();
  for (const auto& observer : observers_) observer->tell(facts);
  everyone_.tell(facts);
  COLL_TRY(everyone_.meet());  // buffers may take long to make
  if (!continued_)
    COLL_TRY(send_header(spec_, facts, everyone_.whole(), everyone_.out(), everyone_.deadline()));
  barrier_ = everyone_.barrier(stream_);
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

// Of several choices those that cannot serve a size are left out; one alone, or all, is an error.
Status BenchRun::series(const MeasuredRows& rows, const RowSeries& series) {
  std::map<uint64_t, Error> refused;  // by size: why, until a choice serves it
  std::set<uint64_t> served;
  for (size_t i = 0; i < rows.choices().size(); ++i) {
    const auto& [algorithm, protocol] = rows.choices()[i];
    std::vector<uint64_t> able = rows.sizes();
    if (rows.choices().size() > 1) {
      COLL_TRY(communicator_.set_choices(algorithm, protocol, spec_.channels));
      barrier_->refresh();
      std::erase_if(able, [&](uint64_t asked) {
        auto serves = plans_of(rows.key(series, asked));
        if (!serves) refused.insert_or_assign(asked, std::move(serves.error()));
        return !serves;
      });
      COLL_TRY(everyone_.agree(rows.sizes(), able, refused));
    }
    served.insert(able.begin(), able.end());
    for (const RowToMeasure& next : rows.left(series, i, able)) {
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

Status BenchRun::row(const RowToMeasure& row) {
  const RowKey& key = row.key;
  number_ = row.number;
  Half out_of_place, in_place;
  for (bool more = true; more;) {
    if (spec_.in_place != InPlace::in_place) {
      COLL_ASSIGN(out_of_place, half(row, false));
    }
    if (spec_.in_place != InPlace::out_of_place && has_in_place_form(key.collective)) {
      COLL_ASSIGN(in_place, half(row, true));
    }
    COLL_ASSIGN(more, again());
  }
  return report_row(key, out_of_place, in_place);
}

// Whether the row is measured once more: until any rank has found the file, which all learn at the
// same time.
Result<bool> BenchRun::again() {
  if (until_.empty()) return false;
  const uint8_t found = ::access(until_.c_str(), F_OK) == 0;
  COLL_ASSIGN(const auto all, everyone_.gather({&found, 1}));
  return std::all_of(all.begin(), all.end(),
                     [](const Bytes& told) { return told.size() == 1 && told[0] == 0; });
}

// Poisoned outputs, then this rank's input where it belongs.
Status BenchRun::prepare(const RowKey& key, const RunBuffers& buffers) {
  const BufferShape shape =
      buffer_shape(key.collective, key.size.count, place_of(communicator_, key));
  COLL_TRY(buffers.output->poison(buffers.output_bytes));
  COLL_TRY(oracle(key).fill_input(*buffers.input, buffers.input_at, shape.input));
  return buffers.input != buffers.output ? buffers.input->set_guards(buffers.input_bytes)
                                         : Status();
}

Result<BenchRun::Half> BenchRun::half(const RowToMeasure& row, bool in_place) {
  const RowKey& key = row.key;
  const RunBuffers buffers = memory_.of(key, in_place);
  Half result;
  result.measured = true;
  COLL_TRY(prepare(key, buffers));
  // In place the result of one iteration is the input of the next: zeros stay zeros, whereas data
  // would grow to infinities and denormals whose arithmetic is slower than the user's.
  if (in_place) COLL_TRY(buffers.output->zero(buffers.output_bytes));
  COLL_TRY(time(row, buffers, result));
  if (spec_.check && key.collective != Collective::barrier) COLL_TRY(check(key, buffers, result));
  return result;
}

Status BenchRun::time(const RowToMeasure& row, const RunBuffers& buffers, Half& half) {
  const RowKey& key = row.key;
  const std::vector<Submission> submissions =
      submissions_for(key, place_of(communicator_, key), buffers);
  COLL_ASSIGN(const std::unique_ptr<Timed> own,
              own_timed(communicator_, stream_, submissions, {everyone_.timeout_s(), batch()}));
  std::vector<VersusRun> others;
  if (versus_) {
    COLL_ASSIGN(others, versus_->runs({key, place_of(communicator_, key), buffers}, batch()));
  }
  half.variants.clear();
  for (const VersusRun& other : others) half.variants.push_back(other.variant);
  half.samples.resize(1 + others.size());
  MeasureOptions options{replays(), spec_.warmup, spec_.sync_each};
  std::vector<int> warmups(half.samples.size(), spec_.warmup);  // by series
  int turns = this->turns(row);
  const int each_turn = options.iterations + options.warmup;
  COLL_TRY(everyone_.probe(*own, each_turn * (spec_.sync_each ? 2 : 1)));
  COLL_ASSIGN(half.warmed, warm_up(*own));
  for (int turn = 0; turn < turns; ++turn) {
    for (size_t i = 0; i <= others.size(); ++i) {
      Observer::Block block{.timed = i == 0 ? own.get() : others[i - 1].timed.get(),
                            .warmup = warmups[i],
                            .first = turn * options.iterations,
                            .in_place = buffers.input == buffers.output};
      options.warmup = warmups[i];
      for (const auto& observer : observers_)
        if (i == 0) COLL_TRY(observer->before(block));
      COLL_ASSIGN(Samples samples, measure(*block.timed, *barrier_, options));
      for (const auto& observer : observers_)
        if (i == 0) COLL_TRY(observer->after());
      half.samples[i].push_back(std::move(samples));
    }
    // What takes long, on a network that loses packets or beside strangers, is not repeated.
    if (turn == 0 && turns > 1 && !versus_) {
      COLL_ASSIGN(const int64_t slowest, everyone_.largest(half.samples[0].back().block_ns));
      if (slowest > kLongShortBlockNs) turns = 1;
    }
    for (int& warmup : warmups) warmup = std::min(warmup, 1);
    if (versus_ && !communicator_.device()) COLL_TRY(settle(half, warmups));
    for (const auto& observer : observers_) observer->turn_over();
  }
  return {};
}

// The same number of operations on all ranks. None where the user wants to see the first ones.
Result<uint64_t> BenchRun::warm_up(Timed& timed) {
  if (spec_.warmup == 0) return 0;
  const auto some = [&](int64_t count) -> Status {
    for (int64_t i = 0; i < count; ++i) COLL_TRY(timed.enqueue());
    return timed.wait();
  };
  const int64_t from = now_ns();
  COLL_TRY(some(spec_.warmup));
  COLL_ASSIGN(const int64_t slowest, everyone_.largest(now_ns() - from));
  const int64_t each = std::max<int64_t>(1, slowest / spec_.warmup);
  const int64_t more = std::clamp<int64_t>(kWarmNs / each - spec_.warmup, 0, kMostWarming);
  COLL_TRY(some(more));
  return uint64_t(spec_.warmup + more);
}

// The other side works on a thread of its own: after each change of sides ranks may find themselves
// on one core for a few milliseconds, until the system has moved them. So long they warm up.
Status BenchRun::settle(const Half& half, std::vector<int>& warmups) {
  for (size_t i = 0; i < warmups.size(); ++i) {
    COLL_ASSIGN(const int64_t slowest, everyone_.largest(half.samples[i].back().block_ns));
    const int64_t each = std::max<int64_t>(1, slowest / replays());
    warmups[i] = int(std::clamp<int64_t>(kSettleNs / each, 1, kMostSettling));
  }
  return {};
}

// The same on all ranks.
int BenchRun::turns(const RowToMeasure& row) const {
  if (versus_) return kTurns;
  if (communicator_.device() || spec_.sync_each) return 1;
  const uint64_t times = uint64_t(spec_.iterations) * uint64_t(spec_.grouped);
  return everyone_.most_moved(row) <= kShortBlockBytes / times ? kTurns : 1;
}

// How often a block runs what is timed: an operation, or a graph of some.
int BenchRun::replays() const {
  if (spec_.cuda_graph == 0 || spec_.sync_each) return spec_.iterations;
  return (spec_.iterations + spec_.cuda_graph - 1) / spec_.cuda_graph;
}

// With graphs through a graph as well; of one operation, since several in place would add up.
Status BenchRun::check(const RowKey& key, const RunBuffers& buffers, Half& half) {
  const Place place = place_of(communicator_, key);
  const std::vector<Submission> submissions = submissions_for(key, place, buffers);
  COLL_ASSIGN(const std::unique_ptr<Timed> once,
              own_timed(communicator_, stream_, submissions,
                        {everyone_.timeout_s(), {.graph = spec_.cuda_graph != 0 ? 1 : 0}}));
  COLL_TRY(prepare(key, buffers));
  COLL_TRY(once->enqueue());
  COLL_TRY(once->wait());
  const int threads =
      memory_.on_gpu()
          ? std::clamp(base::usable_cores() / local_ranks(everyone_.whole()), 1, kMostCheckThreads)
          : 1;
  COLL_ASSIGN(half.check,
              check_run(oracle(key), key.collective, key.size.count, place, buffers, threads));
  return {};
}

Timing BenchRun::merged(const RowKey& key, const Half& half, const AllSamples& all) const {
  const MergeOptions merge{key.collective, key.size.bytes, replays(), batch().operations(),
                           spec_.time_of};
  std::vector<Timing> medians;
  for (const auto& turns : all) {
    std::vector<Timing> timings;
    for (const auto& ranks : turns) timings.push_back(merge_samples(ranks, merge));
    medians.push_back(median_timing(std::move(timings)));
  }
  Timing own = medians.at(0);
  for (size_t i = 1; i < medians.size(); ++i)
    own.versus.push_back({versus_->name(), half.variants[i - 1], medians[i].time_us});
  std::stable_sort(own.versus.begin(), own.versus.end(),
                   [](const auto& a, const auto& b) { return a.time_us < b.time_us; });
  return own;
}

Status BenchRun::report_row(const RowKey& key, const Half& out_of_place, const Half& in_place) {
  const uint32_t size = kernels::element_size(key.type);
  const bool checked = spec_.check && key.collective != Collective::barrier;
  const Half* halves[2] = {&out_of_place, &in_place};
  ByteWriter writer;
  for (const Half* half : halves) {
    for (const auto& turns : half->samples)
      for (const Samples& samples : turns) samples.put(writer);
    writer.put(half->check.wrong(size));
  }
  COLL_ASSIGN(const std::vector<Bytes> all,
              communicator_.gather_blobs(writer.bytes(), everyone_.deadline()));
  // By half: [series][turn][rank]. Every rank has measured the same.
  AllSamples samples[2];
  uint64_t wrong[2] = {0, 0};
  const size_t iterations = spec_.sync_each ? size_t(spec_.iterations) : 0;
  for (int h = 0; h < 2; ++h)
    for (const auto& turns : halves[h]->samples) samples[h].emplace_back(turns.size());
  for (const Bytes& blob : all) {
    ByteReader reader(blob);
    for (int h = 0; h < 2; ++h) {
      for (auto& turns : samples[h])
        for (auto& ranks : turns) ranks.push_back(Samples::get(reader, iterations));
      wrong[h] += reader.get<uint64_t>();
    }
    if (!reader.ok() || !reader.at_end())
      return Error{ErrorCode::defect, "a rank's times have the wrong length"};
  }
  if (communicator_.rank() == 0 || everyone_.row_out().every_rank) {
    COLL_ASSIGN(BenchRow row, described(key));
    Timing* timings[2] = {&row.out_of_place, &row.in_place};
    for (int h = 0; h < 2; ++h) {
      if (!halves[h]->measured) continue;
      *timings[h] = merged(key, *halves[h], samples[h]);
      row.warmup = std::max(row.warmup, halves[h]->warmed);
      if (checked) timings[h]->wrong = int64_t(wrong[h]);
    }
    COLL_TRY(everyone_.row_out().on(row));
  }
  for (const auto& observer : observers_) COLL_TRY(observer->row_over());
  if (wrong[0] != 0) COLL_TRY(explain(key, false, out_of_place.check));
  if (wrong[1] != 0) COLL_TRY(explain(key, true, in_place.check));
  return everyone_.hand_over();
}

Result<std::vector<runtime::Plan>> BenchRun::plans_of(const RowKey& key) {
  const Place place = place_of(communicator_, key);
  return cmd::plans_of(communicator_, submissions_for(key, place, memory_.of(key, false)));
}

// The row without its times: what ran.
Result<BenchRow> BenchRun::described(const RowKey& key) {
  BenchRow row{.bytes = key.size.bytes,
               .count = key.size.count,
               .type = key.type,
               .op = key.op,
               .has_op = has_op(key.collective),
               .root = key.root,
               .algorithm = {},
               .protocol = {},
               .channels = 0,
               .direct = false,
               .out_of_place = {},
               .in_place = {},
               .expected = {},
               .number = number_};
  COLL_ASSIGN(const std::vector<runtime::Plan> plans, plans_of(key));
  const auto [expected_us, largest] = planned_steps(plans);
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
  if (communicator_.size() > 1 && expected_us > 0 && has_expectation(key.collective) &&
      !spec_.sync_each)
    row.expected = {
        expected_us,
        double(row.bytes) / expected_us / 1e3 * bus_factor(key.collective, communicator_.size()),
        largest->expected.limited_by, largest->expected.source()};
  return row;
}

Status BenchRun::explain(const RowKey& key, bool in_place, const CheckResult& check) {
  if (++explained_ > kMaxExplained) return {};
  if (everyone_.whole().rank() == 0)
    everyone_.out().task.progress("wrong data: looking for where it came from");
  const Place place = place_of(communicator_, key);
  const RunBuffers buffers = memory_.of(key, in_place);
  COLL_ASSIGN(const std::vector<DataFault> faults,
              diagnose({communicator_, stream_, key, place, buffers, check, everyone_.deadline()}));
  for (DataFault fault : faults) {
    fault.message +=
        format(" ({} {}{} of {}{})", name_of(key.collective), kernels::name_of(key.type),
               has_op(key.collective) ? format(" {}", kernels::name_of(key.op)) : "",
               human_bytes(key.size.bytes), in_place ? ", in place" : "");
    COLL_TRY(everyone_.row_out().on(fault));
  }
  return {};
}

}  // namespace collctl::cmd

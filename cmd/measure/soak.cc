#include "cmd/measure/soak.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "cmd/measure/fields.h"
#include "cmd/measure/gpu_clocks.h"
#include "cmd/measure/timed.h"
#include "cmd/measure/timing.h"
#include "cmd/verify/data_inputs.h"
#include "kernels/algo/algorithms.h"

namespace collctl::cmd {

using kernels::Collective;
using kernels::DataType;
using kernels::RedOp;
using runtime::Communicator;

namespace {

constexpr uint64_t kTold = 200;  // operations between two lines of progress
constexpr uint64_t kSameChoices = 16;
constexpr int kMostChannels = 8;  // of forced choices

constexpr uint64_t kRoom = 2;  // of a buffer, times the largest size

// Operations that may be part of a group: no steps that wait for one another.
const std::vector<BenchOp>& soak_ops() {
  static const std::vector<BenchOp> ops = [] {
    std::vector<BenchOp> some;
    for (const BenchOp& op : bench_ops())
      if (!steps_wait(op)) some.push_back(op);
    return some;
  }();
  return ops;
}

}  // namespace

uint64_t SeededNumbers::next() {
  return mix(std::exchange(state_, state_ + kMixStep));
}

Soak::Soak(const BenchSpec& spec, Communicator& communicator, BenchOut& out)
    : spec_(spec),
      communicator_(communicator),
      out_(out),
      numbers_(spec.soak_seed),
      windows_(communicator) {
  for (int i = 0; i < kStreams; ++i)
    streams_.push_back(std::make_unique<runtime::Stream>(communicator));
}

Status Soak::reserve() {
  const uint64_t most = kRoom * spec_.max_bytes;  // alike on all ranks, as windows must be
  std::shared_ptr<DeviceBlocks> blocks;
  if (communicator_.device()) {
    COLL_ASSIGN(blocks, DeviceBlocks::make(communicator_.device(), most));
  }
  for (int i = 0; i < kTogether; ++i) {
    const bool window = spec_.window && i < kTogether - kNotInWindows;
    Pair& pair =
        pairs_.emplace_back(Pair{GuardedBuffer(blocks, window), GuardedBuffer(blocks, window)});
    COLL_TRY(pair.input.reserve(most));
    COLL_TRY(pair.output.reserve(most));
  }
  if (!spec_.window) return {};
  std::vector<GuardedBuffer*> buffers;
  for (Pair& pair : std::span(pairs_).first(kTogether - kNotInWindows))
    buffers.insert(buffers.end(), {&pair.input, &pair.output});
  return windows_.add(buffers, patience());
}

Deadline Soak::patience() const {
  return Deadline::after_seconds(op_timeout(spec_));
}

PlacedRow Soak::placed(const Drawn& drawn, Pair& pair) const {
  const Place place = place_of(communicator_, drawn.key);
  return {drawn.key, place,
          place_buffers(drawn.key, place, drawn.in_place, pair.input, pair.output)};
}

// All magnitudes alike, few of them round numbers.
uint64_t Soak::draw_bytes() {
  int bits = 1;
  while (bits < 62 && uint64_t(1) << bits < spec_.max_bytes) ++bits;
  const uint64_t most = uint64_t(1) << numbers_.below(bits + 1);
  const uint64_t bytes = numbers_.one_in(4) ? most : numbers_.next() % (most + 1);
  return std::min(bytes, spec_.max_bytes);
}

Soak::Drawn Soak::draw() {
  Drawn drawn;
  RowKey& key = drawn.key;
  key.collective = soak_ops()[size_t(numbers_.below(int(soak_ops().size())))];
  key.type = DataType(numbers_.below(kernels::kDataTypeCount));
  key.op = RedOp(numbers_.below(kernels::kRedOpCount));
  const int root = numbers_.below(communicator_.size());
  key.root = has_root(key.collective) ? root : -1;
  const uint32_t element = kernels::element_size(key.type);
  key.size = fitting_size(key.collective, draw_bytes(), communicator_.size(), element,
                          kRoom * spec_.max_bytes);
  const bool in_place = numbers_.one_in(2);
  drawn.in_place = in_place && has_in_place_form(key.collective);
  const auto shift = uint64_t(numbers_.below(17)) * element;
  drawn.misalign = numbers_.one_in(2) ? shift : 0;
  drawn.stream = numbers_.below(kStreams);
  return drawn;
}

// Collective.
Status Soak::draw_choices() {
  algorithm_.clear();
  protocol_.clear();
  channels_ = 0;
  const auto table = kernels::algorithms();
  const auto& row = table[size_t(numbers_.below(int(table.size())))];
  const auto protocol = kernels::Protocol(numbers_.below(kernels::kProtocolCount));
  const int channels = 1 + numbers_.below(kMostChannels);
  // In-network reduction is not always there, and serves one collective.
  if (numbers_.one_in(2) && !row.network) algorithm_ = row.name;
  if (numbers_.one_in(2)) protocol_ = kernels::name_of(protocol);
  if (numbers_.one_in(3)) channels_ = channels;
  return communicator_.set_choices(algorithm_, protocol_, channels_);
}

// Operations that the choices in force cannot serve are drawn again: all ranks find the same.
Result<std::vector<Soak::Drawn>> Soak::draw_batch() {
  constexpr int kAttempts = 200;
  std::vector<Drawn> batch;
  const size_t wanted = 1 + size_t(numbers_.below(kTogether));
  for (int attempt = 0; attempt < kAttempts && batch.size() < wanted; ++attempt) {
    Drawn drawn = draw();
    Pair& pair = pairs_[batch.size()];
    const auto submissions = submissions_for(placed(drawn, pair));
    const auto plan = communicator_.plan_for(submissions.at(0));
    if (plan) batch.push_back(drawn);
    if (!plan && plan.error().code != ErrorCode::usage) return plan.error();
  }
  return batch;
}

Status Soak::prepare(const Drawn& drawn, Pair& pair) {
  pair.input.misalign(drawn.misalign);
  pair.output.misalign(drawn.misalign);
  const DataKind kind{drawn.key.type, has_op(drawn.key.collective), drawn.key.op,
                      communicator_.size()};
  pair.oracle.emplace(kind, communicator_.rank());
  return cmd::prepare(placed(drawn, pair), *pair.oracle);
}

Status Soak::start(const std::vector<Drawn>& batch, bool grouped) {
  std::optional<runtime::Group> group;
  if (grouped) group.emplace();
  for (size_t i = 0; i < batch.size(); ++i) {
    for (const Submission& submission : submissions_for(placed(batch[i], pairs_[i])))
      COLL_TRY_IN(launch(communicator_, *streams_[size_t(batch[i].stream)], submission,
                         Communicator::Launch::async),
                  text_of(batch[i]));
  }
  return grouped ? group->end() : Status();
}

std::string Soak::text_of(const Drawn& drawn) const {
  const RowKey& key = drawn.key;
  std::string text =
      format("{} of {} {} {}", name_of(key.collective), key.size.count, kernels::name_of(key.type),
             key.size.count == 1 ? "element" : "elements");
  if (has_op(key.collective)) text += format(", {}", kernels::name_of(key.op));
  if (key.root >= 0) text += format(", root {}", key.root);
  text += drawn.in_place ? ", in place" : "";
  if (drawn.misalign != 0) text += format(", {} bytes off a page", drawn.misalign);
  text += format(", stream {}", drawn.stream);
  if (!algorithm_.empty()) text += format(", {}", algorithm_);
  if (!protocol_.empty()) text += format(", {}", protocol_);
  if (channels_ != 0) text += format(", {} channels", channels_);
  return text;
}

// Wrong elements of an output that still hold what they held before. In place that is the rank's
// own input where input and output are one, else the poison.
Result<uint64_t> Soak::unwritten(const Drawn& drawn, const Pair& pair,
                                 const CheckResult& found) const {
  const BenchOp c = drawn.key.collective;
  const bool own = drawn.in_place && (c == Collective::all_reduce || c == Collective::broadcast ||
                                      c == Collective::reduce);
  if (!own) return found.still_poisoned;
  const uint64_t span = found.last_output - found.first_output + 1;
  const Segment before{found.first_output, span, Segment::Source::input, communicator_.rank(),
                       found.first_output};
  COLL_ASSIGN(const Mismatch others, pair.oracle->compare(before, pair.output, 0, 1));
  return std::min(span - others.bad, found.bad_outputs);
}

Status Soak::check(const Drawn& drawn, Pair& pair, uint64_t number) {
  const RowKey& key = drawn.key;
  if (key.collective == Collective::barrier) return {};
  const PlacedRow row = placed(drawn, pair);
  COLL_ASSIGN(const CheckResult found,
              check_run(*pair.oracle, key.collective, key.size.count, row.place, row.buffers));
  if (found.wrong(kernels::element_size(key.type)) == 0) return {};
  std::string what;
  if (found.bad_outputs != 0) {
    COLL_ASSIGN(const uint64_t as_before, unwritten(drawn, pair, found));
    what = format("{} wrong elements of the output, {} to {}, {} of them never written",
                  found.bad_outputs, found.first_output, found.last_output, as_before);
  }
  if (found.bad_outputs == 0 && found.bad_inputs != 0)
    what = format("{} elements of the input were changed, from {} on", found.bad_inputs,
                  found.first_input);
  if (what.empty()) what = format("{} bytes beside the buffers were changed", found.guard_bytes);
  return Error(ErrorCode::bad_data,
               format("rank {}: {} ({}; operation {} of seed {})", communicator_.rank(), what,
                      text_of(drawn), number, spec_.soak_seed),
               format("--seed {} --ops {} brings it again", spec_.soak_seed, number + 1));
}

Status Soak::run_batch(const std::vector<Drawn>& batch, bool grouped) {
  for (size_t i = 0; i < batch.size(); ++i) COLL_TRY(prepare(batch[i], pairs_[i]));
  COLL_TRY(start(batch, grouped));
  for (const auto& stream : streams_)
    if (Status ended = stream->synchronize(); !ended)
      return std::move(ended.error())
          .within(format("operation {} of seed {}", done_, spec_.soak_seed));
  for (size_t i = 0; i < batch.size(); ++i) COLL_TRY(check(batch[i], pairs_[i], done_ + i));
  return {};
}

Status Soak::run() {
  COLL_TRY(reserve());
  const auto device = communicator_.device();
  HeaderFacts facts;
  facts.window_bytes = windows_.bytes();
  if (device) ClockWatch(device->facts().bus_id).tell(facts);
  COLL_TRY(send_header(spec_, facts, communicator_, out_, patience()));
  out_.task.phase(communicator_.rank(), "measure");
  uint64_t told = 0;
  for (uint64_t batches = 0; done_ < uint64_t(spec_.soak_operations); ++batches) {
    if (batches % kSameChoices == 0) COLL_TRY(draw_choices());
    COLL_ASSIGN(std::vector<Drawn> batch, draw_batch());
    const bool grouped = numbers_.one_in(2);
    batch.resize(std::min<size_t>(batch.size(), uint64_t(spec_.soak_operations) - done_));
    COLL_TRY(run_batch(batch, grouped));
    done_ += batch.size();
    if (communicator_.rank() == 0 && done_ / kTold != told) {
      told = done_ / kTold;
      out_.task.progress(format("{} of {} operations", done_, spec_.soak_operations));
    }
  }
  return windows_.give_back(patience());
}

}  // namespace collctl::cmd

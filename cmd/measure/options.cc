#include "cmd/measure/options.h"

#include <algorithm>

#include "base/env.h"
#include "base/format.h"
#include "base/record.h"
#include "cmd/measure/bench.h"
#include "cmd/measure/versus.h"
#include "cmd/text/sizes.h"
#include "kernels/algo/algorithms.h"

namespace collctl::cmd {

namespace {

using kernels::Collective;

constexpr std::string_view kSoak = "soak";  // random operations of all collectives

// The soak stands for none of them.
BenchOp op_of(const ParsedLine& line) {
  return find_bench_op(line.collective->name).value_or(Collective::all_reduce);
}

// The soak takes its own choices; what the line says of a measurement would be ignored.
Status choose_soak(const ParsedLine& line, BenchSpec& spec) {
  spec.soak = line.collective->name == kSoak;
  if (!spec.soak)
    if (const char* option = line.first_of({"seed", "ops"}))
      return usage(format("--{} is for the soak", option));
  if (!spec.soak) return {};
  if (const char* option = line.first_of(
          {"algo",       "proto",       "channels",     "dtype",    "op",          "root",
           "min-bytes",  "step-factor", "step-bytes",   "plateau",  "iters",       "warmup",
           "sync",       "check",       "in-place",     "misalign", "stragglers",  "trace",
           "vs",         "cuda-graph",  "min-busbw",    "split",    "max-latency", "min-efficiency",
           "thresholds", "baseline",    "save-baseline"}))
    return usage(format("--{} has no meaning for the soak", option));
  if (!spec.max_bytes_given) {
    spec.max_bytes_given = true;
    spec.max_bytes = std::max(spec.min_bytes, kMostBytesOfSoak);
  }
  return {};
}

// --vs and --vs-config.
Status choose_versus(const ParsedLine& line, BenchSpec& spec) {
  if (!line.has("vs")) {
    if (line.has("vs-config")) return usage("--vs-config is for --vs nccl");
    return {};
  }
  COLL_ASSIGN(const int64_t integrity, base::knob_int(base::KnobId::integrity));
  if (line.has("integrity") || integrity != 0)
    return usage(
        format("--vs {} with --integrity (COLLCTL_INTEGRITY): {}'s data carries no MACs; expected "
               "one of the two",
               line.text("vs"), line.text("vs") == "mpi" ? "MPI" : "NCCL"));
  if (line.text("vs") == kRivalNames[int(Rival::mpi)]) {
    if (line.has("vs-config")) return usage("--vs-config is for --vs nccl");
    if (spec.grouped > 1) return usage("--agg-iters with --vs mpi: MPI has no groups");
    spec.versus = {kMpiVariant};
    return {};
  }
  const std::string text = line.text("vs-config");
  const bool best = (',' + text + ',').find(",best,") != std::string::npos;
  spec.versus_best = best;
  std::string serving;
  for (const auto& name : versus_variants())
    if (versus_serves(name, spec.collective)) serving += (serving.empty() ? "" : ", ") + name;
  if (serving.empty()) return usage(format("--vs nccl: NCCL has no {}", name_of(spec.collective)));
  for (const auto& name :
       best ? versus_variants()
            : expand_choices(*find_option("vs-config", line.command->scopes), text)) {
    if (versus_serves(name, spec.collective))
      spec.versus.push_back(name);
    else if (!best)
      return usage(format("--vs-config {}: does not serve {}; expected {}", name,
                          name_of(spec.collective), serving));
  }
  return {};
}

// --split, and what tells of all ranks together.
Status choose_groups(const ParsedLine& line) {
  if (!line.has("split")) return {};
  return line.exclusive("split",
                        {{"vs", "the other library would have to be split as well"},
                         {"stragglers", "waits between groups would count as a rank's own"},
                         {"trace", "a trace tells of one group"},
                         {"thresholds", "its lines are of whole jobs"},
                         {"baseline", "its runs are of whole jobs"},
                         {"save-baseline", "a baseline is of whole jobs"}});
}

// --on-loss shrink, and what cannot go on with fewer ranks.
Status check_shrink(const ParsedLine& line, const BenchSpec& spec) {
  if (!line.has("on-loss") || line.text("on-loss") != "shrink") return {};
  COLL_TRY(line.exclusive("on-loss shrink",
                          {{"vs", "the other library's communicator would be lost as well"},
                           {"window", "lost ranks' windows stay mapped by the others"},
                           {"stragglers", "waits are counted over a whole run"},
                           {"trace", "a trace tells of one communicator"},
                           {"thresholds", "its lines are of whole jobs"},
                           {"baseline", "its runs are of whole jobs"},
                           {"save-baseline", "a baseline is of whole jobs"},
                           {"join", "who starts the ranks one by one ends them as well"}}));
  if (line.text("rank-mode") == "thread")
    return usage(
        "--rank-mode thread with --on-loss shrink: threads of one process are lost together; "
        "expected one of the two");
  if (spec.soak)
    return usage(
        "--on-loss shrink has no meaning for the soak: its operations have no rows to go on with");
  if (spec.split && has_root(spec.collective))
    return usage(
        format("--split with --on-loss shrink and {}: roots count within each group, and "
               "would be others after a loss",
               name_of(spec.collective)));
  if (!check_ranks(spec.collective, 3))
    return usage(format("--on-loss shrink: {} works with 1, 2, 4, 8, ... ranks only",
                        name_of(spec.collective)));
  return {};
}

// The algorithms asked for, each serving the collective and speaking a protocol asked for.
Status choose_algorithms(const ParsedLine& line, BenchSpec& spec) {
  if (!line.has("algo")) return {};
  const std::string text = line.text("algo");
  const bool every = (',' + text + ',').find(",all,") != std::string::npos;
  std::string serving;
  for (const auto& row : kernels::algorithms())
    if (serves(row, spec.collective.calls))
      serving += (serving.empty() ? "" : ", ") + std::string(row.name);
  for (const auto& name : std::exchange(spec.algorithms, {})) {
    const auto* row = kernels::find_algorithm(name);
    if (row == nullptr || !serves(*row, spec.collective.calls)) {
      if (every) continue;
      return usage(format("--algo {}: does not serve {}; expected {}", name,
                          name_of(spec.collective), serving));
    }
    spec.algorithms.push_back(name);
  }
  return {};
}

}  // namespace

uint64_t bytes_of(const std::string& text) {
  const auto bytes = base::parse_bytes(text);
  return bytes.ok() ? *bytes : 0;
}

Status interpret_sizes(const ParsedLine& line, SizeRange& range) {
  COLL_TRY(fill(line, range));
  // One end alone pulls the other along when it would cross it.
  if (!line.has("max-bytes")) range.max_bytes = std::max(range.max_bytes, range.min_bytes);
  if (!line.has("min-bytes")) range.min_bytes = std::min(range.max_bytes, range.min_bytes);
  if (range.min_bytes > range.max_bytes)
    return usage(format("--min-bytes {} is larger than --max-bytes {}: expected the smaller first",
                        line.text("min-bytes"), line.text("max-bytes")));
  if (line.has("step-bytes") && line.has("step-factor"))
    return usage("--step-bytes and --step-factor exclude each other");
  if (!size_series(range).ok())
    return usage(format("--step-bytes {} makes more than {} sizes: expected a larger step",
                        line.text("step-bytes"), kMaxSizes));
  return {};
}

Result<BenchSpec> interpret_bench(const ParsedLine& line, DeviceRequest device, int ranks) {
  BenchSpec spec;
  spec.collective = op_of(line);
  spec.device_request = device;
  COLL_TRY(interpret_sizes(line, spec));
  spec.max_bytes_given = line.has("max-bytes");
  COLL_TRY(fill(line, spec));
  const int root = spec.roots[0];
  if (!has_op(spec.collective)) spec.ops = BenchSpec().ops;
  if (!has_root(spec.collective)) spec.roots = BenchSpec().roots;
  COLL_TRY(choose_groups(line));
  if (ranks > 0) COLL_TRY(check_ranks_and_roots(spec, ranks));
  if (ranks > 0 && !spec.split && root >= 0) COLL_TRY(check_root(root, ranks));
  if (spec.in_place == InPlace::in_place && !has_in_place_form(spec.collective))
    return usage(format("--in-place 1: {} has no in-place form; expected 0 or both",
                        name_of(spec.collective)));
  COLL_TRY(choose_algorithms(line, spec));
  if (spec.grouped > 1 && spec.trace)
    return usage("--agg-iters with --trace: a trace tells operations one by one");
  if (spec.grouped > 1 && steps_wait(spec.collective))
    return usage(
        format("--agg-iters: the steps of {} wait for one another, so several cannot be "
               "one group",
               name_of(spec.collective)));
  if (spec.window && spec.transport == "net")
    return usage(
        "--window with --transport net: no rank would map another's memory; expected one "
        "of the two");
  COLL_TRY(choose_versus(line, spec));
  COLL_TRY(choose_soak(line, spec));
  COLL_TRY(check_shrink(line, spec));
  return spec;
}

std::vector<std::string> useless_options(const ParsedLine& line) {
  std::vector<std::string> notes;
  if (line.collective == nullptr) return notes;
  const BenchOp c = op_of(line);
  const char* name = line.collective->name;
  if (line.has("op") && !has_op(c))
    notes.push_back(format("--op has no meaning for {}: it does not reduce", name));
  if (line.has("root") && !has_root(c))
    notes.push_back(format("--root has no meaning for {}: it has no root", name));
  if (c == Collective::barrier)
    for (const char* option :
         {"min-bytes", "max-bytes", "step-factor", "step-bytes", "dtype", "window"})
      if (line.has(option))
        notes.push_back(format("--{} has no meaning for a barrier: it moves no data", option));
  return notes;
}

// The specification of a measurement: settled when it is known where its ranks compute, and its
// JSON form, which travels from the launcher's process to the ranks.

Result<BenchSpec> settled(const BenchSpec& spec, bool on_gpus, const std::string& reason) {
  constexpr const char* kHint = "leave the option out, or use it where the ranks are on GPUs";
  // The line contradicts itself, or what is here does not do.
  const ErrorCode code =
      spec.device_request == DeviceRequest::cpu ? ErrorCode::usage : ErrorCode::unavailable;
  if (!on_gpus && !spec.versus.empty() && spec.rival == Rival::nccl)
    return Error{code, "--vs nccl: NCCL works on GPUs, these are CPU ranks", kHint};
  if (on_gpus && !spec.versus.empty() && spec.rival == Rival::mpi)
    return Error{code, "--vs mpi is for CPU ranks, these are on GPUs",
                 "--device cpu has CPU ranks; --vs nccl is for GPUs"};
  if (!on_gpus && spec.cuda_graph != 0)
    return Error{code, "--cuda-graph: these are CPU ranks", kHint};
  if (!on_gpus && spec.transport == "p2p")
    return Error{code, "--transport p2p joins GPUs, these are CPU ranks", kHint};
  // None of what was asked for is theirs, whatever the machine has.
  if (!on_gpus && spec.protocols == std::vector<std::string>{name_of(kernels::Protocol::ll128)})
    return Error{ErrorCode::usage, "--proto ll128 is for GPUs, these are CPU ranks", kHint};
  if (on_gpus && spec.trace)
    return Error{code, "--trace: kernels on GPUs do not tell when they began",
                 "--sync each prints percentiles; nsys profile traces GPUs"};
  BenchSpec known = spec;
  known.device_request = on_gpus ? DeviceRequest::cuda : DeviceRequest::cpu;
  known.device_reason = reason;
  if (on_gpus && !spec.max_bytes_given)
    known.max_bytes = std::max(spec.min_bytes, kMostBytesOnGpus);
  return known;
}

Status check_root(int root, int ranks, const char* of) {
  if (root < ranks) return {};
  return Error(ErrorCode::usage,
               format("--root {}: expected 0..{} or all, because {} has {} rank{}", root, ranks - 1,
                      of, ranks, ranks == 1 ? "" : "s"));
}

static Status check_group(const BenchSpec& spec, int ranks, const std::string& where) {
  Status fits = check_ranks(spec.collective, ranks);
  for (size_t i = 0; i < spec.roots.size() && fits && has_root(spec.collective); ++i)
    fits = check_root(spec.roots[i], ranks, where.empty() ? "the job" : "it");
  if (!fits && !where.empty()) return std::move(fits.error()).within("--split: " + where);
  return fits;
}

Status check_ranks_and_roots(const BenchSpec& spec, int ranks) {
  if (!spec.split) return check_group(spec, ranks, "");
  if (!spec.split.by_rank()) return {};
  COLL_TRY(spec.split.fits(ranks));
  return check_groups(spec, groups_of(spec.split, ranks));
}

Status check_groups(const BenchSpec& spec, const Groups& groups) {
  for (size_t i = 0; i < groups.size(); ++i) {
    if (groups[i].empty()) continue;  // all of it is lost (--on-loss shrink)
    COLL_TRY(check_group(spec, int(groups[i].size()), group_name(int(i), groups[i])));
    if (spec.roots == std::vector<int>{-1} && has_root(spec.collective) &&
        groups[i].size() != groups[0].size())
      return Error(
          ErrorCode::usage,
          format("--root all with --split {}: {} and {} have not equally many ranks",
                 spec.split.text(), group_name(0, groups[0]), group_name(int(i), groups[i])),
          "name one root, a number within each group");
  }
  return {};
}

void fields(Record& io, BenchSpec& spec) {
  op_field(io, "collective", spec.collective);
  option_fields(io, spec);
  io.field("max_bytes_given", spec.max_bytes_given);
  io.field("versus", spec.versus);
  io.field("versus_best", spec.versus_best);
  io.field("versus_as_is", spec.versus_as_is);
  io.field("versus_watched", spec.versus_watched);
  io.field("soak", spec.soak);
}

}  // namespace collctl::cmd

#include "cmd/measure/options.h"

#include <algorithm>
#include <cstdlib>

#include "base/env.h"
#include "base/format.h"
#include "cmd/measure/versus.h"
#include "cmd/text/sizes.h"
#include "kernels/algo/algorithms.h"

namespace collctl::cmd {
namespace {

using kernels::Collective;

// The value of an enumeration whose name is `word`; the word has been checked against the table.
template <class Enum>
Enum by_name(const std::string& word, int count) {
  for (int i = 0; i < count; ++i)
    if (word == kernels::name_of(Enum(i))) return Enum(i);
  return Enum{};
}

constexpr std::string_view kSoak = "soak";  // random operations of all collectives

// The soak stands for none of them.
BenchOp op_of(const ParsedLine& line) {
  return find_bench_op(line.collective->name).value_or(Collective::all_reduce);
}

// The soak takes its own choices; what the line says of a measurement would be ignored.
Status choose_soak(const ParsedLine& line, BenchSpec& spec) {
  spec.soak = line.collective->name == kSoak;
  for (const char* option : {"seed", "ops"})
    if (!spec.soak && line.has(option)) return usage(format("--{} is for the soak", option));
  if (!spec.soak) return {};
  for (const char* option : {"algo",       "proto",        "channels",       "dtype",
                             "op",         "root",         "min-bytes",      "step-factor",
                             "step-bytes", "iters",        "warmup",         "sync",
                             "check",      "in-place",     "misalign",       "stragglers",
                             "trace",      "vs",           "cuda-graph",     "min-busbw",
                             "split",      "max-latency",  "min-efficiency", "thresholds",
                             "baseline",   "save-baseline"})
    if (line.has(option)) return usage(format("--{} has no meaning for the soak", option));
  spec.soak_seed = uint64_t(line.number("seed", 1));
  spec.soak_operations = int(line.number("ops", 1000));
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
    spec.rival = Rival::mpi;
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
Status choose_groups(const ParsedLine& line, BenchSpec& spec) {
  if (!line.has("split")) return {};
  COLL_ASSIGN(spec.split, parse_split(line.text("split")));
  struct Refused {
    const char* option;
    const char* why;
  };
  for (const Refused& refused : {Refused{"vs", "the other library would have to be split as well"},
                                 {"stragglers", "waits between groups would count as a rank's own"},
                                 {"trace", "a trace tells of one group"},
                                 {"thresholds", "its lines are of whole jobs"},
                                 {"baseline", "its runs are of whole jobs"},
                                 {"save-baseline", "a baseline is of whole jobs"}})
    if (line.has(refused.option))
      return usage(
          format("--{} with --split: {}; expected one of the two", refused.option, refused.why));
  return {};
}

// --on-loss shrink, and what cannot go on with fewer ranks.
Status check_shrink(const ParsedLine& line, const BenchSpec& spec) {
  if (!line.has("on-loss") || line.text("on-loss") != "shrink") return {};
  struct Refused {
    const char* option;
    const char* why;
  };
  for (const Refused& refused :
       {Refused{"vs", "the other library's communicator would be lost as well"},
        {"window", "lost ranks' windows stay mapped by the others"},
        {"stragglers", "waits are counted over a whole run"},
        {"trace", "a trace tells of one communicator"},
        {"thresholds", "its lines are of whole jobs"},
        {"baseline", "its runs are of whole jobs"},
        {"save-baseline", "a baseline is of whole jobs"},
        {"join", "who starts the ranks one by one ends them as well"}})
    if (line.has(refused.option))
      return usage(format("--{} with --on-loss shrink: {}; expected one of the two", refused.option,
                          refused.why));
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
  if (line.has("proto"))
    spec.protocols =
        expand_choices(*find_option("proto", line.command->scopes), line.text("proto"));
  if (!line.has("algo")) return {};
  const std::string text = line.text("algo");
  const bool every = (',' + text + ',').find(",all,") != std::string::npos;
  std::string serving;
  for (const auto& row : kernels::algorithms())
    if (serves(row, spec.collective.calls))
      serving += (serving.empty() ? "" : ", ") + std::string(row.name);
  for (const auto& name : expand_choices(*find_option("algo", line.command->scopes), text)) {
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

Status choose_sizes(const ParsedLine& line, BenchSpec& spec) {
  COLL_ASSIGN(const SizeRange range, interpret_sizes(line));
  spec.min_bytes = range.min_bytes;
  spec.max_bytes = range.max_bytes;
  spec.max_bytes_given = line.has("max-bytes");
  spec.step_bytes = range.step_bytes;
  spec.step_factor = range.step_factor;
  return {};
}

}  // namespace

uint64_t bytes_of(const std::string& text) {
  const auto bytes = base::parse_bytes(text);
  return bytes.ok() ? *bytes : 0;
}

Result<std::vector<uint64_t>> sizes_of(const BenchSpec& spec) {
  return size_series({.min_bytes = spec.min_bytes,
                      .max_bytes = spec.max_bytes,
                      .step_factor = spec.step_factor,
                      .step_bytes = spec.step_bytes});
}

Result<SizeRange> interpret_sizes(const ParsedLine& line) {
  SizeRange range;
  range.min_bytes = bytes_of(line.text("min-bytes"));
  // The collectives' default depends on where they run: a text, no number.
  const auto most = base::parse_bytes(line.text("max-bytes"));
  range.max_bytes = most.ok() ? *most : kMostBytesOnCores;
  // One end alone pulls the other along when it would cross it.
  if (!line.has("max-bytes")) range.max_bytes = std::max(range.max_bytes, range.min_bytes);
  if (!line.has("min-bytes")) range.min_bytes = std::min(range.max_bytes, range.min_bytes);
  if (range.min_bytes > range.max_bytes)
    return usage(format("--min-bytes {} is larger than --max-bytes {}: expected the smaller first",
                        line.text("min-bytes"), line.text("max-bytes")));
  if (line.has("step-bytes") && line.has("step-factor"))
    return usage("--step-bytes and --step-factor exclude each other");
  if (line.has("step-bytes")) range.step_bytes = bytes_of(line.text("step-bytes"));
  range.step_factor = uint64_t(line.number("step-factor", 2));
  if (!size_series(range).ok())
    return usage(format("--step-bytes {} makes more than {} sizes: expected a larger step",
                        line.text("step-bytes"), kMaxSizes));
  return range;
}

Result<BenchSpec> interpret_bench(const ParsedLine& line, DeviceRequest device, int ranks) {
  BenchSpec spec;
  spec.collective = op_of(line);
  spec.device_request = device;
  COLL_TRY(choose_sizes(line, spec));
  spec.iterations = int(line.number("iters", 20));
  spec.warmup = int(line.number("warmup", 5));
  spec.sync_each = line.text("sync") == "each";
  spec.stragglers = line.has("stragglers");
  spec.trace = line.has("trace");
  spec.types.clear();
  for (const auto& word :
       expand_choices(*find_option("dtype", line.command->scopes), line.text("dtype")))
    spec.types.push_back(by_name<kernels::DataType>(word, kernels::kDataTypeCount));
  if (has_op(spec.collective)) {
    spec.ops.clear();
    for (const auto& word :
         expand_choices(*find_option("op", line.command->scopes), line.text("op")))
      spec.ops.push_back(by_name<kernels::RedOp>(word, kernels::kRedOpCount));
  }
  const std::string root = line.text("root");
  if (has_root(spec.collective)) {
    spec.roots = {root == "all" ? -1 : std::atoi(root.c_str())};
  }
  COLL_TRY(choose_groups(line, spec));
  if (ranks > 0) COLL_TRY(check_ranks_and_roots(spec, ranks));
  if (ranks > 0 && !spec.split && root != "all")
    COLL_TRY(check_root(std::atoi(root.c_str()), ranks));
  spec.check = line.text("check") == "1";
  const std::string placement = line.text("in-place");
  spec.in_place = placement == "both" ? InPlace::both
                  : placement == "1"  ? InPlace::in_place
                                      : InPlace::out_of_place;
  if (spec.in_place == InPlace::in_place && !has_in_place_form(spec.collective))
    return usage(format("--in-place 1: {} has no in-place form; expected 0 or both",
                        name_of(spec.collective)));
  COLL_TRY(choose_algorithms(line, spec));
  spec.channels = int(line.number("channels", 0));
  if (line.has("transport")) spec.transport = line.text("transport");
  if (line.has("p2p")) spec.p2p = line.text("p2p");
  if (line.has("net")) spec.net = line.text("net");
  spec.integrity = line.has("integrity");
  spec.recalibrate = line.has("recalibrate");
  spec.cuda_graph = int(line.number("cuda-graph", 0));
  spec.grouped = int(line.number("agg-iters", 1));
  spec.time_of = TimeOf(int(line.number("average", int(TimeOf::slowest))));
  if (spec.grouped > 1 && spec.trace)
    return usage("--agg-iters with --trace: a trace tells operations one by one");
  if (spec.grouped > 1 && steps_wait(spec.collective))
    return usage(
        format("--agg-iters: the steps of {} wait for one another, so several cannot be "
               "one group",
               name_of(spec.collective)));
  spec.misalign = int(line.number("misalign", 0));
  spec.window = line.has("window");
  if (spec.window && spec.transport == "net")
    return usage(
        "--window with --transport net: no rank would map another's memory; expected one "
        "of the two");
  COLL_TRY(choose_versus(line, spec));
  COLL_TRY(choose_soak(line, spec));
  COLL_TRY(check_shrink(line, spec));
  spec.op_timeout_s = line.has("op-timeout") ? line.number("op-timeout", 0) : 0;
  spec.start_timeout_s = line.has("start-timeout") ? line.number("start-timeout", 0) : 0;
  spec.verbosity = line.times("verbose");
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

}  // namespace collctl::cmd

// What the options mean: the records that the job, the bench and the report take.
#include <algorithm>
#include <cstdlib>

#include "base/env.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "base/socket.h"
#include "cmd/cli/options.h"
#include "cmd/measure/versus.h"
#include "cmd/report/report.h"
#include "cmd/text/sizes.h"
#include "cmd/verify/buffer_shape.h"
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

uint64_t bytes_of(const std::string& text) {
  const auto bytes = base::parse_bytes(text);
  return bytes.ok() ? *bytes : 0;
}

Limit limit_of(const std::string& text) {
  Limit limit;
  const size_t at = text.find('@');
  limit.value = std::strtod(text.substr(0, at).c_str(), nullptr);
  if (at != std::string::npos) limit.at_bytes = bytes_of(text.substr(at + 1));
  return limit;
}

Status check_join(const ParsedLine& line, const LaunchOptions& launch) {
  for (const char* other : {"rank", "size"}) {
    if (launch.join.empty() && line.has(other))
      return usage(format("--{} is for --join HOST:PORT", other));
    if (!launch.join.empty() && !line.has(other))
      return usage(format("--join needs --rank R and --size N; --{} is missing", other));
  }
  if (launch.join.empty())
    return line.has("token-file") ? Status(usage("--token-file is for --join HOST:PORT"))
                                  : Status();
  if (line.has("ranks")) return usage("--ranks has no meaning with --join; --size is the number");
  if (launch.join_rank >= launch.join_size)
    return usage(format("--rank {}: expected 0..{}, because --size is {}", launch.join_rank,
                        launch.join_size - 1, launch.join_size));
  const auto address = base::parse_address(launch.join);
  if (!address.ok())
    return Error(ErrorCode::usage, "--join: " + address.error().message, address.error().hint);
  const bool token = !launch.token_file.empty() || !base::knob_text(base::KnobId::token).empty();
  if (!token && !address->is_loopback())
    return usage(
        format("--join {} needs a token: --token-file FILE or COLLCTL_TOKEN (only a "
               "loopback address goes without)",
               launch.join));
  return {};
}

// The soak takes its own choices; what the line says of a measurement would be ignored.
Status choose_soak(const ParsedLine& line, BenchSpec& spec) {
  spec.soak = line.collective->soak;
  for (const char* option : {"seed", "ops"})
    if (!spec.soak && line.has(option)) return usage(format("--{} is for the soak", option));
  if (!spec.soak) return {};
  for (const char* option :
       {"algo", "proto", "channels", "dtype", "op", "root", "min-bytes", "step-factor",
        "step-bytes", "iters", "warmup", "sync", "check", "in-place", "misalign", "vs",
        "cuda-graph", "min-busbw", "max-latency"})
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
  if (!line.has("vs"))
    return line.has("vs-config") ? Status(usage("--vs-config is for --vs nccl")) : Status();
  const std::string text = line.text("vs-config");
  const bool best = (',' + text + ',').find(",best,") != std::string::npos;
  spec.versus_best = best;
  std::string serving;
  for (const auto& name : versus_variants())
    if (versus_serves(name, spec.collective)) serving += (serving.empty() ? "" : ", ") + name;
  if (serving.empty())
    return usage(format("--vs nccl: NCCL has no {}", kernels::name_of(spec.collective)));
  for (const auto& name :
       best ? versus_variants()
            : expand_choices(*find_option("vs-config", line.command->scopes), text)) {
    if (versus_serves(name, spec.collective))
      spec.versus.push_back(name);
    else if (!best)
      return usage(format("--vs-config {}: does not serve {}; expected {}", name,
                          kernels::name_of(spec.collective), serving));
  }
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
    if (serves(row, spec.collective))
      serving += (serving.empty() ? "" : ", ") + std::string(row.name);
  for (const auto& name : expand_choices(*find_option("algo", line.command->scopes), text)) {
    const auto* row = kernels::find_algorithm(name);
    if (row == nullptr || !serves(*row, spec.collective)) {
      if (every) continue;
      return usage(format("--algo {}: does not serve {}; expected {}", name,
                          kernels::name_of(spec.collective), serving));
    }
    spec.algorithms.push_back(name);
  }
  return {};
}

Result<std::vector<uint64_t>> sizes_of(const BenchSpec& spec) {
  return size_series({.min_bytes = spec.min_bytes,
                      .max_bytes = spec.max_bytes,
                      .step_factor = spec.step_factor,
                      .step_bytes = spec.step_bytes});
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

Status check_limit(const char* name, const std::optional<Limit>& limit, const BenchSpec& spec) {
  if (!limit || !limit->at_bytes) return {};
  BenchSpec widest = spec;  // on hosts it is not known yet how far sizes go
  if (!spec.max_bytes_given && spec.wish != DeviceWish::cpu)
    widest.max_bytes = std::max(spec.min_bytes, kMostBytesOnGpus);
  COLL_ASSIGN(const auto sizes, sizes_of(widest));
  if (std::find(sizes.begin(), sizes.end(), *limit->at_bytes) != sizes.end()) return {};
  uint64_t near = sizes.front();
  for (uint64_t size : sizes)
    if (size <= *limit->at_bytes) near = size;
  return usage(format("--{}: {} is not among the measured sizes {} .. {}; the nearest is {}", name,
                      option_bytes(*limit->at_bytes), option_bytes(sizes.front()),
                      option_bytes(sizes.back()), option_bytes(near)));
}

// The kinds of files that a command writes, by the ending.
struct FileKind {
  const char* ending;
  Format format;
};
std::vector<FileKind> file_kinds(const ParsedLine& line) {
  std::vector<FileKind> kinds{{".json", Format::json}};
  if (line.has_program) return kinds;
  kinds.insert(kinds.end(),
               {{".jsonl", Format::jsonl}, {".csv", Format::csv}, {".html", Format::html}});
  const bool draws = line.collective != nullptr && line.collective->suite != Suite::rails;
  if (draws) kinds.push_back({".svg", Format::svg});
  return kinds;
}

Result<Format> format_of_file(const ParsedLine& line, const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  const size_t dot = name.rfind('.');
  const std::string ending = dot == std::string::npos ? "" : name.substr(dot);
  const std::vector<FileKind> kinds = file_kinds(line);
  std::string endings;
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (ending == kinds[i].ending) return kinds[i].format;
    endings += format("{}{}", i == 0 ? "" : i + 1 < kinds.size() ? ", " : " or ", kinds[i].ending);
  }
  return usage(format("--output {}: expected a name that ends in {}", path, endings));
}

// What standard output is to hold: --json, --csv, --format.
Result<Format> format_of_output(const ParsedLine& line, const BenchSpec* spec) {
  if (line.has("json") && line.has("csv")) return usage("--json and --csv exclude each other");
  const bool named = line.has("json") || line.has("csv");
  if (named && line.has("format"))
    return usage("--json and --csv are formats themselves; expected one of them or --format");
  if (line.has("json")) return Format::json;
  if (line.has("csv")) return Format::csv;
  const std::string name = line.has("format") ? line.text("format") : "table";
  if (name == "json") return Format::json;
  if (name == "jsonl") return Format::jsonl;
  if (name == "csv") return Format::csv;
  if (name == "table") return Format::text;
  if (spec != nullptr && nccl_tests_program(spec->collective).empty())
    return usage(format("--format {}: nccl-tests has no {}; expected another format", name,
                        kernels::name_of(spec->collective)));
  if (spec != nullptr && (!spec->versus.empty() || spec->soak))
    return usage(format("--format {} has no columns for {}; expected another format", name,
                        spec->soak ? "a soak" : "--vs"));
  return Format::nccl_tests;
}

// --ranks-per-host where this host is the only one.
Status limit_local_ranks(const ParsedLine& line, LaunchOptions& launch) {
  const int most = int(line.number("ranks-per-host", 0));
  if (most == 0) return {};
  if (launch.ranks > most)
    return usage(
        format("--ranks {} with --ranks-per-host {} needs {} hosts: expected at most {} ranks on "
               "this one",
               launch.ranks, most, (launch.ranks + most - 1) / most, most));
  if (launch.ranks == 0) launch.ranks = std::min(most, base::usable_cores());
  return {};
}

}  // namespace

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

Result<LaunchOptions> interpret_launch(const ParsedLine& line) {
  LaunchOptions launch;
  launch.ranks = int(line.number("ranks", 0));
  launch.ranks_by_gpus = line.ranks_by_gpus;
  if (line.nccl_tests && line.has("ranks") && !line.has("iters") && !line.ranks_by_gpus)
    launch.iterations_hint =
        format("-n is the number of ranks here; nccl-tests' -n {} is --iters {}",
               line.text("ranks"), line.text("ranks"));
  if (Status hosts = interpret_hosts(line, launch); !hosts) {
    if (!launch.iterations_hint.empty())
      hosts.error().hint += (hosts.error().hint.empty() ? "" : "; ") + launch.iterations_hint;
    return std::move(hosts.error());
  }
  if (launch.launcher != LauncherKind::ssh) COLL_TRY(limit_local_ranks(line, launch));
  if (line.has("bind-to")) launch.bind_to = line.text("bind-to");
  if (auto bind = launcher::parse_bind_to(launch.bind_to); !bind.ok()) return bind.error();
  launch.rank_mode = line.text("rank-mode");
  launch.export_env = line.all("env");
  for (const auto& entry : launch.export_env)
    if (entry[0] == '=' || (entry[0] >= '0' && entry[0] <= '9'))
      return usage(format("--env {}: expected NAME, NAME=VALUE or PREFIX*", entry));
  launch.timeout_s = line.number("timeout", 0);
  // Flag, then variable, then default.
  COLL_ASSIGN(launch.start_timeout_s, base::knob_seconds(base::KnobId::start_timeout));
  COLL_ASSIGN(launch.op_timeout_s, base::knob_seconds(base::KnobId::op_timeout));
  if (line.has("start-timeout")) launch.start_timeout_s = line.number("start-timeout", 60);
  if (line.has("op-timeout")) launch.op_timeout_s = line.number("op-timeout", 30);
  launch.grace_s = line.number("grace", 5);
  launch.tag_output = line.has("tag-output") && !line.has("no-tag-output");
  launch.gather = line.has("gather");
  if (line.has("output-dir")) launch.output_dir = line.text("output-dir");
  launch.stdin_mode = line.text("stdin");
  launch.dry_run = line.has("dry-run");
  if (line.has("join")) launch.join = line.text("join");
  if (line.has("token-file")) launch.token_file = line.text("token-file");
  launch.join_rank = int(line.number("rank", -1));
  launch.join_size = int(line.number("size", 0));
  launch.verbosity = line.times("verbose");
  if (!line.has_program) COLL_TRY(check_join(line, launch));
  return launch;
}

Result<DeviceWish> interpret_device(const ParsedLine& line) {
  const std::string text = line.text("device");
  if (text == "auto") return DeviceWish::automatic;
  return text == "cuda" ? DeviceWish::cuda : DeviceWish::cpu;
}

Status check_root(int root, int ranks) {
  if (root < ranks) return {};
  return usage(format("--root {}: expected 0..{} or all, because the job has {} ranks", root,
                      ranks - 1, ranks));
}

Result<BenchSpec> interpret_bench(const ParsedLine& line, int ranks) {
  if (line.collective->suite == Suite::window_test) return interpret_window_test(line);
  BenchSpec spec;
  spec.collective = line.collective->collective;
  COLL_ASSIGN(spec.wish, interpret_device(line));
  COLL_TRY(choose_sizes(line, spec));
  spec.iterations = int(line.number("iters", 20));
  spec.warmup = int(line.number("warmup", 5));
  spec.sync_each = line.text("sync") == "each";
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
  if (ranks > 0 && root != "all") COLL_TRY(check_root(std::atoi(root.c_str()), ranks));
  spec.check = line.text("check") == "1";
  const std::string placement = line.text("in-place");
  spec.in_place = placement == "both" ? InPlace::both
                  : placement == "1"  ? InPlace::in_place
                                      : InPlace::out_of_place;
  if (spec.in_place == InPlace::in_place && !has_in_place_form(spec.collective))
    return usage(format("--in-place 1: {} has no in-place form; expected 0 or both",
                        kernels::name_of(spec.collective)));
  COLL_TRY(choose_algorithms(line, spec));
  spec.channels = int(line.number("channels", 0));
  if (line.has("transport")) spec.transport = line.text("transport");
  if (line.has("p2p")) spec.p2p = line.text("p2p");
  if (line.has("net")) spec.net = line.text("net");
  spec.cuda_graph = int(line.number("cuda-graph", 0));
  spec.misalign = int(line.number("misalign", 0));
  spec.window = line.has("window");
  if (spec.window && spec.transport == "net")
    return usage(
        "--window with --transport net: no rank would map another's memory; expected one "
        "of the two");
  COLL_TRY(choose_versus(line, spec));
  COLL_TRY(choose_soak(line, spec));
  spec.op_timeout_s = line.has("op-timeout") ? line.number("op-timeout", 0) : 0;
  spec.start_timeout_s = line.has("start-timeout") ? line.number("start-timeout", 0) : 0;
  spec.verbosity = line.times("verbose");
  return spec;
}

Result<OutputOptions> interpret_output(const ParsedLine& line, const BenchSpec* spec) {
  OutputOptions output;
  COLL_ASSIGN(output.format, format_of_output(line, spec));
  output.plot = line.has("plot");
  if (output.plot && output.format != Format::text)
    return usage("--plot draws below the table; it excludes --json, --csv and --format");
  output.quiet = line.has("quiet");
  output.wide = line.has("wide");
  output.verbosity = line.times("verbose");
  for (const auto& path : line.all("output")) {
    COLL_ASSIGN(const Format kind, format_of_file(line, path));
    for (const auto& other : output.files)
      if (other.path == path) return usage(format("--output {} stands there twice", path));
    output.files.push_back({path, kind});
  }
  if (line.has("min-busbw")) output.min_busbw = limit_of(line.text("min-busbw"));
  if (line.has("max-latency")) output.max_latency = limit_of(line.text("max-latency"));
  if (spec != nullptr) {
    COLL_TRY(check_limit("min-busbw", output.min_busbw, *spec));
    COLL_TRY(check_limit("max-latency", output.max_latency, *spec));
    if (output.min_busbw && spec->collective == Collective::barrier)
      return usage("--min-busbw: a barrier moves no data; expected --max-latency");
  }
  return output;
}

std::vector<std::string> useless_options(const ParsedLine& line) {
  std::vector<std::string> notes;
  if (line.collective == nullptr) return notes;
  const Collective c = line.collective->collective;
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

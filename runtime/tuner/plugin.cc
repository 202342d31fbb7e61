#include "runtime/tuner/plugin.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/drivers/library.h"
#include "base/env.h"
#include "base/format.h"
#include "base/log.h"
#include "runtime/plan/cost_table.h"
#include "runtime/request/settings.h"
#include "runtime/tuner/versions/table.h"

namespace collctl::runtime {

using base::KnobId;
using base::drivers::Library;

namespace {

static_assert(kTunerAlgorithms == TunerTable::kAlgorithms &&
              kTunerProtocols == TunerTable::kProtocols &&
              sizeof(TunerTable) == sizeof(float[kTunerAlgorithms][kTunerProtocols]));
constexpr int kOldestTuner = 2, kNewestTuner = 20;  // looked for to say what is there
constexpr size_t kMostAnswers = 4096;  // kept; a program has as many shapes of operations

std::mutex& tuner_setup_mutex() {
  static std::mutex mutex;
  return mutex;
}

std::string known_tuner_versions() {
  const auto all = tuner_versions();
  return format("{} to {}", all.back().number, all.front().number);
}

// The newest version of the structure that the library has.
TunerPlugin structure_of(const Library& library, const std::string& file) {
  TunerPlugin found;
  found.library = file;
  for (const TunerVersion& version : tuner_versions()) {
    const void* structure = library.find_data(format("ncclTunerPlugin_v{}", version.number));
    if (structure == nullptr) continue;
    found.calls = version.calls(structure);
    found.name = found.calls->name();
    break;
  }
  return found;
}

Error no_tuner(const Library& library, const std::string& file) {
  std::string others;
  for (int version = kOldestTuner; version <= kNewestTuner; ++version)
    if (library.find_data(format("ncclTunerPlugin_v{}", version)) != nullptr)
      others += (others.empty() ? "" : ", ") + format("{}", version);
  const TunerVersion& newest = tuner_versions().front();
  return {
      ErrorCode::unavailable,
      others.empty() ? format("{} is not a tuner plugin: it has no ncclTunerPlugin_v{}, nor one of "
                              "versions {}",
                              file, newest.number, known_tuner_versions())
                     : format("{} implements version {} of the tuner interface; {} are supported",
                              file, others, known_tuner_versions()),
      format("use a plugin built for NCCL {} to {}", tuner_versions().back().nccl, newest.nccl)};
}

Result<TunerPlugin> open_tuner(const std::string& file) {
  const Library library(file.c_str());
  if (!library)
    return Error(ErrorCode::unavailable, library.error(),
                 "it takes a path, or NAME of libnccl-tuner-NAME.so in the library path");
  TunerPlugin found = structure_of(library, file);
  if (found.calls == nullptr) return no_tuner(library, file);
  if (const char* missing = found.calls->first_missing(); missing != nullptr)
    return Error(ErrorCode::unavailable, format("{}: ncclTunerPlugin_v{} has no {}", file,
                                                found.calls->version(), missing));
  return found;
}

bool is_none(const std::string& text) {
  return text.size() == 4 && std::equal(text.begin(), text.end(), "none", [](char a, char b) {
           return (a >= 'A' && a <= 'Z' ? char(a + 32) : a) == b;
         });
}

// Constants that NCCL would pass: its model's latencies and caps, ours as well (cost_table.h).
TunerConstants model_constants() {
  TunerConstants constants{};
  for (int a = 0; a < kernels::kAlgorithmCount; ++a)
    for (int p = 0; p < kernels::kProtocolCount; ++p) {
      const auto id = kernels::AlgorithmId(a);
      const std::optional<int> number = tuner_algorithm(id);
      const LatencyRow* row = find_latency(id, kernels::Protocol(p));
      if (!number || row == nullptr || id == kernels::AlgorithmId::tree_split) continue;
      const int column = tuner_protocol(kernels::Protocol(p));
      constants.base_us[*number][column] = row->base_us;
      for (int hop = 0; hop < 3; ++hop) constants.hop_us[hop][*number][column] = row->hop_us[hop];
    }
  constexpr CapId kCapColumns[] = {CapId::ll_total, CapId::ring_ll128_channel,
                                   CapId::tree_ll128_channel, CapId::tree_channel};
  constexpr int kNodes[] = {1, 2, 4};
  for (int cap = 0; cap < 4; ++cap)
    for (int generation = 0; generation < 4; ++generation)
      for (int n = 0; n < 3; ++n)
        // Between nodes LL's is the CPUs': NCCL has Intel's with the oldest GPUs, else AMD's.
        constants.caps[cap][generation][n] =
            kCapColumns[cap] == CapId::ll_total && n > 0
                ? ll_cap_between_nodes(generation > 0, kNodes[n])
                : cap_gbps(kCapColumns[cap], Generation(generation), kNodes[n]);
  return constants;
}

int number_of(kernels::Collective collective) {
  switch (collective) {
    case kernels::Collective::broadcast:
      return kTunerBroadcast;
    case kernels::Collective::reduce:
      return kTunerReduce;
    case kernels::Collective::all_gather:
      return kTunerAllGather;
    case kernels::Collective::reduce_scatter:
      return kTunerReduceScatter;
    default:
      return kTunerAllReduce;  // is_tuned()
  }
}

uint64_t hash_of(const TunerQuestion& question, const TunerTable& table) {
  std::string bytes(sizeof table, 0);
  std::memcpy(bytes.data(), &table, sizeof table);
  return hash_text(
      format("{} {} {} ", int(question.collective), question.bytes, int(question.registered)) +
      bytes);
}

}  // namespace

std::string TunerPlugin::text() const {
  if (calls == nullptr) return "no tuner plugin";
  return format("tuner plugin '{}' ({}, version {})", name, library, calls->version());
}

std::string TunerPlugin::identity() const {
  return calls == nullptr ? "" : format("'{}' version {}", name, calls->version());
}

Result<TunerPlugin> find_tuner_plugin(const std::string& net_library) {
  const base::KnobValue knob = base::knob_value(KnobId::tuner_plugin);
  if (is_none(knob.text)) return TunerPlugin();
  if (!knob.text.empty()) {
    auto found = open_tuner(base::drivers::plugin_file("libnccl-tuner", knob.text));
    if (!found) {
      Error& error = found.error();
      error.hint +=
          format("{}{}=none goes without it", error.hint.empty() ? "" : "; ", knob.origin);
      return std::move(error).within(format("{}={}", knob.origin, knob.text));
    }
    found->named = true;
    return found;
  }
  if (net_library.empty()) return TunerPlugin();
  auto found = open_tuner(net_library);
  if (found) return found;
  COLL_INFO(tuning, "TUNER/Plugin : none: {}", found.error().message);
  return TunerPlugin();
}

Result<std::unique_ptr<PluginTuner>> PluginTuner::start(const TunerPlugin& plugin,
                                                        uint64_t communicator,
                                                        const HostGroups& hosts, int rank,
                                                        std::function<void(const Error&)> failed) {
  std::unique_ptr<PluginTuner> tuner(new PluginTuner(plugin, rank, std::move(failed)));
  COLL_TRY(tuner->init(communicator, hosts));
  return tuner;
}

Status PluginTuner::init(uint64_t communicator, const HostGroups& hosts) {
  TunerStart start{.communicator = communicator,
                   .ranks = 0,
                   .nodes = hosts.size(),
                   .domains = {.count = int(hosts.size()), .least_ranks = 0, .most_ranks = 0},
                   .constants = model_constants()};
  for (const auto& host : hosts) {
    const auto ranks = int(host.size());
    start.ranks += host.size();
    start.domains.most_ranks = std::max(start.domains.most_ranks, ranks);
    start.domains.least_ranks =
        start.domains.least_ranks == 0 ? ranks : std::min(start.domains.least_ranks, ranks);
  }
  const TunerConstants before = start.constants;
  const std::scoped_lock lock(tuner_setup_mutex());
  (void)base::drivers::take_plugin_warning();  // of before
  const TunerCode code = plugin_.calls->init(
      &context_, start, base::drivers::plugin_log(base::drivers::PluginKind::tuner));
  if (code != kTunerOk) {
    Error error = failure("init", code);
    error.hint = "COLLCTL_TUNER_PLUGIN=none goes without it";
    return error;
  }
  started_ = true;
  if (warns_ && start.constants != before)
    COLL_WARN(
        "{} changes the constants of NCCL's model, which has no effect here: only its table of "
        "times has",
        text_);
  return {};
}

PluginTuner::~PluginTuner() {
  if (!started_) return;
  const std::scoped_lock lock(tuner_setup_mutex());
  if (const TunerCode code = plugin_.calls->finalize(context_); code != kTunerOk)
    COLL_INFO(tuning, "{}", failure("finalize", code).message);
}

Error PluginTuner::failure(const char* call, TunerCode code) const {
  return {ErrorCode::unavailable,
          format("{}: {} failed: {} ({}){}", text_, call, base::drivers::plugin_code_text(code),
                 code, base::drivers::take_plugin_warning())};
}

Result<TunerAnswer> PluginTuner::ask(const TunerQuestion& question, const TunerTable& table) {
  const uint64_t key = hash_of(question, table);
  if (const auto known = answers_.find(key); known != answers_.end()) return known->second;
  TunerAnswer answer{.table = table, .channels = 0};
  (void)base::drivers::take_plugin_warning();  // of before
  const TunerCode code =
      plugin_.calls->cost(context_, number_of(question.collective), question.bytes,
                          &answer.table.us[0][0], question.registered, &answer.channels);
  if (code != kTunerOk) {
    return Error(ErrorCode::unavailable,
                 format("getCollInfo failed: {} ({}){}", base::drivers::plugin_code_text(code),
                        code, base::drivers::take_plugin_warning()));
  }
  // On all ranks at the same shape, as they start the same operations.
  if (answers_.size() == kMostAnswers) answers_.clear();
  answers_.emplace(key, answer);
  return answer;
}

Status PluginTuner::refuse(Error why) {
  if (!plugin_.named) {
    if (warns_)
      COLL_WARN("{}; the choice is ours, here and wherever this comes again", why.message);
    warns_ = false;
    return {};
  }
  why.hint = "COLLCTL_TUNER_PLUGIN=none goes without it";
  if (failed_) failed_(why);
  return why;
}

}  // namespace collctl::runtime

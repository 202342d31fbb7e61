// The specification of a measurement: settled when it is known where its ranks compute, and its
// JSON form, which travels from the launcher's process to the ranks.
#include "cmd/measure/bench.h"
#include "cmd/text/json_fields.h"

namespace collctl::cmd {

using namespace json_fields;

namespace {

constexpr int kMostMisalign = 4095;

}  // namespace

Result<BenchSpec> settled(const BenchSpec& spec, bool on_gpus, const std::string& reason) {
  constexpr const char* kHint = "leave the option out, or use it where the ranks are on GPUs";
  // The line contradicts itself, or what is here does not do.
  const ErrorCode code = spec.device_request == DeviceRequest::cpu ? ErrorCode::usage : ErrorCode::unavailable;
  if (!on_gpus && !spec.versus.empty())
    return Error{code, "--vs nccl: NCCL works on GPUs, these are CPU ranks", kHint};
  if (!on_gpus && spec.cuda_graph != 0)
    return Error{code, "--cuda-graph: these are CPU ranks", kHint};
  if (!on_gpus && spec.transport == "p2p")
    return Error{code, "--transport p2p joins GPUs, these are CPU ranks", kHint};
  // None of what was asked for is theirs, whatever the machine has.
  if (!on_gpus && spec.protocols == std::vector<std::string>{name_of(kernels::Protocol::ll128)})
    return Error{ErrorCode::usage, "--proto ll128 is for GPUs, these are CPU ranks", kHint};
  BenchSpec known = spec;
  known.device_request = on_gpus ? DeviceRequest::cuda : DeviceRequest::cpu;
  known.device_reason = reason;
  if (on_gpus && !spec.max_bytes_given)
    known.max_bytes = std::max(spec.min_bytes, kMostBytesOnGpus);
  return known;
}

Status check_root(int root, int ranks) {
  if (root < ranks) return {};
  return Error(ErrorCode::usage, format("--root {}: expected 0..{} or all, because the job has {} ranks", root,
                      ranks - 1, ranks));
}

std::string BenchSpec::to_json() const {
  return dump({{"collective", kernels::name_of(collective)},
               {"min_bytes", min_bytes},
               {"max_bytes", max_bytes},
               {"step_factor", step_factor},
               {"step_bytes", step_bytes},
               {"iterations", iterations},
               {"warmup", warmup},
               {"sync_each", sync_each},
               {"types", names_of(types)},
               {"ops", names_of(ops)},
               {"roots", roots},
               {"check", check},
               {"in_place", int(in_place)},
               {"algorithms", algorithms},
               {"protocols", protocols},
               {"channels", channels},
               {"transport", transport},
               {"p2p", p2p},
               {"net", net},
               {"max_bytes_given", max_bytes_given},
               {"window", window},
               {"misalign", misalign},
               {"cuda_graph", cuda_graph},
               {"versus", versus},
               {"versus_best", versus_best},
               {"soak", soak},
               {"soak_seed", soak_seed},
               {"soak_operations", soak_operations}});
}

Result<BenchSpec> BenchSpec::from_json(const std::string& text) {
  constexpr const char* kContext = "reading the bench specification";
  auto json = parse(text);
  if (!json) return std::move(json.error()).within(kContext);
  Fields f(*json);
  BenchSpec spec;
  int in_place = 0;
  f.name("collective", spec.collective, kernels::kCollectiveCount);
  f.count("min_bytes", spec.min_bytes);
  f.count("max_bytes", spec.max_bytes);
  f.count("step_factor", spec.step_factor);
  f.count("step_bytes", spec.step_bytes);
  f.whole("iterations", spec.iterations, 1, 1'000'000);
  f.whole("warmup", spec.warmup, 0, 1'000'000);
  f.flag("sync_each", spec.sync_each);
  f.names("types", spec.types, kernels::kDataTypeCount);
  f.names("ops", spec.ops, kernels::kRedOpCount);
  f.numbers("roots", spec.roots);
  f.flag("check", spec.check);
  f.whole("in_place", in_place, 0, 2);
  f.words("algorithms", spec.algorithms);
  f.words("protocols", spec.protocols);
  f.whole("channels", spec.channels, 0, kernels::kMaxChannels);
  f.text("transport", spec.transport);
  f.text("p2p", spec.p2p);
  f.text("net", spec.net);
  f.flag("max_bytes_given", spec.max_bytes_given);
  f.flag("window", spec.window);
  f.whole("misalign", spec.misalign, 0, kMostMisalign);
  f.whole("cuda_graph", spec.cuda_graph, 0, 1'000'000);
  f.words("versus", spec.versus);
  f.flag("versus_best", spec.versus_best);
  f.flag("soak", spec.soak);
  f.count("soak_seed", spec.soak_seed);
  f.whole("soak_operations", spec.soak_operations, 0, 1'000'000'000);
  spec.in_place = InPlace(in_place);
  COLL_TRY_IN(f.status(), kContext);
  return spec;
}

}  // namespace collctl::cmd

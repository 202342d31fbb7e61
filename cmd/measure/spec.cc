// The specification of a measurement: settled when it is known where its ranks compute, and its
// JSON form, which travels from the launcher's process to the ranks.
#include "base/format.h"
#include "base/record.h"
#include "cmd/measure/bench.h"

namespace collctl::cmd {

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

static void fields(Record& io, BenchSpec& spec) {
  op_field(io, "collective", spec.collective);
  option_fields(io, spec);
  io.field("max_bytes_given", spec.max_bytes_given);
  io.field("versus", spec.versus);
  io.field("versus_best", spec.versus_best);
  io.field("soak", spec.soak);
}

std::string BenchSpec::to_json() const {
  return json_of(*this);
}

Result<BenchSpec> BenchSpec::from_json(const std::string& text) {
  auto spec = record_of<BenchSpec>(text);
  if (!spec) return std::move(spec.error()).within("reading the bench specification");
  return spec;
}

}  // namespace collctl::cmd

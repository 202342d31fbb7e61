// RDMA as a job needs it: addresses that peers can reach, and the path into the GPUs' memory.
#include "base/format.h"
#include "base/record.h"
#include "cmd/doctor/doctor.h"
#include "cmd/job/device_choice.h"
#include "cmd/topo/parts.h"
#include "transport/device/device.h"

namespace collctl::cmd {

namespace {

bool is_ipv4(const base::RdmaGid& gid) {
  return gid.address.rfind("::ffff:", 0) == 0;
}

// GID that a connection would take: on Ethernet one of RoCE v2; IPv4 where there is one.
const base::RdmaGid* best_gid(const base::RdmaPortDetail& port) {
  const base::RdmaGid* best = nullptr;
  for (const base::RdmaGid& gid : port.gids) {
    if (port.link == "Ethernet" && gid.type != "RoCE v2") continue;
    if (best == nullptr || (is_ipv4(gid) && !is_ipv4(*best))) best = &gid;
  }
  return best;
}

void check_gid(const SurveyedHost& host, const base::RdmaDevice& device,
               const base::RdmaPortDetail& port, Diagnosis& diagnosis) {
  const base::RdmaGid* best = best_gid(port);
  Finding& check = add_check(
      diagnosis, "gid", host,
      best == nullptr ? "none" : format("{} {} {}", best->index, best->type, best->address));
  check.at.kind = SubjectKind::nic;
  check.at.device = plain(format("{}:{}", device.name, port.port));
  check.cell = best == nullptr ? "none" : plain(best->type);
  if (best != nullptr) return;
  if (port.link == "Ethernet")
    fail(check, "a GID of RoCE v2",
         format("{} port {} has no GID of RoCE v2, by which other hosts reach it", device.name,
                port.port),
         "give its interface an IPv4 address; cma_roce_mode shows its RoCE mode");
  else
    fail(check, "a GID", format("{} port {} has no GID", device.name, port.port),
         "the subnet manager has not set it up: look at opensm and ibstat");
}

void check_gpu_direct(const SurveyedHost& host, Diagnosis& diagnosis) {
  const base::GpuDirectAdvice advice = judge_gpu_direct(host.facts->gpu_direct);
  if (!advice.applies) return;
  Finding& check = add_check(diagnosis, "gdr", host, advice.possible ? advice.by : "no");
  std::string prevents, slows, remedy;
  const auto join = [](std::string& to, const std::string& text) {
    to += (to.empty() ? "" : "; ") + text;
  };
  for (const base::GpuDirectReason& reason : advice.reasons) {
    join(reason.prevents ? prevents : slows, reason.what);
    // Remedies for slowness come only after what prevents GPUDirect is mended.
    if (reason.prevents || advice.possible) join(remedy, reason.remedy);
  }
  if (!advice.possible)
    return fail(
        check, "DMA-BUF or nvidia_peermem",
        "RDMA devices do not reach the GPUs' memory, so all data goes through the host's: " +
            prevents,
        remedy);
  const std::string& iommu = host.facts->gpu_direct.iommu;
  check.odd = !host.facts->gpu_direct.redirecting.empty() || iommu.rfind("DMA", 0) == 0;
  check.message = plain(slows);
  check.remedy = remedy;
}

}  // namespace

void add_rdma_checks(const SurveyedHost& host, Diagnosis& diagnosis) {
  for (const base::RdmaDevice& device : host.facts->rdma_devices)
    for (const base::RdmaPortDetail& port : device.ports)
      if (port.state == "ACTIVE") check_gid(host, device, port, diagnosis);
  check_gpu_direct(host, diagnosis);
}

// Whether CUDA starts on a host: what a rank of GPUs does first there, as `run` would say it.

constexpr const char* kNvidiaSmi =
    "nvidia-smi must work there: after an update of the driver load its new modules or restart the "
    "host, else see the kernel log (dmesg | grep -i NVRM)";

static void fields(Record& io, GpuTrouble& trouble) {
  io.field("message", trouble.message);
  io.field("hint", trouble.hint);
}

Result<std::string> gpus_answer() {
  GpuTrouble trouble;
  const HostGpus here = local_gpus();
  if (const auto choice = choose_device(DeviceRequest::automatic, {here}); !choice) {
    trouble = {choice.error().message, kNvidiaSmi};
  } else if (choice->on_gpus) {
    const auto count = transport::Device::count();
    if (!count)
      trouble = {count.error().message, count.error().hint};
    else if (*count == 0)
      trouble = {format("CUDA finds none of {} GPUs", here.usable), kNvidiaSmi};
  }
  return json_of(trouble);
}

Result<GpuTrouble> gpus_of_answer(const std::string& text) {
  auto trouble = record_of<GpuTrouble>(text);
  if (trouble) return trouble;
  return Error(ErrorCode::launch,
               format("what it says of its GPUs cannot be read: {}", trouble.error().message),
               "is the same version of collctl there? --stage always sends this one");
}

}  // namespace collctl::cmd

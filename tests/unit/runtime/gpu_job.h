// Jobs of GPU ranks that do not run: machines from committed topology files, facts as ranks would
// send them, and the shapes that the planner gets.
#pragma once
#include <string>
#include <vector>

#include "runtime/plan/gpu_shape.h"
#include "tests/catch.h"
#include "tests/unit/topology/data_files.h"
#include "topology/types.h"
#include "topology/xml/xml.h"

// Eight H100 behind NVSwitches, with network devices.
inline constexpr const char* kH100 = "oci-bm-gpu-h100-8-topo.xml";

inline collctl::topology::System machine_of(const std::string& file) {
  auto read = collctl::topology::read_xml(data_text(data_path(file)), file);
  REQUIRE(read.ok());
  return std::move(read->system);
}

inline void collect_gpus(const std::vector<collctl::topology::Pci>& devices,
                         std::vector<int64_t>& ids) {
  for (const auto& pci : devices) {
    if (pci.gpu) ids.push_back(pci.bus_id.value);
    collect_gpus(pci.children, ids);
  }
}
// In the order of the file.
inline std::vector<int64_t> gpus_of(const collctl::topology::System& system) {
  std::vector<int64_t> ids;
  for (const auto& cpu : system.cpus) collect_gpus(cpu.children, ids);
  return ids;
}

struct GpuPlanJob {
  std::vector<int> host_of;      // by rank
  std::vector<int64_t> bus_ids;  // by rank
  collctl::topology::System system;
  collctl::runtime::Settings settings;
  collctl::runtime::GpuSearch search;
  int compute_capability = 90;
  bool gdr = false;

  int ranks() const { return int(host_of.size()); }
  collctl::runtime::HostGroups hosts() const {
    return collctl::runtime::group_by_host(std::vector<uint64_t>(host_of.begin(), host_of.end()));
  }
  std::vector<collctl::runtime::RankFacts> all_facts() const {
    std::vector<collctl::runtime::RankFacts> list(host_of.size());
    for (size_t r = 0; r < list.size(); ++r) {
      list[r] = {};
      list[r].info.rank = int(r);
      list[r].info.bus_id = bus_ids[r];
      list[r].info.compute_capability = compute_capability;
      list[r].info.gdr = gdr ? 1 : 0;
      list[r].info.nets = gdr ? collctl::transport::kNetInfiniBand : 0;
      list[r].info.kind = collctl::transport::DeviceKind::cuda;
    }
    return list;
  }
  std::vector<int64_t> bus_ids_of(const std::vector<int32_t>& host) const {
    std::vector<int64_t> list;
    for (const int32_t r : host) list.push_back(bus_ids[size_t(r)]);
    return list;
  }
  // The blobs that the first rank of each host would send; the others send nothing.
  std::vector<collctl::Bytes> blobs() const {
    std::vector<collctl::Bytes> list(host_of.size());
    const auto groups = hosts();
    for (const auto& host : groups)
      list[size_t(host.front())] =
          collctl::runtime::host_gpus(system, bus_ids_of(host), int(groups.size()), search, "host")
              .encode();
    return list;
  }
  std::vector<collctl::runtime::CommShape> shapes() const {
    std::vector<collctl::runtime::CommShape> list;
    const auto said = blobs();
    for (int rank = 0; rank < ranks(); ++rank) {
      auto shape = collctl::runtime::make_gpu_shape(rank, all_facts(), hosts(), said, settings);
      if (!shape.ok()) FAIL(shape.error().chain());
      list.push_back(std::move(*shape));
    }
    return list;
  }
};

// `ranks` GPUs on as few hosts as hold them, in the order of the file.
inline GpuPlanJob gpu_job(int ranks, const std::string& file = kH100) {
  GpuPlanJob job;
  job.system = machine_of(file);
  const std::vector<int64_t> gpus = gpus_of(job.system);
  for (int r = 0; r < ranks; ++r) {
    job.host_of.push_back(r / int(gpus.size()));
    job.bus_ids.push_back(gpus[size_t(r) % gpus.size()]);
  }
  // Small, so that a proof sees many slots of a small buffer. LL128: ten lines.
  job.settings.slot_bytes[0] = 256;
  job.settings.slot_bytes[1] = 128;
  job.settings.slot_bytes[2] = 1280;
  return job;
}

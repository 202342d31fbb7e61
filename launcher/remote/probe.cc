#include "launcher/remote/probe.h"

#include "base/format.h"
#include "base/host_facts.h"
#include "launcher/remote/binary.h"

// A host's facts as they travel, and as the doctor's report has them: keys in the order of the
// alphabet.
namespace collctl::base {
namespace {

// No list of a host's is longer.
constexpr size_t kMostListed = 4096;

// null: unlimited.
void limit_field(Record& io, const char* name, uint64_t& limit) {
  if (io.null(name, limit == kUnlimited)) {
    if (io.reading()) limit = kUnlimited;
  } else {
    io.field(name, limit);
  }
}

}  // namespace

static void fields(Record& io, ResourceLimit& limit) {
  limit_field(io, "hard", limit.hard);
  limit_field(io, "soft", limit.soft);
}

static void fields(Record& io, ProcessLimit& processes) {
  limit_field(io, "limit", processes.limit);
  io.field("used", processes.used);
}

static void fields(Record& io, CgroupLimits& limits) {
  io.field("cores", limits.cores);
  io.field("memory_bytes", limits.memory_bytes);
  io.field("memory_used_bytes", limits.memory_used_bytes);
  io.field("pids", limits.pids);
  io.field("pids_used", limits.pids_used);
}

static void fields(Record& io, InterfaceAddress& address) {
  io.field("address", address.text);
  io.field("prefix", address.prefix);
}

static void fields(Record& io, NetInterface& interface) {
  io.field("addresses", interface.addresses, kMostListed);
  io.field("aside", interface.aside);
  io.field("loopback", interface.loopback);
  io.field("mtu", interface.mtu);
  io.field("name", interface.name);
  io.field("speed_Mbps", interface.speed_mbps);
  io.field("up", interface.up);
}

static void fields(Record& io, RdmaPort& port) {
  io.field("device", port.device);
  io.field("link", port.link);
  io.field("port", port.port);
  io.field("rate", port.rate);
  io.field("state", port.state);
}

static void fields(Record& io, RdmaGid& gid) {
  io.field("address", gid.address);
  io.field("index", gid.index);
  io.field("interface", gid.interface);
  io.field("type", gid.type);
}

static void fields(Record& io, RdmaPortDetail& port) {
  io.field("gids", port.gids, kMostRdmaGids);
  io.field("link", port.link);
  io.field("physical", port.physical);
  io.field("port", port.port);
  io.field("rate", port.rate);
  io.field("state", port.state);
}

static void fields(Record& io, RdmaDevice& device) {
  io.field("board", device.board);
  io.field("busid", device.bus_id);
  io.field("firmware", device.firmware);
  io.field("interfaces", device.interfaces, 64);
  io.field("name", device.name);
  io.field("numa", device.numa);
  io.field("ports", device.ports, kMostRdmaPorts);
}

static void fields(Record& io, GpuDirectFacts& facts) {
  io.field("acs_known", facts.acs_known);
  io.field("acs_redirecting", facts.redirecting, kMostListed);
  io.field("driver", facts.driver);
  io.field("gpus", facts.gpus);
  io.field("iommu", facts.iommu);
  io.field("kernel", facts.kernel);
  io.field("module", facts.module);
  io.field("open_driver", facts.open_driver);
  io.field("rdma_devices", facts.rdma_devices);
}

static void fields(Record& io, NvidiaFacts& facts) {
  io.field("driver", facts.driver);
  io.field("gpus", facts.gpus, kMostListed);
  io.field("on_pci", facts.on_pci);
}

}  // namespace collctl::base

namespace collctl::launcher {

void fields(Record& io, RdmaFacts& facts) {
  io.field("gpu_direct", facts.gpu_direct);
  io.field("rdma_devices", facts.rdma_devices, base::kMostRdmaDevices);
}

static void fields(Record& io, HostFacts& facts) {
  io.field("binary_sha256", facts.binary);
  io.field("cgroup", facts.cgroup);
  io.field("clock_ns", facts.clock_ns);
  io.field("cores", facts.cores);
  if (io.has("processors", facts.processors > 0)) io.field("processors", facts.processors);
  io.field("glibc", facts.system.libc);
  io.field("gpu_direct", facts.gpu_direct);
  io.field("host", facts.host);
  io.field("interfaces", facts.interfaces, base::kMostListed);
  io.field("kernel", facts.system.kernel);
  io.field("locked_memory_bytes", facts.locked_memory);
  io.field("machine", facts.system.machine);
  io.field("memory_bytes", facts.memory_bytes);
  io.field("nvidia", facts.nvidia);
  io.field("open_files", facts.open_files);
  io.field("place", facts.place);
  io.field("processes", facts.processes);
  io.field("rdma", facts.rdma, base::kMostRdmaDevices * base::kMostRdmaPorts);
  io.field("rdma_devices", facts.rdma_devices, base::kMostRdmaDevices);
  const bool has_shm = !io.null("shm", !facts.has_shm);
  if (io.reading()) facts.has_shm = has_shm;
  if (has_shm)
    io.object("shm", [&] {
      io.field("bytes", facts.shm_bytes);
      io.field("free_bytes", facts.shm_free_bytes);
    });
  io.field("version", facts.version);
}

Result<HostFacts> gather_facts(const std::string& version) {
  HostFacts facts;
  facts.host = base::host_name();
  if (const uint64_t machine = base::machine_hash(0); machine != 0)
    facts.place = format("{:x}-{}", machine, base::network_namespace());
  facts.version = version;
  COLL_ASSIGN(facts.binary, own_hash());
  facts.system = base::system_names();
  facts.cores = base::usable_cores();
  facts.processors = int(::sysconf(_SC_NPROCESSORS_ONLN));
  facts.memory_bytes = base::physical_memory();
  facts.locked_memory = base::locked_memory_limit();
  facts.open_files = base::open_file_limit();
  facts.processes = base::process_limit();
  const base::ShmSpace shm = base::shm_space();
  facts.has_shm = shm.present;
  facts.shm_bytes = shm.total_bytes;
  facts.shm_free_bytes = shm.free_bytes;
  facts.cgroup = base::cgroup_limits();
  facts.nvidia = base::nvidia_facts();
  facts.rdma = base::rdma_ports();
  facts.rdma_devices = base::rdma_devices();
  facts.gpu_direct = base::gpu_direct_facts();
  facts.interfaces = base::net_interfaces();
  facts.clock_ns = base::wall_clock_ns();
  return facts;
}

std::string facts_to_json(const HostFacts& facts) {
  return json_of(facts);
}

Result<HostFacts> facts_from_json(const std::string& text) {
  auto facts = record_of<HostFacts>(text);
  if (facts) return facts;
  return Error(ErrorCode::launch,
               format("cannot read the facts of the host: {}", facts.error().message),
               "is the same version of collctl there? --stage always copies this one");
}

}  // namespace collctl::launcher

#include "launcher/remote/probe.h"

#include "base/format.h"
#include "base/host_facts.h"
#include "launcher/remote/binary.h"
#include "launcher/remote/probe_fields.h"

namespace collctl::launcher {
namespace {

using namespace probe_fields;

// A host may have bytes in its names that are no UTF-8.
template <class T>
std::string text_of(const T& facts) {
  return FactsWriter::written(facts).dump(-1, ' ', false, Json::error_handler_t::replace);
}

template <class T>
Result<T> facts_of(const std::string& text) {
  try {
    T facts;
    FactsReader::read(Json::parse(text), facts);
    return facts;
  } catch (const Json::exception& e) {
    return Error(ErrorCode::launch, format("cannot read the facts of the host: {}", e.what()),
                 "is the same version of collctl there? --stage always copies this one");
  }
}

}  // namespace

Result<HostFacts> gather_facts(const std::string& version) {
  HostFacts facts;
  facts.host = base::host_name();
  facts.version = version;
  COLL_ASSIGN(facts.binary, file_hash(base::kSelfPath));
  facts.system = base::system_names();
  facts.cores = base::usable_cores();
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
  return text_of(facts);
}

Result<HostFacts> facts_from_json(const std::string& text) {
  return facts_of<HostFacts>(text);
}

std::string rdma_to_json(const RdmaFacts& facts) {
  return text_of(facts);
}

Result<RdmaFacts> rdma_from_json(const std::string& text) {
  return facts_of<RdmaFacts>(text);
}

}  // namespace collctl::launcher

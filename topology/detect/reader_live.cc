#include "base/host_facts.h"
#include "topology/detect/reader.h"

namespace collctl::topology {

std::string field_arch(const std::string& machine) {
  return machine == "aarch64" ? "arm64" : machine == "ppc64le" ? "ppc64" : machine;
}

Reader live_reader() {
  Reader reader;
  reader.files = std::make_unique<DiskTree>("/");
  reader.drivers = live_drivers();
  reader.host = base::host_name();
  reader.arch = field_arch(base::machine_name());
  return reader;
}

}  // namespace collctl::topology

// libFuzzer target: any bytes as the archive of a snapshot, and all that follows: driver facts,
// detection, graph. A detected machine must survive as a topology file.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "topology/detect/archive.h"
#include "topology/detect/discover.h"
#include "topology/graph/graph.h"
#include "topology/xml/xml.h"

using namespace collctl::topology;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto nodes = unpack(std::string_view(reinterpret_cast<const char*>(data), size), "input");
  if (!nodes.ok()) return 0;
  Reader reader;
  reader.files = std::make_unique<MemoryTree>(std::move(*nodes));
  if (const auto text = reader.files->read("/drivers.json")) {
    auto facts = parse_drivers(*text, "drivers.json");
    if (!facts.ok()) return 0;
    reader.drivers = std::move(*facts);
  }
  const Detected found = discover(reader);
  const auto again = read_xml(write_xml(found.system), "written");
  if (!again.ok() || !(again->system == found.system)) std::abort();
  (void)make_graph(found.system, "input");
  return 0;
}

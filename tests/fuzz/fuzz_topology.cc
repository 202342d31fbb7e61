// libFuzzer target: any bytes as a topology file. A file that is taken must survive a write and a
// read, and everything that follows from it (graph, paths, decisions, search) must come to an end.
// `./dev fuzz [SECONDS]` runs it from the files in tests/topology/data.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tests/fuzz/follow.h"
#include "topology/xml/xml.h"

using namespace collctl::topology;

namespace {

constexpr size_t kMostEndpoints = 24;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto document =
      read_xml(std::string_view(reinterpret_cast<const char*>(data), size), "input");
  if (!document.ok()) return 0;
  const auto again = read_xml(write_xml(document->system), "written");
  if (!again.ok() || !(again->system == document->system)) std::abort();
  follow(document->system, kMostEndpoints);
  return 0;
}

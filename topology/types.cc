#include "topology/types.h"

#include "base/bus_id.h"

namespace collctl::topology {

std::optional<BusId> parse_bus_id(const std::string& text) {
  const auto number = base::bus_number(text);
  return number ? std::optional(BusId{*number}) : std::nullopt;
}

std::string bus_id_text(BusId id) {
  return base::bus_text(id.value);
}

const char* severity_name(Severity severity) {
  return severity == Severity::warning ? "warning" : "note";
}

}  // namespace collctl::topology

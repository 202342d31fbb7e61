// An edge on its way to becoming a link: shared by wire.cc (the exchange between its two ends) and
// wire_relays.cc (who sends for others). Nobody else includes it.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/format.h"
#include "runtime/links/wire.h"

namespace collctl::runtime {

inline constexpr const char* kWithoutRelay = "COLLCTL_P2P_PXN_LEVEL=0 goes without";

inline std::string edge_text(const Edge& e) {
  return format("channel {} of rank {} -> rank {}", e.channel, e.from, e.to);
}

// This rank's part in an edge.
enum class WirePart : uint8_t {
  whole,   // it has no relay
  source,  // another rank's GPU sends its data
  target,
};

// An edge that is becoming a link.
struct Wire::Pending {
  Edge edge;
  WirePart part = WirePart::whole;
  int peer = -1;  // the other end
  transport::Direction direction = transport::Direction::send;
  size_t row = 0;  // of the table of transports
  transport::LinkSpec spec;
  std::unique_ptr<transport::Endpoint> endpoint;
  Bytes mine, theirs;
  std::optional<Error> failure, peer_failure;  // of this round
  std::optional<Error> fatal;
  bool ready = false;
  int by = -1;         // source, target: the relay
  bool asked = false;  // for it, by name
  Bytes offer;         // source: of the relay's memory
};

}  // namespace collctl::runtime

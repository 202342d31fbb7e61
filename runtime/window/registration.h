// Registrations that ranks exchange when they register windows, and the result for all of them.
// Pure values: made and read by UserWindows.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "transport/device/fabric.h"
#include "transport/peer.h"

namespace collctl::runtime {

struct RangeRegistration {
  uint64_t bytes;           // of the window
  uint64_t segment;         // its allocation, by the rank's own numbers
  uint64_t segment_bytes;   // in whole pages
  uint64_t segment_offset;  // where the window begins in it
  uint64_t known_as;        // number of the window that it is already, or 0
};

struct Registration {
  uint64_t live = 0;  // hash of the windows that there are
  std::vector<RangeRegistration> ranges;
  // By range, where the rank's team has other hosts; zero where the window is known. Else empty.
  std::vector<transport::FabricName> names;
  int32_t code = 0;  // ErrorCode of a rank that cannot; 0: it can
  std::string text;

  Bytes encode() const;
  // Error defect: not such a registration.
  static Result<Registration> decode(ByteView bytes);
};

inline constexpr size_t kMostRangesAtOnce = 4096;

// By rank.
Result<std::vector<Registration>> decode_registrations(std::span<const Bytes> blobs);
// The reason why the ranks cannot register; the same on all ranks. `teams` as of window_teams().
// Errors (usage, or as a rank says of itself) name the rank that differs.
Status check_registrations(std::span<const Registration> registrations, std::span<const int> teams,
                           std::span<const transport::PeerInfo> peers);

}  // namespace collctl::runtime

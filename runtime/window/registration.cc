#include "runtime/window/registration.h"

#include "base/format.h"

namespace collctl::runtime {
namespace {

constexpr uint32_t kCardsMagic = 0x32435755;  // "UWC2"
constexpr size_t kMostTextBytes = 1024;

std::string window_text(size_t index, size_t count) {
  return count == 1 ? "the window" : format("window {} of {}", index + 1, count);
}

Error differs(int rank, std::string text, std::string hint) {
  return Error(ErrorCode::usage, std::move(text), std::move(hint)).blame(rank);
}

// Checks the facts that must be the same on all ranks, or on those of a team.
Status check_range(size_t index, const Registration& first, const Registration& other,
                   int first_rank, int rank, bool same_team) {
  const RangeRegistration &a = first.ranges[index], &b = other.ranges[index];
  const std::string what = window_text(index, first.ranges.size());
  if (a.bytes != b.bytes)
    return differs(rank,
                   format("{} has {} bytes on rank {} and {} bytes on rank {}", what, a.bytes,
                          first_rank, b.bytes, rank),
                   "a window must have the same size on all ranks");
  if (a.known_as != b.known_as)
    return differs(rank,
                   format("{} is {} on rank {} and {} on rank {}", what,
                          a.known_as == 0 ? "new" : format("number {}", a.known_as), first_rank,
                          b.known_as == 0 ? "new" : format("number {}", b.known_as), rank),
                   "all ranks must register the same windows again, or none");
  if (same_team && a.segment_offset != b.segment_offset)
    return differs(rank,
                   format("{} begins {} bytes into its allocation on rank {} and {} bytes on rank "
                          "{}",
                          what, a.segment_offset, first_rank, b.segment_offset, rank),
                   "a window must begin at the same offset of its allocation on all ranks of a "
                   "host, and of an "
                   "NVLink domain");
  return {};
}

}  // namespace

Bytes Registration::encode() const {
  ByteWriter w;
  w.put(kCardsMagic).put(code).put(live).put(uint32_t(ranges.size()));
  for (const RangeRegistration& range : ranges) w.put(range);
  w.put(uint32_t(names.size()));
  for (const transport::FabricName& name : names) w.put(name);
  w.put_string(text.substr(0, kMostTextBytes));
  return w.take();
}

Result<Registration> Registration::decode(ByteView bytes) {
  ByteReader r(bytes);
  const bool ours = r.get<uint32_t>() == kCardsMagic;
  Registration registration;
  registration.code = r.get<int32_t>();
  registration.live = r.get<uint64_t>();
  const auto count = r.get<uint32_t>();
  for (uint32_t i = 0; i < count && i < kMostRangesAtOnce && r.ok(); ++i)
    registration.ranges.push_back(r.get<RangeRegistration>());
  const auto named = r.get<uint32_t>();
  const bool fits = named == 0 || named == count;
  for (uint32_t i = 0; i < named && fits && i < kMostRangesAtOnce && r.ok(); ++i)
    registration.names.push_back(r.get<transport::FabricName>());
  registration.text = r.get_string(kMostTextBytes);
  if (!ours || !fits || count > kMostRangesAtOnce || !r.ok() || !r.at_end())
    return Error(ErrorCode::defect, "a rank's list of windows is malformed");
  return registration;
}

Result<std::vector<Registration>> decode_registrations(std::span<const Bytes> blobs) {
  std::vector<Registration> registrations;
  for (size_t r = 0; r < blobs.size(); ++r) {
    auto one = Registration::decode(blobs[r]);
    if (!one) return std::move(one.error()).blame(int(r)).within(format("rank {}", r));
    registrations.push_back(std::move(*one));
  }
  return registrations;
}

Status check_registrations(std::span<const Registration> registrations, std::span<const int> teams,
                           std::span<const transport::PeerInfo> peers) {
  for (size_t r = 0; r < registrations.size(); ++r)
    if (registrations[r].code != 0)
      return Error(ErrorCode(registrations[r].code), registrations[r].text)
          .blame(int(r))
          .within(format("rank {} (host {})", r, peers[r].host));
  for (size_t r = 0; r < registrations.size(); ++r) {
    const int rank = int(r);
    if (registrations[r].ranges.size() != registrations[0].ranges.size())
      return differs(rank,
                     format("rank 0 registers {} windows and rank {} registers {}",
                            registrations[0].ranges.size(), rank, registrations[r].ranges.size()),
                     "all ranks must make the same call");
    if (registrations[r].live != registrations[0].live)
      return differs(
          rank, format("rank {} has not deregistered the same windows as rank 0", rank),
          "before the next registration all ranks must have deregistered the same windows");
    const auto leader = size_t(teams[r]);
    for (size_t i = 0; i < registrations[r].ranges.size(); ++i) {
      COLL_TRY(check_range(i, registrations[0], registrations[r], 0, rank, false));
      COLL_TRY(check_range(i, registrations[leader], registrations[r], int(leader), rank, true));
    }
  }
  return {};
}

}  // namespace collctl::runtime

#include "transport/net/ib/gid.h"

#include <arpa/inet.h>

#include <algorithm>
#include <bit>
#include <tuple>

namespace collctl::transport {

using base::drivers::VerbsGid;

namespace {

// Bits that a and b have in common from the front.
int common_bits(const VerbsGid& a, const VerbsGid& b) {
  for (int i = 0; i < 16; ++i)
    if (a.raw[i] != b.raw[i]) return 8 * i + std::countl_zero(uint8_t(a.raw[i] ^ b.raw[i]));
  return 128;
}

bool fit(const IbGid& a, const IbGid& b) {
  return a.type == b.type && (a.type == base::drivers::kGidIb || is_ipv4(a.gid) == is_ipv4(b.gid));
}

}  // namespace

bool is_zero(const VerbsGid& gid) {
  return std::all_of(std::begin(gid.raw), std::end(gid.raw), [](uint8_t b) { return b == 0; });
}

bool is_ipv4(const VerbsGid& gid) {
  return std::all_of(gid.raw, gid.raw + 10, [](uint8_t b) { return b == 0; }) &&
         gid.raw[10] == 0xff && gid.raw[11] == 0xff;
}

bool is_link_local(const VerbsGid& gid) {
  return gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80;
}

std::string gid_text(const VerbsGid& gid) {
  char text[INET6_ADDRSTRLEN] = {};
  return ::inet_ntop(AF_INET6, gid.raw, text, sizeof text) != nullptr ? text : "?";
}

const char* gid_type_text(uint32_t type) {
  if (type == base::drivers::kGidRoceV2) return "RoCE v2";
  return type == base::drivers::kGidRoceV1 ? "RoCE v1" : "IB";
}

bool same_subnet(const IbGid& a, const IbGid& b) {
  const bool v4 = is_ipv4(a.gid);
  if (v4 != is_ipv4(b.gid)) return false;
  const int known = std::max(a.net_bits, b.net_bits);
  const int bits = v4 ? 96 + (known != 0 ? known : 24) : (known != 0 ? known : 64);
  return common_bits(a.gid, b.gid) >= bits;
}

std::optional<GidPair> choose_gids(std::span<const IbGid> sender, std::span<const IbGid> receiver,
                                   int roce_version) {
  const uint32_t wanted = roce_version == 1 ? base::drivers::kGidRoceV1 : base::drivers::kGidRoceV2;
  const auto merit = [&](const IbGid& a, const IbGid& b) {
    return std::tuple(a.type == wanted, !is_link_local(a.gid) && !is_link_local(b.gid),
                      same_subnet(a, b), is_ipv4(a.gid), common_bits(a.gid, b.gid), -int(a.index),
                      -int(b.index));
  };
  std::optional<GidPair> best;
  for (const IbGid& a : sender)
    for (const IbGid& b : receiver) {
      if (!fit(a, b)) continue;
      if (!best || merit(a, b) > merit(best->sender, best->receiver)) best = GidPair{a, b};
    }
  return best;
}

}  // namespace collctl::transport

// Addresses of RDMA ports (GIDs), and which two of them a connection uses. Both ends see both lists
// and choose the same pair, so that neither needs a fixed index. Pure.
#pragma once
#include <optional>
#include <span>
#include <string>

#include "base/drivers/verbs.h"

namespace collctl::transport {

struct IbGid {
  base::drivers::VerbsGid gid{};
  uint32_t type = 0;     // kGidIb, kGidRoceV1, kGidRoceV2
  uint8_t index = 0;     // in the table of its port
  uint8_t net_bits = 0;  // of the interface's address with the same bytes: its prefix; 0: unknown
  bool operator==(const IbGid&) const = default;
};

bool is_zero(const base::drivers::VerbsGid& gid);
bool is_ipv4(const base::drivers::VerbsGid& gid);        // ::ffff:a.b.c.d
bool is_link_local(const base::drivers::VerbsGid& gid);  // fe80::/10
// "::ffff:10.0.0.7", "fe80::1".
std::string gid_text(const base::drivers::VerbsGid& gid);
const char* gid_type_text(uint32_t type);  // "IB", "RoCE v1", "RoCE v2"
// Both addresses are of one family and lie in one subnet: the longer of the prefixes that are known
// (24 bits of IPv4, 64 of IPv6 where none is).
bool same_subnet(const IbGid& a, const IbGid& b);

struct GidPair {
  IbGid sender, receiver;
};
// Two addresses match when type and family are equal. Best: the wanted RoCE version, then no
// link-local address, then one subnet, then IPv4, then most leading bits in common, then the lowest
// indexes. None: nothing matches.
std::optional<GidPair> choose_gids(std::span<const IbGid> sender, std::span<const IbGid> receiver,
                                   int roce_version);

}  // namespace collctl::transport

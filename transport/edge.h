// How one connection is named: in sentences for people, and as keys that both ends compute alike.
// Used by every transport. Pure functions, any thread.
#pragma once
#include <cstdint>
#include <string>

#include "transport/transport.h"

namespace collctl::transport {

// The ranks of an edge in the direction the data flows.
inline int sender_of(const LinkSpec& spec) {
  return spec.direction == Direction::send ? spec.self.rank : spec.peer.rank;
}
inline int receiver_of(const LinkSpec& spec) {
  return spec.direction == Direction::send ? spec.peer.rank : spec.self.rank;
}

// "rank 5 (host b1)"
std::string peer_text(const PeerInfo& peer);
// "rank 3 -> rank 5 channel 0"
std::string edge_text(const LinkSpec& spec);
// The address a peer accepts network connections at; family 0 when it has none or it is malformed.
base::Address net_address(const PeerInfo& peer);
// Whether both are in one network namespace: of one machine, which may act as several hosts
// (HOSTID).
bool in_one_namespace(const PeerInfo& a, const PeerInfo& b);
// Equal at both ends of one edge, different between edges, purposes, parts and communicators.
uint64_t edge_key(const LinkSpec& spec, uint64_t comm_hash, uint64_t part);
// An error of this end itself (its GPU, its memory): blames this rank.
Error own_error(const LinkSpec& spec, Error error);
// An error of this edge: blames the peer unless a rank is blamed already, and adds the edge as
// context.
Error edge_error(const LinkSpec& spec, Error error);

}  // namespace collctl::transport

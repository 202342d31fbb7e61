#include "transport/edge.h"

#include <algorithm>
#include <cstring>

#include "base/format.h"

namespace collctl::transport {

namespace {

std::string bounded_text(const char* text, size_t at_most) {
  return {text, ::strnlen(text, at_most)};
}

uint64_t mix(uint64_t h, uint64_t value) {  // the finalizer of splitmix64, chained
  h += value + 0x9e3779b97f4a7c15u;
  h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u;
  h = (h ^ (h >> 27)) * 0x94d049bb133111ebu;
  return h ^ (h >> 31);
}

}  // namespace

std::string peer_text(const PeerInfo& peer) {
  const std::string host = bounded_text(peer.host, sizeof peer.host);
  return host.empty() ? format("rank {}", peer.rank) : format("rank {} (host {})", peer.rank, host);
}

std::string edge_text(const LinkSpec& spec) {
  return format("rank {} -> rank {} channel {}", sender_of(spec), receiver_of(spec), spec.channel);
}

base::Address net_address(const PeerInfo& peer) {
  base::Address address;
  const int family = peer.net_address.ss_family;
  const size_t want = family == AF_INET    ? sizeof(sockaddr_in)
                      : family == AF_INET6 ? sizeof(sockaddr_in6)
                                           : 0;
  if (want == 0 || peer.net_address_length != want) return address;
  std::memcpy(&address.storage, &peer.net_address, want);
  address.length = socklen_t(want);
  return address;
}

bool in_one_namespace(const PeerInfo& a, const PeerInfo& b) {
  const bool one_machine =
      a.host_hash == b.host_hash || (a.machine_hash != 0 && a.machine_hash == b.machine_hash);
  return one_machine && a.network_namespace == b.network_namespace;
}

uint64_t edge_key(const LinkSpec& spec, uint64_t comm_hash, uint64_t part) {
  uint64_t h = mix(0x636f6c6c63746c31u, comm_hash);
  h = mix(h, uint64_t(uint32_t(spec.channel)));
  h = mix(h, uint64_t(uint32_t(sender_of(spec))) << 32 | uint32_t(receiver_of(spec)));
  h = mix(h, spec.purpose);
  return mix(h, part);
}

Error own_error(const LinkSpec& spec, Error error) {
  if (error.rank >= 0) return error;
  error.rank = spec.self.rank;
  error.host = bounded_text(spec.self.host, sizeof spec.self.host);
  return error;
}

Error edge_error(const LinkSpec& spec, Error error) {
  if (error.rank < 0) error.rank = spec.peer.rank;
  if (error.host.empty()) error.host = bounded_text(spec.peer.host, sizeof spec.peer.host);
  return std::move(error).within(edge_text(spec));
}

}  // namespace collctl::transport

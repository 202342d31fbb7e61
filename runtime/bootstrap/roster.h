// The ranks of a job as one rank knows them: itself and its neighbours by host while it joins, all
// of them from the exchange of addresses on. Used by the rank's thread only. Internal to the
// bootstrap.
#pragma once
#include <string>
#include <vector>

#include "base/socket.h"
#include "runtime/bootstrap/fd.h"
#include "runtime/bootstrap/wire.h"

namespace collctl::runtime::boot {

struct Roster {
  struct Member {
    Address address;  // where it accepts peers
    std::string host;
    FdSocket::Address fd_socket;  // where it takes descriptors
  };
  const int rank, size;
  std::vector<Member> members{};  // by rank

  std::string host(int of_rank) const {
    return size_t(of_rank) < members.size() ? members[size_t(of_rank)].host : "";
  }
  std::string name(int of_rank) const { return rank_text(of_rank, host(of_rank)); }
  std::vector<std::string> hosts() const {
    std::vector<std::string> all;
    for (const Member& m : members) all.push_back(m.host);
    return all;
  }
};

}  // namespace collctl::runtime::boot

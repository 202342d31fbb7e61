// The hosts of a job as all its ranks have them: by the launcher's list, or, where ranks were
// started by others and have no list, by who shares a host. Pure.
#pragma once
#include <vector>

#include "base/host.h"
#include "runtime/plan/shape.h"
#include "transport/peer.h"

namespace collctl::runtime {

// Each rank's host. `told`: what each rank was told of its own; `groups`: ranks that share one
// (group_by_host). Places that do not tell the groups apart are replaced by the groups' own, and
// without a list hosts that call themselves alike get their lowest rank to the name.
std::vector<Host> job_hosts(const std::vector<Host>& told, const HostGroups& groups);
// The same, written into what ranks have told each other.
void name_hosts(std::vector<transport::PeerInfo>& peers, const HostGroups& groups);
Host host_of(const transport::PeerInfo& peer);

}  // namespace collctl::runtime

// Where ranks meet that others have started: what --join, COLLCTL_COMM_ID or MASTER_ADDR names, as
// this rank has to take it. Threads: any.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "base/name_lookup.h"
#include "runtime/bootstrap/bootstrap.h"

namespace collctl::runtime {

struct Meeting {
  Address root;    // where this rank checks in
  Address listen;  // where rank 0 listens: `root`, or every address of its host
  // The name is a loopback address here, and nothing says that all ranks are on this host.
  bool only_here = false;
};

struct MeetingView {
  bool token = false;  // without one nobody but this host is let in
  bool root_is_here = false;
  int elsewhere = 0;  // ranks on other hosts, as far as is known
  bool all_here = false;
  std::vector<Address> own{};  // of this host; the ports do not count
  // By which others reach this host; asked only where the name does not say it.
  std::function<Result<Address>()> way_out{};
};

// Chooses among the addresses that `at` resolves to. A host's own name is often a loopback address
// in its own hosts file (127.0.1.1): there it means the host, whose ranks must not offer that to
// others. Error: usage where all ranks are sent to themselves.
Result<Meeting> choose_meeting(const base::HostPort& at, const std::vector<Address>& addresses,
                               const MeetingView& view);

struct MeetingQuestion {
  std::string text, from;  // "node01:29400"; "--join"
  bool token = false;
  int rank = 0, size = 1;
  int local_ranks = 0;             // 0: not known
  std::string interfaces, family;  // as in settings
};
// The name is looked up until the deadline. Errors name `from`: usage where it is no address,
// deadline with cause unresolved.
Result<Meeting> find_meeting(const MeetingQuestion& question, Deadline deadline,
                             const std::function<bool()>& cancelled = {});

}  // namespace collctl::runtime

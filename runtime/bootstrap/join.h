// Start-up of a rank: listen, check in, wait for the place (join.cc); connect to the neighbours,
// exchange addresses (connect.cc); see whether all ranks are there for the same (task.cc).
//
// Used by the rank's thread only; lives as long as start-up, fills in the State that it is given.
// Internal to the bootstrap.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "base/auth.h"
#include "base/cancel.h"
#include "runtime/bootstrap/state.h"

namespace collctl::runtime {

class Bootstrap::State::Joining {
 public:
  explicit Joining(State& state) : s_(state) {}
  Status run();
  Status same_task();  // after run()

 private:
  const UniqueId& root() const { return roots_[size_t(group_)]; }
  int rank() const { return s_.roster.rank; }
  int size() const { return s_.roster.size; }
  int groups() const { return int(roots_.size()); }
  bool ring() const { return size() <= boot::kRingAtMost; }  // else a tree
  Deadline deadline() const { return s_.options.deadline; }

  Status check_options();
  Status listen();
  Status check_in();
  Status wait_for_place();
  Status cancelled();
  Result<bool> read_line();
  Result<bool> read_call(ByteView greeting);
  Result<bool> obey(const boot::Frame& frame);
  // connect.cc
  Status connect();
  struct Outgoing;
  Status connect_all(boot::Service& service, std::vector<Outgoing>& outgoing);
  Error not_connected(const std::vector<Outgoing>& outgoing) const;
  Status exchange_table();

  State& s_;
  std::vector<UniqueId> roots_;
  int group_ = 0;  // whose check-ins this rank's root takes
  std::unique_ptr<base::AuthListener> peers_, calls_;
  Address own_address_;  // where peers connect
  boot::SealedFd line_;
  boot::FrameReader reader_;
  boot::Place place_;
  std::optional<base::Cancel::Listener> cancelling_;  // once there is a service
  std::vector<uint64_t> tasks_;                       // by rank: hashes
};

}  // namespace collctl::runtime

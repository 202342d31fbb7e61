// Blame: finds the rank that caused a deadline. When one rank stands still, all others run into
// their deadlines within moments of each other, and most of them wait for a rank that is itself
// waiting. So a rank whose deadline passed tells its neighbours that it waits, and looks whether
// the one it waits for says the same. If not, that one is the cause, and this rank announces it; if
// so, it leaves the announcement to a rank nearer to the cause. Ranks that wait for each other may
// have called different operations: each tells what it called, and that is then the error. Heads of
// a network that reduces wait for it and not for a rank: there all ranks tell all others, and a
// rank that does not is the cause.
//
// Threads: find() is the thread's whose submission failed, once in a communicator's life. Owns
// nothing: all that its options name outlives it.
#pragma once
#include <mutex>
#include <optional>
#include <set>
#include <span>

#include "base/result.h"
#include "runtime/bootstrap/bootstrap.h"
#include "runtime/communicator/call_log.h"
#include "runtime/communicator/first_error.h"
#include "runtime/links/wire.h"
#include "transport/peer.h"

namespace collctl::runtime {

class Blame {
 public:
  struct Options {
    int rank = 0;
    std::span<const transport::PeerInfo> peers;  // of all ranks
    double op_timeout_s = 30;
    Bootstrap* bootstrap = nullptr;
    std::mutex* bootstrap_mutex = nullptr;  // another thread in a call of it: then without asking
    Wire* wire = nullptr;
    const CallLog* calls = nullptr;
    const FirstError* errors = nullptr;
  };
  explicit Blame(const Options& options) : o_(options) {}
  // `mine` names the rank that this one waited for until its deadline; afterwards perhaps another
  // error. Returns when it is this rank's to announce, or when somebody else has announced theirs.
  // `all_wait`: kernels wait for all ranks at once, through memory that all of them map.
  void find(Error& mine, bool all_wait) const;
  // A rank that does not get what this one has sent to it, as far as this end can see. At once.
  std::optional<Error> cannot_reach() const;

 private:
  struct Waiting {
    std::set<int> peers;      // to be told
    bool on_network = false;  // this rank has a link into a network that reduces
  };
  Waiting waiting(bool all_wait) const;
  void find_silent(Error& mine) const;
  std::optional<Error> unreached() const;
  bool called_otherwise(Error& mine, int peer, ByteView answer) const;

  const Options o_;
};

}  // namespace collctl::runtime

// FdDoor: descriptors passed between processes of one host. Each rank listens on an abstract Unix
// socket; a sender connects, pushes one message (header, proof, descriptor) and hangs up, so that
// it never waits for the receiver, who may take the message later. Used by the rank's thread only.
// Internal to the bootstrap.
#pragma once
#include <sys/un.h>

#include <list>
#include <map>
#include <string>

#include "base/auth.h"
#include "base/fd.h"
#include "base/result.h"
#include "base/wait.h"

namespace collctl::runtime::boot {

class FdDoor {
 public:
  // `job` and `rank` make the socket's name, with a random part that peers learn over the
  // bootstrap.
  static Result<std::unique_ptr<FdDoor>> open(uint64_t job, int rank, const base::Secret& secret);

  uint64_t nonce() const { return nonce_; }
  int listen_fd() const { return listener_.get(); }

  struct Address {
    int rank = -1;
    uint64_t nonce = 0;
  };
  Status send(const Address& to, uint64_t tag, int fd, Deadline deadline) const;
  // The descriptor, or an empty one when receive() has not seen it yet.
  Fd take(int from, uint64_t tag);
  void add_interest(std::vector<pollfd>& fds) const;
  // Takes what has arrived, without waiting. Error unavailable: this process has no room for more
  // descriptors; one that had arrived may be lost.
  Status receive();

 private:
  struct Caller {
    Fd fd;
    int64_t since_ns = 0;
  };
  FdDoor() = default;
  // True when the caller is done with, well or badly. `room`: whether there was some.
  bool read_caller(const Caller& caller, Status& room);

  uint64_t job_ = 0, nonce_ = 0;
  int rank_ = -1;
  base::Secret secret_;
  Fd listener_;
  std::list<Caller> callers_;
  std::map<std::pair<int, uint64_t>, std::list<Fd>> arrived_;
  size_t held_ = 0;
};

}  // namespace collctl::runtime::boot

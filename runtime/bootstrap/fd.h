// FdSocket: descriptors passed between processes of one host. Each rank listens on a Unix socket in
// a folder that only this user can enter; a sender connects, pushes one message (header, proof,
// descriptor) and hangs up, so that it never waits for the receiver, who may take the message
// later. Used by the rank's thread only. Internal to the bootstrap.
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

class FdSocket {
 public:
  struct Address {  // peers learn it over the bootstrap
    uint64_t nonce = 0;
    std::string path;
  };

  static Result<std::unique_ptr<FdSocket>> open(int rank, const base::Secret& secret);
  ~FdSocket();

  const Address& address() const { return at_; }
  Status send(int rank, const Address& to, uint64_t tag, int fd, Deadline deadline) const;
  // The descriptor, or an empty one when receive() has not seen it yet.
  Fd take(int from, uint64_t tag);
  void add_interest(std::vector<pollfd>& fds) const;
  // Takes what has arrived, without waiting. Error unavailable: this process has no room for more
  // descriptors; one that had arrived may be lost.
  Status receive();
  uint64_t dropped() const { return dropped_; }  // messages and callers turned away

 private:
  struct Caller {
    Fd fd;
    int64_t since_ns = 0;
  };
  FdSocket() = default;
  // True when the caller is done with, well or badly. `room`: whether there was some.
  bool read_caller(const Caller& caller, Status& room);
  void drop(const char* why);

  Address at_;
  std::string folder_;
  int rank_ = -1;
  base::Secret secret_;
  Fd listener_;
  std::list<Caller> callers_;
  std::map<std::pair<int, uint64_t>, std::list<Fd>> arrived_;
  size_t held_ = 0;
  uint64_t dropped_ = 0;
};

}  // namespace collctl::runtime::boot

// Where a running job can be asked what it does: a Unix socket in the folder of this user's sockets
// (mode 0600, and whoever calls must be this user), one question at a time. The door's thread deals
// with callers, who may be slow; the job's loop only learns that somebody asks (fd) and hands over
// an answer when it has one, so that nobody who asks holds it up. Every wait has a deadline.
#pragma once
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"

namespace collctl::cmd {

// As the job's loop sees it.
class Door {
 public:
  virtual ~Door() = default;
  virtual int fd() const = 0;  // readable: somebody asks
  virtual bool take() = 0;     // the question, once
  virtual void answer(std::string text) = 0;
};

class StatusDoor : public Door {
 public:
  // A caller whom the loop has not answered within `patience_s` hears that.
  static Result<std::unique_ptr<Door>> open(double patience_s = 5);
  ~StatusDoor() override;

  int fd() const override { return asked_.get(); }
  bool take() override;
  void answer(std::string text) override;

 private:
  StatusDoor() = default;
  void serve();
  void serve_caller(base::Fd caller);

  std::string folder_, path_;
  base::Fd listener_, asked_, stop_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<std::string> answer_;
  bool stopping_ = false;
  double patience_s_ = 0;
  std::thread thread_;
};

// The jobs of this user on this host that can be asked, by their launchers' pids.
struct OpenDoor {
  int pid = 0;
  std::string path;
};
std::vector<OpenDoor> open_doors();
// Error deadline: it does not answer. lost: it has just ended.
Result<std::string> ask_door(const OpenDoor& door, base::Deadline deadline);

}  // namespace collctl::cmd

// Holds back the signals by which people and shells end a program, while half of something could be
// left behind; signals that arrive meanwhile act at the end of the scope. For short, bounded work.
// Acts on the calling thread alone: callers have one thread.
#pragma once
#include <csignal>

namespace collctl::base {

class HeldSignals {
 public:
  HeldSignals() {
    sigset_t ending;
    sigemptyset(&ending);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&ending, signal);
    ::pthread_sigmask(SIG_BLOCK, &ending, &before_);
  }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;
  ~HeldSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

}  // namespace collctl::base

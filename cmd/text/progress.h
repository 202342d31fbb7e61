// What a person sees while waiting: one line at the end of standard error, rewritten a few times a
// second, gone at the end. Nothing unless standard error is a terminal. Threads: guarded by the
// caller.
#pragma once
#include <map>
#include <string>

#include "cmd/text/console.h"

namespace collctl::cmd {

class Progress {
 public:
  Progress(Console& console, bool wanted);
  // A rank reached a phase of its start; `ranks` of the job when known.
  void phase(int rank, const std::string& name);
  void text(const std::string& text);
  void clear();

 private:
  bool due();
  Console& console_;
  const bool wanted_;
  int64_t next_at_ns_ = 0;
  std::map<int, std::string> phases_;
};

}  // namespace collctl::cmd

// What a person sees while waiting, and where it is seen by nobody what a log has of it
// (Console::transient). Threads: guarded by the caller.
#pragma once
#include <map>
#include <string>

#include "cmd/text/console.h"

namespace collctl::cmd {

class Progress {
 public:
  // Unless `wanted` it says nothing.
  Progress(Console& console, bool wanted) : console_(console), wanted_(wanted) {}
  // A rank reached a phase of its start.
  void phase(int rank, const std::string& name);
  void text(const std::string& text);
  void clear();

 private:
  Console& console_;
  const bool wanted_;
  std::map<int, std::string> phases_;
};

}  // namespace collctl::cmd

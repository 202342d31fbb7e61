// The last lines that each rank wrote on its standard error, for the error that names it. Used by
// the jobs; one thread.
#pragma once
#include <deque>
#include <map>
#include <string>

#include "launcher/local/rank_group.h"

namespace collctl::cmd {

class LastWords {
 public:
  void add(const launcher::Event& line);
  // A hint's worth of them: "its last lines on standard error:\n  ..."; empty when there are none.
  std::string of(int rank) const;

 private:
  std::map<int, std::deque<std::string>> lines_;
};

}  // namespace collctl::cmd

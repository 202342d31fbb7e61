// Collects findings; equal ones are counted, so that 32 NICs of one kind are one line. Used while a
// System is turned into something else. Threads: one.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "topology/types.h"

namespace collctl::topology {

class FindingList {
 public:
  // `source` names the file.
  explicit FindingList(std::string source) : source_(std::move(source)) {}
  // "SOURCE:LINE", or the source alone.
  std::string where(const Place& at) const;
  void add(Finding finding);
  // In the order of their first appearance, kMaxFindings at most.
  std::vector<Finding> take();

 private:
  std::string source_;
  std::map<std::string, size_t> index_;  // by `what`
  std::vector<std::pair<Finding, int>> list_;
};

}  // namespace collctl::topology

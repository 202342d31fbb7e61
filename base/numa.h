// Where the kernel takes memory from and runs threads. Threads: both concern the calling one.
#pragma once
#include <string>

namespace collctl::base {

// While it lives, new pages of this thread come from a NUMA node as long as that has room. Nothing
// changes for node < 0 or where the kernel forbids it (some containers): pages then come from where
// the thread runs.
class PreferredNode {
 public:
  explicit PreferredNode(int node);
  ~PreferredNode();
  PreferredNode(const PreferredNode&) = delete;
  PreferredNode& operator=(const PreferredNode&) = delete;

 private:
  static constexpr unsigned long kMaskBits = 1024;
  static constexpr unsigned kWords = kMaskBits / (8 * sizeof(unsigned long));
  int policy_ = 0;
  unsigned long nodes_[kWords] = {};
  bool set_ = false;
};

// From now on the thread runs on this node's processors, those of them it may use; false when there
// are none.
bool run_on_node(int node);

}  // namespace collctl::base

// NUMA placement of memory and threads. Threads: what places affects the
// calling thread.
#pragma once
#include <span>

namespace collctl::base {

// While it lives, new pages of this thread are taken from a NUMA node while it has room. Nothing
// changes for node < 0 or where the kernel forbids it (some containers): pages are then taken where
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

// The NUMA node on which a page lies that has been touched; -1: the kernel does not say (some
// containers).
int node_of_page(const void* page);

// Binds the thread to these processors; false when the kernel does not let it.
bool stay_on(std::span<const int> processors);
// Binds the thread to those of the node's processors that it may use; false when there
// are none.
bool run_on_node(int node);

}  // namespace collctl::base

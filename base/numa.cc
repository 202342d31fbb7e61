#include "base/numa.h"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/processors.h"

namespace collctl::base {

PreferredNode::PreferredNode(int node) {
  if (node < 0 || unsigned(node) >= kMaskBits) return;
  // The previous policy is restored at the end.
  if (::syscall(SYS_get_mempolicy, &policy_, nodes_, kMaskBits, nullptr, 0) != 0) return;
  unsigned long wanted[kWords] = {};
  constexpr unsigned kBits = 8 * sizeof(unsigned long);
  wanted[unsigned(node) / kBits] = 1ul << (unsigned(node) % kBits);
  // The kernel counts one bit less than it is told.
  set_ = ::syscall(SYS_set_mempolicy, MPOL_PREFERRED, wanted, kMaskBits + 1) == 0;
}

PreferredNode::~PreferredNode() {
  if (set_) ::syscall(SYS_set_mempolicy, policy_, nodes_, kMaskBits + 1);
}

int node_of_page(const void* page) {
  int node = -1;
  const bool said =
      ::syscall(SYS_get_mempolicy, &node, nullptr, 0, page, MPOL_F_NODE | MPOL_F_ADDR) == 0;
  return said ? node : -1;
}

bool stay_on(std::span<const int> processors) {
  cpu_set_t wanted;
  CPU_ZERO(&wanted);
  for (const int id : processors)
    if (id >= 0 && id < CPU_SETSIZE) CPU_SET(id, &wanted);
  return CPU_COUNT(&wanted) > 0 && ::sched_setaffinity(0, sizeof wanted, &wanted) == 0;
}

bool run_on_node(int node) {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return false;
  std::vector<int> wanted;
  for (const NumaDomain& domain : host_processors().nodes)
    if (domain.id == node)
      for (const int id : domain.processors)
        if (id < CPU_SETSIZE && CPU_ISSET(id, &allowed)) wanted.push_back(id);
  return stay_on(wanted);
}

}  // namespace collctl::base

// Memory and threads near a device.
#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <thread>

#include "base/host_facts.h"
#include "base/numa.h"
#include "base/processors.h"
#include "tests/catch.h"
#include "tests/skip.h"

namespace numa_tests {

using namespace collctl;

namespace {

// The calling thread's policy; -1 where the kernel does not tell.
int policy() {
  int now = -1;
  return ::syscall(SYS_get_mempolicy, &now, nullptr, 0, nullptr, 0) == 0 ? now : -1;
}

}  // namespace

TEST_CASE("a preferred node holds as long as it lives and no longer", "[may_skip]") {
  const int before = policy();
  if (before < 0 || ::syscall(SYS_set_mempolicy, before, nullptr, 0) != 0)
    return collctl::test::skip("the kernel does not let a process have a memory policy");
  {
    const base::PreferredNode node(base::host_processors().nodes.at(0).id);
    const int now = policy();
    CHECK(now == MPOL_PREFERRED);
    const base::PreferredNode none(-1);
    CHECK(policy() == now);
    const base::PreferredNode absurd(1 << 20);
    CHECK(policy() == now);
  }
  CHECK(policy() == before);
}

TEST_CASE("a thread goes to a node it may run on, and stays where there is none") {
  std::thread([] {
    cpu_set_t all, now;
    REQUIRE(::sched_getaffinity(0, sizeof all, &all) == 0);
    CHECK_FALSE(base::run_on_node(1023));
    REQUIRE(::sched_getaffinity(0, sizeof now, &now) == 0);
    CHECK(CPU_EQUAL(&all, &now));
    const base::NumaDomain& node = base::host_processors().nodes.at(0);
    REQUIRE(base::run_on_node(node.id));
    REQUIRE(::sched_getaffinity(0, sizeof now, &now) == 0);
    for (int id = 0; id < CPU_SETSIZE; ++id) {
      const bool of_node =
          std::find(node.processors.begin(), node.processors.end(), id) != node.processors.end();
      CHECK(bool(CPU_ISSET(id, &now)) == (of_node && CPU_ISSET(id, &all)));
    }
  }).join();
}

TEST_CASE("a device that is not there has no node") {
  CHECK(base::pci_numa_node("ffff:ff:1f.7") == -1);
}

TEST_CASE("a page lies on one of the nodes, or the kernel does not say", "[numa]") {
  const int here = 0;
  const int node = base::node_of_page(&here);
  const auto& nodes = base::host_processors().nodes;
  CHECK((node == -1 || std::any_of(nodes.begin(), nodes.end(),
                                   [&](const base::NumaDomain& one) { return one.id == node; })));
  CHECK(base::node_of_page(nullptr) == -1);
}

}  // namespace numa_tests

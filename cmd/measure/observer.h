// Who looks on while a measurement runs: at clocks, at waits, at every operation, at another
// library beside us (versus.h). BenchRun calls all of them, in the order of their list, on the
// rank's thread; the list is the same on all ranks, so that what they do may be collective.
#pragma once
#include <memory>
#include <vector>

#include "cmd/measure/closing.h"
#include "cmd/measure/header.h"
#include "cmd/measure/timed.h"
#include "cmd/measure/together.h"

namespace collctl::cmd {

class Observer {
 public:
  struct Block {   // our own operations of a turn
    Timed* timed;  // may be replaced by what passes on to it
    int warmup = 0;
    int first = 0;  // number of the first after those, among the row's
    bool in_place = false;
  };
  virtual ~Observer() = default;
  virtual void tell(HeaderFacts&) const {}
  virtual Status before(Block&) { return {}; }
  virtual Status after() { return {}; }     // the block
  virtual void turn_over() {}               // the other side has had its turn as well
  virtual Status row_over() { return {}; }  // the row has been told
  // `mine`: this rank's; `all`: what every rank knows alike.
  virtual Status closing(RankClosing& /*mine*/, BenchClosing& /*all*/) { return {}; }
};
using Observers = std::vector<std::unique_ptr<Observer>>;

// Those that the spec and the ranks' kind ask for. Their first look is here.
Observers observers_of(const BenchSpec& spec, Everyone& everyone);

}  // namespace collctl::cmd

// The parts of a Bootstrap. Internal to the bootstrap; everything here belongs to the rank's
// thread, but for the service, which locks for itself. Parts know those above them.
#pragma once
#include "runtime/bootstrap/bootstrap.h"
#include "runtime/bootstrap/fd.h"
#include "runtime/bootstrap/gather.h"
#include "runtime/bootstrap/mailbox.h"
#include "runtime/bootstrap/messages.h"
#include "runtime/bootstrap/roster.h"
#include "runtime/bootstrap/waiting.h"

namespace collctl::runtime {

struct Bootstrap::State {
  explicit State(const Options& o) : options(o), roster{.rank = o.rank, .size = o.size} {}
  ~State();

  class Joining;  // join.h

  Options options;
  PhaseTimes times;
  boot::Roster roster;
  boot::Mailbox mailbox{roster};
  boot::DataLinks data;
  boot::Waiting waiting{roster, mailbox, data};
  boot::Gathering gathering{roster, data, waiting};
  boot::Messages messages{roster, mailbox, waiting};
  std::unique_ptr<boot::FdSocket> fd_socket;
  bool finished = false;
};

}  // namespace collctl::runtime

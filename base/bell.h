// A doorbell: an eventfd that one side rings and the other has in its poll set. Ringing and
// draining never wait. Threads: any.
#pragma once
#include "base/fd.h"
#include "base/result.h"

namespace collctl::base {

Result<Fd> make_bell();
void ring_bell(int fd);
void drain_bell(int fd);

}  // namespace collctl::base

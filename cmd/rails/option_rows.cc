// The rows of `rails` in THE table of options.
#include "cmd/cli/option_rows.h"
#include "cmd/rails/rails.h"

namespace collctl::cmd {

void add_rails_options(std::vector<Option>& t) {
  const Adder add{t, Group::measure, kRails};
  add({.name = "message",
       .kind = ValueKind::size,
       .value = "SIZE",
       .fallback = "1M",
       .minimum = 1024,
       .help = "size of the messages that are timed (rails)",
       .more = "At most 64M. Small messages show a path's latency, not its bandwidth."});
  add({.name = "seconds",
       .kind = ValueKind::number,
       .value = "S",
       .fallback = "0.02",
       .minimum = 0,
       .maximum = 60,
       .help = "how long each path streams, at least 8 messages (rails)"});
  add({.name = "pair-timeout",
       .kind = ValueKind::number,
       .value = "S",
       .fallback = "3",
       .minimum = 0.1,
       .maximum = 600,
       .help = "how long to wait for a path that hangs, seconds (rails)"});
  add({.name = "below",
       .kind = ValueKind::number,
       .value = "F",
       .fallback = "0.7",
       .minimum = 0,
       .maximum = 1,
       .help = "paths below F times the median are slow (rails)",
       .more = "The median of the paths between NICs of the same rate. 0: none is slow."});
}

}  // namespace collctl::cmd

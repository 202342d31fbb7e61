// The rows of `rails` in THE tables of commands and options.
#include "cmd/cli/option_rows.h"
#include "cmd/rails/rails.h"
#include "cmd/report/options.h"

namespace collctl::cmd {

Command rails_row(uint32_t own) {
  return {.name = "rails",
          .kind = CommandKind::task,
          .arguments = "[launch options] [options]",
          .scopes = kTask | own,
          .summary = "every NIC of every host against every other: reach, GB/s",
          .description =
              "Sends real data from each NIC of each host to each NIC of every other and back, and "
              "prints a table for each pair of hosts (of hosts with one NIC each, one matrix): "
              "GB/s, or why nothing passes. NICs are RDMA ports, or the network interfaces where "
              "no host has RDMA or with --net socket. All paths between two hosts are connected at "
              "the same time, so that those that hang cost one time-out (--pair-timeout, 3 "
              "seconds), and 1.2 seconds where one of the two has answered none of two others; "
              "then they stream one after another. Pairs of hosts go in rounds, a host in one pair "
              "at a time. Hosts tell what they find through the launcher, so that a link that is "
              "broken is a mark in the table and ends nothing. A bad path is measured again, "
              "beside good hosts, up to six times, before a host, a NIC, a link or one direction "
              "of it is named, as check does it. It prints facts of each NIC (rate, MTU, the GID "
              "that is used), every failure comes with a remedy, and the last line is what to set "
              "so that jobs use the good ones. Exit code 1 when a path fails or is slow. With one "
              "host alone its NICs loop back to each other. collctl run rails is the same.",
          .examples = {{"collctl rails -H node[01-04]", "four hosts, their RDMA ports"},
                       {"collctl run -H a,b rails --net socket", "the interfaces of two"},
                       {"collctl rails -H a,b --json", "one JSON object"}},
          .run = rails_command};
}

void add_rails_options(std::vector<Option>& t, uint32_t own) {
  using namespace kinds;
  const Adder add{t, Group::measure, own};
  add("message", size("1M", 1024), to<&RailsSpec::message_bytes>,
      "size of the messages that are timed (rails)",
      "At most 64M. Small messages show a path's latency, not its bandwidth.");
  add("seconds", seconds("S", 0, 60, "0.02"), to<&RailsSpec::seconds>,
      "how long each path streams, at least 8 messages (rails)");
  add("pair-timeout", seconds("S", 0.1, 600, "3"), to<&RailsSpec::timeout_s>,
      "how long to wait for a path that hangs, seconds (rails)");
  add.in(own | kCheck)("below", number("F", "%", 0, 1, "0.7"),
                       "below F times what its peers have is slow (rails, check)",
                       "Hosts are held against the median, paths against what is usual between "
                       "NICs of the same rate: of each NIC's n partners the speed of the n/2-th "
                       "best, of all NICs the median of these; so bad hosts do not pull it down "
                       "while they are fewer than the good. 0: none is slow.");
  add_file_option(t, own, kDrawnChecks, kDrawnAndMonitored);
}

}  // namespace collctl::cmd

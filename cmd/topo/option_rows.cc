// The options of `topo`, some of which `plan` shares.
#include "cmd/cli/option_rows.h"
#include "cmd/topo/topo.h"
#include "topology/detect/assume.h"

namespace collctl::cmd {
namespace {

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const topology::AssumedModel& model : topology::assumed_models())
    names.push_back(model.name);
  return names;
}

}  // namespace

void add_topo_options(std::vector<Option>& t) {
  using namespace kinds;
  const Adder add{t, Group::output, kTopo};
  add.in(kTopo | kPlan)(
      "from", file(), to<&ViewOptions::from>,
      "a topology file (XML) or a snapshot, instead of this machine",
      "A snapshot is what --save has made: a folder or an archive. A copy of /sys, or a folder "
      "that holds one, works too. The content decides which it is.");
  add("save", file("PATH"), to<&ViewOptions::save>,
      "save what was read of this machine, for --from elsewhere",
      "PATH.tar, PATH.tar.gz and PATH.tgz become an archive, anything else a new folder. It holds "
      "the kernel's files about processors and PCI devices and what the drivers say of GPUs and "
      "network devices, with this host's name; no addresses, no users, no environment. --from "
      "reads it anywhere. With -H: a folder with a topology file HOST.xml of each host, for --diff "
      "later.");
  add.in(kTopo | kPlan)("assume", one_of("MODEL", model_names(), "none"), to<&ViewOptions::assume>,
                        "what the GPUs are that a topology file only hints at",
                        "Files of clouds often list PCI devices only. Devices of a GPU's class "
                        "become GPUs of this model with their NVLinks, devices of a NIC's class "
                        "network devices; all of it is marked as assumed.");
  add.in(kTopo | kPlan)("assume-nic", number("GBPS", "Gb/s", 0.001, 100000, "chosen"),
                        to<&ViewOptions::assume_nic_gbps>,
                        "speed of an assumed network device, Gb/s",
                        "Not given: what the device's PCI ids say; else each GPU's share of 200 "
                        "Gb/s for a100 and a800, 400 for h100, h800, h200 and b200, 200 for "
                        "h100-pcie and l40s, 100 for the others, and never more than that.");
  add("matrix", flag(), "path type and GB/s between GPUs and to network devices");
  add("graph", flag(), "the channels that the search finds: rings and trees",
      "Of one node, or with --nodes of each of several. Equal channels are shown once.");
  add("diff", file(), "what differs from that file or snapshot; exit 1 when something does",
      "Devices are matched by their PCI addresses; what was there and is missing, what was added, "
      "and every attribute that changed is named. With -H every host is compared: with one "
      "machine, whose serial numbers do not count then, or with its own file in a folder that "
      "--save has made.");
  add("strict", flag(), "exit 1 when something is marked as faulty (!)",
      "Without it faults are printed and the exit code is 0. With -H: also when all hosts are "
      "equal and share a fault.");
  add("o,output", file(), "draw the machine: FILE.svg, - for stdout",
      "With --graph also its first ring. With -H a file for each host: %h in FILE is its name. The "
      "file appears whole or not at all. Standard output then stays empty unless --matrix, --graph "
      "or --json is there too.");
  add("xml", file(), "write the topology as XML",
      "The file appears whole or not at all. Standard output then stays empty unless --matrix, "
      "--graph or --json is there too.");
}

}  // namespace collctl::cmd

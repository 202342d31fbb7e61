// The transceiver or cable in a network interface, by its own memory (SFF-8472 of SFP, SFF-8636 of
// QSFP, CMIS of QSFP-DD and OSFP), and its port's errors, asked by ethtool's netlink. Threads: any.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"

namespace collctl::base {

struct NicModule {
  std::string type;                     // "QSFP28"; empty: one that is not known here
  std::string vendor, part;             // as it says
  std::optional<double> temperature_C;  // and from which it is too hot
  std::optional<double> most_C;
  std::vector<double> received_uW;  // by lane; empty: it does not measure light
  std::optional<double> least_uW;   // of a lane: below it raises an alarm
  std::vector<double> sent_uW;      // likewise
  std::optional<double> least_sent_uW;
};
// `page`: so many bytes of a page; of fewer than asked for it is not there. Offsets below 128 are
// in no page; `sensors`: at the second address, which SFP modules have.
struct ModulePart {
  uint8_t page, offset, length;
  bool sensors = false;
};
using ReadModule = std::function<Bytes(const ModulePart& part)>;
// None: there is no module, or it cannot be read.
std::optional<NicModule> nic_module(const ReadModule& read);

// Reads of the module in an interface, and why the last did not go: errno, 0 where it did.
class ModuleMemory {
 public:
  explicit ModuleMemory(std::string interface) : interface_(std::move(interface)) {}
  Bytes read(const ModulePart& part);
  int error() const { return error_; }

 private:
  const std::string interface_;
  int error_ = 0;
};

// Errors of an Ethernet port since its driver was loaded, by name: blocks that its FEC corrected or
// could not ("fec_corrected", "fec_uncorrected"), symbols that were wrong ("phy_symbol_errors");
// those that the driver does not count are left out.
using PortCounters = std::vector<std::pair<const char*, uint64_t>>;
PortCounters port_counters(const std::string& interface);
// Its parts: answers of the kernel, after genlmsghdr.
PortCounters fec_of_answer(ByteView attributes);
PortCounters symbols_of_answer(ByteView attributes);

// How an Ethernet interface keeps traffic that may not be lost, by DCB: priorities with flow
// control ("00001000", of 0 first), and priorities by DSCP ("26:3 48:6"). Empty: it does not say.
struct NicPriorities {
  std::string pfc, dscp;
};
NicPriorities nic_priorities(const std::string& interface);
// Its part: an answer of the kernel, after dcbmsg.
NicPriorities priorities_of_answer(ByteView attributes);

}  // namespace collctl::base

// Shared by the rules about single devices (state_facts.cc) and those about peers (state_peers.cc).
// Pure.
#pragma once
#include <string>
#include <vector>

#include "cmd/doctor/state.h"

namespace collctl::cmd {

enum class Grade : uint8_t { told, fault };

// A device with what its host has besides.
struct SeenDevice {
  const base::DeviceState& device;
  size_t gpus = 0;                        // of the host
  bool serves = false;                    // the host has GPUs of servers, or RDMA ports
  bool in_rack = false;                   // its GPUs are in an NVLink fabric of several hosts
  double number(const char* fact) const;  // 0: not known
  bool is(const char* fact, const char* value) const;
};

struct StateWords {
  Grade grade;
  std::string meaning, remedy;
  std::string held_against = "should be";
  std::string basis = {};  // of peers
};
Finding state_finding(const Host& host, const base::DeviceState& device, const std::string& fact,
                      const std::string& value, const std::string& wanted, const StateWords& words);

// Values that are wrong by themselves or worth knowing (state_facts.cc).
void judge_facts(const SeenDevice& seen, const Host& host, std::vector<Finding>& findings);

// A board of a workstation: makers sell it as they please, and it idles without a driver.
bool for_screens(const base::DeviceState& gpu);

// "gpu ecc": facts that any rule judges, by kind of device; and those that rules about peers do.
std::vector<std::string> judged_facts(), peer_facts();

// Values unlike those of most peers; none that `findings` has already.
void add_peer_findings(std::span<const StateOfHost> hosts, std::vector<Finding>& findings);

}  // namespace collctl::cmd

// Variables that choose NICs, applied to the hosts' facts: jobs do not use the other NICs, so
// nothing is said of them.
#include <cstdlib>

#include "base/env.h"
#include "base/format.h"
#include "cmd/doctor/doctor.h"
#include "runtime/bootstrap/interfaces.h"
#include "transport/net/ib/filter.h"

namespace collctl::cmd {

Result<NicChoice> nic_choice() {
  NicChoice choice{base::knob_text(base::KnobId::ib_hca),
                   base::knob_text(base::KnobId::socket_ifname)};
  if (!choice.rdma.empty()) COLL_TRY(transport::IbFilter::parse(choice.rdma));
  return choice;
}

// "mlx5_0 port 1" is an RDMA port, any other name an interface.
void keep_chosen(base::HostState& state, const NicChoice& choice) {
  const auto filter = transport::IbFilter::parse(choice.rdma);
  std::erase_if(state.devices, [&](const base::DeviceState& device) {
    if (device.kind != base::CounterOf::nic) return false;
    const std::string& name = device.device;
    const size_t port = name.find(" port ");
    if (port == name.npos)
      return !choice.interfaces.empty() && !runtime::name_matches(choice.interfaces, name);
    return !choice.rdma.empty() &&
           (!filter.ok() ||
            !filter->allows(name.substr(0, port), std::atoi(name.c_str() + port + 6)));
  });
}

void keep_chosen(SurveyedHost& host, const NicChoice& choice) {
  if (host.state.state) keep_chosen(*host.state.state, choice);
  if (!host.facts) return;
  launcher::HostFacts& facts = *host.facts;
  if (!choice.rdma.empty()) {
    const auto filter = transport::IbFilter::parse(choice.rdma);
    host.ports = {int(facts.rdma.size()), 0};
    std::erase_if(facts.rdma, [&](const base::RdmaPort& port) {
      return !filter.ok() || !filter->allows(port.device, port.port);
    });
    for (base::RdmaDevice& device : facts.rdma_devices)
      std::erase_if(device.ports, [&](const base::RdmaPortDetail& port) {
        return !filter.ok() || !filter->allows(device.name, port.port);
      });
    std::erase_if(facts.rdma_devices, [](const auto& device) { return device.ports.empty(); });
    host.ports.chosen = int(facts.rdma.size());
  }
  if (!choice.interfaces.empty()) {
    host.interfaces = {int(facts.interfaces.size()), 0};
    std::erase_if(facts.interfaces, [&](const base::NetInterface& one) {
      return !runtime::name_matches(choice.interfaces, one.name);
    });
    host.interfaces.chosen = int(facts.interfaces.size());
  }
}

void add_choice_check(const SurveyedHost& host, const NicChoice& choice, Diagnosis& diagnosis) {
  std::string text, missing;
  const auto add = [&](const std::string& variable, const std::string& names, const char* what,
                       const SurveyedHost::Chosen& of) {
    if (names.empty() || of.all == 0) return;
    text += format("{}{} of {} {}s ({}={})", text.empty() ? "" : ", ", of.chosen, of.all, what,
                   variable, names);
    // A list that excludes them all may be meant so: jobs go by what is left.
    if (of.chosen == 0 && !names.starts_with("^") && !names.starts_with("=^"))
      missing += format("{}none of its {}s is among {}={}", missing.empty() ? "" : "; ", what,
                        variable, names);
  };
  add("IB_HCA", choice.rdma, "RDMA port", host.ports);
  add("SOCKET_IFNAME", choice.interfaces, "interface", host.interfaces);
  if (text.empty()) return;
  Finding& check = add_check(diagnosis, "nics", host, text);
  if (!missing.empty())
    fail(check, "a NIC that jobs may use", missing,
         "collctl env shows where the value is from; collctl topo lists the NICs");
}

}  // namespace collctl::cmd

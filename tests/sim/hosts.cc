#include "tests/sim/hosts.h"

#include <algorithm>

#include "base/format.h"
#include "launcher/remote/agent.h"

namespace collctl::sim {

Hosts::Hosts(World& world, int count, StartRanks start)
    : world_(world),
      count_(count),
      start_(std::move(start)),
      network_(
          [this](const std::string& host, std::shared_ptr<Cable> cable) { log_in(host, cable); }) {}

std::string Hosts::name(int index) {
  return format("node{:02}", index);
}

std::vector<launcher::HostSpec> Hosts::specs(int slots) const {
  std::vector<launcher::HostSpec> list;
  list.resize(size_t(count_));
  for (int i = 0; i < count_; ++i) {
    list[size_t(i)].name = name(i);
    if (slots > 0) list[size_t(i)].slots = slots;
  }
  return list;
}

void Hosts::log_in(const std::string& host, const std::shared_ptr<Cable>& cable) {
  Actor& actor = world_.spawn("agent " + host, [this, host, cable] {
    launcher::AgentOptions options;
    options.in_fd = options.out_fd = cable->far.get();
    options.build = "sim";
    options.open = network_.opener(host);
    options.start = [this, host](const std::vector<launcher::RankProcess>& ranks) {
      return start_(host, ranks);
    };
    const int code = launcher::run_agent(options);
    if (world_.running()->dying()) return;
    cable->exit_code = code;
    cable->far.reset();
    world_.note(format("agent {} ends with {}", host, code));
    ended_[host] = {code, world_.now()};
  });
  agents_[host] = {&actor, cable};
}

Actor* Hosts::agent(const std::string& host) {
  const auto found = agents_.find(host);
  return found == agents_.end() || found->second.actor->over() ? nullptr : found->second.actor;
}

void Hosts::kill_agent(const std::string& host) {
  Actor* actor = agent(host);
  if (actor == nullptr) return;
  const std::shared_ptr<Cable> cable = agents_[host].cable;
  cable->exit_code = 128 + 9;
  cable->far.reset();
  network_.silence(host);
  world_.kill(*actor);
}

void Hosts::go_on_all() {
  for (const auto& [host, agent] : agents_) world_.go_on(*agent.actor);
}

int Hosts::agents_left() const {
  return int(std::count_if(agents_.begin(), agents_.end(),
                           [](const auto& entry) { return !entry.second.actor->over(); }));
}

}  // namespace collctl::sim

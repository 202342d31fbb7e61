// The hosts of a simulated job: on each an agent (the real run_agent) once it is logged in to.
// Threads: the world's.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/hosts/hostfile.h"
#include "launcher/local/local.h"
#include "launcher/local/rank_group.h"
#include "tests/sim/cable.h"
#include "tests/sim/world.h"

namespace collctl::sim {

struct AgentEnd {
  int code = 0;
  int64_t at_ns = 0;
};

class Hosts {
 public:
  using StartRanks = std::function<Result<std::unique_ptr<launcher::HostRanks>>(
      const std::string& host, const std::vector<launcher::RankProcess>&)>;
  // "node00" and so on. `start`: how an agent there starts ranks.
  Hosts(World& world, int count, StartRanks start);

  std::vector<launcher::HostSpec> specs(int slots) const;
  Network& network() { return network_; }
  static std::string name(int index);
  // Null: none runs there.
  Actor* agent(const std::string& host);
  void kill_agent(const std::string& host);
  void go_on_all();  // SIGCONT
  // By host, of the last one there that has ended.
  const std::map<std::string, AgentEnd>& ended() const { return ended_; }
  // So many still run.
  int agents_left() const;

 private:
  struct Agent {
    Actor* actor;
    std::shared_ptr<Cable> cable;
  };
  void log_in(const std::string& host, const std::shared_ptr<Cable>& cable);

  World& world_;
  int count_;
  StartRanks start_;
  Network network_;
  std::map<std::string, Agent> agents_;
  std::map<std::string, AgentEnd> ended_;
};

}  // namespace collctl::sim

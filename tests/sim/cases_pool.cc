// Hosts without ranks: who is missed, and by whom.
#include "base/format.h"
#include "launcher/remote/host_pool.h"
#include "tests/sim/cases.h"
#include "tests/sim/hosts.h"

namespace collctl::sim {
namespace {

using launcher::HostPool;

launcher::PoolOptions pool_options(Hosts& hosts, double heartbeat_s) {
  launcher::PoolOptions options;
  options.heartbeat_s = heartbeat_s;
  options.always_ssh = true;
  options.stage.hash = "none";
  options.ssh.open = hosts.network().opener("head");
  return options;
}

Result<std::unique_ptr<launcher::HostRanks>> no_ranks(const std::string&,
                                                      const std::vector<launcher::RankProcess>&) {
  return Error(ErrorCode::defect, "no ranks were expected");
}

}  // namespace

SIM_CASE("each side speaks every second, so that none is missed over a slow way") {
  World world(seed);
  Hosts hosts(world, 3, no_ranks);
  hosts.network().set_latency(700 * kMs);
  std::vector<int> lost;
  world.spawn("launcher", [&] {
    // The least that is allowed.
    auto pool = HostPool::make(hosts.specs(0), pool_options(hosts, 2));
    if (!pool) return findings.expect(false, pool.error().chain());
    Deadline asks = Deadline::after_seconds(3);
    const Deadline end = Deadline::after_seconds(60);
    while (!end.passed()) {
      static_cast<void>((*pool)->turn(end.earlier(asks), {}));
      for (int host = 0; host < (*pool)->size(); ++host)
        while ((*pool)->host(host).take_frame()) {
        }
      if (!asks.passed()) continue;
      // An answer at any moment between two signs of life.
      (*pool)->host(int(world.draw(3))).send(launcher::AgentFrame::look, {});
      asks = Deadline::after_ms(int64_t(world.draw(3000)));
    }
    lost = (*pool)->failed();
    for (const int host : lost) findings.expect(false, (*pool)->host(host).error()->chain());
    (*pool)->leave(Deadline::after_seconds(5));
  });
  world.run(world.now() + 200 * kSecond);
  findings.expect(hosts.agents_left() == 0, format("{} agents stay", hosts.agents_left()));
  for (const auto& [host, end] : hosts.ended())
    findings.expect(end.code == 0, format("{}: its agent ends with {}", host, end.code));
}

SIM_CASE("hosts that are cut off are lost in time, no other is, and their agents leave") {
  World world(seed);
  const int count = 1 + int(world.draw(16));
  const double heartbeat_s = 2 + double(world.draw(100)) / 10;
  Hosts hosts(world, count, no_ranks);
  std::map<std::string, int64_t> cut_at, lost_at;
  for (uint64_t k = world.draw(4); k > 0; --k) {
    const std::string name = Hosts::name(int(world.draw(uint64_t(count))));
    const int64_t at = world.now() + world.draw_ns(kSecond, 20 * kSecond);
    if (!cut_at.emplace(name, at).second) continue;
    world.at(at, [&hosts, name] { hosts.network().cut_off(name, true); });
  }
  world.spawn("launcher", [&] {
    auto pool = HostPool::make(hosts.specs(0), pool_options(hosts, heartbeat_s));
    if (!pool) return findings.expect(false, pool.error().chain());
    const Deadline end = Deadline::after_seconds(60);
    while (!end.passed()) {
      static_cast<void>((*pool)->turn(end, {}));
      for (const int host : (*pool)->failed()) lost_at.emplace(Hosts::name(host), world.now());
    }
    (*pool)->leave(Deadline::after_seconds(2));
  });
  world.run(world.now() + 200 * kSecond);
  for (const auto& [host, at] : cut_at) {
    const double s = lost_at.contains(host) ? seconds(lost_at[host] - at) : -1;
    findings.expect(s > heartbeat_s - 1.1 && s < heartbeat_s + 0.3,
                    format("{} was lost after {:.2f} s", host, s));
    const auto end = hosts.ended().find(host);
    const double left = end == hosts.ended().end() ? -1 : seconds(end->second.at_ns - at);
    findings.expect(left > heartbeat_s - 1.1 && left < heartbeat_s + 0.3,
                    format("the agent of {} left after {:.2f} s", host, left));
  }
  findings.expect(lost_at.size() == cut_at.size(),
                  format("{} lost, {} cut off", lost_at.size(), cut_at.size()));
  findings.expect(hosts.agents_left() == 0, format("{} agents stay", hosts.agents_left()));
}

}  // namespace collctl::sim

#include "tests/sim/job.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <deque>

#include "base/format.h"
#include "cmd/job/loop.h"
#include "cmd/job/start.h"
#include "tests/sim/hosts.h"
#include "tests/sim/team.h"

namespace collctl::sim {
namespace {

// A process that is still there so long after all should be over stays.
constexpr double kAfterwards = 120;

class Bell {
 public:
  int fd() const { return fd_.get(); }
  void ring() const {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = ::write(fd_.get(), &one, sizeof one);
  }
  void hush() const {
    uint64_t rings = 0;
    [[maybe_unused]] const ssize_t n = ::read(fd_.get(), &rings, sizeof rings);
  }

 private:
  base::Fd fd_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

class SimSignals : public cmd::Signals {
 public:
  void raise(int number) {
    came_.push_back(number);
    bell_.ring();
  }
  int fd() const override { return bell_.fd(); }
  std::optional<int> take() override {
    bell_.hush();
    if (came_.empty()) return std::nullopt;
    const int number = came_.front();
    came_.pop_front();
    return number;
  }
  void stop() override {
    World::here().stop_running();
    raise(SIGCONT);
  }

 private:
  Bell bell_;
  std::deque<int> came_;
};

struct Caller {  // of collctl status
  Bell bell;
  bool asks = false;
  std::vector<std::string> answers;
};

class SimDoor : public cmd::Door {
 public:
  explicit SimDoor(Caller& caller) : caller_(caller) {}
  int fd() const override { return caller_.bell.fd(); }
  bool take() override {
    caller_.bell.hush();
    return std::exchange(caller_.asks, false);
  }
  void answer(std::string text) override { caller_.answers.push_back(std::move(text)); }

 private:
  Caller& caller_;
};

class SimSink : public cmd::TaskSink {
 public:
  explicit SimSink(Ran& ran) : ran_(ran) {}
  Status record(const std::string&) override {
    ++ran_.records;
    return {};
  }
  void progress(const std::string&) override {}
  void phase(int rank, const std::string& name) override {
    ran_.phases.resize(std::max(ran_.phases.size(), size_t(rank) + 1));
    ran_.phases[size_t(rank)] = name;
    World::here().note(format("the launcher hears: rank {} {}", rank, name));
  }
  void shrunk(const cmd::Shrunk& what) override {
    for (const cmd::LostRanks& lost : what.lost)
      for (const int rank : lost.ranks)
        World::here().note(format("lost: rank {}, {}", rank, lost.why));
    ran_.shrunk.push_back(what);
  }

 private:
  Ran& ran_;
};

cmd::LaunchOptions launch_options(const Plan& plan, Hosts& hosts) {
  cmd::LaunchOptions options;
  options.ranks = plan.ranks();
  options.launcher = cmd::LauncherKind::ssh;
  options.launcher_named = true;
  options.hosts.hosts = hosts.specs(plan.per_host);
  options.ssh.open = hosts.network().opener("head");
  options.tree_width = plan.tree_width;
  options.bind_to = "none";
  options.timeout_s = plan.timeout_s;
  options.start_timeout_s = plan.start_timeout_s;
  options.op_timeout_s = plan.op_timeout_s;
  options.grace_s = plan.grace_s;
  options.shrink = plan.shrink;
  options.what = "allreduce";
  return options;
}

// The run's world, and what the faults do in it.
class Run {
 public:
  Run(const Plan& plan, const RunOptions& options, Ran& ran)
      : plan_(plan),
        ran_(ran),
        world_(plan.seed, options.trace),
        hosts_(
            world_, plan.hosts,
            [this](const std::string& host, const std::vector<launcher::RankProcess>& processes) {
              return Result<std::unique_ptr<launcher::HostRanks>>(
                  std::make_unique<SimRanks>(team_, host, processes));
            }),
        team_(world_, hosts_.network(),
              {.works_ns = int64_t(plan.works_s * 1e9),
               .looks_ns = int64_t(plan.looks_s * 1e9),
               .ring = plan.ring}) {
    hosts_.network().set_latency(int64_t(plan.latency_ms * 1e6));
    for (size_t i = 0; i < plan.faults.size(); ++i) {
      const Fault& fault = plan.faults[i];
      if (fault.kind != FaultKind::slow_host) {
        world_.after(int64_t(fault.at_s * 1e9), [this, i] { strike(i); });
        continue;
      }
      hosts_.network().slow_start(Hosts::name(fault.what), int64_t(fault.lasts_s * 1e9));
      ran_.happened.push_back(int(i));
    }
    for (const double at_s : options.ask_at_s)
      world_.after(int64_t(at_s * 1e9), [this] {
        caller_.asks = true;
        caller_.bell.ring();
      });
  }

  // Processes that are left use hosts_ and team_ to their end.
  ~Run() { world_.end(); }

  void go() {
    launcher_ = &world_.spawn("launcher", [this] { launch(); });
    world_.run(world_.now() + int64_t((plan_.timeout_s + kAfterwards) * 1e9));
    ran_.gone_s = seconds(world_.age());
    ran_.agents_left = hosts_.agents_left();
    ran_.ranks_left = team_.running();
    ran_.spins = world_.spins();
    ran_.hash = world_.hash();
    ran_.turns = world_.turns();
    ran_.trace = world_.trace();
    ran_.virtual_s = seconds(world_.age());
    ran_.answers = caller_.answers;
  }

 private:
  void launch() {
    static const cmd::RankTask task{.name = "sim", .run = nullptr};
    cmd::TaskSpec spec{&task, {}, "{}"};
    spec.settings.device_request = cmd::DeviceRequest::cpu;
    spec.settings.op_timeout_s = plan_.op_timeout_s;
    spec.settings.start_timeout_s = plan_.start_timeout_s;
    SimSink sink(ran_);
    const cmd::LaunchOptions options = launch_options(plan_, hosts_);
    const auto door = [this] {
      return Result<std::unique_ptr<cmd::Door>>(std::make_unique<SimDoor>(caller_));
    };
    auto outcome = cmd::run_ranks(options, spec, sink, {signals_, door}, [&](auto& hosts) {
      return cmd::start_job(options, nullptr, signals_, hosts);
    });
    world_.after(int64_t(kContinued * 1e9), [this] { hosts_.go_on_all(); });
    if (world_.running()->dying()) return;
    ran_.ended_s = seconds(world_.age());
    world_.note(format("the job ends with {}: {}", outcome.exit_code,
                       outcome.error ? outcome.error->chain() : ""));
    ran_.outcome = std::move(outcome);
  }

  void strike(size_t index) {
    const Fault& fault = plan_.faults[index];
    if (launcher_->over()) return;
    ran_.happened.push_back(int(index));
    world_.note(fault.text());
    const auto over = [&](std::function<void()> what) {
      if (fault.lasts_s > 0)
        world_.after(int64_t(fault.lasts_s * 1e9), [this, &fault, undo = std::move(what)] {
          world_.note("over: " + fault.text());
          undo();
        });
    };
    const std::string host = Hosts::name(fault.what);
    Network& network = hosts_.network();
    switch (fault.kind) {
      case FaultKind::kill_rank:
        if (SimRank* rank = team_.rank(fault.what)) rank->kill(SIGKILL);
        return;
      case FaultKind::stop_rank:
        if (SimRank* rank = team_.rank(fault.what)) {
          rank->stop();
          over([rank] { rank->go_on(); });
        }
        return;
      case FaultKind::kill_agent:
        return hosts_.kill_agent(host);
      case FaultKind::stop_agent:
        if (Actor* agent = hosts_.agent(host)) {
          world_.stop(*agent);
          over([this, agent] { world_.go_on(*agent); });
        }
        return;
      case FaultKind::kill_launcher:
        network.silence("head");
        return world_.kill(*launcher_);
      case FaultKind::stop_launcher:
        world_.stop(*launcher_);
        return over([this] { world_.go_on(*launcher_); });
      case FaultKind::cut_host:
        network.cut_off(host, true);
        team_.disturbed();
        return over([this, host] {
          hosts_.network().cut_off(host, false);
          team_.disturbed();
        });
      case FaultKind::deaf_host:
        network.cut("head", host, true);
        return over([this, host] { hosts_.network().cut("head", host, false); });
      case FaultKind::mute_host:
        network.cut(host, "head", true);
        return over([this, host] { hosts_.network().cut(host, "head", false); });
      case FaultKind::cut_way: {
        const std::string other = Hosts::name(fault.other);
        network.cut(host, other, true);
        team_.disturbed();
        return over([this, host, other] {
          hosts_.network().cut(host, other, false);
          team_.disturbed();
        });
      }
      case FaultKind::slow_host:
        return;  // from the beginning
      case FaultKind::interrupt:
        return signals_.raise(SIGINT);
      case FaultKind::suspend:
        signals_.raise(SIGTSTP);
        return over([this] { world_.go_on(*launcher_); });
      case FaultKind::repeat:
        return network.repeat_from(host);
    }
  }

  const Plan& plan_;
  Ran& ran_;
  World world_;
  Hosts hosts_;
  Team team_;
  SimSignals signals_;
  Caller caller_;
  Actor* launcher_ = nullptr;
};

}  // namespace

Ran run_plan(const Plan& plan, const RunOptions& options) {
  ::setenv("COLLCTL_HEARTBEAT_TIMEOUT", format("{}", plan.heartbeat_s).c_str(), 1);
  Ran ran;
  ran.phases.resize(size_t(plan.ranks()));
  Run(plan, options, ran).go();
  return ran;
}

}  // namespace collctl::sim

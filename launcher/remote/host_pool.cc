#include "launcher/remote/host_pool.h"

#include <algorithm>

#include "base/format.h"
#include "base/host_facts.h"
#include "base/wait.h"
#include "launcher/remote/binary.h"

namespace collctl::launcher {
namespace {

constexpr int64_t kBriefMs = 200;  // a turn never waits longer: signs of life, turns of --fanout
constexpr int64_t kAsleepNs = 2'000'000'000;  // longer between two turns: we were stopped
constexpr double kLeaveSeconds = 2;
constexpr size_t kMostListed = 200;

class SelfSource : public BinarySource {
 public:
  Result<ByteView> packed() override {
    if (packed_.empty()) {
      COLL_ASSIGN(packed_, gzip_file(base::kSelfPath));
    }
    return ByteView(packed_);
  }
  Result<ByteView> plain() override {
    if (plain_.empty()) {
      COLL_ASSIGN(plain_, read_file_bytes(base::kSelfPath));
    }
    return ByteView(plain_);
  }

 private:
  Bytes packed_, plain_;
};

bool on_its_way(HostPhase phase) {
  return phase > HostPhase::waiting && phase < HostPhase::up;
}

}  // namespace

struct HostPool::State {
  PoolOptions options;
  std::vector<std::unique_ptr<HostLink>> links;
  SelfSource binary;
  int64_t began_ns = now_ns(), last_turn_ns = now_ns();
  Deadline beat_at = Deadline::after_ms(kBeatMs);
  std::vector<pollfd> polled;

  void open_next();
  void beat();
  void check_signs_of_life(int64_t now);
};

HostPool::HostPool() : state_(std::make_unique<State>()) {}

HostPool::~HostPool() {
  leave(Deadline::after_seconds(kLeaveSeconds));
}

Result<std::unique_ptr<HostPool>> HostPool::make(const std::vector<HostSpec>& hosts,
                                                 const PoolOptions& options) {
  std::unique_ptr<HostPool> pool(new HostPool);
  State& s = *pool->state_;
  s.options = options;
  base::raise_open_file_limit();
  for (const HostSpec& spec : hosts) {
    const std::string& path = spec.path.empty() ? options.stage.path : spec.path;
    if (path.find_first_of("'\\!$`\n") != std::string::npos)
      return Error(
          ErrorCode::usage,
          format("host {}: the path '{}' contains a character that shells treat specially",
                 spec.name, path),
          "an absolute path is expected, or one below the home folder there: ~/bin/collctl");
    s.links.push_back(
        std::make_unique<HostLink>(spec, !options.always_ssh && is_this_host(spec), s.began_ns));
  }
  // This very host needs no binary, so none is read for it.
  const bool far = std::any_of(s.links.begin(), s.links.end(),
                               [](const auto& link) { return !link->is_this_host(); });
  if (far && s.options.stage.hash.empty()) {
    COLL_ASSIGN(s.options.stage.hash, file_hash(base::kSelfPath));
  }
  return pool;
}

int HostPool::size() const {
  return int(state_->links.size());
}

HostLink& HostPool::host(int index) {
  return *state_->links.at(size_t(index));
}

const HostLink& HostPool::host(int index) const {
  return *state_->links.at(size_t(index));
}

void HostPool::State::open_next() {
  int busy = int(std::count_if(links.begin(), links.end(),
                               [](const auto& link) { return on_its_way(link->phase()); }));
  for (const auto& link : links) {
    if (busy >= options.fanout) return;
    if (link->phase() != HostPhase::waiting) continue;
    link->open(options.ssh, options.stage);
    // The first step may need nothing from outside: then no descriptor would tell of the next.
    link->progress(binary);
    ++busy;
  }
}

void HostPool::State::beat() {
  if (!beat_at.passed()) return;
  for (const auto& link : links)
    if (link->phase() == HostPhase::up) link->send(AgentFrame::beat, {});
  beat_at = Deadline::after_ms(kBeatMs);
}

// When this process itself did not run for a while, the silence was ours.
void HostPool::State::check_signs_of_life(int64_t now) {
  const bool asleep = now - last_turn_ns > kAsleepNs;
  last_turn_ns = now;
  for (const auto& link : links) {
    if (link->phase() != HostPhase::up) continue;
    if (asleep) link->forgive_silence(now);
    const double silent = double(now - link->heard_ns()) / 1e9;
    if (silent < options.heartbeat_s) continue;
    link->fail(Error(ErrorCode::lost, format("no heartbeat for {:.0f} s", silent),
                     "is the host up, and the network to it? (COLLCTL_HEARTBEAT_TIMEOUT sets how "
                     "long to wait)"));
  }
}

Result<bool> HostPool::turn(Deadline deadline, std::span<const int> wake_fds) {
  State& s = *state_;
  s.open_next();
  s.polled.clear();
  for (const int fd : wake_fds) s.polled.push_back({fd, POLLIN, 0});
  Deadline until = deadline.earlier(Deadline::after_ms(kBriefMs));
  for (const auto& link : s.links) {
    link->add_interest(s.polled);
    until = until.earlier(link->wakeup());
  }
  COLL_TRY(base::poll_fds(s.polled, until));
  const bool woken =
      std::any_of(s.polled.begin(), s.polled.begin() + std::ptrdiff_t(wake_fds.size()),
                  [](const pollfd& p) { return p.revents != 0; });
  for (const auto& link : s.links) link->progress(s.binary);
  s.check_signs_of_life(now_ns());
  s.beat();
  return !woken && !deadline.passed();
}

bool HostPool::settled() const {
  return std::none_of(state_->links.begin(), state_->links.end(),
                      [](const auto& link) { return link->phase() < HostPhase::up; });
}

std::vector<int> HostPool::failed() const {
  std::vector<int> list;
  for (int i = 0; i < size(); ++i)
    if (host(i).phase() == HostPhase::failed) list.push_back(i);
  return list;
}

void HostPool::fail_late_hosts(double after_s, const char* option) {
  for (const auto& link : state_->links)
    if (link->phase() < HostPhase::up)
      link->fail(Error(ErrorCode::deadline, format("not up within {} s ({}): still {}", after_s,
                                                   option, phase_name(link->phase()))));
}

void HostPool::keep(const std::vector<int>& hosts) {
  for (int i = 0; i < size(); ++i)
    if (std::find(hosts.begin(), hosts.end(), i) == hosts.end()) host(i).leave();
}

void HostPool::leave(Deadline deadline) {
  for (const auto& link : state_->links) link->leave();
  const auto staying = [&] {
    return std::any_of(state_->links.begin(), state_->links.end(),
                       [](const auto& link) { return link->phase() == HostPhase::up; });
  };
  while (staying() && !deadline.passed()) {
    state_->polled.clear();
    for (const auto& link : state_->links) link->add_interest(state_->polled);
    if (!base::poll_fds(state_->polled, deadline.earlier(Deadline::after_ms(20)))) return;
    for (const auto& link : state_->links) {
      link->progress(state_->binary);
      while (link->take_frame()) {
      }
    }
  }
}

Error HostPool::failure(const std::vector<int>& hosts) const {
  Error e(ErrorCode::launch, "");
  if (hosts.size() == 1) {
    const Error& cause = *host(hosts[0]).error();
    e.message = format("host {}: {}", host(hosts[0]).spec().name, host(hosts[0]).cause());
    e.hint = cause.hint;
    e.host = host(hosts[0]).spec().name;
    return e;
  }
  e.message = format("{} of {} hosts failed", hosts.size(), size());
  for (size_t i = 0; i < hosts.size() && i < kMostListed; ++i) {
    const Error& cause = *host(hosts[i]).error();
    e.message += format("\n  {}: {}", host(hosts[i]).spec().name, host(hosts[i]).cause());
    if (!cause.hint.empty()) e.message += format(" ({})", cause.hint);
  }
  if (hosts.size() > kMostListed)
    e.message += format("\n  and {} more", hosts.size() - kMostListed);
  return e;
}

Error one_error(const std::string& what, const std::vector<Error>& errors) {
  Error all(errors.at(0).code, format("{} hosts {}", errors.size(), what), errors[0].hint);
  const bool one_hint =
      std::all_of(errors.begin(), errors.end(), [&](const Error& e) { return e.hint == all.hint; });
  if (!one_hint) all.hint.clear();
  for (size_t i = 0; i < errors.size(); ++i) {
    const Error& e = errors[i];
    if (base::severity(e.code) > base::severity(all.code)) all.code = e.code;
    if (i == kMostListed) all.message += format("\n  and {} more", errors.size() - i);
    if (i >= kMostListed) continue;
    all.message += "\n  " + e.chain();
    if (!one_hint && !e.hint.empty()) all.message += format(" ({})", e.hint);
  }
  return all;
}

bool is_this_host(const HostSpec& spec) {
  if (!spec.user.empty() || spec.port != 0 || !spec.jump.empty() || !spec.path.empty())
    return false;
  const std::string& own = base::host_name();
  return spec.name == "localhost" || spec.name == "127.0.0.1" || spec.name == "::1" ||
         spec.name == own || spec.name == own.substr(0, own.find('.'));
}

}  // namespace collctl::launcher

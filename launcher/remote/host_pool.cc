#include "launcher/remote/host_pool.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "base/host_facts.h"
#include "base/wait.h"
#include "launcher/hosts/address.h"
#include "launcher/remote/binary.h"
#include "launcher/remote/branch_order.h"
#include "launcher/ssh/causes.h"
#include "launcher/ssh/prompt.h"

namespace collctl::launcher {
namespace {

constexpr int64_t kBriefMs = 200;  // a turn never waits longer: signs of life, turns of --fanout
constexpr int64_t kMostAsleepNs = 2'000'000'000;  // longer between two turns: we were stopped
constexpr int64_t kAftermathNs = 10'000'000'000;  // until all that ended meanwhile has been heard
constexpr double kSlackBeats = 1.5;
constexpr double kShellPatience = 2;  // for start-up files of shells, in --connect-timeout
constexpr double kLeaveSeconds = 2;
constexpr size_t kMostListed = 200;

// Hosts that are reached through the first of them that can be.
struct Group {
  std::vector<int> hosts;
  size_t head = 0;
  bool told = false;  // the head knows whom it carries
};

// The one host that all these errors are about, as where others were only cut off with it; or none.
template <class List, class ErrorOf>
Host common_host(const List& list, const ErrorOf& error_of) {
  const Host first = error_of(*list.begin()).where();
  const bool all = std::all_of(list.begin(), list.end(),
                               [&](const auto& one) { return error_of(one).where() == first; });
  return all ? first : Host();
}

bool on_its_way(HostPhase phase) {
  return phase > HostPhase::waiting && phase < HostPhase::up;
}

}  // namespace

struct HostPool::State {
  PoolOptions options;
  std::vector<std::unique_ptr<HostLink>> links;
  std::vector<Group> groups;            // with tree_width
  std::vector<const HostLink*> behind;  // by host: through whom it is reached; null: from here
  BinarySource binary;
  int64_t began_ns = now_ns(), last_turn_ns = now_ns();
  int64_t away_ns = 0, back_at_ns = 0;  // the last time that we were stopped
  double said_s = 0;                    // agents were last told to wait for so long
  double waited_s = 0;                  // so long did they wait when we were stopped
  Deadline beat_at = Deadline::after_ms(kBeatMs);
  std::vector<pollfd> polled;

  void make_groups();
  void follow(Group& group);
  void tend(Group& group);
  void open_next();
  void beat(double silence_s);
  // Longer between two turns: we were stopped. Agents wait for several times as long.
  int64_t asleep_ns() const {
    return std::clamp(int64_t(options.heartbeat_s / 4 * 1e9), kMostAsleepNs / 4, kMostAsleepNs);
  }
  void notice_absence(int64_t now);
  void check_signs_of_life(int64_t now);
};

HostPool::HostPool() : state_(std::make_unique<State>()) {}

HostPool::~HostPool() {
  while_asking({});
  leave(Deadline::after_seconds(kLeaveSeconds));
}

Result<std::unique_ptr<HostPool>> HostPool::make(const std::vector<HostSpec>& hosts,
                                                 const PoolOptions& options) {
  std::unique_ptr<HostPool> pool(new HostPool);
  State& s = *pool->state_;
  s.options = options;
  s.said_s = s.waited_s = options.heartbeat_s;
  // Ranks inherit what their agent has.
  if (!options.in_agent) base::raise_open_file_limit();
  for (HostSpec spec : hosts) {
    if (spec.id == HostId::none) spec.id = HostId(int32_t(s.links.size()));  // no list's
    const std::string& path = spec.path.empty() ? options.stage.path : spec.path;
    if (path.find_first_of("'\\!$`\n") != std::string::npos)
      return Error(
          ErrorCode::usage,
          format("host {}: the path '{}' contains a character that shells treat specially",
                 spec.name, path),
          "an absolute path is expected, or one below the home folder there: ~/bin/collctl");
    // A host for an agent to reach may be another one with the name of the agent's host.
    const bool here = !options.always_ssh && is_this_host(spec) &&
                      (!options.in_agent || is_loopback_name(spec.name));
    s.links.push_back(std::make_unique<HostLink>(spec, here, s.began_ns));
  }
  // This very host needs no binary, so none is read for it.
  const bool far = std::any_of(s.links.begin(), s.links.end(),
                               [](const auto& link) { return !link->is_this_host(); });
  // An agent of another architecture than the launcher's has its own binary to pass on.
  StageOptions& stage = s.options.stage;
  const std::string machine = base::machine_name();
  if (std::exchange(stage.machine, machine) != machine) stage.hash.clear();
  if (options.in_agent) s.binary.own_hash_wanted = stage.hash;
  s.binary.beside = !options.in_agent;
  s.binary.paths = options.binary_for;
  if (far && stage.hash.empty()) {
    COLL_ASSIGN(stage.hash, own_hash());
  }
  s.make_groups();
  while_asking([state = pool->state_.get()] {
    if (!state->beat_at.passed()) return;
    state->beat(state->options.heartbeat_s);
    for (const auto& link : state->links)
      if (link->phase() == HostPhase::up) link->progress(state->binary);
  });
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

// Equal shares, in the hosts' order. Loopback names, which mean this host on every host, stay out.
void HostPool::State::make_groups() {
  std::vector<int> far;
  for (size_t i = 0; options.tree_width > 0 && i < links.size(); ++i)
    if (!links[i]->is_this_host() && !is_loopback_name(links[i]->spec().name))
      far.push_back(int(i));
  const size_t count = std::min(far.size(), size_t(std::max(options.tree_width, 0)));
  for (size_t i = 0; i < count; ++i) {
    const auto from = far.begin() + std::ptrdiff_t(far.size() * i / count);
    groups.push_back({{from, far.begin() + std::ptrdiff_t(far.size() * (i + 1) / count)}});
  }
  behind.assign(links.size(), nullptr);
  for (const Group& group : groups)
    for (size_t i = 1; i < group.hosts.size(); ++i)
      behind[size_t(group.hosts[i])] = links[size_t(group.hosts[0])].get();
}

void HostPool::State::follow(Group& group) {
  ++group.head;
  const HostLink* head = links[size_t(group.hosts[group.head])].get();
  for (size_t i = group.head; i < group.hosts.size(); ++i)
    behind[size_t(group.hosts[i])] = i == group.head ? nullptr : head;
}

// A head that never was up is followed by the next; one that was up has taken all with it.
void HostPool::State::tend(Group& group) {
  const auto at = [&](size_t i) -> HostLink& { return *links[size_t(group.hosts[i])]; };
  if (!group.told)
    while (group.head + 1 < group.hosts.size() && at(group.head).phase() > HostPhase::up &&
           at(group.head).times().up < 0)
      follow(group);
  HostLink& head = at(group.head);
  if (head.phase() < HostPhase::up || group.head + 1 == group.hosts.size()) return;
  if (!group.told) {
    BranchOrder order;
    order.options = options;
    for (size_t i = group.head + 1; i < group.hosts.size(); ++i) {
      order.hosts.push_back(at(i).spec());
      at(i).be_carried(head);
    }
    head.send(AgentFrame::branch, encoded(order));
    group.told = true;
  }
  if (head.phase() > HostPhase::up)
    for (size_t i = group.head + 1; i < group.hosts.size(); ++i) at(i).carrier_gone();
}

void HostPool::State::open_next() {
  int busy = int(std::count_if(links.begin(), links.end(), [](const auto& link) {
    return link->carrier() == nullptr && on_its_way(link->phase());
  }));
  for (size_t host = 0; host < links.size(); ++host) {
    const auto& link = links[host];
    if (busy >= options.fanout) return;
    if (link->phase() != HostPhase::waiting || behind[host] != nullptr) continue;
    link->open(options.ssh, options.stage);
    // The first step may need nothing from outside: then no descriptor would tell of the next.
    link->progress(binary);
    ++busy;
  }
}

void HostPool::State::beat(double silence_s) {
  const Bytes payload = ByteWriter().put(silence_s).take();
  for (const auto& link : links)
    if (link->phase() == HostPhase::up && link->carrier() == nullptr)
      link->send(AgentFrame::beat, payload);
  said_s = silence_s;
  beat_at = Deadline::after_ms(kBeatMs);
}

// When this process itself did not run for a while, the silence was ours, and so are the deadlines
// that passed meanwhile.
void HostPool::State::notice_absence(int64_t now) {
  const int64_t gap = now - last_turn_ns;
  last_turn_ns = now;
  if (gap <= asleep_ns()) return;
  away_ns = gap;
  back_at_ns = now;
  waited_s = said_s;
  pardon_ns(gap);
  for (const auto& link : links) link->forgive_silence(now);
}

void HostPool::State::check_signs_of_life(int64_t now) {
  for (const auto& link : links) {
    if (link->carrier() != nullptr) continue;
    const double silent = double(now - link->heard_ns()) / 1e9;
    if (const double patience = kShellPatience * options.ssh.connect_timeout_s;
        link->in_shell() && !link->is_this_host() && silent >= patience)
      link->fail(shell_hangs(link->spec().name, patience));
    if (link->phase() != HostPhase::up) continue;
    if (silent < options.heartbeat_s) continue;
    link->fail(Error(ErrorCode::lost, format("no heartbeat for {:.0f} s", silent),
                     "is the host up, and the network to it? (COLLCTL_HEARTBEAT_TIMEOUT sets how "
                     "long to wait)"));
  }
}

Deadline HostPool::add_interest(std::vector<pollfd>& fds) {
  State& s = *state_;
  s.open_next();
  Deadline until = s.beat_at.earlier(Deadline::after_ms(kBriefMs));
  for (const auto& link : s.links) {
    link->add_interest(fds);
    until = until.earlier(link->wakeup());
  }
  return until;
}

void HostPool::progress() {
  State& s = *state_;
  s.notice_absence(now_ns());
  for (const auto& link : s.links) {
    const int64_t asked_before_ns = asked_ns(), from_ns = now_ns();
    link->progress(s.binary);
    // A binary was read, or this process stopped: no other host is to blame for that time. Time
    // spent on a question to the user counts already.
    const int64_t spent_ns = now_ns() - from_ns - (asked_ns() - asked_before_ns);
    if (spent_ns > s.asleep_ns()) pardon_ns(spent_ns);
  }
  const int64_t now = now_ns();
  if (now - s.last_turn_ns > s.asleep_ns())
    for (const auto& link : s.links) link->forgive_silence(now);
  s.last_turn_ns = now;
  s.check_signs_of_life(now);
  for (Group& group : s.groups) s.tend(group);
  if (s.beat_at.passed()) s.beat(s.options.heartbeat_s);
}

Result<bool> HostPool::turn(Deadline deadline, std::span<const int> wake_fds) {
  State& s = *state_;
  s.polled.clear();
  for (const int fd : wake_fds) s.polled.push_back({fd, POLLIN, 0});
  const Deadline until = add_interest(s.polled).earlier(deadline);
  COLL_TRY(base::poll_fds(s.polled, until));
  const bool woken =
      std::any_of(s.polled.begin(), s.polled.begin() + std::ptrdiff_t(wake_fds.size()),
                  [](const pollfd& p) { return p.revents != 0; });
  progress();
  return !woken && !deadline.passed();
}

Status HostPool::announce_silence(double seconds) {
  const double before_s = state_->said_s;
  state_->beat(seconds);
  const Deadline deadline = Deadline::after_ms(kBriefMs);
  const auto unsaid = [&] {
    return std::any_of(state_->links.begin(), state_->links.end(),
                       [](const auto& link) { return link->pending() > 0; });
  };
  do {
    COLL_TRY(turn(Deadline::after_ms(1), {}));
  } while (unsaid() && !deadline.passed());
  if (unsaid()) state_->said_s = before_s;
  return {};
}

double HostPool::absence_s() const {
  const State& s = *state_;
  if (s.back_at_ns == 0 || now_ns() - s.back_at_ns > kAftermathNs) return 0;
  const double away = double(s.away_ns) / 1e9;
  // Up to a beat before it they had last heard of us, and the next word is as long on its way.
  return away > s.waited_s - kSlackBeats * double(kBeatMs) / 1e3 ? away : 0;
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

Host HostPool::carrier_of(int index) const {
  const HostLink& link = host(index);
  if (link.waits_for().named()) return link.waits_for();
  const HostLink* by = link.carrier() != nullptr ? link.carrier() : state_->behind[size_t(index)];
  return by == nullptr ? Host() : by->spec().host();
}

void HostPool::fail_late_hosts(double after_s, const char* option) {
  for (size_t host = 0; host < state_->links.size(); ++host) {
    HostLink& link = *state_->links[host];
    if (link.phase() >= HostPhase::up) continue;
    // One that has gone silent is no witness of whom its hosts wait for.
    const std::string held_up = link.held_up();
    const Host carrier = held_up.empty() ? carrier_of(int(host)) : link.carrier()->spec().host();
    std::string still = phase_name(link.phase());
    if (carrier.named() && link.phase() == HostPhase::waiting)
      still += format(" for {}, through which it is reached", carrier.name);
    else if (carrier.named())
      still += " from " + carrier.name;
    if (!held_up.empty()) still += "; " + held_up;
    Error late(ErrorCode::deadline,
               format("not up within {} s ({}): still {}", after_s, option, still));
    if (carrier.named() && (link.phase() == HostPhase::waiting || !held_up.empty()))
      link.fail_behind(carrier, std::move(late));
    else
      link.fail(std::move(late));
  }
}

void HostPool::keep(const std::vector<int>& hosts) {
  for (int i = 0; i < size(); ++i) {
    const bool needed = std::any_of(hosts.begin(), hosts.end(), [&](int kept) {
      return kept == i || host(kept).carrier() == &host(i);
    });
    if (!needed) host(i).leave();
  }
}

void HostPool::leave(Deadline deadline) {
  // Carried hosts leave first, or there is nobody to tell them.
  for (const bool carried : {true, false})
    for (const auto& link : state_->links)
      if ((link->carrier() != nullptr) == carried) link->leave();
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
    for (Group& group : state_->groups) state_->tend(group);
  }
}

void HostPool::abandon() {
  state_->groups.clear();
  state_->links.clear();
}

Error HostPool::absence_error() const {
  return Error(ErrorCode::lost,
               format(
                   "collctl itself did not run for {:.0f} s (was it stopped?); hosts end what they "
                   "run after {:.0f} s without it",
                   absence_s(), state_->waited_s),
               "COLLCTL_HEARTBEAT_TIMEOUT sets how long they wait")
      .because(Cause::absent);
}

Error HostPool::failure(const std::vector<int>& hosts) const {
  Error e(ErrorCode::launch, "");
  // Hosts that were up already, or are gone with one that was.
  const auto was_up = [this](int index) {
    const HostLink& link = host(index);
    const HostLink* carrier = link.carrier();
    const bool cut_off = carrier != nullptr && link.error()->host_id == carrier->spec().id;
    return (cut_off ? carrier : &link)->times().up >= 0;
  };
  if (absence_s() > 0 && std::all_of(hosts.begin(), hosts.end(), was_up)) {
    e = absence_error();
    e.code = ErrorCode::launch;
    return e;
  }
  if (hosts.size() == 1) {
    const Error& cause = *host(hosts[0]).error();
    e.message = format("host {}: {}", host(hosts[0]).spec().name, host(hosts[0]).cause());
    e.hint = cause.hint;
    e.on(cause.where());
    return e;
  }
  e.message = format("{} of {} hosts failed", hosts.size(), size());
  e.on(common_host(hosts, [this](int index) -> const Error& { return *host(index).error(); }));
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
  all.on(common_host(errors, [](const Error& e) -> const Error& { return e; }));
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

bool is_loopback_name(const std::string& name) {
  return name == "localhost" || name == "::1" || name.rfind("127.", 0) == 0;
}

bool is_this_host(const HostSpec& spec) {
  if (!spec.user.empty() || spec.port != 0 || !spec.jump.empty() || !spec.path.empty())
    return false;
  const std::string &own = base::own_host_name(), &word = spec.name;
  return word == "localhost" || word == own || word == own.substr(0, own.find('.')) ||
         is_own_address(word);
}

}  // namespace collctl::launcher

#include "tests/sim/ranks.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "base/format.h"
#include "base/peer_closed.h"
#include "base/wait.h"
#include "cmd/measure/running.h"
#include "tests/sim/team.h"

namespace collctl::sim {
namespace {

using launcher::Event;
using launcher::EventKind;
using launcher::FrameType;

// As runtime/bootstrap/waiting says it.
constexpr const char *kLate = "waited until the deadline",
                     *kMeanwhile = "waited as well, until another's deadline,";
constexpr const char* kWork = "allreduce";

}  // namespace

SimRank::SimRank(Team& team, std::string host, int number)
    : team_(team), host_(std::move(host)), number_(number) {}

std::string SimRank::name() const {
  return format("rank {} (host {})", number_, host_);
}

void SimRank::later(int64_t ns, std::function<void()> what) {
  team_.world().after(ns, [self = shared_from_this(), away = away_ns_, work = std::move(what)] {
    self->on_time(away, work);
  });
}

// Somebody whose clock stood still meanwhile has as much time left as before.
void SimRank::on_time(int64_t away_ns, std::function<void()> what) {
  if (exited_) return;
  if (stopped_)
    held_.push_back({team_.world().now() - away_ns, std::move(what)});
  else if (away_ns_ > away_ns)
    later(away_ns_ - away_ns, std::move(what));
  else
    what();
}

void SimRank::say(FrameType type, ByteView payload) {
  if (exited_ || group == nullptr) return;
  Event event;
  event.kind = EventKind::frame;
  event.rank = group->local_of(*this);
  event.frame = {type, Bytes(payload.begin(), payload.end())};
  group->add(std::move(event));
}

void SimRank::say_phase(const char* phase) {
  say(FrameType::phase, base::bytes_of(std::string_view(phase)));
}

void SimRank::say_data() {
  say(FrameType::data, base::bytes_of(std::string_view("{}")));
}

void SimRank::end(int code, int signal_number) {
  if (exited_) return;
  exited_ = true;
  team_.world().note(format("rank {} ends: code {}, signal {}", number_, code, signal_number));
  if (group != nullptr) {
    Event event;
    event.kind = EventKind::exited;
    event.rank = group->local_of(*this);
    event.exit_code = code;
    event.exit_signal = signal_number;
    group->add(std::move(event));
  }
  if (!said_done_) team_.closed(*this);
}

void SimRank::kill(int signal_number) {
  end(0, signal_number);
}

void SimRank::stop() {
  if (exited_ || stopped_) return;
  stopped_ = true;
  team_.disturbed();
}

void SimRank::suspend() {
  if (exited_ || stopped_) return;
  away_since_ = team_.world().now();
  stop();
}

void SimRank::go_on() {
  if (!stopped_) return;
  stopped_ = false;
  if (away_since_) {
    const int64_t away_ns = team_.world().now() - *std::exchange(away_since_, std::nullopt);
    away_ns_ += away_ns;
    start_by_ = Deadline::at_ns(start_by_.at() + away_ns);
    connect_by_ = Deadline::at_ns(connect_by_.at() + away_ns);
  }
  team_.disturbed();
  const int64_t own_ns = team_.world().now() - away_ns_;
  for (auto& [due_ns, what] : std::exchange(held_, {}))
    later(team_.world().draw_ns(0, kMs) + std::max<int64_t>(due_ns - own_ns, 0), std::move(what));
}

void SimRank::receive(FrameType type, ByteView payload) {
  // In the order in which it was sent.
  World& w = team_.world();
  read_at_ = std::max(read_at_ + 1, w.now() + w.draw_ns(50'000, 2 * kMs));
  later(read_at_ - w.now(),
        [this, type, copy = Bytes(payload.begin(), payload.end())] { handle(type, copy); });
}

void SimRank::handle(FrameType type, const Bytes& payload) {
  const std::string text(payload.begin(), payload.end());
  switch (type) {
    case FrameType::config:
      return take_config(text);
    case FrameType::id:
      if (has_id_ || generation_ < 0) return;
      has_id_ = true;
      if (begun_) check_in();
      return;
    case FrameType::abort:
      return aborted(launcher::decode_error(payload));
    case FrameType::halt:
      return told_to_leave(launcher::decode_error(payload));
    case FrameType::roster:
      return take_roster(text);
    case FrameType::ask: {
      cmd::RankDoing doing{.rank = number_, .last = kWork, .waits = {}};
      if (const int peer = team_.awaited(*this); waits_ && peer >= 0)
        doing.waits.push_back({.peer = peer, .seconds = 1});
      doing.busy = !doing.waits.empty();
      const std::string json = base::json_of(doing);
      return say(FrameType::doing, base::bytes_of(json));
    }
    default:
      team_.world().note(format("rank {} got a frame of type {}", number_, int(type)));
  }
}

void SimRank::take_config(const std::string& text) {
  auto config = cmd::RankConfig::from_json(text);
  if (!config) {
    error_ = config.error();
    return say_error();
  }
  config_ = std::move(*config);
  for (int i = 0; i < config_.size; ++i) members_.push_back(i);
  start_by_ = Deadline::after_seconds(config_.start_timeout_s);
  generation_ = 0;
  later(team_.world().draw_ns(kMs, 20 * kMs), [this] { begin(); });
}

void SimRank::take_roster(const std::string& text) {
  auto roster = base::record_of<cmd::Roster>(text);
  if (!roster) {
    error_ = roster.error();
    return say_error();
  }
  members_ = roster->task.members;
  start_by_ = Deadline::after_seconds(roster->start_timeout_s);
  ++generation_;
  failed_ = has_id_ = begun_ = waits_ = false;
  error_.reset();
  ++wait_;
  later(team_.world().draw_ns(kMs, 20 * kMs), [this] { begin(); });
}

// Its first member makes the id, the others wait for it.
void SimRank::begin() {
  if (failed_) return;
  begun_ = true;
  connect_by_ = base::connect_deadline(start_by_);
  team_.begins(*this, generation_, members_);
  if (members_.front() == number_) {
    has_id_ = true;
    say(FrameType::id, base::bytes_of(std::string_view("id")));
    return check_in();
  }
  if (has_id_) return check_in();
  later(start_by_.remaining_ns(), [this, mine = generation_] {
    if (failed_ || has_id_ || mine != generation_) return;
    fail(Error(ErrorCode::deadline,
               format("the launcher did not pass on rank {}'s unique id in time", members_.front()))
             .blame(members_.front()),
         true);
  });
}

void SimRank::check_in() {
  if (failed_) return;
  say_phase("bootstrap");
  team_.check_in(*this);
}

Error SimRank::own_wait(int peer, const char* how) const {
  const SimRank* other = team_.rank(peer);
  Error e(ErrorCode::deadline,
          format("rank {} {} for {}", number_, how, other != nullptr ? other->name() : "a rank"),
          "that rank is slow, stopped, or in another call; see its own output");
  e.rank = peer;
  if (other != nullptr) e.host = other->host();
  if (how == kLate) e.cause = Cause::late;
  return e.within(kWork);
}

std::optional<Error> SimRank::cannot_reach(int awaited) const {
  const int peer = team_.unreached(*this);
  if (peer < 0) return std::nullopt;
  Error e = base::cannot_reach(format("rank {}", number_), team_.rank(peer)->name(),
                               config_.settings.op_timeout_s)
                .within(kWork);
  e.rank = peer;
  e.host = team_.rank(peer)->host();
  e.awaited = awaited;
  return e;
}

void SimRank::begins_to_wait() {
  if (waits_) return;
  const int mine = ++wait_;
  waits_ = true;
  const int64_t jitter = team_.world().draw_ns(0, 50 * kMs);
  later(jitter + int64_t(config_.settings.op_timeout_s * 1e9), [this, mine] {
    if (mine != wait_ || failed_) return;
    const int peer = team_.awaited(*this);
    if (peer < 0) return;
    auto broken = cannot_reach(peer);
    fail(broken ? std::move(*broken) : own_wait(peer, kLate), true);
  });
}

// It may be that the reason is on its way.
void SimRank::hears_closed(const SimRank& other) {
  if (failed_) return;
  const Error closed = base::closed_by_peer();
  Error e(ErrorCode::lost, format("{} is gone: {}", other.name(), closed.message),
          "see that rank's own output");
  e.cause = closed.cause;
  e.rank = other.number();
  e.host = other.host();
  later(team_.world().draw_ns(kSecond / 2, kSecond), [this, e, mine = generation_] {
    if (mine == generation_ && !failed_) fail(Error(e).within(kWork), true);
  });
}

void SimRank::hears_notice(const Error& notice) {
  if (failed_) return;
  Error heard = notice;
  const int peer = waits_ ? team_.awaited(*this) : -1;
  if ((notice.code == ErrorCode::deadline || notice.code == ErrorCode::lost) && peer >= 0) {
    if (auto broken = cannot_reach(peer)) return fail(std::move(*broken), false);
    Error mine = own_wait(peer, kMeanwhile);
    if (notice.cause == Cause::late) return fail(std::move(mine), false);
    heard.awaited = peer;
  }
  fail(std::move(heard.within(kWork)), false);
}

// A way that it finds broken itself explains more.
void SimRank::told_to_leave(Error why) {
  if (failed_) return;
  const int peer = waits_ ? team_.awaited(*this) : -1;
  const bool follows = why.code == ErrorCode::lost || why.code == ErrorCode::deadline;
  if (follows && peer >= 0)
    if (auto broken = cannot_reach(peer)) return fail(std::move(*broken), true);
  if (peer >= 0) why.awaited = peer;
  fail(std::move(why.within(kWork)), true);
}

void SimRank::aborted(Error why) {
  const bool first = !refused_.has_value();
  refused_ = why;
  if (!failed_) return told_to_leave(std::move(why));
  // It waited for a roster.
  if (first && config_.shrinks && error_) {
    error_ = std::move(why);
    say_error();
  }
}

void SimRank::fail(Error error, bool announce) {
  if (failed_ || exited_) return;
  failed_ = true;
  error_ = std::move(error);
  if (announce) team_.notify(*this, *error_);
  const int64_t looks = base::says_broken_way(*error_) ? team_.options().looks_ns : 0;
  later(looks + team_.world().draw_ns(50'000, 5 * kMs), [this, mine = generation_] {
    if (mine != generation_) return;
    const bool loss = error_->code == ErrorCode::lost || error_->code == ErrorCode::deadline;
    if (!config_.shrinks || refused_ || !loss) return say_error();
    say(FrameType::broken, launcher::encode_error(*error_));
    team_.closed(*this);
  });
}

void SimRank::say_error() {
  say(FrameType::error, launcher::encode_error(*error_));
  later(team_.world().draw_ns(50'000, 3 * kMs), [this] { end(int(error_->code), 0); });
}

void SimRank::finish() {
  later(team_.world().draw_ns(0, 5 * kMs), [this, mine = generation_] {
    if (failed_ || mine != generation_) return;
    say_phase("finish");
    later(team_.world().draw_ns(0, 5 * kMs), [this] {
      if (failed_) return;
      say_phase("done");
      said_done_ = true;
      later(team_.world().draw_ns(0, 3 * kMs), [this] { end(0, 0); });
    });
  });
}

SimRanks::SimRanks(Team& team, std::string host,
                   const std::vector<launcher::RankProcess>& processes)
    : host_(std::move(host)), bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  for (const launcher::RankProcess& process : processes) {
    int number = -1;
    for (const std::string& entry : process.environment)
      if (entry.starts_with("RANK=")) number = std::stoi(entry.substr(5));
    ranks_.push_back(std::make_shared<SimRank>(team, host_, number));
    ranks_.back()->group = this;
    team.add(ranks_.back());
  }
}

SimRanks::~SimRanks() {
  for (const auto& rank : ranks_) {
    rank->group = nullptr;
    rank->kill(SIGKILL);
  }
}

void SimRanks::add(Event event) {
  events_.push_back(std::move(event));
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(bell_.get(), &one, sizeof one);
}

int SimRanks::local_of(const SimRank& rank) const {
  for (size_t i = 0; i < ranks_.size(); ++i)
    if (ranks_[i].get() == &rank) return int(i);
  return -1;
}

int SimRanks::running_count() const {
  // One whose end was not heard of yet counts, as where processes are reaped.
  return int(std::count_if(ranks_.begin(), ranks_.end(),
                           [](const auto& rank) { return !rank->exited(); })) +
         int(std::count_if(events_.begin(), events_.end(),
                           [](const Event& event) { return event.kind == EventKind::exited; }));
}

Result<std::vector<Event>> SimRanks::wait(Deadline deadline, std::span<const int> wake_fds) {
  std::vector<pollfd> wakes;
  for (const int fd : wake_fds) wakes.push_back({fd, POLLIN, 0});
  return wait_with(deadline, wakes);
}

Result<std::vector<Event>> SimRanks::wait_with(Deadline deadline, std::span<pollfd> wakes) {
  std::vector<pollfd> fds(wakes.begin(), wakes.end());
  fds.push_back({bell_.get(), POLLIN, 0});
  while (true) {
    COLL_TRY(base::poll_fds(fds, kill_at_ ? deadline.earlier(*kill_at_) : deadline));
    uint64_t rings = 0;
    [[maybe_unused]] const ssize_t n = ::read(bell_.get(), &rings, sizeof rings);
    bool woken = false;
    for (size_t i = 0; i < wakes.size(); ++i) {
      wakes[i].revents = fds[i].revents;
      woken = woken || wakes[i].revents != 0;
    }
    if (kill_at_ && kill_at_->passed()) {
      kill_at_.reset();
      signal_all(SIGKILL);
    }
    const std::deque<Event> taken = std::exchange(events_, {});
    if (!taken.empty() || woken || deadline.passed() || running_count() == 0)
      return std::vector<Event>(taken.begin(), taken.end());
  }
}

Status SimRanks::send(int rank, FrameType type, ByteView payload, Deadline) {
  if (!running(rank)) return Error(ErrorCode::lost, "it is gone").blame(rank);
  ranks_[size_t(rank)]->receive(type, payload);
  return {};
}

Status SimRanks::write_stdin(int rank, ByteView, Deadline) {
  return Error(ErrorCode::lost, "ranks of ours read no input").blame(rank);
}

void SimRanks::signal_all(int signal_number) {
  for (const auto& rank : ranks_) {
    if (signal_number == SIGTSTP)
      rank->suspend();
    else if (signal_number == SIGCONT)
      rank->go_on();
    else if (signal_number == SIGKILL)
      rank->kill(SIGKILL);
    else
      rank->later(0, [raw = rank.get(), signal_number] { raw->kill(signal_number); });
  }
}

void SimRanks::kill(int rank) {
  ranks_[size_t(rank)]->kill(SIGKILL);
}

void SimRanks::end(double grace_s) {
  const Deadline at = Deadline::after_seconds(std::max(grace_s, 0.0));
  kill_at_ = kill_at_ ? kill_at_->earlier(at) : at;
  signal_all(SIGTERM);
  signal_all(SIGCONT);
}

void SimRanks::look() {
  states_.clear();
  for (const auto& rank : ranks_) states_.push_back(rank->state());
}

char SimRanks::state(int rank) const {
  return states_.empty() ? '?' : states_[size_t(rank)];
}

}  // namespace collctl::sim

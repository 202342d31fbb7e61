#include "launcher/remote/remote_job.h"

#include <algorithm>

#include "base/format.h"

namespace collctl::launcher {
namespace {

// Frames to one host that the connection has not taken yet; more is waited for.
constexpr size_t kMostPending = 8 << 20;
// Once one host cannot start its ranks: for the others to say so too.
constexpr double kOthersSeconds = 2;
// An agent that is asked how its ranks are, while the job is ended, answers well within.
constexpr double kAnswerSeconds = 2;
constexpr double kGoneSeconds = 1;  // beyond the grace, to hear that ranks are gone

struct RemoteRank {
  int host = -1;
  uint32_t local = 0;
  int pid = 0;
  bool exited = false;
  char state = '?';
  uint64_t input = 0, fed = 0;  // bytes sent, bytes the rank has taken
  bool input_closed = false;    // takes no more input
};

Error no_answer() {
  return Error(ErrorCode::lost, format("its agent has not answered for {:.0f} s", kAnswerSeconds));
}

Bytes rank_head(uint32_t local, ByteView rest) {
  ByteWriter w;
  w.put(local).put_rest(rest);
  return w.take();
}

}  // namespace

struct RemoteJob::State {
  std::unique_ptr<HostPool> pool;
  std::vector<RemoteRank> ranks;
  std::vector<std::vector<int>> ranks_of;  // by host
  std::vector<bool> started, lost;         // by host
  std::vector<std::string> notes;
  std::vector<std::optional<Error>> bad;  // by host: it refused to start its ranks, or is lost
  std::vector<std::optional<Deadline>> answer_by;  // by host: what it was asked is unanswered
  std::optional<Deadline> gone_by;                 // all ranks have been told to end
  bool fed = false;          // a rank has taken all its input since the last wait()
  std::vector<Event> early;  // that came outside of wait()

  Status start(const RemoteStart& what, Deadline deadline, int wake_fd,
               const std::function<bool()>& stop);
  std::vector<int> unheard() const;
  Error late_start(const std::vector<int>& missing) const;
  bool any_bad() const;
  void order(int host, const RemoteStart& what);
  void collect(std::vector<Event>& events);
  Status handle(int host, const RawFrame& frame, std::vector<Event>& events);
  Status handle_rank(int host, const RawFrame& frame, std::vector<Event>& events);
  void handle_started(int host, const AgentStarted& word);
  void lose(int host, std::vector<Event>& events);
  void give_up_deaf_hosts();
  bool has_not_answered(int host) const {
    return answer_by[size_t(host)] && answer_by[size_t(host)]->passed();
  }
  void look();
  bool usable(int rank) const { return !lost[size_t(ranks[size_t(rank)].host)]; }
  HostLink& link(int rank) { return pool->host(ranks[size_t(rank)].host); }
  void to_all(AgentFrame type, ByteView payload);
  int running_count() const {
    return int(std::count_if(ranks.begin(), ranks.end(), [](const auto& r) { return !r.exited; }));
  }
};

RemoteJob::RemoteJob() : state_(std::make_unique<State>()) {}

RemoteJob::~RemoteJob() = default;  // the pool lets the agents go, which end what is left

void RemoteJob::State::order(int host, const RemoteStart& what) {
  AgentStart order;
  for (const int rank : ranks_of[size_t(host)]) order.ranks.push_back(what.ranks[size_t(rank)]);
  order.environment = what.environment[size_t(host)];
  order.defaults = what.defaults;
  order.folder = what.folder;
  order.bind_to = what.bind_to;
  order.data_address = pool->host(host).spec().address;
  order.heartbeat_s = what.heartbeat_s;
  order.grace_s = what.grace_s;
  pool->host(host).send(AgentFrame::start, encoded(order));
}

Status RemoteJob::State::start(const RemoteStart& what, Deadline deadline, int wake_fd,
                               const std::function<bool()>& stop) {
  const size_t hosts = size_t(pool->size());
  ranks_of = what.placement.ranks_of;
  ranks_of.resize(hosts);
  started.assign(hosts, false);
  lost.assign(hosts, false);
  bad.assign(hosts, std::nullopt);
  answer_by.assign(hosts, std::nullopt);
  ranks.resize(what.ranks.size());
  std::vector<int> used;
  for (size_t host = 0; host < hosts; ++host) {
    if (ranks_of[host].empty()) continue;
    used.push_back(int(host));
    for (size_t i = 0; i < ranks_of[host].size(); ++i) {
      RemoteRank& rank = ranks[size_t(ranks_of[host][i])];
      rank.host = int(host);
      rank.local = uint32_t(i);
    }
  }
  pool->keep(used);
  // Those that others carry first: their carriers come before them, and are busy with their own
  // then.
  for (auto host = used.rbegin(); host != used.rend(); ++host) order(*host, what);
  std::vector<Event> events;
  while (!unheard().empty() && !deadline.passed()) {
    COLL_TRY(pool->turn(deadline, {&wake_fd, 1}));
    const bool was_bad = any_bad();
    collect(events);
    if (!was_bad && any_bad()) deadline = deadline.earlier(Deadline::after_seconds(kOthersSeconds));
    if (stop()) return Error(ErrorCode::interrupted, "interrupted while starting the ranks");
  }
  std::vector<Error> errors;
  for (const auto& error : bad) {
    if (!error) continue;
    errors.push_back(*error);
    // Until all ranks have started nothing has run that could be lost, whatever an agent says.
    if (error->code == ErrorCode::lost || error->code == ErrorCode::defect)
      errors.back().code = ErrorCode::launch;
  }
  const bool one_cause = std::all_of(errors.begin(), errors.end(),
                                     [](const Error& e) { return e.cause == Cause::absent; });
  if (!errors.empty())
    return errors.size() == 1 || one_cause ? errors[0]
                                           : one_error("could not start their ranks", errors);
  if (const std::vector<int> missing = unheard(); !missing.empty()) return late_start(missing);
  early = std::move(events);
  return {};
}

// Names the host that is late, or that left it no time: its carrier, or who was up last.
Error RemoteJob::State::late_start(const std::vector<int>& missing) const {
  Error late(ErrorCode::deadline, "these hosts did not start their ranks in time:");
  for (const int host : missing) late.message += " " + pool->host(host).spec().name;
  const HostLink& link = pool->host(missing[0]);
  const HostLink* last = &link;
  for (int host = 0; host < pool->size(); ++host)
    if (pool->host(host).times().up > last->times().up) last = &pool->host(host);
  if (const std::string how = link.held_up(); missing.size() == 1 && !how.empty()) {
    late.on(link.carrier()->spec().host());
    late.message += "; " + how;
  } else if (last->up_late()) {
    late.on(last->spec().host());
    late.message += format("; host {} was up only after {:.1f} s", late.host, last->times().up);
  } else if (missing.size() == 1) {
    late.on(link.spec().host());
  }
  return late;
}

// The hosts that have neither started their ranks nor failed.
std::vector<int> RemoteJob::State::unheard() const {
  std::vector<int> list;
  for (size_t host = 0; host < started.size(); ++host)
    if (!ranks_of[host].empty() && !started[host] && !bad[host]) list.push_back(int(host));
  return list;
}

bool RemoteJob::State::any_bad() const {
  return std::any_of(bad.begin(), bad.end(), [](const auto& error) { return error.has_value(); });
}

Result<std::unique_ptr<RemoteJob>> RemoteJob::start(std::unique_ptr<HostPool> pool,
                                                    const RemoteStart& what, Deadline deadline,
                                                    int wake_fd,
                                                    const std::function<bool()>& stop) {
  std::unique_ptr<RemoteJob> job(new RemoteJob);
  job->state_->pool = std::move(pool);
  COLL_TRY(job->state_->start(what, deadline, wake_fd, stop));
  return job;
}

void RemoteJob::State::handle_started(int host, const AgentStarted& word) {
  const auto& here = ranks_of[size_t(host)];
  for (size_t i = 0; i < here.size() && i < word.pids.size(); ++i)
    ranks[size_t(here[i])].pid = word.pids[i];
  started[size_t(host)] = true;
  if (!word.note.empty())
    notes.push_back(format("{}: {}", pool->host(host).spec().name, word.note));
}

// Frames about one rank: all begin with its number.
Status RemoteJob::State::handle_rank(int host, const RawFrame& frame, std::vector<Event>& events) {
  ByteReader r(frame.payload);
  const auto local = r.get<uint32_t>();
  const auto& here = ranks_of[size_t(host)];
  if (!r.ok() || local >= here.size())
    return Error(ErrorCode::lost, "agent reported an unknown rank");
  // Output of ranks comes before the answer; over a slow connection that can take long.
  if (auto& by = answer_by[size_t(host)]; by) by = Deadline::after_seconds(kAnswerSeconds);
  Event event;
  event.rank = here[local];
  RemoteRank& rank = ranks[size_t(event.rank)];
  const ByteView payload(frame.payload);
  switch (AgentFrame(frame.type)) {
    case AgentFrame::frame: {
      const auto type = r.get<uint16_t>();
      if (!r.ok() || !known_frame_type(type)) break;
      event.kind = EventKind::frame;
      const ByteView rest = payload.subspan(6);
      event.frame = {FrameType(type), Bytes(rest.begin(), rest.end())};
      events.push_back(std::move(event));
      return {};
    }
    case AgentFrame::line: {
      event.is_stderr = r.get<uint8_t>() != 0;
      event.partial = r.get<uint8_t>() != 0;
      if (!r.ok()) break;
      event.kind = EventKind::line;
      const ByteView rest = payload.subspan(6);
      event.line.assign(rest.begin(), rest.end());
      events.push_back(std::move(event));
      return {};
    }
    case AgentFrame::exited: {
      event.exit_code = r.get<int32_t>();
      event.exit_signal = r.get<int32_t>();
      event.starved_at = r.get<uint64_t>();
      if (!r.ok() || rank.exited) break;
      rank.exited = true;
      rank.state = 0;
      event.kind = EventKind::exited;
      events.push_back(std::move(event));
      return {};
    }
    case AgentFrame::fed: {
      const auto taken = r.get<uint64_t>();
      if (!r.ok()) break;
      rank.input_closed = rank.input_closed || taken == ~uint64_t(0);
      if (!rank.input_closed && taken > rank.input) break;
      rank.fed = rank.input_closed ? rank.input : taken;
      fed = fed || rank.fed == rank.input;
      return {};
    }
    default:
      break;
  }
  return Error(ErrorCode::lost, format("malformed message {} from the agent", frame.type));
}

Status RemoteJob::State::handle(int host, const RawFrame& frame, std::vector<Event>& events) {
  switch (AgentFrame(frame.type)) {
    case AgentFrame::started: {
      COLL_ASSIGN(const AgentStarted word, decoded<AgentStarted>(frame.payload));
      handle_started(host, word);
      return {};
    }
    case AgentFrame::refused: {
      Error e = decode_error(frame.payload);
      const auto& here = ranks_of[size_t(host)];
      if (e.rank >= 0 && size_t(e.rank) < here.size()) {
        // The agent counts its own ranks only.
        e.rank = here[size_t(e.rank)];
        e.contexts = {format("start rank {} of {}", e.rank, ranks.size())};
      }
      e.on(pool->host(host).spec().host()).within("host " + pool->host(host).spec().name);
      if (!bad[size_t(host)]) bad[size_t(host)] = std::move(e);
      return {};
    }
    case AgentFrame::states: {
      const auto& here = ranks_of[size_t(host)];
      for (size_t i = 0; i < here.size() && i < frame.payload.size(); ++i)
        ranks[size_t(here[i])].state = char(frame.payload[i]);
      answer_by[size_t(host)].reset();
      return {};
    }
    case AgentFrame::alive:
      return {};
    default:
      return handle_rank(host, frame, events);
  }
}

void RemoteJob::State::lose(int host, std::vector<Event>& events) {
  lost[size_t(host)] = true;
  const bool refused = bad[size_t(host)].has_value();
  std::vector<int> gone;
  for (const int rank : ranks_of[size_t(host)])
    if (!ranks[size_t(rank)].exited) gone.push_back(rank);
  if (gone.empty()) return;
  Error e = *pool->host(host).error();
  const Host here = pool->host(host).spec().host();
  const bool cut_off = e.host_id != here.id;  // by the failure of the host that the error is about
  e.code = ErrorCode::lost;
  e.message = format("host {} was lost during the run, with {}: {}", here, rank_range(gone),
                     pool->host(host).cause());
  if (pool->absence_s() > 0) e = pool->absence_error();
  // An agent that cannot go on has said why before it went.
  if (refused) e.message += ": " + bad[size_t(host)]->message;
  e.contexts.clear();
  if (!refused) bad[size_t(host)] = e;
  for (const int rank : gone) {
    ranks[size_t(rank)].exited = true;
    ranks[size_t(rank)].state = '?';
    Event event;
    event.kind = EventKind::lost;
    event.rank = rank;
    event.error = e;
    event.error.rank = cut_off ? -1 : rank;
    events.push_back(std::move(event));
  }
}

void RemoteJob::State::collect(std::vector<Event>& events) {
  for (int host = 0; host < pool->size(); ++host) {
    HostLink& link = pool->host(host);
    if (ranks_of[size_t(host)].empty()) {  // it may carry others; it has no ranks to speak of
      while (auto frame = link.take_frame())
        if (AgentFrame(frame->type) == AgentFrame::states) answer_by[size_t(host)].reset();
      continue;
    }
    while (auto frame = link.take_frame()) {
      if (Status status = handle(host, *frame, events); !status) link.reject(status.error());
    }
  }
  if (gone_by) give_up_deaf_hosts();
  for (int host = 0; host < pool->size(); ++host)
    if (!ranks_of[size_t(host)].empty() && pool->host(host).phase() == HostPhase::failed &&
        !lost[size_t(host)])
      lose(host, events);
}

// While the job is ended nobody is waited for who does not listen: without us an agent ends its
// ranks by itself, if it can do anything at all.
void RemoteJob::State::give_up_deaf_hosts() {
  for (int host = 0; host < pool->size(); ++host) {
    const auto& here = ranks_of[size_t(host)];
    if (std::all_of(here.begin(), here.end(), [&](int r) { return ranks[size_t(r)].exited; }))
      continue;
    HostLink& link = pool->host(host);
    const bool unanswered = has_not_answered(host);
    // Its words come through its carrier, which does not hear us either: that one is to be named.
    for (int by = 0; unanswered && by < pool->size(); ++by)
      if (&pool->host(by) == link.carrier() && has_not_answered(by))
        pool->host(by).reject(no_answer());
    if (link.carrier() != nullptr && link.carrier()->phase() == HostPhase::failed)
      link.carrier_gone();
    else if (unanswered)
      link.reject(no_answer());
    else if (gone_by->passed())
      link.reject(Error(ErrorCode::lost, "its agent has not ended its ranks"));
  }
}

Result<std::vector<Event>> RemoteJob::wait(Deadline deadline, std::span<const int> wake_fds) {
  State& s = *state_;
  std::vector<Event> events = std::exchange(s.early, {});
  s.fed = false;
  bool again = true;
  while (events.empty() && again && !s.fed && s.running_count() > 0) {
    COLL_ASSIGN(again, s.pool->turn(deadline, wake_fds));
    s.collect(events);
  }
  return events;
}

Status RemoteJob::keep_alive() {
  COLL_TRY(state_->pool->turn(Deadline::after_ns(0), {}));
  return {};
}

Status RemoteJob::announce_silence(double seconds) {
  return state_->pool->announce_silence(seconds);
}

const HostPool& RemoteJob::pool() const {
  return *state_->pool;
}

const std::vector<std::string>& RemoteJob::notes() const {
  return state_->notes;
}

std::vector<std::pair<std::string, std::string>> RemoteJob::take_talk() {
  std::vector<std::pair<std::string, std::string>> talk;
  for (int i = 0; i < state_->pool->size(); ++i)
    if (std::string text = state_->pool->host(i).take_talk(); !text.empty())
      talk.emplace_back(state_->pool->host(i).spec().name, std::move(text));
  return talk;
}

int RemoteJob::size() const {
  return int(state_->ranks.size());
}

int RemoteJob::pid(int rank) const {
  return state_->ranks.at(size_t(rank)).pid;
}

Host RemoteJob::host(int rank) const {
  return state_->pool->host(state_->ranks.at(size_t(rank)).host).spec().host();
}

bool RemoteJob::running(int rank) const {
  return !state_->ranks.at(size_t(rank)).exited;
}

int RemoteJob::running_count() const {
  // Events that came with the start are still to be handed out.
  return state_->early.empty() ? state_->running_count() : size();
}

Status RemoteJob::send(int rank, FrameType type, ByteView payload, Deadline deadline) {
  State& s = *state_;
  if (!s.usable(rank) || !running(rank))
    return Error(ErrorCode::lost, format("rank {} is gone", rank)).blame(rank);
  const RemoteRank& r = s.ranks[size_t(rank)];
  while (s.link(rank).pending() > kMostPending) {
    std::vector<Event> events;
    COLL_TRY(s.pool->turn(deadline.earlier(Deadline::after_ms(50)), {}));
    s.collect(events);
    s.early.insert(s.early.end(), std::make_move_iterator(events.begin()),
                   std::make_move_iterator(events.end()));
    if (deadline.passed())
      return Error(ErrorCode::deadline, format("host {} accepts no data", host(rank))).blame(rank);
    if (!s.usable(rank)) return Error(ErrorCode::lost, "its host is lost").blame(rank);
  }
  ByteWriter w;
  w.put(r.local).put(uint16_t(type)).put_rest(payload);
  s.link(rank).send(AgentFrame::to_rank, w.bytes());
  return {};
}

Status RemoteJob::write_stdin(int rank, ByteView data, Deadline) {
  RemoteRank& r = state_->ranks.at(size_t(rank));
  if (r.input_closed || r.exited || !state_->usable(rank))
    return Error(ErrorCode::lost, format("rank {} has closed its standard input", rank))
        .blame(rank);
  r.input += data.size();
  state_->link(rank).send(AgentFrame::input, rank_head(r.local, data));
  return {};
}

size_t RemoteJob::stdin_pending(int rank) const {
  const RemoteRank& r = state_->ranks.at(size_t(rank));
  return size_t(r.input - r.fed);
}

void RemoteJob::close_stdin(int rank) {
  const RemoteRank& r = state_->ranks.at(size_t(rank));
  state_->link(rank).send(AgentFrame::input_end, rank_head(r.local, {}));
}

void RemoteJob::State::to_all(AgentFrame type, ByteView payload) {
  for (size_t host = 0; host < ranks_of.size(); ++host)
    if (!ranks_of[host].empty() && !lost[host]) pool->host(int(host)).send(type, payload);
}

void RemoteJob::signal_all(int signal_number) {
  ByteWriter w;
  w.put(int32_t(signal_number));
  state_->to_all(AgentFrame::signal, w.bytes());
}

void RemoteJob::kill(int rank) {
  if (!running(rank) || !state_->usable(rank)) return;
  const RemoteRank& r = state_->ranks.at(size_t(rank));
  state_->link(rank).send(AgentFrame::kill, rank_head(r.local, {}));
}

void RemoteJob::end(double grace_s) {
  ByteWriter w;
  w.put(std::max(grace_s, 0.0));
  state_->to_all(AgentFrame::end, w.bytes());
  state_->gone_by = Deadline::after_seconds(std::max(grace_s, 0.0) + kGoneSeconds);
  state_->look();
}

// Carriers without ranks too, or nobody would know whether what they carry has heard of it.
void RemoteJob::State::look() {
  for (int host = 0; host < pool->size(); ++host) {
    if (!lost[size_t(host)]) pool->host(host).send(AgentFrame::look, {});
    if (auto& by = answer_by[size_t(host)]; !by) by = Deadline::after_seconds(kAnswerSeconds);
  }
}

void RemoteJob::look() {
  state_->look();
}

char RemoteJob::state(int rank) const {
  return state_->ranks.at(size_t(rank)).state;
}

}  // namespace collctl::launcher

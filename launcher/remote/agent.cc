#include "launcher/remote/agent.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "base/env.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "base/site_files.h"
#include "base/socket.h"
#include "launcher/hosts/address.h"
#include "launcher/hosts/placement.h"
#include "launcher/local/local.h"
#include "launcher/local/rank_start.h"
#include "launcher/remote/agent_protocol.h"
#include "launcher/remote/branch.h"

namespace collctl::launcher {
namespace {

constexpr size_t kMostQueued = 4 << 20;   // towards the launcher; then the ranks are not read
constexpr double kFirstWordSeconds = 15;  // from the greeting to the launcher's first beat
constexpr double kLeastSilence = 1;
constexpr double kPausedSeconds = 86400;  // of a job that a person has stopped
constexpr double kKillSeconds = 10;       // SIGKILL to gone, at most
constexpr size_t kReadsPerTurn = 16;
constexpr double kBranchLeaveSeconds = 1.5;  // less than the launcher waits for this agent

class Agent {
 public:
  explicit Agent(const AgentOptions& options) : options_(options) {}
  int run();

 private:
  void greet();
  bool over() const;
  Status turn();
  void tend_branch();
  Deadline next_deadline() const;
  void send(AgentFrame type, ByteView payload) {
    append_frame(queue_, uint16_t(type), payload);
    beat_at_ = Deadline::after_ms(kBeatMs);
  }
  void flush();
  void read_input();
  void handle(const RawFrame& frame);
  Status start(const AgentStart& order);
  void report(const Event& event);
  void report_fed();
  void answer(ByteView payload);
  void beat();
  void orphan();
  void hear() { heard_until_ = Deadline::after_seconds(paused_ ? kPausedSeconds : heartbeat_s_); }
  bool full() const { return queue_.size() - sent_ > kMostQueued; }

  const AgentOptions& options_;
  std::unique_ptr<HostRanks> job_;
  std::unique_ptr<Branch> branch_;  // hosts that this agent carries
  FrameParser parser_;
  Bytes queue_;
  size_t sent_ = 0;
  std::vector<uint64_t> input_, fed_;  // by rank: bytes given to it, bytes reported as taken
  double heartbeat_s_ = kFirstWordSeconds, grace_s_ = 5;
  Deadline heard_until_ = Deadline::after_seconds(kFirstWordSeconds);
  Deadline beat_at_ = Deadline::after_ms(kBeatMs);  // by then something must be said
  bool paused_ = false;    // stopped by the launcher, which is stopped itself
  bool leaving_ = false;   // the launcher let us go
  bool orphaned_ = false;  // the launcher is gone
  std::optional<Deadline> last_deadline_;
};

void Agent::greet() {
  AgentHello hello;
  hello.build = options_.build;
  hello.host = base::own_host_name();
  hello.machine = base::machine_name();
  hello.address = reached_at(base::environment("SSH_CONNECTION").value_or(""));
  hello.pid = ::getpid();
  hello.cores = base::usable_cores();
  const auto visible = base::environment("CUDA_VISIBLE_DEVICES");
  hello.gpus = int(visible_gpus(visible, base::nvidia_gpus_here()).size());
  hello.gpus_on_pci = base::nvidia_pci_devices();
  hello.driver = base::nvidia_facts().driver;
  if (visible) hello.visible.push_back(*visible);
  if (const auto port = base::free_port()) hello.free_port = *port;
  const std::string word = format("\n{}frames\n", kAgentWord);
  queue_.insert(queue_.end(), word.begin(), word.end());
  send(AgentFrame::hello, encoded(hello));
}

// The launcher is gone, or wants to be: nothing of this job may stay.
void Agent::orphan() {
  if (orphaned_) return;
  orphaned_ = true;
  if (branch_) branch_->abandon();
  branch_.reset();
  if (job_) job_->end(grace_s_);
  last_deadline_ = Deadline::after_seconds(grace_s_ + kKillSeconds);
}

bool Agent::over() const {
  if (orphaned_) return !job_ || last_deadline_->passed();
  return leaving_ && sent_ == queue_.size();
}

Deadline Agent::next_deadline() const {
  if (orphaned_) return Deadline::after_ms(200);
  return beat_at_.earlier(heard_until_);
}

void Agent::flush() {
  while (!orphaned_ && sent_ < queue_.size()) {
    const ssize_t n = ::write(options_.out_fd, queue_.data() + sent_, queue_.size() - sent_);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n <= 0) return orphan();
    sent_ += size_t(n);
  }
  if (sent_ == queue_.size() || orphaned_) {
    queue_.clear();
    sent_ = 0;
  } else if (sent_ > (1 << 20)) {
    queue_.erase(queue_.begin(), queue_.begin() + std::ptrdiff_t(sent_));
    sent_ = 0;
  }
}

void Agent::read_input() {
  uint8_t chunk[64 << 10];
  for (size_t i = 0; i < kReadsPerTurn && !orphaned_ && !leaving_; ++i) {
    const ssize_t n = ::read(options_.in_fd, chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) return orphan();
    hear();
    parser_.feed({chunk, size_t(n)});
    while (!orphaned_) {
      auto frame = parser_.next();
      if (!frame) return orphan();
      if (!*frame) break;
      handle(**frame);
    }
  }
}

void Agent::handle(const RawFrame& frame) {
  ByteReader r(frame.payload);
  const auto rest = [&](size_t at) { return ByteView(frame.payload).subspan(at); };
  const auto known = [&](uint32_t rank) { return job_ && r.ok() && rank < uint32_t(job_->size()); };
  switch (AgentFrame(frame.type)) {
    case AgentFrame::start: {
      auto order = decoded<AgentStart>(frame.payload);
      Status status = order ? start(*order) : Status(order.error());
      if (!status) {
        job_.reset();
        send(AgentFrame::refused, encode_error(status.error()));
      }
      return;
    }
    case AgentFrame::to_rank: {
      const auto rank = r.get<uint32_t>();
      const auto type = r.get<uint16_t>();
      // A rank that is gone needs no word: the launcher learns of its end.
      if (known(rank) && known_frame_type(type))
        static_cast<void>(
            job_->send(int(rank), FrameType(type), rest(6), Deadline::after_seconds(5)));
      return;
    }
    case AgentFrame::input: {
      const auto rank = r.get<uint32_t>();
      if (!known(rank)) return;
      const ByteView data = rest(4);
      if (job_->write_stdin(int(rank), data, Deadline::after_seconds(1)).ok()) {
        input_[rank] += data.size();
      } else {
        ByteWriter w;
        w.put(rank).put(~uint64_t(0));
        send(AgentFrame::fed, w.bytes());
      }
      return;
    }
    case AgentFrame::input_end: {
      const auto rank = r.get<uint32_t>();
      if (known(rank)) job_->close_stdin(int(rank));
      return;
    }
    case AgentFrame::signal: {
      const auto number = r.get<int32_t>();
      if (number == SIGTSTP || number == SIGSTOP) paused_ = true;
      if (number == SIGCONT) paused_ = false;
      hear();
      if (job_ && r.ok() && number > 0 && number < NSIG) job_->signal_all(number);
      return;
    }
    case AgentFrame::kill: {
      const auto rank = r.get<uint32_t>();
      if (known(rank)) job_->kill(int(rank));
      return;
    }
    case AgentFrame::end: {
      const auto grace = r.get<double>();
      if (job_ && r.ok() && grace >= 0) job_->end(grace);
      return;
    }
    case AgentFrame::look: {
      Bytes states;
      if (job_) job_->look();
      for (int rank = 0; job_ && rank < job_->size(); ++rank)
        states.push_back(uint8_t(job_->state(rank)));
      return send(AgentFrame::states, states);
    }
    case AgentFrame::beat: {
      const auto seconds = r.get<double>();
      if (!r.ok() || !(seconds >= kLeastSilence)) return orphan();
      heartbeat_s_ = std::min(seconds, kPausedSeconds);
      return hear();
    }
    case AgentFrame::leave:
      if (branch_) branch_->leave(Deadline::after_seconds(kBranchLeaveSeconds));
      branch_.reset();
      leaving_ = true;
      return;
    case AgentFrame::branch: {
      auto order = decoded<BranchOrder>(frame.payload);
      if (!order || branch_) return orphan();
      order->options.ssh.open = options_.open;
      branch_ = std::make_unique<Branch>(std::move(*order));
      return;
    }
    case AgentFrame::named: {
      const auto place = r.get<int32_t>();
      const Host host{HostId(place), r.get_string(kMostHostName)};
      if (!r.ok() || !r.at_end() || !host.named()) return orphan();
      if (options_.named) options_.named(host);
      return;
    }
    case AgentFrame::below:
    case AgentFrame::cut:
      if (!branch_ || !branch_->handle(frame)) orphan();
      return;
    case AgentFrame::ask:
      return answer(frame.payload);
    default:
      return orphan();  // whoever speaks there is no launcher of this version
  }
}

void Agent::answer(ByteView payload) {
  const auto question = decoded<AgentQuestion>(payload);
  if (!question) return orphan();
  const Result<std::string> text = options_.answer
                                       ? options_.answer(question->what, question->argument)
                                       : Error(ErrorCode::defect, "unknown question");
  AgentAnswer answer{.number = question->number, .text = "", .error = {}};
  if (text)
    answer.text = *text;
  else
    answer.error = text.error();
  send(AgentFrame::answer, encoded(answer));
}

Status Agent::start(const AgentStart& order) {
  if (job_) return Error(ErrorCode::defect, "ranks have already been started");
  heartbeat_s_ = order.heartbeat_s;
  grace_s_ = order.grace_s;
  heard_until_ = Deadline::after_seconds(heartbeat_s_);
  AgentStarted started;
  if (!order.folder.empty() && ::chdir(order.folder.c_str()) != 0)
    started.note =
        format("there is no folder {} here: the ranks run in the home folder", order.folder);
  COLL_ASSIGN(const BindTo bind_to, parse_bind_to(order.bind_to));
  std::vector<std::string> common = inherited_environment(false);
  if (!order.data_address.empty()) {
    COLL_ASSIGN(const std::string interface, interface_with(order.data_address));
    set_variable(common, "COLLCTL_SOCKET_IFNAME==" + interface);
  }
  for (const std::string& entry : order.environment) set_variable(common, entry);
  for (const std::string& entry : order.defaults)
    if (!find_variable(common, entry.substr(0, entry.find('=')))) common.push_back(entry);
  for (const base::SiteFile& file : base::site_files())
    for (const std::string& problem : file.problems)
      started.note += format("{}{}: {}", started.note.empty() ? "" : "; ", file.path, problem);
  const auto cores =
      place_here(int(order.ranks.size()), bind_to, find_variable(common, "CUDA_VISIBLE_DEVICES"));
  std::vector<RankProcess> processes;
  for (size_t i = 0; i < order.ranks.size(); ++i) {
    RankProcess p = rank_process(order.ranks[i].argv);
    p.environment = common;
    for (const std::string& entry : order.ranks[i].environment) set_variable(p.environment, entry);
    p.cores = cores[i];
    p.must_bind = bind_to != BindTo::own;
    p.null_stdin = order.ranks[i].null_stdin;
    processes.push_back(std::move(p));
  }
  if (options_.start) {
    COLL_ASSIGN(job_, options_.start(processes));
  } else {
    COLL_ASSIGN(job_, LocalJob::start(processes));
  }
  input_.assign(processes.size(), 0);
  fed_.assign(processes.size(), 0);
  for (int rank = 0; rank < job_->size(); ++rank) started.pids.push_back(job_->pid(rank));
  send(AgentFrame::started, encoded(started));
  return {};
}

void Agent::report(const Event& event) {
  ByteWriter w;
  w.put(uint32_t(event.rank));
  if (event.kind == EventKind::frame) {
    w.put(uint16_t(event.frame.type)).put_rest(event.frame.payload);
    send(AgentFrame::frame, w.bytes());
  }
  if (event.kind == EventKind::line) {
    w.put(uint8_t(event.is_stderr)).put(uint8_t(event.partial));
    w.put_rest(base::bytes_of(event.line));
    send(AgentFrame::line, w.bytes());
  }
  if (event.kind == EventKind::exited) {
    w.put(int32_t(event.exit_code)).put(int32_t(event.exit_signal)).put(event.starved_at);
    send(AgentFrame::exited, w.bytes());
  }
}

void Agent::report_fed() {
  for (size_t rank = 0; rank < input_.size(); ++rank) {
    const uint64_t taken = input_[rank] - job_->stdin_pending(int(rank));
    if (taken == fed_[rank]) continue;
    fed_[rank] = taken;
    ByteWriter w;
    w.put(uint32_t(rank)).put(taken);
    send(AgentFrame::fed, w.bytes());
  }
}

void Agent::beat() {
  if (beat_at_.passed()) send(AgentFrame::alive, {});
}

void Agent::tend_branch() {
  branch_->progress();
  branch_->report([this](AgentFrame type, ByteView payload) { send(type, payload); },
                  [this] { return full(); });
}

Status Agent::turn() {
  std::vector<pollfd> wakes = {
      {orphaned_ ? -1 : options_.in_fd, POLLIN, 0},
      {orphaned_ || sent_ == queue_.size() ? -1 : options_.out_fd, POLLOUT, 0},
      {orphaned_ ? -1 : options_.stop_fd, POLLIN, 0},
  };
  Deadline until = next_deadline();
  if (branch_) until = until.earlier(branch_->add_interest(wakes));
  if (job_ && (!full() || orphaned_)) {
    COLL_ASSIGN(const std::vector<Event> events, job_->wait_with(until, wakes));
    for (const Event& event : events)
      if (!orphaned_) report(event);
    if (!orphaned_) report_fed();
    // The job's leftovers are removed with its last rank.
    if (job_->running_count() == 0) job_.reset();
  } else {
    COLL_TRY(base::poll_fds(wakes, until));
  }
  if (wakes[2].revents != 0) orphan();
  if (wakes[0].revents != 0) read_input();
  // The word may have arrived while this process had no processor.
  if (!orphaned_ && heard_until_.passed()) read_input();
  if (!orphaned_ && heard_until_.passed()) orphan();
  if (branch_) tend_branch();
  beat();
  flush();
  return {};
}

int Agent::run() {
  for (const int fd : {options_.in_fd, options_.out_fd})
    if (::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK) != 0) return int(ErrorCode::usage);
  greet();
  while (!over())
    if (Status status = turn(); !status) {
      send(AgentFrame::refused, encode_error(status.error()));
      flush();
      return int(status.error().code);
    }
  return orphaned_ ? int(ErrorCode::lost) : 0;
}

}  // namespace

int run_agent(const AgentOptions& options) {
  return Agent(options).run();
}

}  // namespace collctl::launcher

// Opening the channel; the streams are in libssh2_streams.cc.
#include "launcher/ssh/libssh2_channel.h"

#include <algorithm>

#include "base/format.h"
#include "launcher/ssh/prompt.h"

namespace collctl::launcher {
namespace {

constexpr size_t kMostHops = 8;
constexpr int kKeepaliveS = 5;

}  // namespace

Libssh2Channel::Libssh2Channel(HostTarget target, ChannelOptions options, std::string command)
    : target_(std::move(target)),
      options_(std::move(options)),
      command_(std::move(command)),
      deadline_(Deadline::after_seconds(options_.connect_timeout_s)),
      asked_before_ns_(asked_ns()) {
  Hop hop;
  hop.name = target_.name;
  hop.user = asked_user(target_, options_);
  hop.port = asked_port(target_, options_);
  hops_.push_back(std::move(hop));
  ask_configuration();
}

// A reason why a host may not be found, or be another one.
std::string Libssh2Channel::unread_configuration() const {
  for (const Hop& hop : hops_)
    if (!hop.resolved.unread.empty())
      return hop.resolved.unread + " was not read, because ssh is not installed here";
  return {};
}

Libssh2Channel::~Libssh2Channel() {
  release();
}

std::string Libssh2Channel::hop_host(size_t index) const {
  return index + 1 == hops_.size() ? target_.name : hops_[index].name;
}

void Libssh2Channel::set_deadline() {
  deadline_ = Deadline::after_seconds(options_.connect_timeout_s);
  asked_before_ns_ = asked_ns();
}

Stage Libssh2Channel::stage() const {
  switch (step_) {
    case Step::configuration:
      return Stage::configuration;
    case Step::dial:
      return Stage::tcp;
    case Step::session:
      return hops_[current_].session->stage();
    case Step::tunnel:
      return Stage::tcp;
    default:
      return Stage::command;
  }
}

void Libssh2Channel::fail(Error e, std::string incapable) {
  if (current_ + 1 < hops_.size() && step_ != Step::configuration) {
    e.message = format("{}: jump host {}", target_.name, e.message);
    if (e.hint.empty()) e.hint = "the jump host is set by jump= or ProxyJump";
  } else if (e.host.empty()) {
    e.message = target_.name + ": " + e.message;
  }
  e.host = target_.name;
  if (const std::string unread = unread_configuration(); !unread.empty())
    e.hint += (e.hint.empty() ? "" : "; ") + unread + ": install openssh-client";
  error_ = std::move(e);
  incapable_ = std::move(incapable);
  phase_ = ChannelPhase::failed;
  step_ = Step::over;
  lookup_.reset();
  dialer_.reset();
}

void Libssh2Channel::ask_configuration() {
  const Hop& hop = hops_[current_];
  lookup_ = ConfigLookup::ask({hop.name, hop.user, hop.port, options_.config_file});
}

bool Libssh2Channel::look_up() {
  lookup_->progress();
  if (lookup_->waiting()) set_deadline();
  if (!lookup_->result()) return false;
  const std::shared_ptr<ConfigLookup> finished = std::move(lookup_);
  const Result<ResolvedHost>& result = *finished->result();
  if (result) return configured(result.value());
  fail(result.error());
  return false;
}

// The hops are looked up from the host outwards: what the host's configuration names as jump hosts
// comes before it, and what the first of these names before that.
bool Libssh2Channel::configured(const ResolvedHost& resolved) {
  Hop& hop = hops_[current_];
  hop.resolved = resolved;
  const bool is_host = current_ + 1 == hops_.size();
  std::vector<std::string> jumps;
  if (current_ == 0) {
    jumps = is_host && !target_.jump.empty() ? split_list(target_.jump, ',') : resolved.jumps;
    if (jumps.size() == 1 && jumps[0] == hop.name) jumps.clear();  // "Host *" with a ProxyJump
    if (jumps.empty() && !resolved.proxy_command.empty()) {
      fail(Error(ErrorCode::launch,
                 "its SSH configuration has a ProxyCommand, which libssh2 does not support",
                 "use --ssh-client openssh"),
           "the configuration has a ProxyCommand");
      return false;
    }
  }
  if (jumps.size() + hops_.size() > kMostHops) {
    fail(Error(ErrorCode::usage, format("more than {} hops", kMostHops),
               "do the ProxyJump entries of the SSH configuration form a loop?"));
    return false;
  }
  for (size_t i = 0; i < jumps.size(); ++i) {
    const auto jump = parse_jump(jumps[i]);
    if (!jump) {
      fail(Error(ErrorCode::usage, "'" + jumps[i] + "' is not a jump host",
                 "expected [user@]host[:port]"));
      return false;
    }
    Hop more;
    more.name = jump->host;
    more.user = jump->user;
    more.port = jump->port;
    hops_.insert(hops_.begin() + long(i), std::move(more));
  }
  // Next: the first hop that has not been looked up, nearest to us first.
  for (current_ = 0; current_ < hops_.size(); ++current_)
    if (hops_[current_].resolved.host.empty()) {
      ask_configuration();
      return true;
    }
  current_ = 0;
  step_ = Step::dial;
  dialer_ = std::make_unique<Dialer>(hop_host(0), hops_[0].resolved.host, hops_[0].resolved.port,
                                     options_.connect_timeout_s);
  return true;
}

bool Libssh2Channel::dial() {
  dialer_->progress();
  if (dialer_->error()) fail(*dialer_->error());
  if (error_ || !dialer_->connected()) return false;
  where_ = dialer_->where();
  deadline_ = dialer_->deadline();
  asked_before_ns_ = asked_ns();
  auto transport = std::make_unique<SocketTransport>(dialer_->take());
  socket_ = transport.get();
  dialer_.reset();
  add_session(std::move(transport));
  return true;
}

void Libssh2Channel::add_session(std::unique_ptr<Ssh2Transport> transport) {
  Hop& hop = hops_[current_];
  SessionPlan plan;
  plan.login.host = hop_host(current_);
  plan.login.resolved = hop.resolved;
  plan.login.key = asked_key(target_, options_);
  plan.login.may_ask = options_.may_ask;
  plan.login.stop_fd = options_.stop_fd;
  plan.known_hosts = options_.known_hosts;
  plan.where = current_ == 0 ? where_ : format("{}:{}", hop.resolved.host, hop.resolved.port);
  hop.session = std::make_unique<Ssh2Session>(std::move(transport), socket_->fd(), std::move(plan));
  step_ = Step::session;
}

bool Libssh2Channel::log_in() {
  Hop& hop = hops_[current_];
  const StepResult result = hop.session->progress();
  const bool is_host = current_ + 1 == hops_.size();
  if (is_host && hop.session->stage() == Stage::authentication)
    phase_ = ChannelPhase::authenticating;
  if (result == StepResult::failed) fail(*hop.session->error(), hop.session->incapable());
  if (result != StepResult::done) return false;
  libssh2_keepalive_config(hop.session->raw(), 1, kKeepaliveS);
  set_deadline();
  step_ = is_host ? Step::open : Step::tunnel;
  return true;
}

// A direct-tcpip channel of this hop is the transport of the next.
bool Libssh2Channel::dig() {
  Hop& hop = hops_[current_];
  const ResolvedHost& to = hops_[current_ + 1].resolved;
  hop.tunnel = libssh2_channel_direct_tcpip_ex(hop.session->raw(), to.host.c_str(), to.port,
                                               "127.0.0.1", 22);
  if (hop.tunnel == nullptr) {
    const int rc = libssh2_session_last_errno(hop.session->raw());
    if (rc == LIBSSH2_ERROR_EAGAIN) return false;
    Error e(ErrorCode::launch,
            format("{} cannot reach {}:{}: {}", hop.name, to.host, to.port,
                   hop.session->transport().broken() ? "it closed the connection"
                                                     : hop.session->last_error()),
            "does the name resolve there, is the host up, does its sshd allow TCP forwarding?");
    e.host = target_.name;
    fail(std::move(e));
    return false;
  }
  ++current_;
  add_session(std::make_unique<TunnelTransport>(hop.tunnel));
  return true;
}

bool Libssh2Channel::open_channel() {
  channel_ = libssh2_channel_open_session(last().raw());
  if (channel_ != nullptr) {
    step_ = Step::exec;
    return true;
  }
  if (libssh2_session_last_errno(last().raw()) == LIBSSH2_ERROR_EAGAIN) return false;
  fail(last().transport().broken()
           ? connection_closed(target_.name, where_, Stage::command, {})
           : Error(ErrorCode::launch, "the host does not open a session: " + last().last_error(),
                   "see the log of its sshd (MaxSessions, a full process table?)"));
  return false;
}

bool Libssh2Channel::execute() {
  const int rc = libssh2_channel_exec(channel_, command_.c_str());
  if (rc == LIBSSH2_ERROR_EAGAIN) return false;
  if (rc != 0) {
    fail(last().transport().broken()
             ? connection_closed(target_.name, where_, Stage::command, {})
             : Error(ErrorCode::launch,
                     "the host does not start the command: " + last().last_error(),
                     "see the log of its sshd (ForceCommand, the user's shell)"));
    return false;
  }
  socket_->hasten(false);
  phase_ = ChannelPhase::open;
  step_ = Step::run;
  keepalive_due_ns_ = now_ns();
  return true;
}

void Libssh2Channel::advance() {
  bool more = true;
  while (more && step_ != Step::over) {
    switch (step_) {
      case Step::configuration:
        more = look_up();
        break;
      case Step::dial:
        more = dial();
        break;
      case Step::session:
        more = log_in();
        break;
      case Step::tunnel:
        more = dig();
        break;
      case Step::open:
        more = open_channel();
        break;
      case Step::exec:
        more = execute();
        break;
      case Step::run:
        more = run();
        break;
      case Step::over:
        break;
    }
  }
  flush();
}

void Libssh2Channel::progress() {
  // libssh2 also reads from the socket when it writes: what it took in then is asked for by the
  // next round, because no poll will tell of it.
  uint64_t before = 0;
  do {
    before = socket_ != nullptr ? socket_->received_bytes() : 0;
    advance();
  } while (step_ != Step::over && socket_ != nullptr && socket_->received_bytes() != before);
  check_deadline();
  if (step_ == Step::over) release();
}

void Libssh2Channel::check_deadline() {
  if (step_ == Step::over || step_ == Step::run || step_ == Step::dial) return;
  // Time in which a person was asked does not count.
  if (Deadline::at_ns(deadline_.at() + asked_ns() - asked_before_ns_).passed())
    fail(timed_out(hop_host(current_), where_, stage(), options_.connect_timeout_s));
}

void Libssh2Channel::add_interest(std::vector<pollfd>& fds) const {
  if (step_ == Step::over) return;
  if (lookup_) return lookup_->add_interest(fds);
  if (dialer_) return dialer_->add_interest(fds);
  short events = 0;
  if (!full()) events |= POLLIN;
  if (socket_->queued() > 0) events |= POLLOUT;
  if (events != 0) fds.push_back({socket_->fd(), events, 0});
}

Deadline Libssh2Channel::wakeup() const {
  if (step_ == Step::over) return no_wakeup();
  if (lookup_) return lookup_->wakeup().earlier(deadline_);
  if (dialer_) return dialer_->wakeup();
  if (step_ != Step::run) return Deadline::at_ns(deadline_.at() + asked_ns() - asked_before_ns_);
  if (fresh_ || (left_unread_ && !full())) return Deadline::after_ms(0);
  return Deadline::at_ns(keepalive_due_ns_);
}

std::string Libssh2Channel::description() const {
  std::string text = format("libssh2 {}", libssh2_version(0));
  if (!where_.empty()) text += ": " + where_;
  for (size_t i = 0; i + 1 < hops_.size(); ++i)
    text += (i == 0 ? " through " : ", ") + hops_[i].name;
  const std::string how = hops_.back().session ? hops_.back().session->how() : how_;
  if (!how.empty()) text += ", " + how;
  if (const std::string unread = unread_configuration(); !unread.empty()) text += "; " + unread;
  return text;
}

}  // namespace collctl::launcher

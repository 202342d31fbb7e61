// The channel over the system's ssh. The child logs into a pipe of ours at DEBUG1 (-E), so that its
// words do not mix with the command's standard error; from the log come the phase ("Authenticated
// to": the channel is open) and the cause of a failure. The child dies with this process.
#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>

#include "base/env.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "launcher/ssh/child.h"
#include "launcher/ssh/clients.h"
#include "launcher/ssh/known_hosts.h"
#include "launcher/ssh/openssh_command.h"
#include "launcher/ssh/openssh_log.h"
#include "launcher/ssh/prompt.h"

namespace collctl::launcher {
namespace {

using base::Fd;

// ssh has the same limit and tells more; ours catches what it does not cover (the login).
constexpr double kMoreThanSsh = 0.5;
constexpr double kAskingS = 120;  // to type passwords

class OpensshChannel final : public HostChannel {
 public:
  OpensshChannel(HostTarget target, const ChannelOptions& options)
      : target_(std::move(target)),
        user_(asked_user(target_, options)),
        port_(asked_port(target_, options)),
        seconds_(options.connect_timeout_s),
        deadline_(Deadline::after_seconds(options.connect_timeout_s + kMoreThanSsh)),
        asking_deadline_(Deadline::after_seconds(options.connect_timeout_s +
                                                 (options.may_ask ? kAskingS : 0))) {}

  Status start(const ChannelOptions& options, const std::string& command) {
    int fds[2];
    if (::pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0)
      return base::errno_error(ErrorCode::unavailable, "pipe for the log of ssh", errno);
    log_read_ = Fd(fds[0]);
    log_write_ = Fd(fds[1]);
    ChildCommand child;
    child.argv =
        openssh_command(target_, options, command, base::descriptor_path(log_write_.get()));
    child.own_session = !options.may_ask;
    child.dies_with_us = true;
    COLL_ASSIGN(child_, ChildProcess::start(child));
    return {};
  }

  void add_interest(std::vector<pollfd>& fds) const override {
    if (is_over()) return;
    child_->add_interest(fds);
    if (log_read_) fds.push_back({log_read_.get(), POLLIN, 0});
  }
  Deadline wakeup() const override {
    if (is_over()) return no_wakeup();
    return phase_ == ChannelPhase::open ? child_->wakeup() : child_->wakeup().earlier(limit());
  }
  void progress() override;
  ChannelPhase phase() const override { return phase_; }
  std::optional<Error> error() const override { return error_; }
  void write(ByteView data) override { child_->write(data); }
  size_t pending() const override { return child_->pending(); }
  void close_input() override { child_->close_input(); }
  std::string& output() override { return child_->output; }
  std::string& errors() override { return child_->errors; }
  std::optional<int> exit_code() const override { return exit_code_; }
  std::string description() const override {
    std::string text = "ssh of this machine";
    if (!log_.address().empty()) text += ": " + log_.address();
    if (!log_.authenticated_by().empty()) text += ", " + log_.authenticated_by();
    return text;
  }

 private:
  bool is_over() const { return phase_ == ChannelPhase::ended || phase_ == ChannelPhase::failed; }
  Deadline limit() const {
    const Deadline own = log_.stage() >= Stage::authentication ? asking_deadline_ : deadline_;
    return Deadline::at_ns(own.at() + asked_ns() - asked_before_ns_);
  }
  void read_log();
  void finish();
  void fail(Error e) {
    phase_ = ChannelPhase::failed;
    error_ = std::move(e);
    child_->kill();
  }

  const HostTarget target_;
  const std::string user_;
  const int port_;
  const double seconds_;
  const Deadline deadline_, asking_deadline_;
  const int64_t asked_before_ns_ = asked_ns();
  std::unique_ptr<ChildProcess> child_;
  // Ours stays open until ssh has opened it too.
  Fd log_read_, log_write_;
  OpensshLog log_;
  ChannelPhase phase_ = ChannelPhase::connecting;
  std::optional<Error> error_;
  std::optional<int> exit_code_;
};

void OpensshChannel::read_log() {
  std::array<char, 16384> piece;
  while (log_read_) {
    const ssize_t n = ::read(log_read_.get(), piece.data(), piece.size());
    if (n > 0) {
      log_write_.reset();
      log_.feed({piece.data(), size_t(n)});
    } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
      log_read_.reset();
    } else if (errno == EAGAIN) {
      return;
    }
  }
}

void OpensshChannel::finish() {
  if (const auto& e = child_->start_error()) {
    Error failure = *e;
    failure.message = target_.name + ": " + failure.message;
    failure.host = target_.name;
    failure.hint = "install openssh-client, or use --ssh-client libssh2";
    return fail(std::move(failure));
  }
  if (auto killed = child_->killed()) {
    killed->message = target_.name + ": " + killed->message;
    killed->host = target_.name;
    if (phase_ != ChannelPhase::open) {
      killed->code = ErrorCode::launch;
      return fail(std::move(*killed));
    }
    phase_ = ChannelPhase::ended;
    error_ = std::move(killed);
    return;
  }
  if (phase_ != ChannelPhase::open) {
    // Before the command only ssh itself, or the one that leads through a jump host, writes there.
    log_.feed(child_->errors);
    log_.feed("\n");
    return fail(log_.explain(
        {target_.name, user_, seconds_, port_ == 0 ? 22 : port_, fingerprint_of_line}));
  }
  phase_ = ChannelPhase::ended;
  exit_code_ = child_->exit_code();
  if (*exit_code_ == 255 && !log_.command_ended()) {
    exit_code_.reset();
    // "Connection to node01 closed by remote host." is not logged but written like the command's
    // own.
    const std::string& said = child_->errors;
    const size_t at = said.rfind("Connection to ");
    const std::string last = at == std::string::npos ? log_.last_words() : said.substr(at);
    error_ = connection_lost(target_.name, last.substr(0, last.find_first_of(".\r\n")));
  }
}

void OpensshChannel::progress() {
  if (is_over()) return;
  child_->progress();
  read_log();
  if (log_.stage() >= Stage::command || (!child_->output.empty() && !child_->start_error()))
    phase_ = ChannelPhase::open;
  else if (log_.stage() == Stage::authentication)
    phase_ = ChannelPhase::authenticating;
  if (child_->over()) return finish();
  if (phase_ != ChannelPhase::open && limit().passed())
    fail(timed_out(target_.name, log_.address(), log_.stage(), seconds_));
}

}  // namespace

std::string asked_user(const HostTarget& target, const ChannelOptions& options) {
  return target.user.empty() ? options.user : target.user;
}

int asked_port(const HostTarget& target, const ChannelOptions& options) {
  return target.port == 0 ? options.port : target.port;
}

std::string asked_key(const HostTarget& target, const ChannelOptions& options) {
  return target.key.empty() ? options.identity : target.key;
}

bool is_installed(const std::string& program) {
  const std::string path = base::environment("PATH").value_or("/usr/local/bin:/usr/bin:/bin");
  for (size_t at = 0; at <= path.size();) {
    const size_t colon = std::min(path.find(':', at), path.size());
    const std::string file = path.substr(at, colon - at) + "/" + program;
    struct stat s {};
    if (::stat(file.c_str(), &s) == 0 && S_ISREG(s.st_mode) && ::access(file.c_str(), X_OK) == 0)
      return true;
    at = colon + 1;
  }
  return false;
}

Result<std::unique_ptr<HostChannel>> open_openssh_channel(const HostTarget& target,
                                                          const ChannelOptions& options,
                                                          const std::string& command) {
  auto channel = std::make_unique<OpensshChannel>(target, options);
  COLL_TRY(channel->start(options, command));
  return std::unique_ptr<HostChannel>(std::move(channel));
}

}  // namespace collctl::launcher

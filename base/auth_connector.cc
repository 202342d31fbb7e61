#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "base/auth_proof.h"
#include "base/check.h"
#include "base/format.h"
#include "base/peer_closed.h"

namespace collctl::base {

using namespace auth;

namespace {

constexpr int64_t kCancelLookMs = 50;
constexpr int64_t kFirstPauseMs = 10, kLongestPauseMs = 200;
constexpr const char* kSecretHint =
    "check for another job at this address; all ranks of a job need the same COLLCTL_TOKEN or "
    "--token-file";

}  // namespace

namespace {

Status leave_by(int fd, const Source& source) {
  // Kernels before 5.7 let only root do it; then the routes decide.
  if (!source.interface.empty() &&
      setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, source.interface.c_str(),
                 socklen_t(source.interface.size() + 1)) != 0 &&
      errno != EPERM)
    return errno_error(ErrorCode::unavailable, "send by " + source.interface, errno);
  if (source.address.family() == 0) return {};
  Address any_port = source.address;
  any_port.set_port(0);
  if (::bind(fd, any_port.raw(), any_port.length) != 0)
    return errno_error(ErrorCode::unavailable, "bind " + source.address.host_text(), errno);
  return {};
}

}  // namespace

struct AuthConnector::State {
  enum class Stage : uint8_t { pausing, connecting, challenge, answering, proof, finished };
  Fd fd;  // of a timer while pausing
  Address to;
  Source source;
  Secret secret;
  Bytes greeting;
  Stage stage = Stage::connecting;
  std::optional<Error> turned_away;
  bool stranger = false;  // it speaks something else
  int proofs_left = kProofTries;
  int64_t turned_away_ns = 0;  // the first time
  int64_t pause_ms = kFirstPauseMs;
  Challenge challenge{};
  Proof proof{};  // the listener's
  Nonce nonce{};  // ours
  Bytes answer;
  size_t moved = 0;  // of the message of this stage

  Error lost(std::string why) const {
    return Error(ErrorCode::lost, format("{}: {}", to.text(), why));
  }

  // One whole message of this stage: true when it is complete.
  Result<bool> read_message(void* into, size_t bytes) {
    Result<size_t> n = read_some(fd.get(), static_cast<uint8_t*>(into) + moved, bytes - moved);
    if (!n) {
      if (stage != Stage::proof) return lost(n.error().message + " before the handshake");
      Error e = lost(n.error().message + " (it may belong to another job, with another secret)");
      e.hint = kSecretHint;
      return e;
    }
    moved += *n;
    return moved == bytes;
  }

  Status open() {
    fd = Fd(::socket(to.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd) return errno_error(ErrorCode::unavailable, "socket for " + to.text(), errno);
    COLL_TRY(leave_by(fd.get(), source));
    if (::connect(fd.get(), to.raw(), to.length) != 0 && errno != EINPROGRESS && errno != EINTR)
      return connect_error(to, errno);
    return {};
  }

  // Whether a failure of this stage may be due to strangers, there or on the way.
  bool worth_a_pause() {
    if (stage == Stage::proof) return moved == 0 && --proofs_left > 0;
    if (stranger || (stage != Stage::challenge && stage != Stage::answering)) return false;
    if (!turned_away) turned_away_ns = now_ns();
    return double(now_ns() - turned_away_ns) / 1e9 < kTurnedAwaySeconds;
  }

  Status pause() {
    fd = Fd(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    itimerspec when{};
    when.it_value.tv_nsec = pause_ms * 1'000'000;
    if (!fd || ::timerfd_settime(fd.get(), 0, &when, nullptr) != 0)
      return errno_error(ErrorCode::unavailable, "timer", errno);
    pause_ms = std::min(pause_ms * 2, kLongestPauseMs);
    enter(Stage::pausing);
    return {};
  }

  Result<bool> call_again() {
    uint64_t expired;
    if (::read(fd.get(), &expired, sizeof expired) != ssize_t(sizeof expired)) return false;
    COLL_TRY(open());
    return true;
  }

  Result<bool> finish_connect() {
    pollfd p{fd.get(), POLLOUT, 0};
    COLL_ASSIGN(const int ready, poll_fds({&p, 1}, Deadline::at_ns(0)));
    if (ready == 0) return false;
    int failure = 0;
    socklen_t size = sizeof failure;
    if (getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &failure, &size) != 0) failure = errno;
    if (failure != 0) return connect_error(to, failure);
    COLL_TRY(set_no_delay(fd.get()));
    return true;
  }

  Status make_answer() {
    if (challenge.magic == kNoFilesMagic)
      return Error(ErrorCode::unavailable,
                   format("{}: the process there has run out of file descriptors", to.text()),
                   "raise its open-file limit (ulimit -n)");
    stranger = challenge.magic != kChallengeMagic;
    if (stranger && (challenge.magic & 0xffffff) == kAnyVersion) {
      Error e = lost("the collctl there speaks another version of the handshake");
      e.hint = "use the same collctl everywhere";
      return e;
    }
    if (stranger) return lost("it is not a collctl listener (something else uses this port)");
    COLL_TRY(fill_random(nonce));
    const Answer head{kAnswerMagic, uint32_t(greeting.size()), nonce,
                      prove(secret, Role::connector, challenge.nonce, nonce, greeting)};
    ByteWriter w;
    w.put(head);
    answer = w.take();
    answer.insert(answer.end(), greeting.begin(), greeting.end());
    return {};
  }

  Result<bool> write_answer() {
    Result<size_t> n = write_some(fd.get(), answer.data() + moved, answer.size() - moved);
    if (!n) return lost(n.error().message);
    moved += *n;
    return moved == answer.size();
  }

  Status check_proof() const {
    const Proof expected = prove(secret, Role::listener, challenge.nonce, nonce, greeting);
    if (equal_constant_time(expected, proof)) return {};
    Error e = lost("it does not know the job's secret");
    e.hint = kSecretHint;
    return e;
  }

  void enter(Stage next) {
    stage = next;
    moved = 0;
  }

  // Does what this stage can do now: true when it is complete.
  Result<bool> step() {
    bool complete = false;
    switch (stage) {
      case Stage::pausing:
        return call_again();
      case Stage::connecting:
        return finish_connect();
      case Stage::challenge: {
        COLL_ASSIGN(complete, read_message(&challenge, sizeof challenge));
        if (complete) COLL_TRY(make_answer());
        return complete;
      }
      case Stage::answering:
        return write_answer();
      case Stage::proof: {
        COLL_ASSIGN(complete, read_message(&proof, sizeof proof));
        if (complete) COLL_TRY(check_proof());
        return complete;
      }
      case Stage::finished:
        break;
    }
    return true;
  }
};

AuthConnector::AuthConnector() : state_(std::make_unique<State>()) {}
AuthConnector::~AuthConnector() = default;

Result<std::unique_ptr<AuthConnector>> AuthConnector::start(const Address& to, const Secret& secret,
                                                            ByteView greeting,
                                                            const Source& source) {
  COLL_CHECK_NOTE(greeting.size() <= kMaxGreeting, "greeting too long");
  std::unique_ptr<AuthConnector> made(new AuthConnector);
  State& s = *made->state_;
  s.to = to;
  s.secret = secret;
  s.greeting.assign(greeting.begin(), greeting.end());
  s.source = source;
  COLL_TRY(s.open());
  return made;
}

int AuthConnector::fd() const {
  return state_->fd.get();
}

short AuthConnector::events() const {
  using Stage = State::Stage;
  return state_->stage == Stage::connecting || state_->stage == Stage::answering ? POLLOUT : POLLIN;
}

bool AuthConnector::connected() const {
  return state_->stage > State::Stage::connecting || state_->turned_away;
}

const std::optional<Error>& AuthConnector::turned_away() const {
  return state_->turned_away;
}

Result<bool> AuthConnector::progress() {
  using Stage = State::Stage;
  State& s = *state_;
  while (s.stage != Stage::finished) {
    Result<bool> complete = s.step();
    if (complete && !*complete) return false;
    if (complete) {
      s.enter(Stage(uint8_t(s.stage) + 1));
    } else {
      if (!s.worth_a_pause()) return std::move(complete.error());
      s.turned_away = std::move(complete.error());
      COLL_TRY(s.pause());
    }
  }
  return true;
}

Session AuthConnector::session() const {
  const State& s = *state_;
  COLL_CHECK(s.stage == State::Stage::finished);
  return session_of(s.secret, true, s.challenge.nonce, s.nonce, s.greeting);
}

Fd AuthConnector::take() {
  COLL_CHECK(state_->stage == State::Stage::finished);
  return std::move(state_->fd);
}

Result<Fd> auth_connect(const Address& to, const Secret& secret, ByteView greeting,
                        Deadline deadline, const Source& source, uint32_t* cancelled,
                        Session* session) {
  int64_t pause_ms = 1;
  const auto is_cancelled = [&] {
    return cancelled != nullptr &&
           std::atomic_ref<uint32_t>(*cancelled).load(std::memory_order_acquire) != 0;
  };
  while (!is_cancelled()) {
    Result<std::unique_ptr<AuthConnector>> started =
        AuthConnector::start(to, secret, greeting, source);
    if (!started && started.error().code != ErrorCode::lost) return std::move(started.error());
    Error failure;
    bool reached = false;
    if (started) {
      AuthConnector& c = **started;
      Result<bool> done = c.progress();
      while (done && !*done && !is_cancelled()) {
        pollfd p{c.fd(), c.events(), 0};
        const Deadline look = deadline.earlier(Deadline::after_ms(kCancelLookMs));
        COLL_ASSIGN(const int ready, poll_fds({&p, 1}, cancelled == nullptr ? deadline : look));
        if (ready == 0 && deadline.passed() && c.turned_away()) return *c.turned_away();
        if (ready == 0 && deadline.passed() && !c.connected()) return no_connection(to.text());
        if (ready == 0 && deadline.passed())
          return Error(ErrorCode::deadline,
                       to.text() +
                           ": the other side did not finish the handshake before the "
                           "deadline",
                       "its process is stopped, or something else listens there");
        if (ready != 0) done = c.progress();
      }
      if (done && *done) {
        if (session != nullptr) *session = c.session();
        return c.take();
      }
      if (done) break;
      failure = std::move(done.error());
      reached = c.connected();
    } else {
      failure = std::move(started.error());
    }
    // Reached and turned down is an answer; not reached may only be too early.
    if (reached || deadline.remaining_ns() < pause_ms * 1'000'000) return failure;
    sleep_until(Deadline::after_ms(pause_ms));
    pause_ms = std::min<int64_t>(pause_ms * 2, 200);
  }
  return Error(ErrorCode::lost, "stopped because the communicator was aborted");
}

}  // namespace collctl::base

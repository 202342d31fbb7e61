#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <deque>
#include <list>

#include <fcntl.h>

#include "base/auth_proof.h"
#include "base/log.h"

namespace collctl::base {
namespace {

using namespace auth;

constexpr size_t kMaxPending = 4096;  // of a process, and no more than a quarter of its descriptors
std::atomic<size_t> g_pending{0};     // handshakes of all listeners
constexpr size_t kAcceptsPerTurn = 512;
// Warnings about strangers; further ones are only informational, so that a scanner cannot flood.
constexpr uint64_t kWarnings = 16;

size_t most_pending() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return kMaxPending;
  return std::min<size_t>(kMaxPending, files.rlim_cur / 4);
}

enum class Step : uint8_t { waiting, finished, drop };

struct Counted {
  Counted() { ++g_pending; }
  Counted(Counted&&) noexcept { ++g_pending; }
  Counted& operator=(Counted&&) noexcept { return *this; }
  ~Counted() { --g_pending; }
};

struct Pending {
  Counted counted{};
  Fd fd;
  Address from;
  int64_t since_ns = 0;
  Nonce nonce{};
  Answer answer{};
  size_t got = 0;  // of the answer, then of the greeting behind it
  Bytes greeting;
  Session session;
  std::string why;  // of a drop
  bool wrong_proof = false;
};

Step dropped_because(Pending& p, std::string why) {
  p.why = std::move(why);
  return Step::drop;
}

// Reads what has arrived of the answer and its greeting, and no byte beyond.
Step read_answer(Pending& p) {
  while (true) {
    const bool head = p.got < sizeof p.answer;
    uint8_t* to = head ? reinterpret_cast<uint8_t*>(&p.answer) + p.got
                       : p.greeting.data() + (p.got - sizeof p.answer);
    const size_t want =
        head ? sizeof p.answer - p.got : sizeof p.answer + p.greeting.size() - p.got;
    if (want == 0) return Step::finished;
    const Result<size_t> n = read_some(p.fd.get(), to, want);
    if (!n) return dropped_because(p, n.error().message);
    if (*n == 0) return Step::waiting;
    p.got += *n;
    if (p.got == sizeof p.answer) {
      if (p.answer.magic != kAnswerMagic || p.answer.greeting_bytes > kMaxGreeting)
        return dropped_because(p, "it does not speak this protocol");
      p.greeting.resize(p.answer.greeting_bytes);
    }
  }
}

Step advance(Pending& p, const Secret& secret) {
  const Step step = read_answer(p);
  if (step != Step::finished) return step;
  const Proof expected = prove(secret, Role::connector, p.nonce, p.answer.nonce, p.greeting);
  if (!equal_constant_time(expected, p.answer.proof)) {
    p.wrong_proof = true;
    return dropped_because(p, "it does not know the job's secret");
  }
  const Proof ours = prove(secret, Role::listener, p.nonce, p.answer.nonce, p.greeting);
  const Result<size_t> n = write_some(p.fd.get(), ours.data(), ours.size());
  if (!n) return dropped_because(p, n.error().message);
  p.session = session_of(secret, false, p.nonce, p.answer.nonce, p.greeting);
  // The send buffer held only our challenge before: it has room, or the peer plays games.
  return *n == ours.size() ? Step::finished : dropped_because(p, "it does not read");
}

}  // namespace

struct AuthListener::State {
  Fd listener;
  Fd spare;  // closed for a moment to send a caller away when descriptors have run out
  Address address;
  Secret secret;
  std::list<Pending> pending;  // oldest first
  std::deque<Accepted> ready;
  uint64_t dropped = 0;

  void drop(const Pending& p) {
    ++dropped;
    const std::string who = p.from.length == 0 ? "a caller" : p.from.text();
    if ((p.wrong_proof || p.got > 0) && dropped <= kWarnings)
      COLL_WARN("rejected {} at {}: {}", who, address.text(), p.why);
    else
      COLL_INFO(bootstrap, "rejected {} at {}: {}", who, address.text(), p.why);
  }

  void drop_late() {
    const int64_t now = now_ns();
    const int64_t late_ns = int64_t(kHandshakeSeconds * 1e9);
    while (!pending.empty() && now - pending.front().since_ns > late_ns) {
      pending.front().why = "no proof within the handshake timeout";
      drop(pending.front());
      pending.pop_front();
    }
  }

  void challenge(Fd fd) {
    Pending p;
    p.fd = std::move(fd);
    p.since_ns = now_ns();
    if (auto from = peer_address(p.fd.get())) p.from = *from;
    Challenge c{kChallengeMagic, 0, {}};
    Status prepared = fill_random(c.nonce);
    if (prepared) prepared = set_no_delay(p.fd.get());
    p.nonce = c.nonce;
    Result<size_t> n = prepared ? write_some(p.fd.get(), &c, sizeof c)
                                : Result<size_t>(std::move(prepared.error()));
    if (n && *n == sizeof c) {
      pending.push_back(std::move(p));
      return;
    }
    p.why = n ? "it does not read" : n.error().message;
    drop(p);
  }

  // Descriptors have run out: without this the listener would stay readable and its thread spin.
  void refuse_one() {
    spare.reset();
    if (Result<Fd> fd = accept_now(listener.get()); fd && *fd) {
      Pending p;
      if (auto from = peer_address(fd->get())) p.from = *from;
      p.got = 1;  // worth a warning
      p.why = "this process has run out of file descriptors (ulimit -n)";
      // Without it the caller could only say that this process is gone.
      const Challenge refusal{kNoFilesMagic, 0, {}};
      if (!write_some(fd->get(), &refusal, sizeof refusal)) p.why += ", and the caller is gone";
      drop(p);
    }
    spare = Fd(::fcntl(listener.get(), F_DUPFD_CLOEXEC, 0));
  }

  // Returns the next one.
  std::list<Pending>::iterator settle(std::list<Pending>::iterator it, Step step) {
    if (step == Step::waiting) return std::next(it);
    if (step == Step::finished)
      ready.push_back({std::move(it->fd), std::move(it->greeting), it->from, it->session});
    else
      drop(*it);
    return pending.erase(it);
  }

  void accept_callers() {
    for (size_t i = 0; i < kAcceptsPerTurn; ++i) {
      Result<Fd> fd = accept_now(listener.get());
      if (!fd) return refuse_one();
      if (!*fd) return;
      while (!pending.empty() && g_pending >= most_pending()) {
        // A connector that knows the secret needs microseconds: the oldest is the likeliest
        // stranger, unless its answer is there by now.
        Step step = advance(pending.front(), secret);
        if (step == Step::waiting)
          step = dropped_because(pending.front(), "too many handshakes are pending");
        settle(pending.begin(), step);
      }
      challenge(std::move(*fd));
    }
  }

  void serve_pending() {
    std::vector<pollfd> fds;
    fds.reserve(pending.size());
    for (const Pending& p : pending) fds.push_back({p.fd.get(), POLLIN, 0});
    if (fds.empty()) return;
    if (const auto n = poll_fds(fds, Deadline::at_ns(0)); !n || *n == 0) return;
    size_t i = 0;
    for (auto it = pending.begin(); it != pending.end(); ++i) {
      it = settle(it, fds[i].revents == 0 ? Step::waiting : advance(*it, secret));
    }
  }
};

AuthListener::AuthListener() : state_(std::make_unique<State>()) {}
AuthListener::~AuthListener() = default;

Result<std::unique_ptr<AuthListener>> AuthListener::listen(const Address& at, const Secret& secret,
                                                           bool reuse_port) {
  std::unique_ptr<AuthListener> made(new AuthListener);
  State& s = *made->state_;
  COLL_ASSIGN(s.listener, listen_tcp(at, reuse_port));
  COLL_ASSIGN(s.address, local_address(s.listener.get()));
  s.spare = Fd(::fcntl(s.listener.get(), F_DUPFD_CLOEXEC, 0));
  if (!s.spare) return errno_error(ErrorCode::unavailable, "spare descriptor", errno);
  s.secret = secret;
  return made;
}

const Address& AuthListener::address() const {
  return state_->address;
}

void AuthListener::add_interest(std::vector<pollfd>& fds) const {
  fds.push_back({state_->listener.get(), POLLIN, 0});
  for (const Pending& p : state_->pending) fds.push_back({p.fd.get(), POLLIN, 0});
}

void AuthListener::handle() {
  state_->drop_late();
  state_->accept_callers();
  state_->serve_pending();
}

std::optional<Accepted> AuthListener::next() {
  if (state_->ready.empty()) return std::nullopt;
  Accepted accepted = std::move(state_->ready.front());
  state_->ready.pop_front();
  return accepted;
}

Result<Accepted> AuthListener::accept_one(Deadline deadline) {
  while (true) {
    handle();
    if (auto accepted = next()) return std::move(*accepted);
    std::vector<pollfd> fds;
    add_interest(fds);
    COLL_ASSIGN(const int ready, poll_fds(fds, deadline));
    if (ready == 0)
      return Error(ErrorCode::deadline,
                   format("no peer with the job's secret connected to {} before the deadline",
                          state_->address.text()));
  }
}

uint64_t AuthListener::dropped() const {
  return state_->dropped;
}

}  // namespace collctl::base

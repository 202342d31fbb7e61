// Connections that prove they belong to the job. Both sides show that they know the secret by an
// HMAC-SHA256 over both sides' nonces and the connector's greeting (compared in constant time); who
// fails, or takes longer than kHandshakeSeconds, is dropped and logged and never blocks others.
//
// AuthListener is poll-driven: add_interest() appends its descriptors, handle() does what is
// possible now, next() hands out finished connections. accept_one() is the blocking form with a
// deadline. Threads: one thread at a time per listener. The listener owns its sockets until next()
// hands them out.
#pragma once
#include <poll.h>

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/socket.h"

namespace collctl::base {

struct Secret {
  std::array<uint8_t, 16> bytes{};
};
Result<Secret> random_secret();  // getrandom(2), not std::random_device (glibc floor)
Status fill_random(std::span<uint8_t> bytes);
// The secret derived from this token, the same for all who hold it; by scrypt, so that guessing
// tokens from a handshake that was heard costs 32 MiB and some 0.1 s each. Error unavailable: no
// memory.
Result<Secret> secret_from_token(std::string_view token);
// HMAC-SHA256 (OpenSSL).
std::array<uint8_t, 32> hmac_sha256(const Secret& secret, std::initializer_list<ByteView> parts);
bool equal_constant_time(ByteView a, ByteView b);

inline constexpr double kHandshakeSeconds = 5.0;
// Twice as long as a stranger can keep a place: who turns away for longer lacks descriptors itself.
inline constexpr double kTurnedAwaySeconds = 2 * kHandshakeSeconds;
inline constexpr size_t kMaxGreeting = 4096;
inline constexpr int kProofTries = 3;

// Result of a finished handshake, known to both sides and to nobody who only listened: a key of
// this one connection, for the MACs of what follows (where its owner wants them).
struct Session {
  Secret key = {};
  bool connector = false;  // this is that side
};

struct Accepted {
  Fd fd;
  Bytes greeting;  // what the connector said it is
  Address from;
  Session session;
};

class AuthListener {
 public:
  // Listens on `at` (port 0: any free one).
  static Result<std::unique_ptr<AuthListener>> listen(const Address& at, const Secret& secret,
                                                      bool reuse_port = false);
  ~AuthListener();
  const Address& address() const;  // with the port in use
  void add_interest(std::vector<pollfd>& fds) const;
  void handle();  // non-blocking: accepts, reads, answers, drops late ones
  std::optional<Accepted> next();
  Result<Accepted> accept_one(Deadline deadline);
  uint64_t dropped() const;  // connections rejected so far

 private:
  AuthListener();
  struct State;
  std::unique_ptr<State> state_;
};

// Where a connection leaves this host; empty: by the routing table.
struct Source {
  Address address{};      // family 0: any; its port is not used
  std::string interface;  // the packets leave by it, whatever the routes prefer
};

// The connector's side as a state machine, for threads that wait for other things as well: poll
// fd() for events(), call progress() when ready, take() once it said true. An error (code lost) is
// final; connected() tells whether the other side had been reached. A listener that hangs up, or
// says that it has no descriptors left, before it has proved anything may be a stranger or crowded
// by strangers: it is called again, after a pause, for kTurnedAwaySeconds; turned_away() is what it
// said. One that hangs up on our own proof is asked kProofTries times.
class AuthConnector {
 public:
  static Result<std::unique_ptr<AuthConnector>> start(const Address& to, const Secret& secret,
                                                      ByteView greeting, const Source& source = {});
  ~AuthConnector();
  int fd() const;
  short events() const;
  Result<bool> progress();
  bool connected() const;
  const std::optional<Error>& turned_away() const;
  Fd take();
  Session session() const;  // once progress() said true

 private:
  AuthConnector();
  struct State;
  std::unique_ptr<State> state_;
};

// Connects (retrying until the deadline), proves itself, checks the listener's proof. Error
// code lost when the other side does not know the secret or hangs up, and once another thread
// has set *cancelled to nonzero (null: not cancellable).
Result<Fd> auth_connect(const Address& to, const Secret& secret, ByteView greeting,
                        Deadline deadline, const Source& source = {}, uint32_t* cancelled = nullptr,
                        Session* session = nullptr);

}  // namespace collctl::base

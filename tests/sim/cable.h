// The way between a launcher (or an agent that carries others) and the agent on a host: a
// connection as SSH makes it, and the network below, which loses, delays and divides. Threads: the
// world's.
#pragma once
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/fd.h"
#include "launcher/ssh/channel.h"
#include "tests/sim/world.h"

namespace collctl::sim {

class Network;

// One direction: takes from one descriptor, gives to another what has arrived.
class Wire : public Mover {
 public:
  Wire(Network& network, std::string from, std::string to, int in, int out);
  ~Wire() override;
  pollfd interest() const override;
  void move() override;
  void deliver();
  void repeat_frame() { repeats_ = true; }

 private:
  struct Piece {
    int64_t at;
    std::string bytes;  // empty: the end
  };
  Network& network_;
  std::string from_, to_;
  int in_, out_;
  bool ended_ = false, repeats_ = false, retries_ = false;
  int64_t last_at_ = 0;
  std::deque<Piece> flight_;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);  // while events may still find it
};

// A connection to the agent of one host.
struct Cable {
  Cable(Network& network, const std::string& from, const std::string& to);
  std::string from, to;
  base::Fd near, near_inside, far_inside, far;  // the client's end, the network's, the agent's
  std::optional<int> exit_code;                 // of the agent
  std::unique_ptr<Wire> down, up;
};

// Hosts by name ("head" is the launcher's) and what passes between them.
class Network {
 public:
  // Starts the agent of a host that has been reached.
  using Login = std::function<void(const std::string& host, std::shared_ptr<Cable>)>;
  explicit Network(Login login) : login_(std::move(login)) {}

  // For ChannelOptions::open of who runs on `from`.
  launcher::OpenChannel opener(const std::string& from);
  // Nothing passes from one to the other any more; again: it does, with what was on its way.
  void cut(const std::string& from, const std::string& to, bool cut);
  void cut_off(const std::string& host, bool cut);  // from all others, both ways
  bool passes(const std::string& from, const std::string& to) const;
  void slow_start(const std::string& host, int64_t ns) { slow_[host] = ns; }
  int64_t latency();  // of one piece
  int64_t login_ns(const std::string& host);
  // A connection that stands; the network keeps it to its end.
  std::shared_ptr<Cable> connect(const std::string& from, const std::string& to);
  // The process there is dead: its ends of connections are closed, and it says nothing any more.
  void silence(const std::string& from);
  // The most that one piece takes.
  void set_latency(int64_t most_ns) { most_latency_ = most_ns; }
  // The next message that the host's agent sends comes twice.
  void repeat_from(const std::string& host);

 private:
  Login login_;
  std::set<std::pair<std::string, std::string>> cut_;
  std::set<std::string> off_;
  std::map<std::string, int64_t> slow_;
  int64_t most_latency_ = 2 * kMs;
  std::vector<std::shared_ptr<Cable>> cables_;
};

}  // namespace collctl::sim

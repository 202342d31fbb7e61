// HostChannel: one command that runs on another host, with its three streams. It is made by one of
// the clients (launcher/ssh: libssh2, the system's ssh; or a child process for this very host) and
// driven by one poll loop for all hosts: add_interest, poll until wakeup(), progress. Nothing here
// blocks, except for a prompt at the terminal (may_ask): its time moves the deadlines
// of all hosts. Threads: the loop's. Closing a channel does not end the remote command by itself:
// that is left to the remote agent, which sees its standard input end.
#pragma once
#include <poll.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"

namespace collctl::launcher {

// connecting: name, TCP, jump hosts, banner, key exchange, host key. open: the command was started.
// ended: it is over (or the connection was lost after it had been opened: error() says so).
// failed: it never ran; error() says why.
enum class ChannelPhase : uint8_t { connecting, authenticating, open, ended, failed };

class HostChannel {
 public:
  // Limit of what has arrived and not been taken; above it the channel stops reading.
  static constexpr size_t kMostBuffered = 4 << 20;

  virtual ~HostChannel() = default;
  virtual void add_interest(std::vector<pollfd>& fds) const = 0;
  // progress() is due by then even if no descriptor is ready.
  virtual Deadline wakeup() const = 0;
  virtual void progress() = 0;
  virtual ChannelPhase phase() const = 0;
  // With failed, and with ended when the connection broke. Code launch or lost; host is set.
  virtual std::optional<Error> error() const = 0;
  // Queued; written by progress() once the channel is open.
  virtual void write(ByteView data) = 0;
  virtual size_t pending() const = 0;  // bytes queued and not yet taken by the connection
  virtual void close_input() = 0;      // end of the command's standard input, after the queue
  // Output of the command; the caller erases what it has used.
  virtual std::string& output() = 0;
  virtual std::string& errors() = 0;
  virtual std::optional<int> exit_code() const = 0;  // with ended, when known; 128+N for signal N
  // For -v and the doctor: "libssh2: 10.0.0.7:22, key ~/.ssh/id_ed25519".
  virtual std::string description() const = 0;
};

enum class SshClient : uint8_t { automatic, libssh2, openssh };
enum class KnownHosts : uint8_t { strict, accept_new, off };

// Where to connect to: from the hostfile or -H; empty and 0 mean "as the SSH configuration says".
struct HostTarget {
  std::string name;  // as the user wrote it, and as messages name the host
  std::string user;
  int port = 0;
  std::string key;   // identity file
  std::string jump;  // [user@]host[:port]
};

struct ChannelOptions;
// Starts to connect, in place of SSH: returns as open_ssh_channel does, without a command.
using OpenChannel =
    std::function<Result<std::unique_ptr<HostChannel>>(const HostTarget&, const ChannelOptions&)>;

struct ChannelOptions {
  SshClient client = SshClient::automatic;
  KnownHosts known_hosts = KnownHosts::strict;
  std::string config_file;  // --ssh-config; empty: the user's and the system's
  std::string user;         // --ssh-user, --ssh-port, -i: for hosts that name none themselves
  int port = 0;
  std::string identity;
  double connect_timeout_s = 10;  // from TCP to authenticated
  bool may_ask = false;           // passwords and passphrases may be asked for at the terminal
  int stop_fd = -1;               // readable: a signal arrived, prompts stop
  OpenChannel open;               // empty: by SSH, or as a process of this host
};

// Starts to connect. Errors are those of this machine (code usage, unavailable); everything about
// the host comes through the channel.
Result<std::unique_ptr<HostChannel>> open_ssh_channel(const HostTarget& target,
                                                      const ChannelOptions& options,
                                                      const std::string& command);
// The same for this host: argv as a child process in a session of its own.
Result<std::unique_ptr<HostChannel>> open_process_channel(const std::string& name,
                                                          const std::vector<std::string>& argv);

}  // namespace collctl::launcher

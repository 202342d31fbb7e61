// The channel over libssh2: name and configuration, TCP, jump hosts, login, one command. See
// channel.h for what it promises.
#pragma once
#include <memory>
#include <string>

#include "launcher/ssh/channel.h"
#include "launcher/ssh/clients.h"
#include "launcher/ssh/config_lookup.h"
#include "launcher/ssh/dialer.h"
#include "launcher/ssh/ssh2_session.h"

namespace collctl::launcher {

class Libssh2Channel final : public HostChannel {
 public:
  Libssh2Channel(HostTarget target, ChannelOptions options, std::string command);
  ~Libssh2Channel() override;
  void add_interest(std::vector<pollfd>& fds) const override;
  Deadline wakeup() const override;
  void progress() override;
  ChannelPhase phase() const override { return phase_; }
  std::optional<Error> error() const override { return error_; }
  void write(ByteView data) override;
  size_t pending() const override;
  void close_input() override { close_input_ = fresh_ = true; }
  std::string& output() override { return output_; }
  std::string& errors() override { return errors_; }
  std::optional<int> exit_code() const override { return exit_code_; }
  std::string description() const override;
  // With failed: why the system's ssh may succeed where libssh2 did not; empty: it would not.
  const std::string& incapable() const { return incapable_; }

 private:
  // One SSH connection on the path: the jump hosts, then the host.
  struct Hop {
    std::string name;  // alias or host, for the configuration
    std::string user;
    int port = 0;
    ResolvedHost resolved;
    std::unique_ptr<Ssh2Session> session;
    LIBSSH2_CHANNEL* tunnel = nullptr;  // to the next hop; freed with the session
  };
  enum class Step : uint8_t { configuration, dial, session, tunnel, open, exec, run, over };

  void advance();
  bool look_up();  // these make progress; true: go on with the next step at once
  bool configured(const ResolvedHost& resolved);
  bool dial();
  bool log_in();
  bool dig();
  bool open_channel();
  bool execute();
  bool run();
  void ask_configuration();
  void add_session(std::unique_ptr<Ssh2Transport> transport);
  bool read_streams();
  void write_queue();
  void flush();
  bool finish();
  void keep_alive();
  void release();  // ends the connections; nothing but the results is left
  void check_deadline();
  void set_deadline();
  void fail(Error e, std::string incapable = {});
  void lose(const std::string& why);
  bool full() const { return output_.size() >= kMostBuffered || errors_.size() >= kMostBuffered; }
  Stage stage() const;
  std::string unread_configuration() const;
  std::string hop_host(size_t index) const;  // what messages call it
  Ssh2Session& last() const { return *hops_.back().session; }

  HostTarget target_;
  ChannelOptions options_;
  std::string command_;
  Step step_ = Step::configuration;
  ChannelPhase phase_ = ChannelPhase::connecting;
  std::vector<Hop> hops_;  // the last is the host itself
  size_t current_ = 0;     // hop that is being looked up, later logged in
  std::shared_ptr<ConfigLookup> lookup_;
  std::unique_ptr<Dialer> dialer_;
  SocketTransport* socket_ = nullptr;  // owned by the first hop's session
  std::string where_, how_;
  LIBSSH2_CHANNEL* channel_ = nullptr;
  Deadline deadline_;
  int64_t asked_before_ns_ = 0;
  int64_t keepalive_due_ns_ = 0, paused_until_ns_ = 0, looked_ns_ = 0;
  std::string queue_, output_, errors_;
  size_t sent_ = 0;
  bool fresh_ = false;  // written to since the last progress(): no descriptor tells of that
  bool close_input_ = false, eof_sent_ = false, left_unread_ = false;
  std::optional<Error> error_;
  std::optional<int> exit_code_;
  std::string incapable_;
};

}  // namespace collctl::launcher

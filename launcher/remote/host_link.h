// HostLink: one host of a job from "not tried yet" to "its agent sends frames", over a
// HostChannel, or carried by the agent of another host, which has that channel. Used by HostPool,
// which drives all links in one loop. Threads: the loop's.
#pragma once
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/hosts/hostfile.h"
#include "launcher/remote/agent_protocol.h"
#include "launcher/remote/binary.h"
#include "launcher/remote/stage.h"
#include "launcher/ssh/channel.h"

namespace collctl::launcher {

enum class HostPhase : uint8_t {
  waiting,     // for its turn (--fanout)
  connecting,  // name, TCP, key exchange, host key
  authenticating,
  starting,  // the login shell runs our command
  staging,   // the binary is being sent
  up,        // the agent answers
  left,      // over, in order
  failed     // error says why and in which phase
};
const char* phase_name(HostPhase phase);  // "authenticating"

// Seconds from the pool's start at which a phase was reached; negative: not reached.
struct HostTimes {
  double connecting = -1, authenticating = -1, starting = -1, staging = -1, up = -1;
};

struct BranchPhase;

class HostLink {
 public:
  HostLink(const HostSpec& spec, bool is_this_host, int64_t epoch_ns);
  const HostSpec& spec() const { return spec_; }
  HostPhase phase() const { return phase_; }
  const std::optional<Error>& error() const { return error_; }
  // The error's chain without the host's name, with which clients begin it.
  std::string cause() const;
  const HostTimes& times() const { return times_; }
  const AgentHello& hello() const { return hello_; }  // once up
  std::string client() const;  // how it is connected: HostChannel::description()
  bool is_this_host() const { return is_this_host_; }

  // The agent of `carrier`, which is up and has been told, reaches this host and passes its frames
  // on. That agent also reports what happens to this host.
  void be_carried(HostLink& carrier);
  const HostLink* carrier() const { return carrier_; }
  // It was up only in the second half of the time until now.
  bool up_late() const;
  // Words for how the carrier held this host up: it has been silent for some beats, or was up late
  // itself. Empty: it did not, or there is none.
  std::string held_up() const;
  // The carrier is gone, or has let go of all: so has this one, or is cut off.
  void carrier_gone();

  void open(const ChannelOptions& ssh, const StageOptions& stage);
  void add_interest(std::vector<pollfd>& fds) const;
  Deadline wakeup() const;
  void progress(BinarySource& binary);
  // Frames once up. The queue is unbounded: see pending().
  void send(AgentFrame type, ByteView payload);
  size_t pending() const;
  // Also after the host was lost: what had arrived by then.
  std::optional<RawFrame> take_frame();
  std::string take_talk();  // what the agent wrote on its standard error
  int64_t heard_ns() const { return heard_ns_; }
  // Logged in, and the login shell has not come to our command.
  bool in_shell() const { return phase_ == HostPhase::starting && !shell_ran_ && !speaks_frames_; }
  void forgive_silence(int64_t now) { heard_ns_ = now; }
  // Fails the host; keeps the first error. The channel is closed.
  void fail(Error error);
  // The same, where another host is to be named: the one through which this one is reached.
  void fail_behind(const Host& carrier, Error error);
  // While it waits for another that is to carry it, as its own carrier says; else nobody.
  const Host& waits_for() const { return waits_for_; }
  // The same for a host that sends malformed data: what else it has sent is dropped.
  void reject(Error error);
  // Dismisses the agent; `left` when it has exited.
  void leave();

 private:
  void enter(HostPhase phase);
  void read_words(BinarySource& binary);
  void handle_word(const std::string& word, BinarySource& binary);
  void read_frames();
  void sort_frames();
  bool hand_on(const RawFrame& frame);
  bool hear(AgentFrame type, ByteView payload);
  void hear_phase(BranchPhase word);
  void greeted(ByteView payload);
  void keep(RawFrame frame);
  void drop_frames();
  void feed_binary();
  void ended();

  HostSpec spec_;
  bool is_this_host_;
  int64_t epoch_ns_;
  HostPhase phase_ = HostPhase::waiting;
  HostTimes times_;
  std::unique_ptr<HostChannel> channel_;
  std::string client_;
  std::optional<Error> error_;
  AgentHello hello_;
  std::string machine_;  // another architecture than this one's, as the host says
  std::string noise_;    // output before the first frame that is not part of the protocol
  std::string talk_;
  ByteView sending_;  // the binary, while staging; what is left of it
  bool speaks_frames_ = false, leaving_ = false, shell_ran_ = false;
  FrameParser parser_;
  std::deque<RawFrame> frames_;  // to be taken
  int64_t heard_ns_ = 0;
  HostLink* carrier_ = nullptr;
  Host waits_for_;
  uint32_t number_ = 0;             // among those that the carrier carries
  std::vector<HostLink*> carried_;  // by number
  size_t kept_ = 0;                 // bytes in frames_, its own and those of all it carries
};

}  // namespace collctl::launcher

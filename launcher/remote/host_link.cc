#include "launcher/remote/host_link.h"

#include <algorithm>

#include "base/format.h"
#include "base/host_facts.h"
#include "base/rank_env.h"
#include "launcher/remote/branch_order.h"

namespace collctl::launcher {
namespace {

constexpr std::string_view kMachine = "machine ";
constexpr size_t kMostNoise = 4096;
constexpr size_t kStageAhead = 1 << 20;  // of the binary, queued in the channel
constexpr size_t kMostFrames = 1 << 20;  // not yet taken; a single one may be larger
constexpr size_t kMostTalk = 64 << 10;

constexpr double kSilentBeats = 3;  // missed by a host that carries others: it is the one to name

size_t weight(const RawFrame& frame) {
  return sizeof frame + frame.payload.size();
}

}  // namespace

const char* phase_name(HostPhase phase) {
  switch (phase) {
    case HostPhase::waiting:
      return "waiting";
    case HostPhase::connecting:
      return "connecting";
    case HostPhase::authenticating:
      return "authenticating";
    case HostPhase::starting:
      return "starting the agent";
    case HostPhase::staging:
      return "staging";
    case HostPhase::up:
      return "up";
    case HostPhase::left:
      return "done";
    case HostPhase::failed:
      return "failed";
  }
  return "";
}

HostLink::HostLink(const HostSpec& spec, bool is_this_host, int64_t epoch_ns)
    : spec_(spec), is_this_host_(is_this_host), epoch_ns_(epoch_ns) {}

std::string HostLink::client() const {
  return channel_ ? channel_->description() : client_;
}

std::string HostLink::cause() const {
  const std::string head = spec_.name + ": ";
  const std::string text = error_ ? error_->chain() : std::string();
  return text.rfind(head, 0) == 0 ? text.substr(head.size()) : text;
}

void HostLink::enter(HostPhase phase) {
  if (phase_ == phase) return;
  phase_ = phase;
  const double at = double(now_ns() - epoch_ns_) / 1e9;
  if (phase == HostPhase::connecting) times_.connecting = at;
  if (phase == HostPhase::authenticating) times_.authenticating = at;
  if (phase == HostPhase::starting) {
    times_.starting = at;
    heard_ns_ = now_ns();
  }
  if (phase == HostPhase::staging) times_.staging = at;
  if (phase == HostPhase::up) times_.up = at;
}

void HostLink::fail(Error error) {
  if (leaving_) {  // it is not needed any more: how it goes is of no interest
    phase_ = HostPhase::left;
    if (channel_) client_ = channel_->description();
    channel_.reset();
    return;
  }
  // Its carrier may still have it, and must not.
  if (carrier_ != nullptr && phase_ != HostPhase::failed)
    carrier_->send(AgentFrame::cut, ByteWriter().put(number_).bytes());
  if (!error_) {
    if (error.host.empty() || carrier_ == nullptr) error.on(spec_.host());
    error_ = std::move(error);
  }
  phase_ = HostPhase::failed;
  if (channel_) client_ = channel_->description();
  channel_.reset();
}

void HostLink::fail_behind(const Host& carrier, Error error) {
  fail(std::move(error));
  if (error_) error_->on(carrier);
}

void HostLink::reject(Error error) {
  parser_ = FrameParser();
  drop_frames();
  fail(std::move(error));
}

void HostLink::be_carried(HostLink& carrier) {
  carrier_ = &carrier;
  number_ = uint32_t(carrier.carried_.size());
  carrier.carried_.push_back(this);
}

void HostLink::carrier_gone() {
  if (phase_ == HostPhase::left || phase_ == HostPhase::failed) return;
  if (leaving_ || carrier_->phase() == HostPhase::left) {
    phase_ = HostPhase::left;
    return;
  }
  Error e(ErrorCode::lost,
          format("cut off, because host {}, through which it is reached, has failed: {}",
                 carrier_->spec_.name, carrier_->cause()),
          carrier_->error_ ? carrier_->error_->hint : "");
  e.on(carrier_->spec_.host());
  fail(std::move(e));
}

bool HostLink::up_late() const {
  return times_.up > double(now_ns() - epoch_ns_) / 1e9 / 2;
}

std::string HostLink::held_up() const {
  if (carrier_ == nullptr) return {};
  const std::string who = carrier_->spec_.name + ", through which it is reached, ";
  const double silent_s = double(now_ns() - carrier_->heard_ns_) / 1e9;
  if (silent_s > kSilentBeats * double(kBeatMs) / 1e3)
    return who + format("has said nothing for {:.0f} s", silent_s);
  if (carrier_->up_late()) return who + format("was up only after {:.1f} s", carrier_->times_.up);
  return {};
}

void HostLink::open(const ChannelOptions& ssh, const StageOptions& stage) {
  enter(HostPhase::connecting);
  const HostTarget target{spec_.name, spec_.user, spec_.port, spec_.key, spec_.jump};
  StageOptions own = stage;
  if (!spec_.path.empty()) own.path = spec_.path;
  auto channel = ssh.open ? ssh.open(target, ssh)
                 : is_this_host_
                     ? open_process_channel(spec_.name, {base::kSelfPath, kAgentCommand})
                     : open_ssh_channel(target, ssh, agent_command(own));
  if (!channel) return fail(std::move(channel.error()));
  channel_ = std::move(*channel);
}

void HostLink::add_interest(std::vector<pollfd>& fds) const {
  if (channel_) channel_->add_interest(fds);
}

Deadline HostLink::wakeup() const {
  return channel_ ? channel_->wakeup() : Deadline::after_seconds(3600);
}

void HostLink::progress(BinarySource& binary) {
  if (!channel_) return;
  channel_->progress();
  const ChannelPhase now = channel_->phase();
  if (now == ChannelPhase::failed)
    return fail(channel_->error().value_or(Error(ErrorCode::defect, "failed without a reason")));
  if (now == ChannelPhase::connecting) return;
  if (now == ChannelPhase::authenticating) return enter(HostPhase::authenticating);
  if (phase_ < HostPhase::starting) enter(HostPhase::starting);
  if (!channel_->errors().empty()) {
    if (talk_.size() < kMostTalk) talk_ += channel_->errors();
    channel_->errors().clear();
  }
  if (!speaks_frames_) read_words(binary);
  if (speaks_frames_) read_frames();
  if (channel_ && phase_ == HostPhase::staging) feed_binary();
  if (channel_ && channel_->phase() == ChannelPhase::ended) ended();
}

// Lines until the agent speaks; the login shell's own talk may be among them.
void HostLink::read_words(BinarySource& binary) {
  const std::string word(kAgentWord);
  while (channel_ && !speaks_frames_) {
    std::string& text = channel_->output();
    const size_t end = text.find('\n');
    if (end == std::string::npos) {
      if (text.size() > kMostNoise) text.erase(0, text.size() - kMostNoise);
      return;
    }
    std::string line = text.substr(0, end);
    text.erase(0, end + 1);
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty()) shell_ran_ = true;  // our command begins with an empty line (stage.cc)
    if (line.rfind(word, 0) == 0) {
      handle_word(line.substr(word.size()), binary);
    } else if (!line.empty() && noise_.size() < kMostNoise) {
      noise_ += line + " ";
    }
  }
}

void HostLink::handle_word(const std::string& word, BinarySource& binary) {
  if (word == "frames") {
    speaks_frames_ = true;
    heard_ns_ = now_ns();
  } else if (word.rfind("need ", 0) == 0) {
    auto bytes = word == "need gzip" ? binary.packed(machine_) : binary.plain(machine_);
    if (!bytes) return fail(std::move(bytes.error()));
    enter(HostPhase::staging);
    sending_ = *bytes;
    const std::string size = staged_size(sending_.size());
    channel_->write(base::bytes_of(size));
  } else if (machine_.empty() && word.rfind(kMachine, 0) == 0 &&
             is_machine_name(word.substr(kMachine.size()))) {
    machine_ = word.substr(kMachine.size());
    const auto hash = binary.hash(machine_);
    if (!hash) return fail(Error(hash.error()));
    const std::string answer = staged_hash(*hash);
    channel_->write(base::bytes_of(answer));
  } else if (word == "staged") {
    enter(HostPhase::starting);
  } else {
    fail(stage_error(word));
  }
}

void HostLink::feed_binary() {
  while (!sending_.empty() && channel_->pending() < kStageAhead) {
    const size_t n = std::min(sending_.size(), kStageAhead / 4);
    channel_->write(sending_.first(n));
    sending_ = sending_.subspan(n);
  }
}

void HostLink::read_frames() {
  sort_frames();
  // Nobody takes the frames: the channel fills up and holds the host back; its silence is ours.
  if (kept_ > kMostFrames) {
    heard_ns_ = now_ns();
    return;
  }
  if (!channel_) return;
  std::string& text = channel_->output();
  if (text.empty()) return;
  heard_ns_ = now_ns();
  parser_.feed(base::bytes_of(text));
  text.clear();
  sort_frames();
}

// Whole frames to where they are taken from: here, or at the hosts that are carried.
void HostLink::sort_frames() {
  while (kept_ <= kMostFrames) {
    auto frame = parser_.next();
    if (!frame) return reject(std::move(frame.error()));
    if (!*frame) return;
    if (phase_ < HostPhase::up) {
      if (AgentFrame((*frame)->type) != AgentFrame::hello)
        return fail(Error(ErrorCode::launch, "the agent's first message is not a greeting"));
      greeted((*frame)->payload);
      if (phase_ != HostPhase::up) return;
      continue;
    }
    const AgentFrame type = AgentFrame((*frame)->type);
    if (type == AgentFrame::alive) continue;  // heard_ns_ has it
    if (type != AgentFrame::above && type != AgentFrame::phase && type != AgentFrame::talk)
      keep(std::move(**frame));
    else if (!hand_on(**frame))
      return reject(Error(ErrorCode::lost, format("malformed message {} of {} bytes from the agent",
                                                  (*frame)->type, (*frame)->payload.size())));
  }
}

void HostLink::greeted(ByteView payload) {
  auto hello = AgentHello::decode(payload);
  if (!hello) return fail(std::move(hello.error()));
  hello_ = std::move(*hello);
  talk_.clear();  // a banner of the server or shell: of interest only when it does not work
  enter(HostPhase::up);
  send(AgentFrame::named, ByteWriter().put(int32_t(spec_.id)).put_string(spec_.name).take());
}

void HostLink::keep(RawFrame frame) {
  (carrier_ != nullptr ? carrier_ : this)->kept_ += weight(frame);
  frames_.push_back(std::move(frame));
}

void HostLink::drop_frames() {
  for (const RawFrame& frame : frames_)
    (carrier_ != nullptr ? carrier_ : this)->kept_ -= weight(frame);
  frames_.clear();
}

bool HostLink::hand_on(const RawFrame& frame) {
  ByteReader r(frame.payload);
  const auto number = r.get<uint32_t>();
  if (!r.ok() || number >= carried_.size()) return false;
  return carried_[number]->hear(AgentFrame(frame.type),
                                ByteView(frame.payload).subspan(sizeof number));
}

// From the carrier, about this host. False: malformed, which is the carrier's fault.
bool HostLink::hear(AgentFrame type, ByteView payload) {
  // It has failed here, which the carrier has not heard yet.
  if (phase_ == HostPhase::failed) return true;
  if (type == AgentFrame::talk) {
    if (talk_.size() < kMostTalk) talk_.append(payload.begin(), payload.end());
    return true;
  }
  if (type == AgentFrame::phase) {
    auto word = decoded<BranchPhase>(payload);
    if (word) hear_phase(std::move(*word));
    return word.ok();
  }
  ByteReader r(payload);
  const auto inner = r.get<uint16_t>();
  if (!r.ok()) return false;
  const ByteView rest = payload.subspan(sizeof inner);
  if (times_.up < 0) {
    if (AgentFrame(inner) != AgentFrame::hello) return false;
    greeted(rest);
    return true;
  }
  // Nobody takes what one says that has been dismissed.
  if (!leaving_) keep({inner, Bytes(rest.begin(), rest.end())});
  return true;
}

void HostLink::hear_phase(BranchPhase word) {
  const std::string& from = carrier_->spec_.name;
  client_ = word.deeper ? word.client : format("from {}: {}", from, word.client);
  waits_for_ = std::move(word.behind);
  const bool over = word.error || word.phase == HostPhase::left;
  if (!over && times_.up < 0) enter(word.phase);
  if (!over) return;
  if (leaving_) {
    phase_ = HostPhase::left;
    return;
  }
  Error e = word.error.value_or(Error(ErrorCode::lost, "its agent has gone"));
  if (e.host.empty() && e.cause == Cause::absent) {
    e.on(carrier_->spec_.host());
    e.message = format("{}, through which it is reached: {}", from, e.message);
  }
  if (e.host.empty()) e.on(spec_.host());
  // Where it was cut off, the error is about another host and says so.
  const bool own = e.host_id == spec_.id && !word.deeper;
  if (own && times_.up >= 0) {
    e.message += format(" (as {} sees it)", from);
  } else if (own) {
    e.message = format("from {}: {}", from, e.message);
    e.hint = format("{}{} logs in to {} because of --tree-width",
                    e.hint.empty() ? "" : e.hint + "; ", from, spec_.name);
  }
  error_ = std::move(e);
  phase_ = HostPhase::failed;
}

std::optional<RawFrame> HostLink::take_frame() {
  if (times_.up < 0 && !leaving_) return std::nullopt;
  if (frames_.empty()) (carrier_ != nullptr ? carrier_ : this)->sort_frames();
  if (frames_.empty()) return std::nullopt;
  RawFrame frame = std::move(frames_.front());
  frames_.pop_front();
  (carrier_ != nullptr ? carrier_ : this)->kept_ -= weight(frame);
  return frame;
}

std::string HostLink::take_talk() {
  if (times_.up < 0) return {};
  return std::exchange(talk_, {});
}

void HostLink::send(AgentFrame type, ByteView payload) {
  if (carrier_ != nullptr) {
    if (phase_ == HostPhase::up)
      carrier_->send(AgentFrame::below,
                     ByteWriter().put(number_).put(uint16_t(type)).put_rest(payload).bytes());
    return;
  }
  if (!channel_) return;
  Bytes wire;
  append_frame(wire, uint16_t(type), payload);
  channel_->write(wire);
}

size_t HostLink::pending() const {
  if (carrier_ != nullptr) return carrier_->pending();
  return channel_ ? channel_->pending() : 0;
}

void HostLink::leave() {
  if (leaving_ || (!channel_ && carrier_ == nullptr)) return;
  if (carrier_ != nullptr) {
    send(AgentFrame::leave, {});
    leaving_ = true;
    return;
  }
  leaving_ = true;
  // Nothing runs there yet; a login that goes on would ask for passwords, with the signal that
  // ended the job already taken.
  if (phase_ < HostPhase::starting) {
    client_ = channel_->description();
    channel_.reset();
    phase_ = HostPhase::left;
    return;
  }
  if (phase_ == HostPhase::up) send(AgentFrame::leave, {});
  channel_->close_input();
  channel_->progress();
}

void HostLink::ended() {
  if (leaving_) {
    client_ = channel_->description();
    channel_.reset();
    phase_ = HostPhase::left;
    return;
  }
  const auto broken = channel_->error();
  const int code = channel_->exit_code().value_or(-1);
  if (phase_ != HostPhase::up) return fail(broken ? *broken : start_error(code, talk_, noise_));
  // Output from before the end still counts: last words, exits.
  const std::string& text = channel_->output();
  parser_.feed(base::bytes_of(text));
  sort_frames();
  if (!channel_) return;
  Error e(ErrorCode::lost, "");
  if (broken)
    e = *broken;
  else
    e.message = code < 0 ? std::string("the connection ended") : "its agent " + exit_text(code);
  e.code = ErrorCode::lost;
  fail(std::move(e));
}

}  // namespace collctl::launcher

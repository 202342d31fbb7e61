// The channel that starts with libssh2 and goes on with the system's ssh where libssh2 cannot: no
// common algorithm, RSA keys with an old library, certificates, ProxyCommand. Definite answers (an
// unknown host key, a refused connection, a timeout) are not asked for twice.
#include "base/format.h"
#include "launcher/ssh/clients.h"
#include "launcher/ssh/libssh2_channel.h"

namespace collctl::launcher {
namespace {

class AutomaticChannel final : public HostChannel {
 public:
  AutomaticChannel(HostTarget target, ChannelOptions options, std::string command)
      : target_(std::move(target)), options_(std::move(options)), command_(std::move(command)) {
    auto first = std::make_unique<Libssh2Channel>(target_, options_, command_);
    first_ = first.get();
    channel_ = std::move(first);
  }

  void add_interest(std::vector<pollfd>& fds) const override { channel_->add_interest(fds); }
  Deadline wakeup() const override { return channel_->wakeup(); }
  void progress() override {
    channel_->progress();
    if (first_ != nullptr && channel_->phase() == ChannelPhase::failed &&
        !first_->incapable().empty())
      change();
    // Kept back until then: another client may have to get it from the beginning.
    if (channel_->phase() == ChannelPhase::open && !handed_over_) {
      first_ = nullptr;
      hand_over();
    }
  }
  ChannelPhase phase() const override { return channel_->phase(); }
  std::optional<Error> error() const override { return error_ ? error_ : channel_->error(); }
  void write(ByteView data) override {
    if (handed_over_) return channel_->write(data);
    if (!close_input_) early_.insert(early_.end(), data.begin(), data.end());
  }
  size_t pending() const override { return early_.size() + channel_->pending(); }
  void close_input() override {
    close_input_ = true;
    if (handed_over_) channel_->close_input();
  }
  std::string& output() override { return channel_->output(); }
  std::string& errors() override { return channel_->errors(); }
  std::optional<int> exit_code() const override { return channel_->exit_code(); }
  std::string description() const override {
    if (reason_.empty()) return channel_->description();
    return format("{} (because {})", channel_->description(), reason_);
  }

 private:
  void change() {
    const std::string reason = first_->incapable();
    const std::optional<Error> said = first_->error();
    if (!is_installed("ssh")) {
      first_ = nullptr;
      error_ = said;
      error_->hint =
          "this needs the system's ssh, which is not installed here: install "
          "openssh-client";
      return;
    }
    first_ = nullptr;
    auto second = open_openssh_channel(target_, options_, command_);
    if (!second) {
      error_ = second.error();
      error_->host = target_.name;
      return;
    }
    reason_ = reason;
    channel_ = std::move(second.value());
  }
  void hand_over() {
    handed_over_ = true;
    channel_->write(early_);
    early_ = {};
    if (close_input_) channel_->close_input();
    channel_->progress();
  }

  HostTarget target_;
  ChannelOptions options_;
  std::string command_;
  std::unique_ptr<HostChannel> channel_;
  Libssh2Channel* first_ = nullptr;  // the libssh2 client, while it is the one and not open
  bool handed_over_ = false, close_input_ = false;
  Bytes early_;
  std::string reason_;
  std::optional<Error> error_;
};

}  // namespace

std::unique_ptr<HostChannel> open_libssh2_channel(const HostTarget& target,
                                                  const ChannelOptions& options,
                                                  const std::string& command) {
  return std::make_unique<Libssh2Channel>(target, options, command);
}

std::unique_ptr<HostChannel> open_automatic_channel(const HostTarget& target,
                                                    const ChannelOptions& options,
                                                    const std::string& command) {
  return std::make_unique<AutomaticChannel>(target, options, command);
}

}  // namespace collctl::launcher

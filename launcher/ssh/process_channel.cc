// The channel to this very host: a child process over pipes.
#include <utility>

#include "base/format.h"
#include "launcher/ssh/channel.h"
#include "launcher/ssh/child.h"

namespace collctl::launcher {
namespace {

class ProcessChannel final : public HostChannel {
 public:
  ProcessChannel(std::string name, std::string program, std::unique_ptr<ChildProcess> child)
      : name_(std::move(name)), program_(std::move(program)), child_(std::move(child)) {}

  void add_interest(std::vector<pollfd>& fds) const override { child_->add_interest(fds); }
  Deadline wakeup() const override { return child_->wakeup(); }
  void progress() override { child_->progress(); }
  ChannelPhase phase() const override {
    if (child_->start_error()) return ChannelPhase::failed;
    if (!child_->started()) return ChannelPhase::connecting;
    return child_->over() ? ChannelPhase::ended : ChannelPhase::open;
  }
  std::optional<Error> error() const override {
    std::optional<Error> e = child_->start_error();
    if (e) e->host = name_;
    return e;
  }
  void write(ByteView data) override { child_->write(data); }
  size_t pending() const override { return child_->pending(); }
  void close_input() override { child_->close_input(); }
  std::string& output() override { return child_->output; }
  std::string& errors() override { return child_->errors; }
  std::optional<int> exit_code() const override {
    if (phase() != ChannelPhase::ended) return std::nullopt;
    return child_->exit_code();
  }
  std::string description() const override {
    return format("a process of this host: {}", program_);
  }

 private:
  std::string name_, program_;
  std::unique_ptr<ChildProcess> child_;
};

}  // namespace

Result<std::unique_ptr<HostChannel>> open_process_channel(const std::string& name,
                                                          const std::vector<std::string>& argv) {
  if (argv.empty() || argv.front().empty())
    return Error(ErrorCode::usage, "the command for this host is empty");
  ChildCommand command;
  command.argv = argv;
  COLL_ASSIGN(auto child, ChildProcess::start(command));
  return std::unique_ptr<HostChannel>(
      std::make_unique<ProcessChannel>(name, argv.front(), std::move(child)));
}

}  // namespace collctl::launcher

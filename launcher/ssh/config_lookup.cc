#include "launcher/ssh/config_lookup.h"

#include <unistd.h>

#include <cerrno>
#include <map>

#include "launcher/ssh/clients.h"

namespace collctl::launcher {
namespace {

// Processes at once; more only take each other's time and descriptors.
constexpr int kMostAtOnce = 32;
thread_local int lookups_running = 0;  // of this thread's poll loop

bool is_readable(const std::string& path) {
  return ::access(path.c_str(), R_OK) == 0;
}

std::string last_line(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

}  // namespace

std::shared_ptr<ConfigLookup> ConfigLookup::ask(const ConfigQuestion& question) {
  thread_local std::map<ConfigQuestion, std::weak_ptr<ConfigLookup>> asked;
  std::erase_if(asked, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<ConfigLookup>& known = asked[question];
  std::shared_ptr<ConfigLookup> lookup = known.lock();
  if (lookup == nullptr) known = lookup = std::make_shared<ConfigLookup>(question);
  return lookup;
}

ConfigLookup::ConfigLookup(ConfigQuestion question)
    : question_(std::move(question)), place_(config_place(question_.name)) {
  begin();
}

void ConfigLookup::begin() {
  const std::string& asked = question_.config_file;
  const bool named = !asked.empty() && asked != "none";
  if (named && !is_readable(asked))
    return finish(
        base::errno_error(ErrorCode::usage, "read the SSH configuration " + asked, errno));
  if (is_installed("ssh")) return start();
  if (named)
    return finish(Error(ErrorCode::unavailable,
                        "the SSH configuration " + asked +
                            " cannot be read without the system's ssh, which is not installed here",
                        "install openssh-client, or leave out --ssh-config"));
  std::string defaults;
  if (!question_.user.empty()) defaults += "user " + question_.user + "\n";
  if (question_.port != 0) defaults += "port " + std::to_string(question_.port) + "\n";
  ResolvedHost host = parse_resolved(defaults, place_);
  if (const std::string own = place_.home + "/.ssh/config"; asked.empty() && is_readable(own))
    host.unread = own;
  finish(std::move(host));
}

ConfigLookup::~ConfigLookup() {
  if (child_) --lookups_running;
}

void ConfigLookup::start() {
  if (lookups_running >= kMostAtOnce) return;
  ChildCommand command;
  command.argv = {"ssh", "-G"};
  const auto add = [&](const char* option, const std::string& value) {
    command.argv.emplace_back(option);
    command.argv.push_back(value);
  };
  if (!question_.config_file.empty()) add("-F", question_.config_file);
  if (!question_.user.empty()) add("-l", question_.user);
  if (question_.port != 0) add("-p", std::to_string(question_.port));
  add("--", question_.name);
  command.dies_with_us = true;
  auto child = ChildProcess::start(command);
  if (!child) return finish(std::move(child.error()));
  child_ = std::move(child.value());
  ++lookups_running;
  child_->close_input();
}

void ConfigLookup::finish(Result<ResolvedHost> result) {
  if (child_) --lookups_running;
  child_.reset();
  result_ = std::move(result);
}

void ConfigLookup::add_interest(std::vector<pollfd>& fds) const {
  if (child_) child_->add_interest(fds);
}

Deadline ConfigLookup::wakeup() const {
  if (result_) return Deadline::after_ms(0);  // another's progress() has found it
  return child_ ? child_->wakeup() : Deadline::after_ms(10);
}

void ConfigLookup::progress() {
  if (waiting()) start();
  if (!child_) return;
  child_->progress();
  if (!child_->over()) return;
  if (const auto& e = child_->start_error()) return finish(*e);
  if (child_->exit_code() != 0)
    return finish(Error(ErrorCode::usage, "the SSH configuration: " + last_line(child_->errors),
                        "try: ssh -G " + question_.name));
  finish(parse_resolved(child_->output, place_));
}

}  // namespace collctl::launcher

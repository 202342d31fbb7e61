#include "launcher/ssh/config_lookup.h"

#include <unistd.h>

#include <cerrno>

#include "launcher/ssh/clients.h"

namespace collctl::launcher {
namespace {

std::string last_line(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

}  // namespace

ConfigLookup::ConfigLookup(ConfigQuestion question)
    : question_(std::move(question)), place_(config_place(question_.name)) {
  const std::string& asked = question_.config_file;
  if (!asked.empty() && asked != "none" && ::access(asked.c_str(), R_OK) != 0) {
    result_ = Result<ResolvedHost>(
        base::errno_error(ErrorCode::usage, "read the SSH configuration " + asked, errno));
    return;
  }
  auto own = resolve_config(place_, {config_files(question_.config_file, place_), question_.user,
                                     question_.port, read_config_file, glob_config_files});
  // What we take for a mistake ssh may understand, and it words the others as people know them.
  if ((own.ok() && !own->beyond_parser) || !is_installed("ssh")) {
    result_ = std::move(own);
    return;
  }
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
  if (child)
    child_ = std::move(child.value());
  else
    result_ = Result<ResolvedHost>(std::move(child.error()));
  if (child_) child_->close_input();
}

void ConfigLookup::add_interest(std::vector<pollfd>& fds) const {
  if (!result_) child_->add_interest(fds);
}

Deadline ConfigLookup::wakeup() const {
  return result_ ? no_wakeup() : child_->wakeup();
}

void ConfigLookup::progress() {
  if (result_) return;
  child_->progress();
  if (!child_->over()) return;
  if (const auto& e = child_->start_error())
    result_ = Result<ResolvedHost>(*e);
  else if (child_->exit_code() != 0)
    result_ = Result<ResolvedHost>(Error(ErrorCode::usage,
                                         "the SSH configuration: " + last_line(child_->errors),
                                         "try: ssh -G " + question_.name));
  else
    result_ = Result<ResolvedHost>(parse_resolved(child_->output, place_));
  child_.reset();
}

}  // namespace collctl::launcher

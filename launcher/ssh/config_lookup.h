// Finds out what the SSH configuration says about a host, without blocking: our own parser, and
// where the files go beyond it `ssh -G` as a child process, if ssh is installed (15 ms of processor
// time for each host, which many hosts feel). Driven by a poll loop.
#pragma once
#include <memory>
#include <optional>

#include "launcher/ssh/child.h"
#include "launcher/ssh/config.h"

namespace collctl::launcher {

struct ConfigQuestion {
  std::string name;  // host or alias
  std::string user;  // asked for; empty and 0: not
  int port = 0;
  std::string config_file;  // empty: the usual ones
};

class ConfigLookup {
 public:
  explicit ConfigLookup(ConfigQuestion question);
  void add_interest(std::vector<pollfd>& fds) const;
  Deadline wakeup() const;
  void progress();
  // None while it runs. Errors: code usage (a mistake in the configuration), unavailable.
  const std::optional<Result<ResolvedHost>>& result() const { return result_; }

 private:
  ConfigQuestion question_;
  ConfigPlace place_;
  std::unique_ptr<ChildProcess> child_;
  std::optional<Result<ResolvedHost>> result_;
};

}  // namespace collctl::launcher

// Finds out what the SSH configuration says about a host, without blocking: `ssh -G` as a child
// process (15 ms of processor time for each), the defaults where no ssh is installed. Driven by a
// poll loop. Threads: one.
#pragma once
#include <compare>
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
  auto operator<=>(const ConfigQuestion&) const = default;
};

class ConfigLookup {
 public:
  // Equal questions at the same time (a jump host of many hosts) get the same answer.
  static std::shared_ptr<ConfigLookup> ask(const ConfigQuestion& question);
  explicit ConfigLookup(ConfigQuestion question);
  ~ConfigLookup();
  ConfigLookup(const ConfigLookup&) = delete;
  ConfigLookup& operator=(const ConfigLookup&) = delete;
  void add_interest(std::vector<pollfd>& fds) const;
  Deadline wakeup() const;
  void progress();
  // Waits until fewer others run; no time of its own has begun.
  bool waiting() const { return !child_ && !result_; }
  // None while it runs. Errors: code usage (a mistake in the configuration), unavailable.
  const std::optional<Result<ResolvedHost>>& result() const { return result_; }

 private:
  void begin();
  void start();
  void finish(Result<ResolvedHost> result);

  ConfigQuestion question_;
  ConfigPlace place_;
  std::unique_ptr<ChildProcess> child_;
  std::optional<Result<ResolvedHost>> result_;
};

}  // namespace collctl::launcher

// The doctor's requests to an agent and its answers: "probe" (the facts of the host), "clock"
// (nanoseconds since 1970) and "reach" (listen, dial, close). Questions and answers are JSON. The
// service lives in the agent, the other functions are the doctor's. Threads: one (listening has a
// thread of its own).
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "launcher/remote/probe.h"
#include "launcher/remote/reach.h"

namespace collctl::launcher {

inline constexpr const char* kAskProbe = "probe";
inline constexpr const char* kAskClock = "clock";
inline constexpr const char* kAskReach = "reach";

class ProbeService {
 public:
  explicit ProbeService(std::string version) : version_(std::move(version)) {}
  // A dial takes as many seconds as it is told, 10 at most.
  Result<std::string> answer(const std::string& what, const std::string& argument);

 private:
  Result<std::string> reach(const std::string& argument);
  std::string version_;
  std::unique_ptr<ReachListener> listener_;
};

std::string listen_question(const std::vector<std::string>& addresses, const base::Secret& secret,
                            double seconds);
std::string dial_question(const std::vector<ReachTarget>& targets, double seconds);
std::string close_question();
Result<std::vector<ReachAddress>> listen_answer(const std::string& text);
Result<std::vector<ReachResult>> dial_answer(const std::string& text);

}  // namespace collctl::launcher

// The common parts of all plugins of the tests: which call is to fail, what is held, their log.
#pragma once
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tests/fake_plugins/control.h"
#include "transport/net/plugin/versions/v6.h"

namespace fake_plugin {

using namespace collctl::transport;

// The limit of the version (versions.cc).
extern const int kMostRequests;

struct Left {  // of a receive that was not done when its line was closed
  void* at;
  size_t bytes;
};
struct World {
  std::mutex mutex;
  std::vector<Left> left;
  std::map<std::string, int> calls;  // while FAKE_PLUGIN_FAIL names them
  NetPluginLog log = nullptr;
  std::atomic<int> sessions{0}, listeners{0}, connections{0}, memories{0}, requests{0}, flushes{0},
      messages{0};
};
inline World& world() {
  static World* const one = new World();  // threads of ranks may outlive main
  return *one;
}

inline std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr ? text : "";
}
inline bool nonsense(const char* word) {
  return variable("FAKE_PLUGIN_NONSENSE") == word;
}

// 0, or the error that the test wants of this call.
inline NetPluginCode fault(const std::string& call) {
  const std::string wanted = variable("FAKE_PLUGIN_FAIL");
  const size_t colon = wanted.find(':');
  if (wanted.empty() || wanted.substr(0, colon) != call) return kNetPluginOk;
  World& w = world();
  const std::lock_guard lock(w.mutex);
  const int first = colon == std::string::npos ? 0 : std::atoi(wanted.c_str() + colon + 1);
  if (w.calls[wanted]++ < first) return kNetPluginOk;
  if (w.log != nullptr) w.log(2, ~0ul, __FILE__, __LINE__, "%s was to fail", call.c_str());
  return kNetPluginSystemError;
}

inline NetPluginCode refuse(NetPluginCode code, const char* why) {
  World& w = world();
  const std::lock_guard lock(w.mutex);
  if (w.log != nullptr) w.log(2, ~0ul, __FILE__, __LINE__, "%s", why);
  return code;
}

}  // namespace fake_plugin

// Within a function of a plugin.
#define FAKE_FAULT(call)                                                         \
  do {                                                                           \
    if (const auto wrong = ::fake_plugin::fault(call); wrong != 0) return wrong; \
  } while (false)

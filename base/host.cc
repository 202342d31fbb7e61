#include "base/host.h"

#include <fmt/format.h>

#include <map>
#include <mutex>

// base/format.h, which includes fmt's declarations alone, formats hosts by it.
template auto fmt::formatter<fmt::string_view, char>::format(const fmt::string_view& text,
                                                             fmt::format_context& context) const
    -> decltype(context.out());

namespace collctl::base {
namespace {

constexpr int32_t kFirstSaved = 1 << 24;

}  // namespace

Host saved_host(const std::string& name) {
  static std::mutex mutex;
  static auto& places = *new std::map<std::string, HostId>;
  if (name.empty()) return {};
  const std::lock_guard lock(mutex);
  return {places.try_emplace(name, HostId(kFirstSaved + int32_t(places.size()))).first->second,
          name};
}

}  // namespace collctl::base

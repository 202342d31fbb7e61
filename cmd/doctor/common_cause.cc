#include "cmd/doctor/common_cause.h"

#include <map>

#include "base/format.h"
#include "cmd/text/hosts.h"

namespace collctl::cmd {
namespace {

constexpr size_t kFewest = 3;  // hosts with one reason, before it is taken for a common one

// It is wrong at the launcher, however many hosts show it.
bool always_the_launchers(Cause cause) {
  return cause == Cause::unknown_key || cause == Cause::unresolved;
}

const char* words_of(Cause cause) {
  switch (cause) {
    case Cause::unknown_key:
      return "it does not know the host keys of";
    case Cause::unresolved:
      return "it cannot resolve the names of";
    case Cause::login:
      return "its login is refused by";
    case Cause::changed_key:
      return "it knows other host keys of";
    case Cause::silent:
      return "it gets no answer in time from";
    default:
      return "it cannot connect to";
  }
}

}  // namespace

std::vector<CommonCause> common_causes(const std::vector<Unreached>& list, size_t hosts) {
  std::map<Cause, std::vector<size_t>> by_cause;
  for (size_t i = 0; i < list.size(); ++i) by_cause[list[i].error.cause].push_back(i);
  std::vector<CommonCause> found;
  for (const auto& [cause, of] : by_cause) {
    // Where both of two refuse a login the keys are wrong; what else is alike there may be chance.
    const bool most = (of.size() >= kFewest && 2 * of.size() > hosts) ||
                      (cause == Cause::login && of.size() == hosts && hosts > 1);
    if (cause == Cause::unsaid || !(most || always_the_launchers(cause))) continue;
    std::vector<std::string> names;
    for (const size_t i : of) names.push_back(list[i].host.name);
    const Error& first = list[of.front()].error;
    found.push_back(
        {of, format("{} {}, {} of {} hosts ({}{}{})", words_of(cause), folded_hosts(names),
                    of.size(), hosts, first.chain(), first.hint.empty() ? "" : "; ", first.hint)});
  }
  return found;
}

}  // namespace collctl::cmd

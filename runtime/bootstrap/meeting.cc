#include "runtime/bootstrap/meeting.h"

#include <algorithm>

#include "base/format.h"
#include "base/log.h"
#include "runtime/bootstrap/interfaces.h"

namespace collctl::runtime {
namespace {

constexpr const char* kForms =
    "expected <ipv4>:<port>, [<ipv6>]:<port> or <hostname>:<port>, for example 10.0.0.7:29500";

// Names that are meant to be loopback, on every host.
bool says_loopback(const std::string& name) {
  return name == "localhost" || name.starts_with("localhost.") || name.ends_with(".localhost") ||
         name == "localhost4" || name == "localhost6" || name.starts_with("ip6-");
}

Address any_of(const Address& like) {
  Address any;
  any.storage.ss_family = sa_family_t(like.family());
  any.length = like.length;
  any.set_port(like.port());
  return any;
}

}  // namespace

Result<Meeting> choose_meeting(const base::HostPort& at, const std::vector<Address>& addresses,
                               const MeetingView& view) {
  std::vector<Address> outside;
  for (const Address& each : addresses)
    if (!each.is_loopback()) outside.push_back(each);
  if (!outside.empty()) {
    const auto is_own = [&](const Address& each) {
      return std::ranges::any_of(
          view.own, [&](const Address& own) { return own.host_text() == each.host_text(); });
    };
    const auto own = std::ranges::find_if(outside, is_own);
    // Others may come by any address of the name.
    if (view.root_is_here && outside.size() > 1 && own != outside.end())
      return Meeting{*own, any_of(*own)};
    return Meeting{outside.front(), outside.front()};
  }
  const Address& first = addresses.front();
  const bool by_intent = at.numeric().length != 0 || says_loopback(at.host);
  if (by_intent && view.elsewhere > 0)
    return Error(ErrorCode::usage,
                 format("{} is for each host its own loopback address, but {} ranks are on other "
                        "hosts",
                        at.host, view.elsewhere),
                 "name the host of rank 0 by an address that the others reach");
  if (by_intent || view.all_here || !view.token)
    return Meeting{first, first, !by_intent && !view.all_here};
  COLL_ASSIGN(Address out, view.way_out());
  if (out.is_loopback()) return Meeting{first, first, true};  // a host without a network
  out.set_port(at.port);
  COLL_INFO(bootstrap, "{} is {} on this host, which others cannot reach: {} instead", at.host,
            first.host_text(), out.host_text());
  return Meeting{out, any_of(out)};
}

Result<Meeting> find_meeting(const MeetingQuestion& question, Deadline deadline,
                             const std::function<bool()>& cancelled) {
  const auto told = [&](Error e) {
    e.message = question.from + ": " + e.message;
    if (e.hint.empty()) e.hint = kForms;
    return e;
  };
  auto at = base::split_address(question.text);
  if (!at) return told(std::move(at.error()));
  if (at->port == 0)
    return told(Error(ErrorCode::usage,
                      format("'{}' has port 0, which cannot be connected to", question.text)));
  auto addresses = base::look_up(*at, deadline, cancelled, [&](const std::string& why) {
    COLL_WARN("{}: {} does not resolve yet ({}); it is looked up again until the start's deadline",
              question.from, at->host, why);
  });
  if (!addresses) return told(std::move(addresses.error()));
  MeetingView view{question.token, question.rank == 0};
  view.all_here = question.local_ranks == question.size;
  view.elsewhere = question.local_ranks > 0 ? question.size - question.local_ranks : 0;
  view.way_out = [&]() -> Result<Address> {
    COLL_ASSIGN(const auto found,
                find_interfaces(question.interfaces, question.family, nullptr, 1));
    return found.front().address;
  };
  COLL_ASSIGN(view.own, own_addresses());
  auto meeting = choose_meeting(*at, *addresses, view);
  if (!meeting) return told(std::move(meeting.error()));
  return meeting;
}

}  // namespace collctl::runtime

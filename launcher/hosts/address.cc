#include "launcher/hosts/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <sstream>
#include <vector>

#include "base/format.h"

namespace collctl::launcher {
namespace {

struct Found {
  std::string interface, address;
  bool loopback = false;
};

std::vector<Found> addresses() {
  std::vector<Found> found;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return found;
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || (at->ifa_flags & IFF_UP) == 0) continue;
    const int family = at->ifa_addr->sa_family;
    char text[INET6_ADDRSTRLEN] = "";
    const void* bytes =
        family == AF_INET
            ? static_cast<const void*>(&reinterpret_cast<sockaddr_in*>(at->ifa_addr)->sin_addr)
            : static_cast<const void*>(&reinterpret_cast<sockaddr_in6*>(at->ifa_addr)->sin6_addr);
    if ((family != AF_INET && family != AF_INET6) ||
        ::inet_ntop(family, bytes, text, sizeof text) == nullptr)
      continue;
    found.push_back({at->ifa_name, text, (at->ifa_flags & IFF_LOOPBACK) != 0});
  }
  ::freeifaddrs(list);
  return found;
}

}  // namespace

Result<std::string> interface_with(const std::string& address) {
  std::string there;
  for (const Found& f : addresses()) {
    if (f.address == address) return f.interface;
    there += format("{}{} ({})", there.empty() ? "" : ", ", f.address, f.interface);
  }
  return Error(ErrorCode::unavailable,
               format("no interface of this host has the address {} (addr=)", address),
               there.empty() ? std::string() : "there are " + there);
}

bool is_own_address(const std::string& text) {
  // As inet_ntop writes it; 127.0.0.0/8 is the loopback interface's as a whole.
  unsigned char bytes[sizeof(in6_addr)] = {};
  const int family = ::inet_pton(AF_INET, text.c_str(), bytes) == 1    ? AF_INET
                     : ::inet_pton(AF_INET6, text.c_str(), bytes) == 1 ? AF_INET6
                                                                       : AF_UNSPEC;
  char written[INET6_ADDRSTRLEN] = "";
  if (family == AF_UNSPEC || ::inet_ntop(family, bytes, written, sizeof written) == nullptr)
    return false;
  if (family == AF_INET && bytes[0] == 127) return true;
  // A list may have thousands of addresses: the kernel is asked once.
  static const auto own = addresses();
  return std::ranges::any_of(own, [&](const Found& f) { return f.address == written; });
}

std::string reached_at(const std::string& ssh_connection) {
  std::istringstream words(ssh_connection);
  std::string client, client_port, server;
  const auto loopback = [](const std::string& a) { return a.rfind("127.", 0) == 0 || a == "::1"; };
  if (words >> client >> client_port >> server && !loopback(server)) return server;
  for (const Found& f : addresses())
    if (!f.loopback) return f.address;
  return {};
}

}  // namespace collctl::launcher

#include "base/route.h"

#include <linux/rtnetlink.h>
#include <net/if.h>

#include <cstring>

namespace collctl::base {

std::string route_device(const Address& to, const Address& source) {
  const ByteView dst = to.host_bytes(), src = source.host_bytes();
  if (dst.empty() || src.size() != dst.size()) return "";
  struct {
    nlmsghdr header;
    rtmsg route;
    uint8_t attributes[2 * RTA_SPACE(16)];
  } ask{};
  ask.header.nlmsg_len = NLMSG_LENGTH(sizeof(rtmsg));
  ask.header.nlmsg_type = RTM_GETROUTE;
  ask.header.nlmsg_flags = NLM_F_REQUEST;
  ask.route.rtm_family = uint8_t(to.family());
  ask.route.rtm_dst_len = ask.route.rtm_src_len = uint8_t(8 * dst.size());
  const auto put = [&](uint16_t type, ByteView bytes) {
    uint8_t* const at = reinterpret_cast<uint8_t*>(&ask) + NLMSG_ALIGN(ask.header.nlmsg_len);
    const rtattr head{uint16_t(RTA_LENGTH(bytes.size())), type};
    std::memcpy(at, &head, sizeof head);
    std::memcpy(at + RTA_LENGTH(0), bytes.data(), bytes.size());
    ask.header.nlmsg_len = uint32_t(NLMSG_ALIGN(ask.header.nlmsg_len) + RTA_SPACE(bytes.size()));
  };
  put(RTA_DST, dst);
  put(RTA_SRC, src);
  const Fd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
  if (!fd || ::send(fd.get(), &ask, ask.header.nlmsg_len, 0) < 0) return "";
  // The kernel has answered before send() returns.
  alignas(nlmsghdr) uint8_t answer[4096];
  const ssize_t got = ::recv(fd.get(), answer, sizeof answer, MSG_DONTWAIT);
  auto* const header = reinterpret_cast<const nlmsghdr*>(answer);
  if (got < ssize_t(sizeof *header) || !NLMSG_OK(header, size_t(got)) ||
      header->nlmsg_type != RTM_NEWROUTE)
    return "";
  auto* const route = static_cast<const rtmsg*>(NLMSG_DATA(header));
  auto left = int(RTM_PAYLOAD(header));
  for (auto* a = RTM_RTA(route); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
    if (a->rta_type != RTA_OIF || RTA_PAYLOAD(a) != sizeof(uint32_t)) continue;
    uint32_t index = 0;
    std::memcpy(&index, RTA_DATA(a), sizeof index);
    char name[IF_NAMESIZE] = {};
    return if_indextoname(index, name) != nullptr ? name : "";
  }
  return "";
}

}  // namespace collctl::base

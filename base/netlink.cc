#include "base/netlink.h"

#include <linux/netlink.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "base/fd.h"

namespace collctl::base {
namespace {

constexpr size_t kMostAnswer = size_t(64) << 10;

void pad(Bytes& bytes) {
  bytes.resize(NLMSG_ALIGN(bytes.size()));
}

}  // namespace

NetlinkQuestion::NetlinkQuestion(uint16_t type, ByteView head) {
  nlmsghdr own{};
  own.nlmsg_type = type;
  own.nlmsg_flags = NLM_F_REQUEST;
  const auto* at = reinterpret_cast<const uint8_t*>(&own);
  bytes_.assign(at, at + sizeof own);
  bytes_.insert(bytes_.end(), head.begin(), head.end());
  pad(bytes_);
}

void NetlinkQuestion::put(uint16_t attribute, ByteView value) {
  const nlattr head{uint16_t(NLA_HDRLEN + value.size()), attribute};
  const auto* at = reinterpret_cast<const uint8_t*>(&head);
  bytes_.insert(bytes_.end(), at, at + sizeof head);
  bytes_.insert(bytes_.end(), value.begin(), value.end());
  pad(bytes_);
}

void NetlinkQuestion::put(uint16_t attribute, std::string_view text) {
  Bytes value(text.begin(), text.end());
  value.push_back(0);
  put(attribute, ByteView(value));
}

void NetlinkQuestion::begin_nest(uint16_t attribute) {
  nest_ = bytes_.size();
  put(uint16_t(attribute | NLA_F_NESTED), ByteView());
}

void NetlinkQuestion::end_nest() {
  const auto length = uint16_t(bytes_.size() - nest_);
  std::memcpy(bytes_.data() + nest_, &length, sizeof length);
}

NetlinkQuestion::Answer NetlinkQuestion::ask(int protocol) {
  const auto length = uint32_t(bytes_.size());
  std::memcpy(bytes_.data(), &length, sizeof length);
  const Fd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol));
  if (!fd || ::send(fd.get(), bytes_.data(), bytes_.size(), 0) < 0) return {errno, {}};
  Bytes answer(kMostAnswer);
  const ssize_t got = ::recv(fd.get(), answer.data(), answer.size(), MSG_DONTWAIT);
  if (got < 0) return {errno, {}};
  nlmsghdr head{};
  if (size_t(got) < sizeof head) return {EPROTO, {}};
  std::memcpy(&head, answer.data(), sizeof head);
  if (head.nlmsg_len < sizeof head || head.nlmsg_len > size_t(got)) return {EPROTO, {}};
  if (head.nlmsg_type == NLMSG_ERROR) {
    int error = 0;
    if (head.nlmsg_len >= sizeof head + sizeof error)
      std::memcpy(&error, answer.data() + sizeof head, sizeof error);
    return {error < 0 ? -error : EPROTO, {}};
  }
  return {0, Bytes(answer.begin() + sizeof head, answer.begin() + head.nlmsg_len)};
}

void walk_attributes(ByteView bytes, const std::function<void(int attribute, ByteView)>& take) {
  while (bytes.size() >= sizeof(nlattr)) {
    nlattr head{};
    std::memcpy(&head, bytes.data(), sizeof head);
    if (head.nla_len < NLA_HDRLEN || head.nla_len > bytes.size()) return;
    take(head.nla_type & NLA_TYPE_MASK, bytes.subspan(NLA_HDRLEN, head.nla_len - NLA_HDRLEN));
    bytes = bytes.subspan(std::min<size_t>(NLA_ALIGN(head.nla_len), bytes.size()));
  }
}

}  // namespace collctl::base

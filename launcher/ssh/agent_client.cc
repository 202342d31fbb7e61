#include "launcher/ssh/agent_client.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>

#include "base/socket.h"
#include "launcher/ssh/wire.h"

namespace collctl::launcher {
namespace {

constexpr uint8_t kRequestIdentities = 11, kIdentitiesAnswer = 12;
constexpr uint8_t kSignRequest = 13, kSignResponse = 14;
constexpr uint32_t kMostAnswer = 256 * 1024;  // OpenSSH's own bound
constexpr size_t kMostKeys = 256;
constexpr double kListS = 2, kSignS = 30;

void put_number(Bytes& out, size_t n) {
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(uint8_t(n >> shift));
}

void put_string(Bytes& out, ByteView bytes) {
  put_number(out, bytes.size());
  out.insert(out.end(), bytes.begin(), bytes.end());
}

Result<base::Fd> connect_agent(const std::string& path, Deadline deadline) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return Error(ErrorCode::unavailable, "the agent's path is too long: " + path);
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  base::Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return base::errno_error(ErrorCode::unavailable, "socket to the agent", errno);
  // EAGAIN: its queue of connections is full.
  while (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (errno != EAGAIN && errno != EINTR)
      return base::errno_error(ErrorCode::unavailable, "connect to the agent at " + path, errno);
    if (deadline.passed())
      return Error(ErrorCode::unavailable, "the agent at " + path + " is busy");
    base::sleep_until(Deadline::after_ms(5));
  }
  return fd;
}

Result<Bytes> ask(const std::string& path, const Bytes& request, double seconds) {
  const Deadline deadline = Deadline::after_seconds(seconds);
  COLL_ASSIGN(const base::Fd fd, connect_agent(path, deadline));
  Bytes message;
  put_string(message, request);
  COLL_TRY_IN(base::write_exact(fd.get(), message.data(), message.size(), deadline),
              "ask the agent");
  uint8_t head[4];
  COLL_TRY_IN(base::read_exact(fd.get(), head, sizeof head, deadline), "answer of the agent");
  const uint32_t size = uint32_t(head[0]) << 24 | uint32_t(head[1]) << 16 | uint32_t(head[2]) << 8 |
                        uint32_t(head[3]);
  if (size == 0 || size > kMostAnswer)
    return Error(ErrorCode::unavailable, "the agent's answer is malformed");
  Bytes answer(size);
  COLL_TRY_IN(base::read_exact(fd.get(), answer.data(), size, deadline), "answer of the agent");
  return answer;
}

Result<std::vector<AgentKey>> list_keys(const std::string& path) {
  COLL_ASSIGN(const Bytes answer, ask(path, {kRequestIdentities}, kListS));
  const Error nonsense(ErrorCode::unavailable, "the agent's list of keys is malformed");
  if (answer[0] != kIdentitiesAnswer || answer.size() < 5) return nonsense;
  size_t at = 5;  // the number of keys is also told by the end
  std::vector<AgentKey> keys;
  while (at < answer.size() && keys.size() < kMostKeys) {
    auto blob = take_string(answer, at);
    const auto comment = blob ? take_string(answer, at) : std::nullopt;
    if (!comment) return nonsense;
    size_t inside = 0;
    const auto type = take_string(*blob, inside);
    if (!type) return nonsense;
    AgentKey key;
    key.type.assign(type->begin(), type->end());
    key.blob = std::move(*blob);
    for (const uint8_t c : *comment) key.comment += c >= ' ' && c < 127 ? char(c) : '?';
    keys.push_back(std::move(key));
  }
  return keys;
}

std::mutex g_mutex;
std::map<std::string, Result<std::vector<AgentKey>>>& kept() {
  static auto& map = *new std::map<std::string, Result<std::vector<AgentKey>>>;
  return map;
}

}  // namespace

Result<std::vector<AgentKey>> agent_keys(const std::string& socket) {
  const std::lock_guard lock(g_mutex);
  auto found = kept().find(socket);
  if (found == kept().end()) found = kept().emplace(socket, list_keys(socket)).first;
  if (!found->second) return found->second.error();
  return found->second.value();
}

Result<Bytes> agent_sign(const std::string& socket, const Bytes& blob, ByteView data) {
  Bytes request = {kSignRequest};
  put_string(request, blob);
  put_string(request, data);
  put_number(request, 0);  // no flags: RSA signs with what the method of the library says
  COLL_ASSIGN(const Bytes answer, ask(socket, request, kSignS));
  size_t at = 1;
  const auto whole = answer[0] == kSignResponse ? take_string(answer, at) : std::nullopt;
  size_t inside = 0;
  const auto type = whole ? take_string(*whole, inside) : std::nullopt;
  auto signature = type ? take_string(*whole, inside) : std::nullopt;
  if (!signature) return Error(ErrorCode::unavailable, "the agent refused to sign");
  return std::move(*signature);
}

}  // namespace collctl::launcher

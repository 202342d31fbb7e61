#include "tests/fake_plugins/sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace fake_plugin {

namespace {

constexpr char kHello = 'h';
constexpr int kLooks = 2;  // so often a connection is not ready, for a caller that must ask again

struct Header {
  uint64_t bytes;
  int64_t tag;
};

// Connections of those who connect: the interface has no way to give one up.
std::set<Connection*>& half_made() {
  static auto* const all = new std::set<Connection*>();
  return *all;
}

// The first address that other hosts can reach, else loopback.
in_addr own_address() {
  in_addr found{};
  found.s_addr = htonl(INADDR_LOOPBACK);
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return found;
  for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
    if ((each->ifa_flags & IFF_LOOPBACK) != 0 || (each->ifa_flags & IFF_UP) == 0) continue;
    found = reinterpret_cast<const sockaddr_in*>(each->ifa_addr)->sin_addr;
    break;
  }
  ::freeifaddrs(all);
  return found;
}

int tcp_socket() {
  return ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

Connection* make(int fd, bool sends) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  auto* c = new Connection();
  c->fd = fd;
  c->sends = sends;
  return c;
}

template <class T>
void append(std::vector<uint8_t>& to, const T& value) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
  to.insert(to.end(), bytes, bytes + sizeof value);
}

// Writes and reads what goes; false when the peer is gone.
bool pump(Connection& c) {
  while (!c.out.empty()) {
    const ssize_t n = ::send(c.fd, c.out.data(), c.out.size(), MSG_NOSIGNAL);
    if (n <= 0) {
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) break;
      return false;
    }
    c.out.erase(c.out.begin(), c.out.begin() + n);
  }
  uint8_t buffer[65536];
  while (true) {
    const ssize_t n = ::recv(c.fd, buffer, sizeof buffer, 0);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    if (n == 0) return false;
    c.in.insert(c.in.end(), buffer, buffer + n);
    if (c.in.size() > (64u << 20)) return true;
  }
}

// Sends: news of room. Messages whose bytes have all been taken by the socket are done.
void take_room(Connection& c) {
  size_t at = 0;
  for (; c.in.size() - at >= sizeof(uint64_t); at += sizeof(uint64_t)) {
    uint64_t bytes = 0;
    std::memcpy(&bytes, c.in.data() + at, sizeof bytes);
    c.room.push_back(bytes);
  }
  c.in.erase(c.in.begin(), c.in.begin() + long(at));
  if (!c.out.empty()) return;
  for (Request* r : c.pending) r->done = true;
  c.pending.clear();
}

NetPluginCode take_messages(Connection& c) {
  size_t at = 0;
  while (c.in.size() - at >= sizeof(Header)) {
    Header header{};
    std::memcpy(&header, c.in.data() + at, sizeof header);
    if (c.in.size() - at - sizeof header < header.bytes) break;
    if (c.pending.empty() || header.bytes > c.pending.front()->bytes)
      return refuse(5, "a message arrived that there is no room for");
    Request* r = c.pending.front();
    c.pending.pop_front();
    const uint8_t* from = c.in.data() + at + sizeof header;
    r->bytes = header.bytes;
    if (r->memory->kind == kNetPluginCuda)
      c.unseen[r->data].assign(from, from + header.bytes);  // until iflush
    else if (header.bytes != 0)
      std::memcpy(r->data, from, header.bytes);
    r->done = true;
    at += sizeof header + header.bytes;
  }
  c.in.erase(c.in.begin(), c.in.begin() + long(at));
  return kNetPluginOk;
}

bool inside(const Connection& c, const Memory* m, const void* data, size_t bytes) {
  const auto* at = static_cast<const uint8_t*>(data);
  return c.memories.count(const_cast<Memory*>(m)) != 0 && at >= m->at &&
         at + bytes <= m->at + m->bytes;
}

Request* begin(Connection& c, void* data, size_t bytes, Memory* memory) {
  auto* r = new Request();
  r->connection = &c;
  r->data = static_cast<uint8_t*>(data);
  r->bytes = bytes;
  r->memory = memory;
  c.open.insert(r);
  ++world().requests;
  ++world().messages;
  return r;
}

NetPluginCode accept_from(void* listener, void** connection, void**) {
  FAKE_FAULT("accept");
  auto& l = *static_cast<Listener*>(listener);
  *connection = nullptr;
  if (l.asked++ < kLooks || nonsense("silent")) return kNetPluginOk;
  if (nonsense("waits")) {  // against the interface, as some do
    pollfd one{l.fd, POLLIN, 0};
    ::poll(&one, 1, 20'000);
  }
  const int fd = ::accept4(l.fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) return errno == EAGAIN ? kNetPluginOk : kNetPluginSystemError;
  Connection* c = make(fd, false);
  append(c->out, kHello);
  if (!pump(*c)) return kNetPluginRemoteError;
  ++world().connections;
  *connection = c;
  return kNetPluginOk;
}

NetPluginCode add_memory(void* connection, void* at, size_t bytes, int kind, void** memory) {
  auto& c = *static_cast<Connection*>(connection);
  auto* m = new Memory{static_cast<uint8_t*>(at), bytes, kind};
  c.memories.insert(m);
  ++world().memories;
  *memory = m;
  return kNetPluginOk;
}

NetPluginCode register_memory(void* connection, void* at, size_t bytes, int kind, void** memory) {
  FAKE_FAULT("regMr");
  const std::string pointers = variable("FAKE_PLUGIN_POINTERS");
  const int taken = pointers.empty() ? 1 : std::atoi(pointers.c_str());
  if ((kind & taken) == 0) return refuse(5, "no such memory is taken");
  return add_memory(connection, at, bytes, kind, memory);
}

NetPluginCode register_dmabuf(void* connection, void* at, size_t bytes, int kind, uint64_t, int fd,
                              void** memory) {
  FAKE_FAULT("regMrDmaBuf");
  if (::fcntl(fd, F_GETFD) < 0) return refuse(5, "the descriptor of GPU memory is not open");
  return add_memory(connection, at, bytes, kind, memory);
}

NetPluginCode deregister(void* connection, void* memory) {
  FAKE_FAULT("deregMr");
  auto& c = *static_cast<Connection*>(connection);
  auto* m = static_cast<Memory*>(memory);
  for (const Request* r : c.open)
    if (r->memory == m) return refuse(5, "memory that is in use");
  if (c.memories.erase(m) == 0) return refuse(5, "memory of another connection");
  delete m;
  --world().memories;
  return kNetPluginOk;
}

NetPluginCode send_message(void* connection, void* data, size_t bytes, int tag, void* memory, void*,
                           void** request) {
  FAKE_FAULT("isend");
  auto& c = *static_cast<Connection*>(connection);
  auto* m = static_cast<Memory*>(memory);
  *request = nullptr;
  if (!c.sends || !inside(c, m, data, bytes)) return refuse(5, "not this connection's memory");
  if (c.open.size() >= size_t(kMostRequests)) return refuse(3, "too many requests at once");
  if (!pump(c)) return kNetPluginRemoteError;
  take_room(c);
  if (c.room.empty()) return kNetPluginOk;  // not now
  if (bytes > c.room.front()) return refuse(5, "the receiver has room for less");
  c.room.pop_front();
  append(c.out, Header{bytes, tag});
  const auto* from = static_cast<const uint8_t*>(data);
  c.out.insert(c.out.end(), from, from + bytes);
  Request* r = begin(c, data, bytes, m);
  c.pending.push_back(r);
  *request = r;
  return kNetPluginOk;
}

NetPluginCode receive_message(void* connection, int count, void** data, size_t* bytes, int*,
                              void** memories, void**, void** request) {
  FAKE_FAULT("irecv");
  auto& c = *static_cast<Connection*>(connection);
  auto* m = static_cast<Memory*>(memories[0]);
  *request = nullptr;
  if (count != 1) return refuse(3, "grouped receives are not offered");
  if (c.sends || !inside(c, m, data[0], bytes[0])) return refuse(5, "not this connection's memory");
  if (c.open.size() >= size_t(kMostRequests)) return refuse(3, "too many requests at once");
  append(c.out, uint64_t(bytes[0]));
  Request* r = begin(c, data[0], bytes[0], m);
  c.pending.push_back(r);
  *request = r;
  return kNetPluginOk;
}

NetPluginCode flush(void* connection, int, void** data, int* bytes, void** memories,
                    void** request) {
  FAKE_FAULT("iflush");
  auto& c = *static_cast<Connection*>(connection);
  Request* r = begin(c, data[0], size_t(bytes[0]), static_cast<Memory*>(memories[0]));
  r->flush = true;
  ++world().flushes;
  *request = r;
  return kNetPluginOk;
}

void end_request(Request* r) {
  r->connection->open.erase(r);
  delete r;
  --world().requests;
}

// A request whose test fails is over.
NetPluginCode test(void* request, int* done, int* bytes) {
  auto* r = static_cast<Request*>(request);
  Connection& c = *r->connection;
  *done = 0;
  if (c.open.count(r) == 0) return refuse(3, "a request that is over");
  const auto fail = [&](NetPluginCode code) {
    std::erase(c.pending, r);
    end_request(r);
    return code;
  };
  if (const NetPluginCode code = fault("test"); code != kNetPluginOk) return fail(code);
  if (r->flush) {
    if (auto unseen = c.unseen.extract(r->data); !unseen.empty())
      std::memcpy(r->data, unseen.mapped().data(), unseen.mapped().size());
    r->done = true;
  } else if (!r->done) {
    const bool there = pump(c);
    NetPluginCode code = kNetPluginOk;
    if (c.sends)
      take_room(c);
    else
      code = take_messages(c);
    if (code != kNetPluginOk) return fail(code);
    if (!there && !r->done) return fail(refuse(kNetPluginRemoteError, "the peer is gone"));
  }
  if (!r->done || (!c.sends && nonsense("stuck-receive"))) return kNetPluginOk;
  *done = 1;
  if (!nonsense("no-size")) *bytes = nonsense("size") && !c.sends ? 1 << 30 : int(r->bytes);
  end_request(r);
  return kNetPluginOk;
}

// Notes and drops what is open when a connection that has requests is closed.
void leave_behind(Connection& c) {
  World& w = world();
  for (Request* r : c.open) {
    if (!c.sends && r->memory->kind == kNetPluginHost) {
      const std::lock_guard lock(w.mutex);
      w.left.push_back({r->data, r->bytes});
    }
    delete r;
    --w.requests;
  }
  for (Memory* m : c.memories) {
    delete m;
    --w.memories;
  }
}

NetPluginCode close_connection(void* connection) {
  auto* c = static_cast<Connection*>(connection);
  if (!c->memories.empty() && c->open.empty()) return refuse(3, "memory is still registered");
  leave_behind(*c);
  ::close(c->fd);
  delete c;
  --world().connections;
  return kNetPluginOk;
}

NetPluginCode close_send(void* connection) {
  const NetPluginCode wrong = fault("closeSend");  // closes all the same
  const NetPluginCode closed = close_connection(connection);
  return wrong != kNetPluginOk ? wrong : closed;
}
NetPluginCode close_receive(void* connection) {
  const NetPluginCode wrong = fault("closeRecv");
  const NetPluginCode closed = close_connection(connection);
  return wrong != kNetPluginOk ? wrong : closed;
}

NetPluginCode close_listener(void* listener) {
  const NetPluginCode wrong = fault("closeListen");
  auto* l = static_cast<Listener*>(listener);
  ::close(l->fd);
  delete l;
  --world().listeners;
  return wrong;
}

}  // namespace

NetPluginCode listen_at(void* handle, void** listener) {
  FAKE_FAULT("listen");
  *listener = nullptr;
  if (nonsense("null-listener")) return kNetPluginOk;
  Handle made{};
  made.at.sin_family = AF_INET;
  made.at.sin_addr = own_address();
  const int fd = tcp_socket();
  socklen_t length = sizeof made.at;
  if (fd < 0 || ::bind(fd, reinterpret_cast<sockaddr*>(&made.at), sizeof made.at) != 0 ||
      ::listen(fd, 16) != 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&made.at), &length) != 0)
    return kNetPluginSystemError;
  std::memcpy(handle, &made, sizeof made);
  *listener = new Listener{.fd = fd};
  ++world().listeners;
  return kNetPluginOk;
}

NetPluginCode connect_to(void* handle, void** connection) {
  FAKE_FAULT("connect");
  Handle h{};
  std::memcpy(&h, handle, sizeof h);
  *connection = nullptr;
  if (h.begun == nullptr) {
    const int fd = tcp_socket();
    if (fd < 0) return kNetPluginSystemError;
    if (::connect(fd, reinterpret_cast<sockaddr*>(&h.at), sizeof h.at) != 0 &&
        errno != EINPROGRESS) {
      ::close(fd);
      return kNetPluginSystemError;
    }
    h.begun = make(fd, true);
    half_made().insert(static_cast<Connection*>(h.begun));
    std::memcpy(handle, &h, sizeof h);
    return kNetPluginOk;
  }
  auto* c = static_cast<Connection*>(h.begun);
  char hello = 0;
  const ssize_t n = ::recv(c->fd, &hello, 1, 0);
  if (n < 0 && errno == EAGAIN) return kNetPluginOk;
  if (n != 1 || hello != kHello) return kNetPluginRemoteError;
  ++world().connections;
  half_made().erase(c);
  *connection = c;
  return kNetPluginOk;
}

NetPluginCode socket_devices(int* count) {
  FAKE_FAULT("devices");
  *count = nonsense("devices") ? 1 << 20 : nonsense("no-devices") ? 0 : 2;
  return kNetPluginOk;
}

const NetPluginCalls10 kSocketCalls = {.accept = accept_from,
                                       .register_memory = register_memory,
                                       .register_dmabuf = register_dmabuf,
                                       .deregister = deregister,
                                       .send = send_message,
                                       .receive = receive_message,
                                       .flush = flush,
                                       .test = test,
                                       .close_send = close_send,
                                       .close_receive = close_receive,
                                       .close_listener = close_listener,
                                       .device_memory = nullptr,
                                       .consumed = nullptr,
                                       .make_device = nullptr};

}  // namespace fake_plugin

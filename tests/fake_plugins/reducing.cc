// The structure of a network that reduces, of the version that the build names. Its members are
// connected to the process of their group (reducer.h).
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "tests/fake_plugins/faults.h"
#include "tests/fake_plugins/reducer.h"
#include "tests/fake_plugins/reducer_start.h"

namespace fake_plugin {
namespace {

constexpr int kPatienceMs = 20'000;

struct GroupHandle {
  uint16_t length;
  char name[sizeof(sockaddr_un::sun_path)];
};
static_assert(sizeof(GroupHandle) <= kNetPluginHandleBytes);

struct Memory {
  uint8_t* at;
  size_t bytes;
};

struct Group;
struct Request {
  Group* group = nullptr;
  uint8_t* to = nullptr;
  Word word{};
  bool done = false;
};

struct Group {
  int fd = -1;
  pid_t process = -1;  // of the first member
  uint32_t next = 0;
  std::deque<Request*> pending;  // in order
  std::set<Request*> open;
  std::set<Memory*> memories;
  std::vector<uint8_t> in, out;
};

struct Listener {
  int fd = -1;
  Group* begun = nullptr;  // connect, between its calls
};

sockaddr_un address_of(const GroupHandle& handle, socklen_t& length) {
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  std::memcpy(at.sun_path, handle.name, handle.length);
  length = socklen_t(offsetof(sockaddr_un, sun_path) + handle.length);
  return at;
}

template <class T>
void append(std::vector<uint8_t>& to, const T& value) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
  to.insert(to.end(), bytes, bytes + sizeof value);
}

// False: the process is gone.
bool pump(Group& g) {
  while (!g.out.empty()) {
    const ssize_t n = ::send(g.fd, g.out.data(), g.out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) break;
    if (n <= 0) return false;
    g.out.erase(g.out.begin(), g.out.begin() + n);
  }
  uint8_t buffer[65536];
  while (true) {
    const ssize_t n = ::recv(g.fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (n < 0) return errno == EAGAIN;
    if (n == 0) return false;
    g.in.insert(g.in.end(), buffer, buffer + n);
  }
}

NetPluginCode take_sums(Group& g) {
  size_t at = 0;
  Word word{};
  while (g.in.size() - at >= sizeof word) {
    std::memcpy(&word, g.in.data() + at, sizeof word);
    if (word.number == kDiffer) return refuse(5, "the members reduce different things");
    const size_t bytes = word.count * element_bytes(word.type);
    if (g.in.size() - at - sizeof word < bytes) break;
    if (g.pending.empty() || std::memcmp(&g.pending.front()->word, &word, sizeof word) != 0)
      return refuse(3, "a sum that nobody waits for");
    if (bytes != 0) std::memcpy(g.pending.front()->to, g.in.data() + at + sizeof word, bytes);
    g.pending.front()->done = true;
    g.pending.pop_front();
    at += sizeof word + bytes;
  }
  g.in.erase(g.in.begin(), g.in.begin() + long(at));
  return kNetPluginOk;
}

NetPluginCode listen_at_name(void* handle, void** listener) {
  FAKE_FAULT("collListen");
  *listener = nullptr;
  if (nonsense("null-group-listener")) return kNetPluginOk;
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  socklen_t length = sizeof(sa_family_t);  // a name of the system's choice
  if (fd < 0 || ::bind(fd, reinterpret_cast<sockaddr*>(&at), length) != 0 || ::listen(fd, 64) != 0)
    return kNetPluginSystemError;
  length = sizeof at;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&at), &length) != 0)
    return kNetPluginSystemError;
  GroupHandle made{};
  made.length = uint16_t(length - offsetof(sockaddr_un, sun_path));
  std::memcpy(made.name, at.sun_path, made.length);
  std::memcpy(handle, &made, sizeof made);
  *listener = new Listener{.fd = fd};
  ++world().listeners;
  return kNetPluginOk;
}

void end_group(Group* group) {
  ::close(group->fd);
  if (group->process > 0) {
    ::kill(group->process, SIGTERM);  // it may still wait for members
    ::waitpid(group->process, nullptr, 0);
  }
  delete group;
}

// Connected, but not yet greeted.
Group* begin_group(const GroupHandle& first, pid_t process) {
  auto* group = new Group();
  group->process = process;
  socklen_t length = 0;
  const sockaddr_un at = address_of(first, length);
  group->fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::connect(group->fd, reinterpret_cast<const sockaddr*>(&at), length) == 0) return group;
  end_group(group);
  return nullptr;
}

// Versions up to 10 wait for the others in their connect, the later ones are to be asked again.
NetPluginCode connect_group(void** handles, int count, int rank, void* listener, void** group) {
  *group = nullptr;
  if (nonsense("silent")) return kNetPluginOk;
  auto& l = *static_cast<Listener*>(listener);
  if (l.begun == nullptr) {
    FAKE_FAULT("collConnect");
    const pid_t process = rank == 0 ? start_process(l.fd, count) : 0;
    if (process < 0) return refuse(2, "no process that reduces");
    GroupHandle first{};
    std::memcpy(&first, handles[0], sizeof first);
    l.begun = begin_group(first, process);
    if (l.begun == nullptr) return kNetPluginRemoteError;
  }
  if (FAKE_PLUGIN_VERSION <= 10) {
    pollfd fd = {l.begun->fd, POLLIN, 0};
    if (::poll(&fd, 1, kPatienceMs) != 1) return kNetPluginRemoteError;
  }
  Word word{};
  const ssize_t n = ::recv(l.begun->fd, &word, sizeof word, MSG_DONTWAIT);
  if (n < 0 && errno == EAGAIN) return kNetPluginOk;
  if (n != ssize_t(sizeof word) || word.number != kHello) return kNetPluginRemoteError;
  *group = std::exchange(l.begun, nullptr);
  ++world().connections;
  return kNetPluginOk;
}

bool listed(const char* variable_name, const std::string& word, const char* otherwise) {
  std::string all = variable(variable_name);
  if (all.empty()) all = otherwise;
  std::stringstream words(all);
  for (std::string each; std::getline(words, each, ',');)
    if (each == word) return true;
  return false;
}

NetPluginCode reduces(int type, int op, int* supported) {
  FAKE_FAULT("reduceSupport");
  static const char* const kOps[] = {"sum", "prod", "max", "min"};
  *supported = op >= 0 && op < 4 && listed("FAKE_PLUGIN_REDUCES", kOps[op], "sum,prod,max,min") &&
               listed("FAKE_PLUGIN_TYPES", std::to_string(type), "0,1,2,3,4,5,6,7,8,9,10,11");
  return kNetPluginOk;
}

NetPluginCode add_memory(void* group, void* at, size_t bytes, int kind, void** memory) {
  FAKE_FAULT("collRegMr");
  if (kind != kNetPluginHost) return refuse(5, "host memory is taken only");
  auto* m = new Memory{static_cast<uint8_t*>(at), bytes};
  static_cast<Group*>(group)->memories.insert(m);
  ++world().memories;
  *memory = m;
  return kNetPluginOk;
}

NetPluginCode drop_memory(void* group, void* memory) {
  FAKE_FAULT("collDeregMr");
  auto& g = *static_cast<Group*>(group);
  if (!g.open.empty()) return refuse(5, "memory that is in use");
  if (g.memories.erase(static_cast<Memory*>(memory)) == 0)
    return refuse(5, "no memory of this group");
  delete static_cast<Memory*>(memory);
  --world().memories;
  return kNetPluginOk;
}

bool inside(const Group& g, void* memory, const void* at, size_t bytes) {
  const auto* m = static_cast<const Memory*>(memory);
  const auto* from = static_cast<const uint8_t*>(at);
  return g.memories.count(static_cast<Memory*>(memory)) != 0 && from >= m->at &&
         from + bytes <= m->at + m->bytes;
}

NetPluginCode all_reduce(void* group, void* from, void* to, size_t count, int type, int op,
                         void* from_memory, void* to_memory, void** request) {
  FAKE_FAULT("iallreduce");
  auto& g = *static_cast<Group*>(group);
  const size_t bytes = count * element_bytes(type);
  *request = nullptr;
  int supported = 0;
  if (reduces(type, op, &supported) != kNetPluginOk || supported == 0)
    return refuse(5, "this is not reduced");
  if (bytes > kMostReducedBytes) return refuse(5, "more than is taken at once");
  if (!inside(g, from_memory, from, bytes) || !inside(g, to_memory, to, bytes))
    return refuse(5, "not this group's memory");
  if (g.open.size() >= size_t(kMostRequests)) return refuse(3, "too many requests at once");
  if (g.next % 3 == 1 && g.open.size() >= 2) return kNetPluginOk;  // not now: ask again
  auto* r = new Request{.group = &g,
                        .to = static_cast<uint8_t*>(to),
                        .word = {g.next++, int16_t(type), int16_t(op), uint64_t(count)}};
  append(g.out, r->word);
  g.out.insert(g.out.end(), static_cast<uint8_t*>(from), static_cast<uint8_t*>(from) + bytes);
  g.pending.push_back(r);
  g.open.insert(r);
  ++world().requests;
  ++world().messages;
  *request = r;
  return kNetPluginOk;
}

NetPluginCode test_reduction(void* request, int* done, int* bytes) {
  FAKE_FAULT("collTest");
  auto* r = static_cast<Request*>(request);
  Group& g = *r->group;
  *done = 0;
  if (g.open.count(r) == 0) return refuse(3, "a request that is over");
  if (nonsense("stuck-group")) return kNetPluginOk;
  if (!r->done) {
    const bool there = pump(g);
    if (const NetPluginCode code = take_sums(g); code != kNetPluginOk) return code;
    if (!there && !r->done)
      return refuse(kNetPluginRemoteError, "the process that reduces is gone");
  }
  if (!r->done) return kNetPluginOk;
  *done = 1;
  if (bytes != nullptr) *bytes = int(r->word.count * element_bytes(r->word.type));
  g.open.erase(r);
  delete r;
  --world().requests;
  return kNetPluginOk;
}

NetPluginCode close_group(void* group) {
  const NetPluginCode wrong = fault("closeColl");  // closes all the same
  auto* g = static_cast<Group*>(group);
  for (Request* r : g->open) {
    delete r;
    --world().requests;
  }
  for (Memory* m : g->memories) {
    delete m;
    --world().memories;
  }
  end_group(g);
  --world().connections;
  return wrong;
}

NetPluginCode close_group_listener(void* listener) {
  const NetPluginCode wrong = fault("collCloseListen");
  auto* l = static_cast<Listener*>(listener);
  if (l->begun != nullptr) end_group(l->begun);
  ::close(l->fd);
  delete l;
  --world().listeners;
  return wrong;
}

NetPluginCode group_devices(int* count) {
  FAKE_FAULT("collDevices");
  *count = nonsense("no-group-devices") ? 0 : 2;
  return kNetPluginOk;
}

template <class Facts>
NetPluginCode group_facts(int device, Facts* facts) {
  FAKE_FAULT("collGetProperties");
  static const char* const kNames[] = {"tree0", "tree1"};
  *facts = Facts{};
  facts->name = kNames[device];
  facts->pointers = kNetPluginHost;
  facts->mbps = 10000;
  if constexpr (requires { facts->most_message_bytes; }) {
    facts->most_message_bytes = 1;  // not what counts here
    facts->most_collective_bytes = nonsense("small-groups")     ? 4096
                                   : nonsense("no-group-bytes") ? 0
                                                                : kMostReducedBytes;
  }
  return kNetPluginOk;
}

NetPluginCode begin_reducing(NetPluginLog log) {
  {
    World& w = world();
    const std::lock_guard lock(w.mutex);
    w.log = log;
  }
  FAKE_FAULT("collInit");
  return kNetPluginOk;
}

#if FAKE_PLUGIN_VERSION <= 10
NetPluginCode listen_group(int, void* handle, void** listener) {
  return listen_at_name(handle, listener);
}
#else
int context_of_all;
NetPluginCode init_reducing(void** context, uint64_t, NetPluginLog log) {
  *context = &context_of_all;
  const NetPluginCode begun = begin_reducing(log);
  if (begun == kNetPluginOk) ++world().sessions;
  return begun;
}
NetPluginCode listen_group(void* context, int, void* handle, void** listener) {
  if (context != &context_of_all) return kNetPluginInternalError;
  return listen_at_name(handle, listener);
}
NetPluginCode finalize_reducing(void* context) {
  if (context != &context_of_all) return kNetPluginInternalError;
  --world().sessions;
  return fault("collFinalize");
}
#endif

}  // namespace
}  // namespace fake_plugin

using namespace fake_plugin;

// Sizes and counts as the version has them.
#if FAKE_PLUGIN_VERSION >= 9
using Count = size_t;
#else
using Count = int;
#endif
#if FAKE_PLUGIN_VERSION >= 8
using Size = size_t;
#else
using Size = int;
#endif
#if FAKE_PLUGIN_VERSION >= 9
using GroupCalls = CollNetPluginCalls9;
#elif FAKE_PLUGIN_VERSION == 8
using GroupCalls = CollNetPluginCalls8;
#else
using GroupCalls = CollNetPluginCalls7;
#endif
namespace {
GroupCalls group_calls() {
  GroupCalls calls{};
  calls.connect = connect_group;
  calls.reduces = reduces;
  calls.register_memory = [](void* group, void* at, Size bytes, int kind, void** memory) {
    return add_memory(group, at, size_t(bytes), kind, memory);
  };
  calls.deregister = drop_memory;
  calls.all_reduce = [](void* group, void* from, void* to, Count count, int type, int op,
                        void* from_memory, void* to_memory, void** request) {
    return all_reduce(group, from, to, size_t(count), type, op, from_memory, to_memory, request);
  };
  calls.test = test_reduction;
  calls.close_group = close_group;
  calls.close_listener = close_group_listener;
  return calls;
}
}  // namespace

#define FAKE_JOIN(a, b) a##b
#define FAKE_NAME(a, b) FAKE_JOIN(a, b)
#define FAKE_GROUP_STRUCTURE FAKE_NAME(ncclCollNetPlugin_v, FAKE_PLUGIN_VERSION)
using GroupStructure = FAKE_NAME(CollNetPlugin, FAKE_PLUGIN_VERSION);
extern "C" {
FAKE_PLUGIN_EXPORT extern const GroupStructure FAKE_GROUP_STRUCTURE;
#if FAKE_PLUGIN_VERSION >= 11
const GroupStructure FAKE_GROUP_STRUCTURE = {.name = "Sums",
                                             .init = init_reducing,
                                             .devices = group_devices,
                                             .facts = group_facts,
                                             .listen = listen_group,
                                             .calls = group_calls(),
                                             .finalize = finalize_reducing};
#else
const GroupStructure FAKE_GROUP_STRUCTURE = {.name = "Sums",
                                             .init = begin_reducing,
                                             .devices = group_devices,
                                             .facts = group_facts,
                                             .listen = listen_group,
                                             .calls = group_calls()};
#endif
}

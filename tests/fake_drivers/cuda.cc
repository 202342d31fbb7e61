// A libcuda.so.1 for tests, with the meaning of the real one as far as the product relies on it:
// devices with limited memory, access rules, streams that run by themselves, graphs. "Device
// memory" is host memory, so host threads can stand in for kernels. See cuda_control.h.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "tests/fake_drivers/cuda_world.h"

namespace fake_cuda {
namespace {

thread_local Context* t_current = nullptr;

uint64_t number(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

void apply(World& w, const Setup& setup) {
  w.setup = setup;
  w.all_cut_off = setup.peers == "none";
  w.cut_off.clear();
  std::istringstream pairs(setup.peers);
  for (std::string pair; std::getline(pairs, pair, ',');) {
    int a = 0, b = 0;
    if (std::sscanf(pair.c_str(), "%d-%d", &a, &b) == 2) w.cut_off.insert({a, b});
  }
  for (int i = 0; i < 64; ++i) w.contexts[i].ordinal = i;
}

void read_failures(World& w) {
  const char* text = std::getenv("FAKE_CUDA_FAIL");
  std::istringstream list(text != nullptr ? text : "");
  for (std::string item; std::getline(list, item, ',');) {
    char name[64] = {};
    int code = 0, after = 0;
    if (std::sscanf(item.c_str(), "%63[^:]:%d:%d", name, &code, &after) >= 2)
      w.failures[name] = {code, after, false};
  }
}

World* first_world() {
  auto* w = new World();  // never destroyed: threads of streams may outlive main
  Setup setup;
  setup.devices = int(std::min<uint64_t>(number("FAKE_CUDA", 0), 64));
  setup.memory_bytes = number("FAKE_CUDA_MEMORY", setup.memory_bytes);
  const char* peers = std::getenv("FAKE_CUDA_PEERS");
  setup.peers = peers != nullptr ? peers : "";
  setup.sm = int(number("FAKE_CUDA_SM", 86));
  setup.fd_handles = number("FAKE_CUDA_FDS", 1) != 0;
  setup.fabric = number("FAKE_CUDA_FABRIC", 0) != 0;
  setup.mig = number("FAKE_CUDA_MIG", 0) != 0;
  apply(*w, setup);
  read_failures(*w);
  return w;
}

int ordinal_of(int device) {
  const int ordinal = device - kFirstHandle;
  return ordinal >= 0 && ordinal < world().setup.devices ? ordinal : -1;
}

}  // namespace

World& world() {
  static World* instance = first_world();
  return *instance;
}

int World::due_failure(const char* function) {
  ++calls[function];
  const auto found = failures.find(function);
  if (found == failures.end()) return kOk;
  if (found->second.after-- > 0) return kOk;
  const int code = found->second.code;
  if (found->second.breaks && current() != nullptr) current()->broken = code;
  failures.erase(found);
  return code;
}

Context* current() {
  return t_current;
}

void set_current(Context* context) {
  t_current = context;
}

std::mutex& full_queue() {
  static std::mutex mutex;
  return mutex;
}

int entry(const char* function, bool needs_context) {
  { const std::scoped_lock waits(full_queue()); }
  World& w = world();
  const std::scoped_lock lock(w.mutex);
  if (const int code = w.due_failure(function); code != kOk) return code;
  if (!needs_context) return kOk;
  if (t_current == nullptr || t_current->retained == 0) return kInvalidContext;
  return t_current->broken;
}

void set_up(const Setup& setup) {
  World& w = world();
  const std::scoped_lock lock(w.mutex);
  apply(w, setup);
  w.failures.clear();
  w.calls.clear();
  for (Context& context : w.contexts) {
    context.broken = 0;
    context.peers_enabled.clear();
  }
}

void fail(const std::string& function, int code, int after, bool breaks) {
  World& w = world();
  const std::scoped_lock lock(w.mutex);
  w.failures[function] = {code, after, breaks};
}

std::map<std::string, int> calls() {
  World& w = world();
  const std::scoped_lock lock(w.mutex);
  return w.calls;
}

void break_device(int ordinal, int code) {
  World& w = world();
  const std::scoped_lock lock(w.mutex);
  w.contexts[ordinal].broken = code;
}

Counts counts() {
  World& w = world();
  const std::scoped_lock lock(w.mutex);
  Counts now;
  for (const Context& context : w.contexts) {
    now.contexts += context.retained;
    now.bytes += context.used_bytes;
  }
  count_memory(now);
  count_pinned(now);
  count_streams(now);
  return now;
}

std::string Counts::text() const {
  std::ostringstream out;
  out << "contexts " << contexts << " allocations " << allocations << " handles " << handles
      << " reservations " << reservations << " mappings " << mappings << " imports " << imports
      << " pinned " << pinned << " streams " << streams << " events " << events << " graphs "
      << graphs << " bytes " << bytes;
  return out.str();
}

}  // namespace fake_cuda

using namespace fake_cuda;

extern "C" {

int cuInit(unsigned) {
  if (const int code = entry("cuInit", false); code != kOk) return code;
  return world().setup.devices > 0 ? kOk : kNoDevice;
}
int cuGetErrorName(int code, const char** name) {
  switch (code) {
    case kInvalidValue:
      *name = "CUDA_ERROR_INVALID_VALUE";
      break;
    case kOutOfMemory:
      *name = "CUDA_ERROR_OUT_OF_MEMORY";
      break;
    case kNoDevice:
      *name = "CUDA_ERROR_NO_DEVICE";
      break;
    case kPeerUnsupported:
      *name = "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED";
      break;
    case kIllegalAddress:
      *name = "CUDA_ERROR_ILLEGAL_ADDRESS";
      break;
    default:
      *name = "CUDA_ERROR_UNKNOWN";
  }
  return kOk;
}
int cuGetErrorString(int code, const char** text) {
  *text = code == kOutOfMemory ? "out of memory" : "an error of the fake driver";
  return kOk;
}
int cuDeviceGetCount(int* count) {
  if (const int code = entry("cuDeviceGetCount", false); code != kOk) return code;
  *count = world().setup.devices;
  return kOk;
}
int cuDeviceGet(int* device, int ordinal) {
  if (const int code = entry("cuDeviceGet", false); code != kOk) return code;
  if (ordinal < 0 || ordinal >= world().setup.devices) return kInvalidDevice;
  *device = kFirstHandle + ordinal;
  return kOk;
}
int cuDeviceGetName(char* text, int size, int) {
  if (const int code = entry("cuDeviceGetName", false); code != kOk) return code;
  std::snprintf(text, size_t(size), "Fake GPU");
  return kOk;
}
int cuDeviceTotalMem_v2(size_t* bytes, int) {
  if (const int code = entry("cuDeviceTotalMem_v2", false); code != kOk) return code;
  *bytes = world().setup.memory_bytes;
  return kOk;
}
int cuDeviceGetPCIBusId(char* text, int size, int device) {
  if (const int code = entry("cuDeviceGetPCIBusId", false); code != kOk) return code;
  const int backwards = world().setup.devices - 1 - (device - kFirstHandle);
  std::snprintf(text, size_t(size), "0000:%02x:00.0",
                unsigned(0x10 + backwards / (world().setup.mig ? 2 : 1)));
  return kOk;
}
int cuDeviceGetUuid_v2(void* bytes, int device) {
  if (ordinal_of(device) < 0) return kInvalidDevice;
  std::memset(bytes, 0xa5, 16);
  std::memcpy(bytes, &device, sizeof device);
  return kOk;
}
int cuDeviceGetByPCIBusId(int* device, const char* text) {
  if (const int code = entry("cuDeviceGetByPCIBusId", false); code != kOk) return code;
  unsigned bus = 0;
  if (std::sscanf(text, "0000:%2x:00.0", &bus) != 1) return kInvalidValue;
  const int card = int(bus - 0x10) * (world().setup.mig ? 2 : 1);
  const int found = kFirstHandle + world().setup.devices - 1 - card;
  if (ordinal_of(found) < 0) return kInvalidDevice;
  *device = found;
  return kOk;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  if (const int code = entry("cuDeviceGetAttribute", false); code != kOk) return code;
  const Setup& setup = world().setup;
  switch (attribute) {
    case 16:  // multiprocessors
      *value = 16;
      return kOk;
    case 75:
      *value = setup.sm / 10;
      return kOk;
    case 76:
      *value = setup.sm % 10;
      return kOk;
    case 102:
    case 103:
      *value = setup.fd_handles ? 1 : 0;
      return kOk;
    case 128:
      *value = setup.fabric ? 1 : 0;
      return kOk;
    case 91:
    case 116:
    case 124:
      *value = 1;
      return kOk;
    default:
      return kInvalidValue;
  }
}
int cuDeviceCanAccessPeer(int* yes, int device, int other) {
  if (const int code = entry("cuDeviceCanAccessPeer", false); code != kOk) return code;
  const int a = ordinal_of(device), b = ordinal_of(other);
  if (a < 0 || b < 0) return kInvalidDevice;
  const std::scoped_lock lock(world().mutex);
  *yes = a != b && world().reaches(a, b);
  return kOk;
}

// --- contexts ---

int cuDevicePrimaryCtxRetain(void** context, int device) {
  if (const int code = entry("cuDevicePrimaryCtxRetain", false); code != kOk) return code;
  const int ordinal = ordinal_of(device);
  if (ordinal < 0) return kInvalidDevice;
  const std::scoped_lock lock(world().mutex);
  Context& made = world().contexts[ordinal];
  ++made.retained;
  *context = &made;
  return kOk;
}
int cuDevicePrimaryCtxRelease_v2(int device) {
  const int ordinal = ordinal_of(device);
  if (ordinal < 0) return kInvalidDevice;
  const std::scoped_lock lock(world().mutex);
  Context& context = world().contexts[ordinal];
  if (context.retained == 0) return kInvalidContext;
  if (--context.retained == 0) context.peers_enabled.clear();
  return kOk;
}
int cuCtxSetCurrent(void* context) {
  if (const int code = entry("cuCtxSetCurrent", false); code != kOk) return code;
  set_current(static_cast<Context*>(context));
  return kOk;
}
int cuCtxEnablePeerAccess(void* other, unsigned flags) {
  if (const int code = entry("cuCtxEnablePeerAccess"); code != kOk) return code;
  const auto* peer = static_cast<Context*>(other);
  if (flags != 0 || peer == current()) return kInvalidValue;
  const std::scoped_lock lock(world().mutex);
  if (!world().reaches(current()->ordinal, peer->ordinal)) return kPeerUnsupported;
  return current()->peers_enabled.insert(peer->ordinal).second ? kOk : kPeerAlready;
}
int cuMemGetInfo_v2(size_t* left, size_t* total) {
  if (const int code = entry("cuMemGetInfo_v2"); code != kOk) return code;
  const std::scoped_lock lock(world().mutex);
  *total = world().setup.memory_bytes;
  *left = *total - std::min<uint64_t>(*total, current()->used_bytes);
  return kOk;
}
}

// A libibverbs.so.1 for tests: two devices, of which the second cannot be opened. The structures
// are those of the public header where it is installed.
#include <cstdint>
#include <cstring>

namespace {
struct Device {
  const char* name;
};
Device first{"fake_0"}, second{"fake_1"};
Device* list[] = {&first, &second, nullptr};
}  // namespace

extern "C" {
Device** ibv_get_device_list(int* count) {
  *count = 2;
  return list;
}
void ibv_free_device_list(Device**) {}
const char* ibv_get_device_name(Device* device) {
  return device->name;
}
Device* ibv_open_device(Device* device) {
  return device == &first ? device : nullptr;
}
int ibv_close_device(Device*) {
  return 0;
}
// ibv_device_attr: bytes 72 system guid, 108 max_qp, 227 ports (rdma-core 44, 64-bit).
int ibv_query_device(Device*, unsigned char* facts) {
  std::memset(facts, 0, 232);
  const uint64_t guid = 0x1122334455667788;
  const int32_t queue_pairs = 4096;
  std::memcpy(facts + 72, &guid, 8);
  std::memcpy(facts + 108, &queue_pairs, 4);
  facts[227] = 1;
  return 0;
}
// ibv_port_attr: 0 state, 43 width, 44 speed: active, 4X, NDR.
int ibv_query_port(Device*, uint8_t, unsigned char* facts) {
  std::memset(facts, 0, 52);
  const int32_t active = 4;
  std::memcpy(facts, &active, 4);
  facts[43] = 2;
  facts[44] = 128;
  return 0;
}
}

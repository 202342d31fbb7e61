// A libcuda.so.1 for tests: as many devices as FAKE_CUDA says, in the opposite order of the fake
// NVML's; all of them can have their memory reached.
#include <cstdio>
#include <cstdlib>

namespace {
int devices() {
  const char* text = std::getenv("FAKE_CUDA");
  return text != nullptr ? std::atoi(text) : 0;
}
}  // namespace

extern "C" {
int cuInit(unsigned) {
  return devices() > 0 ? 0 : 100;
}
int cuGetErrorName(int code, const char** name) {
  *name = code == 100 ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_UNKNOWN";
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = devices();
  return 0;
}
int cuDeviceGet(int* device, int ordinal) {
  *device = 1000 + ordinal;
  return ordinal < devices() ? 0 : 101;
}
int cuDeviceGetPCIBusId(char* text, int size, int device) {
  std::snprintf(text, size_t(size), "0000:%02x:00.0", 0x10 + devices() - 1 - (device - 1000));
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  switch (attribute) {
    case 75:
      *value = 8;
      return 0;
    case 76:
      *value = 6;
      return 0;
    case 116:
    case 124:
      *value = 1;
      return 0;
    default:
      return 1;
  }
}
}

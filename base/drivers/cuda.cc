#include "base/drivers/cuda.h"

#include "base/drivers/library.h"

namespace collctl::base::drivers {
namespace {

Cuda load() {
  Cuda table;
  const Library library("libcuda.so.1");
  table.missing = library.error();
  if (!library) return table;
  library.find(table.init, "cuInit");
  library.find(table.error_name, "cuGetErrorName");
  library.find(table.device_count, "cuDeviceGetCount");
  library.find(table.device, "cuDeviceGet");
  library.find(table.bus_id, "cuDeviceGetPCIBusId");
  library.find(table.attribute, "cuDeviceGetAttribute");
  if (table.init == nullptr || table.error_name == nullptr || table.device_count == nullptr ||
      table.device == nullptr || table.bus_id == nullptr || table.attribute == nullptr)
    table.missing = "libcuda.so.1 is no CUDA driver: functions are missing";
  return table;
}

}  // namespace

const Cuda& cuda() {
  static const Cuda table = load();
  return table;
}

}  // namespace collctl::base::drivers

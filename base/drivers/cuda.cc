#include "base/drivers/cuda.h"

#include "base/drivers/library.h"

namespace collctl::base::drivers {
namespace {

std::string find_facts(Cuda& t, const Library& library) {
  Finder f(library);
  f.find(t.init, "cuInit").find(t.error_name, "cuGetErrorName");
  f.find(t.device_count, "cuDeviceGetCount").find(t.device, "cuDeviceGet");
  f.find(t.bus_id, "cuDeviceGetPCIBusId").find(t.attribute, "cuDeviceGetAttribute");
  return f.missing() != nullptr ? "libcuda.so.1 is not a CUDA driver: functions are missing" : "";
}

std::string find_rank(Cuda& t, const Library& library) {
  Finder f(library);
  f.find(t.error_string, "cuGetErrorString");
  f.find(t.device_name, "cuDeviceGetName").find(t.device_memory, "cuDeviceTotalMem_v2");
  f.find(t.device_by_bus_id, "cuDeviceGetByPCIBusId");
  f.find(t.can_access, "cuDeviceCanAccessPeer").find(t.enable_peer, "cuCtxEnablePeerAccess");
  f.find(t.retain_context, "cuDevicePrimaryCtxRetain");
  f.find(t.release_context, "cuDevicePrimaryCtxRelease_v2").find(t.set_context, "cuCtxSetCurrent");
  f.find(t.memory_info, "cuMemGetInfo_v2");
  f.find(t.allocate, "cuMemAlloc_v2").find(t.free, "cuMemFree_v2");
  f.find(t.host_allocate, "cuMemHostAlloc").find(t.host_free, "cuMemFreeHost");
  f.find(t.host_register, "cuMemHostRegister_v2").find(t.host_unregister, "cuMemHostUnregister");
  f.find(t.host_address, "cuMemHostGetDevicePointer_v2");
  f.find(t.copy, "cuMemcpyAsync").find(t.fill, "cuMemsetD8Async");
  f.find(t.stream_create, "cuStreamCreate").find(t.stream_destroy, "cuStreamDestroy_v2");
  f.find(t.stream_query, "cuStreamQuery").find(t.stream_wait_event, "cuStreamWaitEvent");
  f.find(t.begin_capture, "cuStreamBeginCapture_v2").find(t.end_capture, "cuStreamEndCapture");
  f.find(t.event_create, "cuEventCreate").find(t.event_destroy, "cuEventDestroy_v2");
  f.find(t.event_record, "cuEventRecord").find(t.event_query, "cuEventQuery");
  f.find(t.event_elapsed, "cuEventElapsedTime");
  f.find(t.instantiate, "cuGraphInstantiateWithFlags").find(t.graph_launch, "cuGraphLaunch");
  f.find(t.executable_destroy, "cuGraphExecDestroy").find(t.graph_destroy, "cuGraphDestroy");
  f.find(t.ipc_export, "cuIpcGetMemHandle").find(t.ipc_open, "cuIpcOpenMemHandle_v2");
  f.find(t.ipc_close, "cuIpcCloseMemHandle");
  if (f.missing() == nullptr) return "";
  return std::string("the CUDA driver is too old: it lacks ") + f.missing() +
         " (CUDA 11.4 or newer is required)";
}

void find_handles(Cuda& t, const Library& library) {
  Finder f(library);
  f.find(t.granularity, "cuMemGetAllocationGranularity").find(t.handle_create, "cuMemCreate");
  f.find(t.handle_release, "cuMemRelease").find(t.handle_export, "cuMemExportToShareableHandle");
  f.find(t.handle_import, "cuMemImportFromShareableHandle");
  f.find(t.reserve, "cuMemAddressReserve").find(t.unreserve, "cuMemAddressFree");
  f.find(t.map, "cuMemMap").find(t.unmap, "cuMemUnmap").find(t.set_access, "cuMemSetAccess");
  if (f.missing() != nullptr) t.set_access = nullptr;  // all or nothing
}

Cuda load_cuda() {
  Cuda table;
  const Library library("libcuda.so.1");
  table.missing = table.rank_missing = library.error();
  if (!library) return table;
  table.missing = find_facts(table, library);
  table.rank_missing = table.missing.empty() ? find_rank(table, library) : table.missing;
  library.find(table.uuid, "cuDeviceGetUuid_v2");
  find_handles(table, library);
  library.find(table.range_handle, "cuMemGetHandleForAddressRange");
  return table;
}

}  // namespace

const Cuda& cuda() {
  static const Cuda table = load_cuda();
  return table;
}

}  // namespace collctl::base::drivers

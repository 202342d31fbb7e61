#include "base/drivers/nccl.h"

#include "base/drivers/library.h"
#include "base/format.h"

namespace collctl::base::drivers {
namespace {

// The first name is what packages of the library install, the second those for developers.
constexpr const char* kNames[] = {"libnccl.so.2", "libnccl.so"};

Nccl load_from(const Library& library) {
  Nccl table;
  table.path = library.path();
  Finder f(library);
  f.find(table.version, "ncclGetVersion").find(table.error_string, "ncclGetErrorString");
  f.find(table.unique_id, "ncclGetUniqueId").find(table.init_rank, "ncclCommInitRank");
  f.find(table.destroy, "ncclCommDestroy").find(table.abort, "ncclCommAbort");
  f.find(table.async_error, "ncclCommGetAsyncError").find(table.group_start, "ncclGroupStart");
  f.find(table.group_end, "ncclGroupEnd").find(table.all_reduce, "ncclAllReduce");
  f.find(table.broadcast, "ncclBroadcast").find(table.reduce, "ncclReduce");
  f.find(table.all_gather, "ncclAllGather").find(table.reduce_scatter, "ncclReduceScatter");
  f.find(table.send, "ncclSend").find(table.recv, "ncclRecv");
  if (f.missing() != nullptr)
    table.missing = "the library found is not NCCL 2.10 or later: functions are missing";
  // Newer than that.
  library.find(table.last_error, "ncclGetLastError");
  library.find(table.all_to_all, "ncclAlltoAll");
  library.find(table.register_buffer, "ncclCommRegister");
  library.find(table.deregister_buffer, "ncclCommDeregister");
  library.find(table.register_window, "ncclCommWindowRegister");
  library.find(table.deregister_window, "ncclCommWindowDeregister");
  return table;
}

Nccl load_nccl() {
  std::string tried;
  for (const char* name : kNames) {
    const Library library(name);
    if (library) return load_from(library);
    tried += (tried.empty() ? "" : "; ") + library.error();
  }
  Nccl table;
  table.missing = "NCCL not found: " + tried;
  return table;
}

}  // namespace

const Nccl& nccl() {
  static const Nccl table = load_nccl();
  return table;
}

std::string nccl_version_text(int version) {
  return format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace collctl::base::drivers

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
  library.find(table.version, "ncclGetVersion");
  library.find(table.error_string, "ncclGetErrorString");
  library.find(table.last_error, "ncclGetLastError");
  library.find(table.unique_id, "ncclGetUniqueId");
  library.find(table.init_rank, "ncclCommInitRank");
  library.find(table.destroy, "ncclCommDestroy");
  library.find(table.abort, "ncclCommAbort");
  library.find(table.async_error, "ncclCommGetAsyncError");
  library.find(table.group_start, "ncclGroupStart");
  library.find(table.group_end, "ncclGroupEnd");
  library.find(table.all_reduce, "ncclAllReduce");
  library.find(table.broadcast, "ncclBroadcast");
  library.find(table.reduce, "ncclReduce");
  library.find(table.all_gather, "ncclAllGather");
  library.find(table.reduce_scatter, "ncclReduceScatter");
  library.find(table.send, "ncclSend");
  library.find(table.recv, "ncclRecv");
  library.find(table.all_to_all, "ncclAlltoAll");
  library.find(table.register_buffer, "ncclCommRegister");
  library.find(table.deregister_buffer, "ncclCommDeregister");
  library.find(table.register_window, "ncclCommWindowRegister");
  library.find(table.deregister_window, "ncclCommWindowDeregister");
  if (table.version == nullptr || table.error_string == nullptr || table.unique_id == nullptr ||
      table.init_rank == nullptr || table.destroy == nullptr || table.abort == nullptr ||
      table.async_error == nullptr || table.group_start == nullptr || table.group_end == nullptr ||
      table.all_reduce == nullptr || table.broadcast == nullptr || table.reduce == nullptr ||
      table.all_gather == nullptr || table.reduce_scatter == nullptr || table.send == nullptr ||
      table.recv == nullptr)
    table.missing = "the library found is not NCCL 2.10 or later: functions are missing";
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

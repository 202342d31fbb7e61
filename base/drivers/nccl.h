// The installed NCCL, for comparisons: our own declarations of its public interface (nccl.h of
// 2.10 to 2.29), as far as it is used. Loaded once, when first asked for. A null function is one
// that the installed version lacks. Threads: as NCCL requires (one communicator, one thread
// at a time).
#pragma once
#include <cstddef>
#include <string>

namespace collctl::base::drivers {

using NcclComm = struct NcclCommOpaque*;
using NcclWindow = struct NcclWindowOpaque*;
using NcclReturn = int;
using NcclStream = void*;  // cudaStream_t, which is a CUstream

struct NcclUniqueId {  // passed by value
  char bytes[128];
};
static_assert(sizeof(NcclUniqueId) == 128);

inline constexpr NcclReturn kNcclSuccess = 0;
// ncclRedOp_t
inline constexpr int kNcclSum = 0, kNcclProd = 1, kNcclMax = 2, kNcclMin = 3, kNcclAvg = 4;
inline constexpr int kNcclWindowSymmetric = 1;  // NCCL_WIN_COLL_SYMMETRIC
inline constexpr int kNcclVersionWindows = 22700, kNcclVersionFloat8 = 22400;

struct Nccl {
  NcclReturn (*version)(int*) = nullptr;
  const char* (*error_string)(NcclReturn) = nullptr;
  const char* (*last_error)(NcclComm) = nullptr;
  NcclReturn (*unique_id)(NcclUniqueId*) = nullptr;
  NcclReturn (*init_rank)(NcclComm*, int, NcclUniqueId, int) = nullptr;
  NcclReturn (*destroy)(NcclComm) = nullptr;
  NcclReturn (*abort)(NcclComm) = nullptr;
  NcclReturn (*async_error)(NcclComm, NcclReturn*) = nullptr;
  NcclReturn (*group_start)() = nullptr;
  NcclReturn (*group_end)() = nullptr;
  NcclReturn (*all_reduce)(const void*, void*, size_t, int, int, NcclComm, NcclStream) = nullptr;
  NcclReturn (*broadcast)(const void*, void*, size_t, int, int, NcclComm, NcclStream) = nullptr;
  NcclReturn (*reduce)(const void*, void*, size_t, int, int, int, NcclComm, NcclStream) = nullptr;
  NcclReturn (*all_gather)(const void*, void*, size_t, int, NcclComm, NcclStream) = nullptr;
  NcclReturn (*reduce_scatter)(const void*, void*, size_t, int, int, NcclComm,
                               NcclStream) = nullptr;
  NcclReturn (*send)(const void*, size_t, int, int, NcclComm, NcclStream) = nullptr;
  NcclReturn (*recv)(void*, size_t, int, int, NcclComm, NcclStream) = nullptr;
  NcclReturn (*all_to_all)(const void*, void*, size_t, int, NcclComm, NcclStream) = nullptr;
  NcclReturn (*register_buffer)(NcclComm, void*, size_t, void**) = nullptr;
  NcclReturn (*deregister_buffer)(NcclComm, void*) = nullptr;
  NcclReturn (*register_window)(NcclComm, void*, size_t, NcclWindow*, int) = nullptr;
  NcclReturn (*deregister_window)(NcclComm, NcclWindow) = nullptr;
  std::string path;     // of the library, as the loader found it
  std::string missing;  // why the table cannot be used; empty when it can
};
const Nccl& nccl();
std::string nccl_version_text(int version);  // "2.28.9"

}  // namespace collctl::base::drivers

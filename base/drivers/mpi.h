// The installed MPI, for comparisons: our own declarations of the part of its interface that is
// used. Open MPI's handles are addresses of symbols that it exports, MPICH's (and those of all with
// its ABI: Intel MPI, MVAPICH) are numbers; which of them a library is, its symbols say. Loaded
// once, when first asked for. Threads: as MPI_Init_thread was asked for.
#pragma once
#include <cstdint>
#include <string>

namespace collctl::base::drivers {

inline constexpr int kMpiSuccess = 0, kMpiThreadFunneled = 1;
inline constexpr int kMpiMostText = 8192;  // of MPI_Get_library_version

enum class MpiType : uint8_t { byte, int8, uint8, int32, uint32, int64, uint64, float32, float64 };
inline constexpr int kMpiTypes = 9;
inline constexpr int kMpiTypeBytes[kMpiTypes] = {1, 1, 1, 4, 4, 8, 8, 4, 8};
enum class MpiOp : uint8_t { sum, prod, min, max };
inline constexpr int kMpiOps = 4;

// Handle: what stands for communicators, types, operations and requests.
template <class Handle>
struct MpiTable {
  int (*init_thread)(int*, char***, int, int*) = nullptr;
  int (*finalize)() = nullptr;
  int (*library_version)(char*, int*) = nullptr;
  int (*error_string)(int, char*, int*) = nullptr;
  int (*comm_size)(Handle, int*) = nullptr;
  int (*comm_rank)(Handle, int*) = nullptr;
  int (*set_errhandler)(Handle, Handle) = nullptr;
  int (*type_size)(Handle, int*) = nullptr;
  int (*barrier)(Handle) = nullptr;
  int (*bcast)(void*, int, Handle, int, Handle) = nullptr;
  int (*all_reduce)(const void*, void*, int, Handle, Handle, Handle) = nullptr;
  int (*reduce)(const void*, void*, int, Handle, Handle, int, Handle) = nullptr;
  int (*reduce_scatter_block)(const void*, void*, int, Handle, Handle, Handle) = nullptr;
  int (*all_gather)(const void*, int, Handle, void*, int, Handle, Handle) = nullptr;
  int (*gather)(const void*, int, Handle, void*, int, Handle, int, Handle) = nullptr;
  int (*scatter)(const void*, int, Handle, void*, int, Handle, int, Handle) = nullptr;
  int (*all_to_all)(const void*, int, Handle, void*, int, Handle, Handle) = nullptr;
  int (*all_to_all_v)(const void*, const int*, const int*, Handle, void*, const int*, const int*,
                      Handle, Handle) = nullptr;
  int (*isend)(const void*, int, Handle, int, int, Handle, Handle*) = nullptr;
  int (*irecv)(void*, int, Handle, int, int, Handle, Handle*) = nullptr;
  int (*waitall)(int, Handle*, void*) = nullptr;

  Handle world{}, errors_return{};
  Handle types[kMpiTypes] = {}, ops[kMpiOps] = {};
  const void* in_place = nullptr;   // MPI_IN_PLACE
  void* statuses_ignore = nullptr;  // MPI_STATUSES_IGNORE
};

struct Mpi {
  bool is_open_mpi = false;
  MpiTable<void*> open_mpi;  // the one of the two that counts
  MpiTable<int> mpich;
  std::string missing;  // why neither can be used; empty when one can
};
// That of the launcher that has started this process, by its variables, is looked for first.
const Mpi& mpi();

}  // namespace collctl::base::drivers

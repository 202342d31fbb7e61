#include "base/drivers/mpi.h"

#include <vector>

#include "base/drivers/library.h"
#include "base/env.h"

namespace collctl::base::drivers {
namespace {

// By the numbers in their names: Open MPI 4 and 5, 2 and 3; the ABI that MPICH shares with others,
// and Debian's name of MPICH.
constexpr const char* kOpenMpiNames[] = {"libmpi.so.40", "libmpi.so.20"};
constexpr const char* kMpichNames[] = {"libmpi.so.12", "libmpich.so.12"};
constexpr const char* kAnyName = "libmpi.so";

// The functions; what is missing, or null.
template <class Handle>
const char* find_functions(const Library& library, MpiTable<Handle>& table) {
  Finder finder(library);
  finder.find(table.init_thread, "MPI_Init_thread")
      .find(table.finalize, "MPI_Finalize")
      .find(table.library_version, "MPI_Get_library_version")
      .find(table.error_string, "MPI_Error_string")
      .find(table.comm_size, "MPI_Comm_size")
      .find(table.comm_rank, "MPI_Comm_rank")
      .find(table.set_errhandler, "MPI_Comm_set_errhandler")
      .find(table.type_size, "MPI_Type_size")
      .find(table.barrier, "MPI_Barrier")
      .find(table.bcast, "MPI_Bcast")
      .find(table.all_reduce, "MPI_Allreduce")
      .find(table.reduce, "MPI_Reduce")
      .find(table.reduce_scatter_block, "MPI_Reduce_scatter_block")
      .find(table.all_gather, "MPI_Allgather")
      .find(table.gather, "MPI_Gather")
      .find(table.scatter, "MPI_Scatter")
      .find(table.all_to_all, "MPI_Alltoall")
      .find(table.all_to_all_v, "MPI_Alltoallv")
      .find(table.isend, "MPI_Isend")
      .find(table.irecv, "MPI_Irecv")
      .find(table.waitall, "MPI_Waitall");
  return finder.missing();
}

const char* find_handles(const Library& library, MpiTable<void*>& table) {
  const char* missing = nullptr;
  const auto handle = [&](const char* name) {
    void* const found = const_cast<void*>(library.find_data(name));
    if (found == nullptr && missing == nullptr) missing = name;
    return found;
  };
  constexpr const char* kTypes[kMpiTypes] = {
      "ompi_mpi_byte",     "ompi_mpi_int8_t",   "ompi_mpi_uint8_t",
      "ompi_mpi_int32_t",  "ompi_mpi_uint32_t", "ompi_mpi_int64_t",
      "ompi_mpi_uint64_t", "ompi_mpi_float",    "ompi_mpi_double"};
  constexpr const char* kOps[kMpiOps] = {"ompi_mpi_op_sum", "ompi_mpi_op_prod", "ompi_mpi_op_min",
                                         "ompi_mpi_op_max"};
  table.world = handle("ompi_mpi_comm_world");
  table.errors_return = handle("ompi_mpi_errors_return");
  for (int i = 0; i < kMpiTypes; ++i) table.types[i] = handle(kTypes[i]);
  for (int i = 0; i < kMpiOps; ++i) table.ops[i] = handle(kOps[i]);
  table.in_place = reinterpret_cast<const void*>(1);
  table.statuses_ignore = nullptr;
  return missing;
}

void set_numbers(MpiTable<int>& table) {
  constexpr int kTypes[kMpiTypes] = {0x4c00010d, 0x4c000137, 0x4c00013b, 0x4c000439, 0x4c00043d,
                                     0x4c00083a, 0x4c00083e, 0x4c00040a, 0x4c00080b};
  constexpr int kOps[kMpiOps] = {0x58000003, 0x58000004, 0x58000002, 0x58000001};
  table.world = 0x44000000;
  table.errors_return = 0x54000001;
  for (int i = 0; i < kMpiTypes; ++i) table.types[i] = kTypes[i];
  for (int i = 0; i < kMpiOps; ++i) table.ops[i] = kOps[i];
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the ABI's own number
  table.in_place = reinterpret_cast<const void*>(intptr_t(-1));
  table.statuses_ignore = reinterpret_cast<void*>(1);
}

Mpi load_from(const Library& library, const char* name) {
  Mpi found;
  found.is_open_mpi = library.find_data("ompi_mpi_comm_world") != nullptr;
  const char* missing = nullptr;
  if (found.is_open_mpi) {
    missing = find_functions(library, found.open_mpi);
    if (missing == nullptr) missing = find_handles(library, found.open_mpi);
  } else {
    missing = find_functions(library, found.mpich);
    set_numbers(found.mpich);
  }
  if (missing != nullptr)
    found.missing = std::string(name) + " is no MPI that can be used: it has no " + missing;
  return found;
}

Mpi load_mpi() {
  const bool by_pmi =
      environment("PMI_RANK").has_value() && !environment("OMPI_COMM_WORLD_RANK").has_value();
  std::vector<const char*> names;
  for (const bool mpich : {by_pmi, !by_pmi})
    for (const char* name : mpich ? kMpichNames : kOpenMpiNames) names.push_back(name);
  names.push_back(kAnyName);
  std::string tried;
  for (const char* name : names) {
    // Its plugins look for its symbols in the whole process.
    const Library library(name, Library::Symbols::global);
    if (library) return load_from(library, name);
    tried += (tried.empty() ? "" : "; ") + library.error();
  }
  Mpi none;
  none.missing = "MPI not found: " + tried;
  return none;
}

}  // namespace

const Mpi& mpi() {
  static const Mpi table = load_mpi();
  return table;
}

}  // namespace collctl::base::drivers

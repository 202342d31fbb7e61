// The stand-in of mpi_control.h. Collectives are there to be found, and fail.
#include "tests/fake_drivers/mpi_control.h"

#include <atomic>
#include <cstring>

namespace {
std::atomic<int> g_ended{0};
constexpr int kFails = 1;
}  // namespace

int fake_mpi::ended() {
  return g_ended;
}

extern "C" {
int MPI_Init_thread(int*, char***, int, int* provided) {
  *provided = 1;
  return 0;
}
int MPI_Finalize() {
  ++g_ended;
  return 0;
}
int MPI_Get_library_version(char* text, int* length) {
  *length = int(std::strlen(std::strcpy(text, "MPICH Version:\t4.9")));
  return 0;
}
int MPI_Error_string(int, char* text, int* length) {
  *length = int(std::strlen(std::strcpy(text, "not in this MPI")));
  return 0;
}
int MPI_Comm_size(int, int* size) {
  *size = 1;
  return 0;
}
int MPI_Comm_rank(int, int* rank) {
  *rank = 0;
  return 0;
}
int MPI_Comm_set_errhandler(int, int) {
  return 0;
}
// The number says it.
int MPI_Type_size(int type, int* bytes) {
  *bytes = type >> 8 & 0xff;
  return 0;
}
int MPI_Bcast(void*, int, int, int, int) {
  return 0;
}
#define FAILS(name) \
  int name() {      \
    return kFails;  \
  }
FAILS(MPI_Barrier)
FAILS(MPI_Allreduce)
FAILS(MPI_Reduce)
FAILS(MPI_Reduce_scatter_block)
FAILS(MPI_Allgather)
FAILS(MPI_Gather)
FAILS(MPI_Scatter)
FAILS(MPI_Alltoall)
FAILS(MPI_Alltoallv)
FAILS(MPI_Isend)
FAILS(MPI_Irecv)
FAILS(MPI_Waitall)
}

// An MPI of one rank in place of libmpi.so.12 (MPICH's ABI), as far as ranks meet by it. Threads:
// any.
#pragma once

namespace fake_mpi {

int ended();  // calls of MPI_Finalize

}  // namespace fake_mpi

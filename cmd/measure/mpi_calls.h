// A row of a measurement as calls of MPI, and how they are timed. Threads: as Timed; MPI itself is
// called on its own thread alone (mpi_world.h).
#pragma once
#include <memory>

#include "base/drivers/mpi.h"
#include "base/format.h"
#include "cmd/measure/call_thread.h"
#include "cmd/measure/mpi_world.h"

namespace collctl::cmd {

inline constexpr const char* kMpiAlone = "without --vs collctl runs alone";

Error mpi_hang(const std::string& what);

template <class Handle>
Status mpi_checked(const base::drivers::MpiTable<Handle>& table, int code, const char* what) {
  if (code == base::drivers::kMpiSuccess) return {};
  char text[base::drivers::kMpiMostText] = "";
  int length = 0;
  table.error_string(code, text, &length);
  return Error(ErrorCode::lost, format("MPI failed, not collctl: {}: {}", what, text), kMpiAlone);
}

// For the handles of either kind of MPI.
template <class Handle>
std::unique_ptr<Timed> mpi_timed(const base::drivers::MpiTable<Handle>& table, CallThread& thread,
                                 const PlacedRow& row, runtime::Communicator& communicator,
                                 double timeout_s);

}  // namespace collctl::cmd

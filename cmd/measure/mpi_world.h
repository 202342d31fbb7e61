// The installed MPI in this process (--vs mpi), where its own launcher has started the rank: begun
// once, then the means by which ranks find each other, then the rival. All its calls are made on
// one thread of its own and waited for with a deadline, because none of them comes back by itself
// from a rank that is gone. Threads: one at a time.
#pragma once
#include <memory>
#include <string>

#include "base/wait.h"
#include "cmd/measure/timed.h"
#include "cmd/verify/row.h"

namespace collctl::cmd {

class MpiWorld {
 public:
  virtual ~MpiWorld() = default;
  // Begins MPI, which must be there (base::drivers::mpi), once: what failed is not tried again.
  // Error unavailable: it cannot be used; deadline: it hangs. The process's own; never destroyed.
  static Result<MpiWorld*> start(Deadline deadline);
  static MpiWorld* running();  // null: nobody has started it. After a failed start: to finish()

  int rank() const { return rank_; }
  int size() const { return size_; }
  const std::string& name() const { return name_; }  // "openmpi 4.1.4"
  // Rank 0's text, on every rank.
  virtual Result<std::string> hand_round(const std::string& text, Deadline deadline) = 0;
  // Reason why it cannot do a row, in words, the same on all ranks; empty: it can.
  virtual std::string lacks(const PlacedRow& row) const = 0;
  // As own_timed, each row's operations after a barrier of MPI's; the time is taken on its thread.
  // Error of a call: lost, it says that it is MPI's. When a wait ends before MPI does, the row's
  // buffers stay allocated.
  virtual std::unique_ptr<Timed> timed(const PlacedRow& row, runtime::Communicator& communicator,
                                       double timeout_s) = 0;
  // Collective. After it there is no MPI any more; nothing where it could not be initialised.
  virtual Status finish(Deadline deadline) = 0;

 protected:
  int rank_ = 0, size_ = 1;
  std::string name_;
};

// Reason why no MPI can do such rows on so many ranks, in words; empty: none.
std::string mpi_lacks(const RowKey& key, int nranks);
// "openmpi 4.1.4" of what MPI_Get_library_version says.
std::string mpi_name(const std::string& library_version);

}  // namespace collctl::cmd

#include "cmd/measure/mpi_world.h"

#include <optional>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/format.h"
#include "cmd/measure/mpi_calls.h"

namespace collctl::cmd {

using namespace base::drivers;
using kernels::Collective;

namespace {

constexpr size_t kMostHanded = 4096;

template <class Handle>
class World : public MpiWorld {
 public:
  explicit World(const MpiTable<Handle>& table) : table_(table) {}

  Status begin(Deadline deadline) {
    struct Found {
      bool initialised = false;
      int rank = 0, size = 0;
      std::string version;
    };
    const auto found = std::make_shared<Found>();
    const auto work = [&table = table_, found]() -> Status {
      int provided = 0;
      COLL_TRY(mpi_checked(table,
                           table.init_thread(nullptr, nullptr, kMpiThreadFunneled, &provided),
                           "MPI_Init_thread"));
      found->initialised = true;
      table.set_errhandler(table.world, table.errors_return);
      char version[kMpiMostText] = "";
      int length = 0;
      COLL_TRY(
          mpi_checked(table, table.library_version(version, &length), "MPI_Get_library_version"));
      found->version = version;
      COLL_TRY(mpi_checked(table, table.comm_rank(table.world, &found->rank), "MPI_Comm_rank"));
      COLL_TRY(mpi_checked(table, table.comm_size(table.world, &found->size), "MPI_Comm_size"));
      return check_numbers(table);
    };
    Status began = thread_.run(deadline, "MPI_Init_thread", work);
    if (!thread_.hangs()) initialised_ = found->initialised;
    if (!began) return began;
    rank_ = found->rank;
    size_ = found->size;
    name_ = mpi_name(found->version);
    return {};
  }

  Result<std::string> hand_round(const std::string& text, Deadline deadline) override {
    const auto shared = std::make_shared<std::string>(text.substr(0, kMostHanded));
    const auto work = [&table = table_, shared]() -> Status {
      const Handle byte = table.types[int(MpiType::byte)];
      uint32_t length = uint32_t(shared->size());
      COLL_TRY(mpi_checked(table, table.bcast(&length, sizeof length, byte, 0, table.world),
                           "MPI_Bcast"));
      if (length > kMostHanded) return Error(ErrorCode::lost, "rank 0's text is too long");
      shared->resize(length);
      return mpi_checked(table, table.bcast(shared->data(), int(length), byte, 0, table.world),
                         "MPI_Bcast");
    };
    COLL_TRY(thread_.run(deadline, "MPI_Bcast", work));
    return *shared;
  }

  std::string lacks(const PlacedRow& row) const override {
    // Seen with 4.0.2, from some 64 KiB on.
    if (name_.rfind("mpich", 0) == 0 && row.key.collective == Collective::reduce &&
        row.in_place() && row.place.root != 0)
      return "MPICH's MPI_Reduce can crash in place where the root is not rank 0";
    return mpi_lacks(row.key, row.place.nranks);
  }

  std::unique_ptr<Timed> timed(const PlacedRow& row, runtime::Communicator& communicator,
                               double timeout_s) override {
    return mpi_timed(table_, thread_, row, communicator, timeout_s);
  }

  Status finish(Deadline deadline) override {
    if (!std::exchange(initialised_, false)) return {};
    return thread_.run(deadline, "MPI_Finalize", [&table = table_] {
      return mpi_checked(table, table.finalize(), "MPI_Finalize");
    });
  }

 private:
  // Whether its types and operations are those that are known here.
  static Status check_numbers(const MpiTable<Handle>& table) {
    for (int i = 0; i < kMpiTypes; ++i) {
      int bytes = 0;
      if (table.type_size(table.types[i], &bytes) != kMpiSuccess || bytes != kMpiTypeBytes[i])
        return Error(ErrorCode::unavailable,
                     format("this MPI's numbers are not those of Open MPI or MPICH: type {} has {} "
                            "bytes, expected {}",
                            i, bytes, kMpiTypeBytes[i]),
                     kMpiAlone);
    }
    return {};
  }

  const MpiTable<Handle>& table_;
  CallThread thread_{mpi_hang};
  bool initialised_ = false;  // and not finalised
};

struct ProcessWorld {
  MpiWorld* made = nullptr;
  std::optional<Error> failed;  // why it could not begin
};
ProcessWorld& process_world() {
  static ProcessWorld only;
  return only;
}

template <class Handle>
Result<MpiWorld*> begun(const MpiTable<Handle>& table, Deadline deadline) {
  // Never destroyed: after a hang its thread is still there.
  auto* const made = new World<Handle>(table);
  process_world().made = made;
  if (Status began = made->begin(deadline); !began)
    return process_world().failed.emplace(std::move(began.error()).within("starting MPI"));
  return made;
}

}  // namespace

Result<MpiWorld*> MpiWorld::start(Deadline deadline) {
  if (const ProcessWorld& world = process_world(); world.made != nullptr) {
    if (world.failed) return *world.failed;
    return world.made;
  }
  const Mpi& found = mpi();
  COLL_CHECK(found.missing.empty());  // adopt_by_mpi has looked
  return found.is_open_mpi ? begun(found.open_mpi, deadline) : begun(found.mpich, deadline);
}

MpiWorld* MpiWorld::running() {
  return process_world().made;
}

std::string mpi_name(const std::string& library_version) {
  constexpr size_t kMostName = 40;
  const auto word_after = [&](std::string_view start) {
    const size_t at = library_version.find_first_not_of(" \t", start.size());
    return library_version.substr(at == std::string::npos ? library_version.size() : at,
                                  library_version.find_first_of(", \t\n", at) - at);
  };
  for (const auto& [start, name] :
       {std::pair<const char*, const char*>{"Open MPI v", "openmpi"}, {"MPICH Version:", "mpich"}})
    if (library_version.rfind(start, 0) == 0) return format("{} {}", name, word_after(start));
  std::string line = library_version.substr(0, library_version.find_first_of("\n\r:"));
  return line.empty() ? "mpi" : line.substr(0, kMostName);
}

}  // namespace collctl::cmd

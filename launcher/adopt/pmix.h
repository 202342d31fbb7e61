// The key-value store of engines with PMIx (Open MPI's mpirun, PRRTE, srun --mpi=pmix), through
// the system's libpmix.so.2, loaded when needed. The library blocks as it likes; its calls run on a
// thread of the store, and callers wait for them with a deadline. A call that never returns keeps
// its thread: the store is then unusable, and the process should end.
#pragma once
#include <cstddef>
#include <cstdint>

#include "launcher/adopt/adopt.h"
#include "launcher/hosts/key_value.h"

namespace collctl::launcher {

// The PMIx standard's C interface (versions 3 to 5), as far as it is used here. A test compares
// sizes and numbers with the installed header.
namespace pmix {

inline constexpr size_t kNamespaceBytes = 256, kKeyBytes = 512;
inline constexpr uint32_t kRankWildcard = UINT32_MAX - 1;
inline constexpr int kSuccess = 0;
inline constexpr uint8_t kScopeGlobal = 3;
inline constexpr uint16_t kTypeBool = 1, kTypeString = 3, kTypeInt = 6, kTypeUint32 = 14;
inline constexpr const char* kJobSize = "pmix.job.size";
inline constexpr const char* kCollect = "pmix.collect";
inline constexpr const char* kTimeout = "pmix.timeout";

struct Proc {
  char name_space[kNamespaceBytes];
  uint32_t rank;
};
struct Value {
  uint16_t type;
  union {
    bool flag;
    char* string;
    int integer;
    uint32_t uint32;
    void* words[3];  // the largest member
  } data;
};
struct Info {
  char key[kKeyBytes];
  uint32_t flags;
  Value value;
};

}  // namespace pmix

class PmixClient final : public KeyValueStore {
 public:
  // Loads the library and connects by PMIX_NAMESPACE, PMIX_RANK and what else the engine has set.
  // Not collective. No library, or none that works with this engine: unavailable.
  static Result<std::unique_ptr<PmixClient>> open(const Lookup& environment, Deadline deadline);
  ~PmixClient() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  size_t most_value_bytes() const override { return 1024; }
  Status put(const std::string& key, const std::string& value, Deadline deadline) override;
  Status fence(Deadline deadline) override;
  Result<std::string> get(int from_rank, const std::string& key, Deadline deadline) override;
  Status finish(Deadline deadline) override;

 private:
  struct Library;
  struct Worker;

  PmixClient();
  Status call(const char* what, Deadline deadline, std::function<int()> work);
  Status connect(Deadline deadline);

  std::shared_ptr<Library> library_;
  std::shared_ptr<Worker> worker_;  // shared with its thread, which may outlive us
  int rank_ = -1, size_ = 0;
};

}  // namespace collctl::launcher

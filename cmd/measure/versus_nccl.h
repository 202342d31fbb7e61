// NCCL's side of --vs nccl: its calls with deadlines, its communicator, one of our operations in
// its words. Used by versus.cc, on the rank's thread.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/drivers/nccl.h"
#include "base/wait.h"
#include "cmd/measure/timed.h"
#include "cmd/verify/row.h"

namespace collctl::cmd {

enum class NcclBuffers : uint8_t { plain, registered, symmetric };

struct NcclVariant {
  const char* name;
  const char*
      algorithm;  // NCCL_ALGO and NCCL_PROTO while its communicator is made; "": as it likes
  const char* protocol;
  NcclBuffers buffers;
};
std::span<const NcclVariant> nccl_variants();
// Whether a row of this collective and type means anything in this variant of NCCL `version`.
bool serves(const NcclVariant& variant, const RowKey& key, int version);

// Error of code lost that says it is NCCL's; `comm` may be null.
Error nccl_error(const std::string& what, base::drivers::NcclReturn code,
                 base::drivers::NcclComm comm);

// Calls `work` on a thread of its own, because NCCL's calls may wait for other ranks for ever. Past
// the deadline the thread is left behind and the error says what hangs. `work` must own all that it
// touches, for that case.
Status within_deadline(const transport::DevicePointer& device, Deadline deadline,
                       const std::string& what, std::function<Status()> work);

// One communicator of NCCL. Destroyed with a deadline; aborted instead after an error.
class NcclCommunicator {
 public:
  struct Options {
    const NcclVariant* variant = nullptr;
    base::drivers::NcclUniqueId id{};
    int rank = 0, nranks = 1;
    double timeout_s = 30;
  };
  static Result<std::shared_ptr<NcclCommunicator>> make(const Options& options,
                                                        const transport::DevicePointer& device);
  ~NcclCommunicator();
  // Error: NCCL does not come back; what it holds is left behind then.
  Status close();
  void leave_behind() { comm_ = nullptr; }

  const NcclVariant& variant() const { return *options_.variant; }
  const transport::DevicePointer& device() const { return device_; }
  double timeout_s() const { return options_.timeout_s; }
  base::drivers::NcclComm get() const { return comm_; }
  void abandon() { failed_ = true; }

  // Registers a buffer as the variant wants it, if it has not been yet. Collective for windows.
  Status register_buffer(const GuardedBuffer& buffer);
  // One of a row's.
  Status enqueue(const RowKey& key, const Place& place, const Submission& submission,
                 void* stream) const;
  // All of a row's, each so many times as a group of NCCL's.
  Status enqueue_grouped(int times, const RowKey& key, const Place& place,
                         std::span<const Submission> submissions, void* stream) const;
  Status async_error() const;

 private:
  NcclCommunicator() = default;
  Options options_;
  transport::DevicePointer device_;
  base::drivers::NcclComm comm_ = nullptr;
  bool failed_ = false;
  std::map<void*, void*> registered_;  // handle or window, by what was registered
};

// As own_timed: the same waits, the same graphs.
Result<std::unique_ptr<Timed>> nccl_timed(std::shared_ptr<NcclCommunicator> communicator,
                                          const PlacedRow& row, void* stream, const Batch& batch);

}  // namespace collctl::cmd

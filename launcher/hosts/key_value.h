// The key-value store that an engine keeps for the ranks of one job: what one rank puts, the others
// get after a fence. Adopted ranks learn from it where rank 0 listens, and the job's secret; only
// ranks of the same job can read it. Implemented by launcher/adopt/pmi1 and launcher/adopt/pmix.
// One thread per store; every call ends by its deadline. Errors: deadline (who is missing is not
// known here), lost (the engine closed the connection or refused), usage (no such store in the
// environment).
#pragma once
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"

namespace collctl::launcher {

class KeyValueStore {
 public:
  virtual ~KeyValueStore() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual size_t most_value_bytes() const = 0;
  // Values are printable and have no spaces. A value is seen by others after the fence.
  virtual Status put(const std::string& key, const std::string& value, Deadline deadline) = 0;
  virtual Status fence(Deadline deadline) = 0;  // collective
  virtual Result<std::string> get(int from_rank, const std::string& key, Deadline deadline) = 0;
  // Finalizes the connection to the engine. Without it the engine takes our exit for a failure.
  virtual Status finish(Deadline deadline) = 0;
};

// Returns rank 0's text (printable, no spaces, at most 4 KiB) on every rank. Collective. An empty
// text of rank 0 tells the others that it failed; they get an error (lost).
Result<std::string> hand_round(KeyValueStore& store, const std::string& text, Deadline deadline);

}  // namespace collctl::launcher

#include "runtime/communicator/agreement.h"

#include <algorithm>
#include <cstring>

#include "base/format.h"

namespace collctl::runtime {
namespace {

struct PackedOutcome {  // as it travels
  int32_t code = 0;     // 0: well
  int32_t blamed = -1;
  uint32_t fell_back = 0;
  uint32_t no_window = 0;
  char message[240] = {};
};
static_assert(sizeof(PackedOutcome) == 256);

}  // namespace

Status leave_together(Bootstrap& bootstrap, Status reason, Deadline deadline) {
  // The reason is what matters; a rank that does not say goodbye changes nothing about it.
  (void)bootstrap.finish(deadline.earlier(Deadline::after_seconds(5)));
  return reason;
}

Result<Agreement> agree(Bootstrap& bootstrap, const FirstError& errors,
                        std::span<const transport::PeerInfo> peers, StepOutcome mine,
                        Deadline deadline) {
  std::vector<PackedOutcome> outcomes(peers.size());
  PackedOutcome& own = outcomes[size_t(bootstrap.rank())];
  if (!mine.status) {
    const Error& error = mine.status.error();
    own.code = int32_t(error.code);
    own.blamed = error.rank;
    const std::string text = error.chain() + (error.hint.empty() ? "" : " (" + error.hint + ")");
    std::memcpy(own.message, text.data(), std::min(text.size(), sizeof own.message - 1));
  }
  own.fell_back = mine.fell_back ? 1 : 0;
  own.no_window = mine.no_window ? 1 : 0;
  Status gathered = bootstrap.all_gather(outcomes.data(), sizeof(PackedOutcome), deadline);
  if (!mine.status) {
    if (gathered) mine.status = leave_together(bootstrap, std::move(mine.status), deadline);
    return std::move(mine.status.error());
  }
  if (!gathered) {
    if (Status known = errors.status(); !known) return std::move(known.error());
    return std::move(gathered.error());
  }
  Agreement agreed;
  for (size_t r = 0; r < outcomes.size(); ++r) {
    PackedOutcome& other = outcomes[r];
    if (agreed.fell_back < 0 && other.fell_back != 0) agreed.fell_back = int(r);
    if (agreed.no_window < 0 && other.no_window != 0) agreed.no_window = int(r);
    if (other.code == 0) continue;
    other.message[sizeof other.message - 1] = 0;
    Error error = Error(ErrorCode(other.code), other.message)
                      .blame(other.blamed >= 0 ? other.blamed : int(r))
                      .within(format("rank {} (host {})", r, peers[r].host));
    error.from = int(r);
    return std::move(leave_together(bootstrap, std::move(error), deadline).error());
  }
  return agreed;
}

}  // namespace collctl::runtime

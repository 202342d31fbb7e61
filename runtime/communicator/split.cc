// Communicator::split. The members of a group meet as the ranks of any job do, at a root that the
// first of them opens; what this communicator adds is how they find it. Their secret is derived
// from this communicator's, so none travels.
#include <algorithm>

#include "base/format.h"
#include "base/host_facts.h"
#include "base/log.h"
#include "runtime/bootstrap/roll_call.h"
#include "runtime/bootstrap/wire.h"
#include "runtime/communicator/members.h"
#include "runtime/communicator/state.h"

namespace collctl::runtime {
namespace {

constexpr uint32_t kSplitCalls = 0x200000;  // apart from those of windows
constexpr double kLeastStartSeconds = 0.1;
constexpr double kTellSeconds = 5;  // for the others to hear that a member cannot take part

Bytes encode(const SplitCard& card) {
  return ByteWriter().put(int32_t(card.colour)).put(int32_t(card.key)).take();
}

Result<std::vector<SplitCard>> decode_cards(const std::vector<Bytes>& blobs) {
  std::vector<SplitCard> cards;
  for (const Bytes& blob : blobs) {
    ByteReader r(blob);
    cards.push_back({r.get<int32_t>(), r.get<int32_t>()});
    if (!r.ok() || !r.at_end())
      return Error(ErrorCode::defect, "split: what a rank asked for has the wrong length");
  }
  return cards;
}

// The secret of the split with this number: its own for each group.
base::Secret secret_of(const base::Secret& parent, uint32_t number, int colour) {
  const std::string word = "collctl split 1";
  const Bytes which = ByteWriter().put(number).put(int32_t(colour)).take();
  const auto digest = base::hmac_sha256(parent, {base::bytes_of(word), which});
  base::Secret secret;
  static_assert(sizeof digest >= sizeof secret.bytes);
  std::copy_n(digest.begin(), secret.bytes.size(), secret.bytes.begin());
  return secret;
}

// Where a group's root is, or why there is none; nothing of ranks that open none.
struct GroupRoot {
  static constexpr const char* kRecord = "address of a group's root";
  Address at = {};
  std::optional<Error> why = {};
};
void fields(Record& io, GroupRoot& root) {
  io.unless_empty("why", root.why);
  if (!root.why) io.field("at", root.at);
  if (io.reading() && !root.why && root.at.length == 0) io.fail("at", "an address");
}

Bytes encode_root(const Result<std::unique_ptr<BootstrapRoot>>& root) {
  if (root) return encoded(GroupRoot{.at = (*root)->address()});
  return encoded(GroupRoot{.why = boot::brief_error(root.error())});
}

Result<Address> decode_root(ByteView blob, const std::string& who) {
  auto root = decoded<GroupRoot>(blob);
  if (!root) return Error(ErrorCode::defect, format("split: {} sent a malformed address", who));
  if (root->why) return std::move(root->why->within(who));
  return root->at;
}

}  // namespace

Result<std::vector<Bytes>> Communicator::State::call_roll(ByteView mine, Deadline deadline) {
  COLL_TRY(turns.wait_until_connected(deadline));
  const std::lock_guard lock(bootstrap_mutex);
  auto blobs = roll_call(*bootstrap, kSplitCalls | split_calls++, "split", mine, deadline);
  if (blobs) return blobs;
  // Nobody knows any more how far the others are.
  if (blobs.error().rank < 0) blobs.error().rank = rank;
  errors.fail(blobs.error(), true);
  return Error(errors.status().error());
}

Result<std::unique_ptr<Communicator>> Communicator::split(int colour, int key, Deadline deadline) {
  State& s = *state_;
  COLL_TRY(s.errors.status());
  if (s.finalized) return Error(ErrorCode::usage, "the communicator was finalized");
  COLL_TRY_IN(s.drain(deadline), "split");
  const uint32_t number = s.split_calls;
  COLL_ASSIGN(const auto asked, s.call_roll(encode({colour, key}), deadline));
  COLL_ASSIGN(const auto cards, decode_cards(asked));
  const std::vector<int> members = split_members(cards, colour);
  const auto place = std::find(members.begin(), members.end(), s.rank);
  const bool leads = place != members.end() && place == members.begin();
  const base::Secret secret = secret_of(s.wire->services().secret, number, colour);

  std::unique_ptr<BootstrapRoot> root;
  Bytes mine;
  if (leads) {
    std::vector<std::string> hosts;
    for (const int member : members) hosts.push_back(s.peers[size_t(member)].host);
    auto made = BootstrapRoot::start(
        {.listen_at = s.bootstrap_at, .secret = secret, .hosts = std::move(hosts)});
    mine = encode_root(made);
    if (made) root = std::move(*made);
  }
  COLL_ASSIGN(const auto roots, s.call_roll(mine, deadline));
  if (members.empty()) return std::unique_ptr<Communicator>();
  const int first = members[0];
  COLL_ASSIGN(const Address at, decode_root(roots[size_t(first)],
                                            boot::rank_text(first, s.peers[size_t(first)].host)));

  const UniqueId id = UniqueId::make(at, secret);
  const int child = int(place - members.begin()), size = int(members.size());
  COLL_INFO(init,
            "comm {:#x} rank {} nranks {} - split {} colour {} key {}: rank {} nranks {} of "
            "comm {:#x}",
            s.hash, s.rank, s.size, number / 2, colour, key, child, size, id.hash());
  CommOptions options = s.options;
  options.task.clear();
  options.members = members;
  options.start_left_s = std::max(double(deadline.remaining_ns()) * 1e-9, kLeastStartSeconds);
  options.core_ranks = s.core_ranks;
  bool checked_in = false;
  options.checks_in = [&checked_in] { checked_in = true; };
  auto made = make(id, child, size, options);
  if (made) {
    (*made)->state_->options.checks_in = nullptr;
    return made;
  }
  // Members that wait at the root for this one hear why it does not come.
  if (!checked_in) {
    const Deadline told = Deadline::after_seconds(kTellSeconds);
    if (Status sent = decline_start(id, child, size, base::host_name(), made.error(), told); !sent)
      COLL_INFO(init, "split: the members of this group could not be told: {}",
                sent.error().chain());
    if (root != nullptr) root->await_told(told);
  }
  return in_numbers_of(members, std::move(made.error())).within("split");
}

const std::vector<int>& Communicator::members() const {
  return state_->members;
}

}  // namespace collctl::runtime

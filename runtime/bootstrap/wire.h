// Messages between ranks and roots, and the shapes they travel along. Internal to the bootstrap.
// Every connection opens with a greeting (base/auth), which says who connects and why; the lines to
// a root, between roots and between ring neighbours then carry small frames (type, length, payload,
// MAC). Pure functions and values, except FrameReader and send_frame, which move bytes without
// waiting.
#pragma once
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/auth.h"
#include "base/bytes.h"
#include "base/record.h"
#include "base/result.h"
#include "base/socket.h"

namespace collctl::runtime::boot {

inline constexpr int kMaxRanks = 65536;
inline constexpr int kMaxRoots = 64;
inline constexpr int kTreeArity = 16;   // children of a rank in its root's tree
inline constexpr int kRingAtMost = 16;  // up to so many ranks gather along a ring, above in a tree
inline constexpr size_t kMaxHostName = 64;
inline constexpr size_t kMaxFdSocketPath = 107;  // what an address of a Unix socket holds
inline constexpr size_t kMaxFrame = 32 << 10;

enum class Purpose : uint32_t {
  check_in = 0x1001,  // rank -> root
  root = 0x1002,      // root -> first root
  call = 0x1003,      // root -> rank, where the root could not keep the line open
  control = 0x1004,   // rank -> its successor: abort notices, both ways
  ring = 0x1005,      // rank -> its successor: data
  tree = 0x1006,      // rank -> its parent: data, both ways
  message = 0x1007,   // rank -> any rank: point-to-point, one way
  decline = 0x1008    // rank -> root, instead of a check-in
};
// The purpose a greeting opens with; 0 when it has none.
uint32_t purpose_of(ByteView greeting);

struct CheckIn {
  static constexpr const char* kRecord = "check-in";
  int rank = 0, size = 0;
  int root_index = 0;          // which of `roots` this rank belongs to
  std::vector<Address> roots;  // all of them, in order
  std::string host;
  Address peers;  // where peers connect to this rank
  Address calls;  // where its root does
  int64_t remaining_ms = 0;
};
void fields(Record& io, CheckIn& record);

struct Decline {  // a rank that cannot take part
  static constexpr const char* kRecord = "word of a rank that declines";
  int rank = 0, size = 0;
  Error why;
};
void fields(Record& io, Decline& record);

struct PeerGreeting {
  static constexpr const char* kRecord = "greeting";
  Purpose purpose{};
  int from = 0, to = 0;
  Bytes frame = {};  // of a call: what its line would have brought (encode_frame)
};
void fields(Record& io, PeerGreeting& record);

enum class FrameType : uint32_t {
  place = 1,      // root -> rank: Place
  failure = 2,    // root <-> rank, root <-> root: an Error
  call_you = 3,   // root -> rank: hang up, I shall call your second listener
  connected = 4,  // rank -> root: neighbours are connected
  report = 5,     // root -> first root: GroupReport
  leaders = 6,    // first root -> root: the first rank of every root
  notice = 7,     // ring neighbours: an abort
  bye = 8         // ring neighbours: this end closes cleanly
};

struct Frame {
  FrameType type{};
  Bytes payload;
};

struct RankAt {
  int rank = -1;
  Address address;
  std::string host;
};

struct Place {  // what the root tells a rank
  static constexpr const char* kRecord = "place";
  RankAt next, previous, parent;
};
void fields(Record& io, Place& record);

struct GroupReport {  // what a root tells the first root
  static constexpr const char* kRecord = "report of a root";
  int index = 0, size = 0, checked_in = 0;
  bool complete = false;
  std::vector<int> missing;  // the first of them
  RankAt leader;
};
void fields(Record& io, GroupReport& record);

struct Leaders {  // what the first root tells the others: the first rank of each
  static constexpr const char* kRecord = "list of ranks";
  std::vector<RankAt> ranks;
};
void fields(Record& io, Leaders& record);

// The part of an error that is sent: long texts are cut, contexts are folded into the message.
Error brief_error(const Error& error);
inline Bytes encode_brief(const Error& error) {
  return base::encode_error(brief_error(error));
}
using base::decode_error;

inline constexpr const char* kChanged =
    "what it sent was changed on the way (something between the hosts interferes)";
// A connection after its handshake, each of whose frames ends with a MAC under the session's key:
// over the direction, the frame's number and its bytes. Frames that an attacker on the path
// changes, drops, repeats or swaps are noticed.
using Mac = std::array<uint8_t, 16>;
class SealedFd {
 public:
  SealedFd() = default;
  SealedFd(Fd fd, const base::Session& session) : fd_(std::move(fd)), session_(session) {}
  explicit SealedFd(base::Accepted&& accepted)
      : SealedFd(std::move(accepted.fd), accepted.session) {}
  explicit operator bool() const { return bool(fd_); }
  int get() const { return fd_.get(); }
  void reset() { fd_.reset(); }
  Mac seal(std::initializer_list<ByteView> frame);  // of the next frame that goes out
  // Whether this is the next frame that the other side sent.
  bool genuine(std::initializer_list<ByteView> frame, const Mac& mac);

 private:
  Mac mac(bool from_connector, uint64_t number, std::initializer_list<ByteView> frame) const;

  Fd fd_;
  base::Session session_;
  uint64_t sent_ = 0, received_ = 0;
};

// Frames out of a non-blocking socket.
class FrameReader {
 public:
  // Takes what has arrived. Code lost when the other side is gone or sends something else; frames
  // that arrived before stay available.
  Status fill(SealedFd& from);
  std::optional<Frame> next();

 private:
  Bytes buffer_;
  std::deque<Frame> frames_;
};
Bytes encode_frame(FrameType type, ByteView payload);
// The whole frame at once, without waiting: the buffers of these lines are never full.
Status send_frame(SealedFd& to, FrameType type, ByteView payload);

// Ranks are split evenly over the roots, the remainder over the first ones: root g serves the ranks
// [group_begin(g), group_begin(g + 1)).
int group_begin(int index, int groups, int size);
int group_of(int rank, int groups, int size);
// The tree: below each root's first rank its ranks in heap order; the first ranks in heap order
// among themselves. Parent of rank 0: -1.
int tree_parent(int rank, int groups, int size);
std::vector<int> tree_children(int rank, int groups, int size);

// "rank 3 (host b1), rank 11, ranks 20-31 and 40 more"; `hosts` may be shorter than the ranks.
std::string rank_list(const std::vector<int>& ranks, const std::vector<std::string>& hosts);
std::string rank_text(int rank, const std::string& host);  // "rank 3 (host b1)"

}  // namespace collctl::runtime::boot

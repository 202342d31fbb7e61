// A queue pair as its own process sees it: the queue of posted requests and the requester's part of
// the state. Requests are carried out in order, by the posting thread where nothing stands in the
// way, else by the engine.
#pragma once
#include <memory>
#include <mutex>
#include <vector>

#include "tests/fake_verbs/local.h"

namespace fake_verbs {

struct Request {
  uint64_t id = 0, remote_address = 0, bytes = 0, posted_ns = 0;
  uint32_t remote_key = 0, immediate = 0;
  ibv_wr_opcode opcode{};
  uint32_t flags = 0;
  int pieces = 0;
  ibv_sge piece[kMaxPieces];
  // How it is carried out; decided once, when its turn comes.
  bool judged = false, corrupt = false, revoke = false, awaits_ack = false;
  uint32_t losses = 0;      // still to come; ~0: all
  uint32_t ack_losses = 0;  // likewise: it arrives, the sender does not hear of it
  int forced_status = -1;   // of the completion
  uint64_t due_ns = 0;      // not before
  uint64_t reorder_ns = 0;  // its packets arrive in any order with those of its neighbours
  uint64_t tear_ns = 0;     // ends of 128-byte lines arrive so long before the rest

  bool has_immediate() const {
    return opcode == IBV_WR_RDMA_WRITE_WITH_IMM || opcode == IBV_WR_SEND_WITH_IMM;
  }
  bool is_send() const { return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM; }
};

enum class Arrival {
  kDone,
  kLost,      // no acknowledgement will come
  kNotReady,  // no receive is posted there
  kRefused,   // with the status for the requester
  kGap,       // a packet's number is not the one expected there
};
struct Verdict {
  Arrival arrival;
  ibv_wc_status status = IBV_WC_SUCCESS;
  uint64_t rnr_ns = 0;  // how long the responder asks to wait
};

// A part of a request, and by how many packet numbers the responder is further when it arrived.
struct Range {
  uint64_t first, bytes;
  uint32_t packets;
};

struct QueuePair {
  struct Packet {
    uint64_t number;  // of its request
    Range range;
  };
  ibv_qp base;
  int index;
  uint32_t serial;
  uint32_t events_got = 0;  // by the application; under base.mutex
  ibv_qp_cap capacity;
  bool all_signaled;

  std::mutex lock;  // of what follows
  std::vector<Request> requests;
  std::vector<uint8_t> inline_data;  // capacity.max_inline_data for each request
  uint64_t posted = 0, next = 0;     // next: the one being carried out
  uint64_t reported = 0;             // those before it are in a completion
  uint32_t psn = 0;                  // of the next packet, not cut
  int retries_left = 0, rnr_left = 0;
  std::atomic<uint64_t> engine_due{~0ull};
  // Freed by polling.
  std::atomic<uint64_t> retired{0}, receives_retired{0};

  Pair& shared() const { return world().pairs[index]; }
  ibv_qp_state state() const { return ibv_qp_state(shared().state.load()); }
  Request& request(uint64_t number) { return requests[number % requests.size()]; }
  uint8_t* inline_of(uint64_t number) {
    return inline_data.data() + number % requests.size() * capacity.max_inline_data;
  }

  uint64_t wants_engine_at() const { return shared().flush_sends ? 0 : engine_due.load(); }
  uint64_t advance_from_engine();  // returns when it wants to be called again
  // Carries out what is due. Holding `lock`.
  void advance(bool engine = false);
  // To the error state: what is posted, on both sides, completes as flushed. Holding `lock`.
  void fail();
  void flush();
  void wait_until(uint64_t due_ns);
  void complete(Request& request, ibv_wc_status status);
  bool carry_out(Request& current);
  bool carry_out_in_any_order();
  uint64_t end_of_plain_writes();
  std::vector<Packet> shuffled_packets(uint64_t end);
  void done_with(Request& current);
  Verdict transmit(Request& current);
  bool end_with(Request& current, ibv_wc_status status);
};

inline QueuePair* pair_of(ibv_qp* base) {
  return reinterpret_cast<QueuePair*>(base);
}

// ---- the responder's part, carried out by the requester's process

Verdict deliver(QueuePair& from, const Request& request, uint64_t number, const Range& range);

// A completion with what is valid in any; the rest, which nobody may look at, is dirt.
ibv_wc completion_of(uint64_t id, ibv_wc_status status, uint32_t number);
// Flushes the receives of a pair in the error state. Holding its lock.
void flush_receives(Pair& pair);
// A pair goes wrong by its peer's doing. Holding its lock.
void fail_responder(Pair& pair, ibv_event_type event);

// Whether packets of the one pair find the other.
bool reaches(const Pair& from, const Pair& to);
uint32_t mtu_bytes(int code);
// Packet numbers that a message takes.
uint32_t packets(uint64_t bytes, int mtu);

// Applies the active faults to a request whose turn has come.
void judge(QueuePair& pair, Request& request);

void log_request(const QueuePair& pair, const Request& request, uint8_t opcode, uint8_t pieces);
void log_receive(const QueuePair& pair, const ibv_recv_wr& wr);
void revoke_key(uint32_t remote_key);
void set_port_of(Device& device, int port, bool up);

// ---- memory

// A key looked up and held against being given back for as long as this lives.
class Pinned {
 public:
  Pinned() = default;
  Pinned(Pinned&& other) noexcept : region_(other.region_) { other.region_ = nullptr; }
  ~Pinned() {
    if (region_ != nullptr) drop();
  }
  Pinned& operator=(Pinned&&) = delete;
  // Whether the key is of that domain and process, and names the whole range with these rights.
  bool pin(uint32_t key, bool remote, const Pair& owner, uint64_t first, uint64_t bytes,
           uint32_t rights);
  uint64_t address(uint64_t at) const { return at + uint64_t(region_->to_address); }
  Region& region() const { return *region_; }

 private:
  void drop();
  Region* region_ = nullptr;
};

// Copies as an adapter does: words of a message appear in rising order, whole.
void copy_words(void* to, const void* from, size_t bytes);

}  // namespace fake_verbs

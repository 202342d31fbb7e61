// The memory that all processes of one fabric share: a mapped file of fixed tables and an arena for
// rings. Every process changes any of it: a requester does the responder's part itself (it looks up
// the peer's queue pair, checks the key, copies, and puts the completion into the peer's queue).
// Locks are robust, so that a killed process cannot stop the others; order: a requester's own
// (local), Pair::lock, Pair::receive_lock, CompletionQueue::lock; World::lock and Process::lock are
// never held while another is taken.
#pragma once
#include <infiniband/verbs.h>
#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace fake_verbs {

constexpr int kProcesses = 64, kDevices = 64, kPorts = 4, kGids = 8, kPkeys = 4;
constexpr int kPairs = 4096, kQueues = 4096, kRegions = 8192, kFaults = 32, kEvents = 256;
constexpr int kJobs = 64;
constexpr uint32_t kLogEntries = 1 << 15;
constexpr int kViolations = 64;
constexpr uint64_t kWorldBytes = uint64_t(1) << 29;  // of a sparse file
constexpr int kMaxPieces = 16;
constexpr uint32_t kMaxInline = 256;
constexpr int kMaxReads = 16;  // outstanding, each way
constexpr uint32_t kMaxMessage = 1u << 31;

// A lock that survives the death of its holder.
class SharedLock {
 public:
  void init();
  void lock();
  void unlock() { pthread_mutex_unlock(&mutex_); }
  // Whether another thread that lives holds it.
  bool held_by_other();

 private:
  pthread_mutex_t mutex_;
};
class Locked {
 public:
  explicit Locked(SharedLock& lock) : lock_(lock) { lock_.lock(); }
  ~Locked() { lock_.unlock(); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  SharedLock& lock_;
};

struct Gid {
  uint8_t raw[16];
  uint32_t type;  // ibv_gid_type: 0 IB, 1 RoCE v1, 2 RoCE v2
  bool used;
};

struct Port {
  std::atomic<bool> up, plugged;
  uint8_t link_layer, width, speed;  // codes as in ibv_port_attr
  uint8_t max_mtu, active_mtu;       // ibv_mtu
  uint16_t lid;
  uint16_t pkeys[kPkeys];
  Gid gids[kGids];
  uint32_t max_message;
  uint32_t rail;                     // only ports of one rail reach each other
  std::atomic<uint64_t> free_at_ns;  // under a bandwidth limit: when the wire is free again
};

struct Device {
  std::atomic<bool> used;
  std::atomic<bool> broken;
  char name[IBV_SYSFS_NAME_MAX];
  int32_t host;
  uint64_t guid;  // network byte order
  int32_t ports;
  int32_t max_pairs, max_queues, max_depth,
      max_entries;  // queue pairs, completion queues, their depths
  uint32_t max_inline;
  int32_t max_reads;
  uint64_t max_region;
  bool opens;    // ibv_open_device works
  bool peermem;  // GPU memory can be registered by its address
  bool dmabuf;   // and by a descriptor
  Port port[kPorts];
};

struct Event {
  int32_t type;  // ibv_event_type
  int32_t device, port;
  uint64_t object;  // queue pair or completion queue of the process that is notified
  uint32_t serial;  // of the object, so that an event never meets a later one at its place
};

// Bytes to be moved by a process's mover (mover.h).
struct Job {
  std::atomic<uint32_t> state;  // futex
  int32_t from;                 // the process that waits for it
  int32_t gpu;
  bool driver, read;
  uint64_t ticket, address, data, bytes;
};

// One process that opened a device.
struct Process {
  SharedLock alive;  // held by its engine as long as it lives
  SharedLock lock;   // of events
  std::atomic<bool> used;
  std::atomic<int32_t> pid;
  int32_t host;
  std::atomic<int32_t> contexts, domains, channels;
  std::atomic<uint32_t> doorbell;  // futex: something here wants the engine
  std::atomic<uint32_t> event_count;
  Event events[kEvents];
  SharedLock job_lock;
  std::atomic<uint32_t> job_bell;  // futex
  uint64_t next_ticket;
  Job jobs[kJobs];
};

struct Region {
  std::atomic<bool> used, revoked;
  bool held;  // the row is taken; `used`: its keys are valid
  std::atomic<uint32_t> serial;
  std::atomic<int32_t> pins;  // transfers under way
  int32_t process, device;
  uint32_t domain;
  uint32_t access;
  uint64_t first, bytes;  // as requests name it
  int64_t to_address;     // plus this: where it lies in the process
  bool by_mover;          // only its process can touch it, or writes are held back
  bool driver;
  int32_t gpu;  // -1: the host's
};

struct Completion {
  ibv_wc wc;
  uint64_t pair;     // the queue pair, a pointer in the process of the queue
  uint32_t retires;  // how many requests of its queue are free again when this is polled
  bool receive, solicited;
};
struct CompletionQueue {
  SharedLock lock;
  std::atomic<bool> used;
  uint32_t serial;
  int32_t process, device;
  uint64_t object;  // of the owner
  uint64_t ring;    // Completion[capacity]
  uint32_t capacity;
  std::atomic<uint64_t> head, tail;
  int32_t armed;  // 0 no, 1 for any, 2 for solicited or failed
  bool has_channel, overrun;
  std::atomic<uint32_t> notified;  // events that the owner's engine has still to pass on
};

struct Receive {
  uint64_t id;
  int32_t pieces;
  ibv_sge piece[kMaxPieces];
};

// The part of a queue pair that both sides see.
struct Pair {
  SharedLock lock;  // by who carries out requests on it, and by who changes it
  SharedLock receive_lock;
  std::atomic<bool> used;
  std::atomic<uint32_t> number;  // 24 bits
  std::atomic<int32_t> state;    // ibv_qp_state
  uint32_t serial;
  int32_t process, device, port;
  uint32_t domain;
  uint64_t object;
  int32_t send_queue, receive_queue;  // completion queues
  ibv_qp_attr attr;                   // everything that ibv_modify_qp set
  Gid source;                         // RoCE and global routing: its own address
  uint64_t expected_psn;              // not cut to 24 bits
  uint64_t ring;                      // Receive[capacity]
  uint32_t capacity, max_pieces;
  uint64_t posted, taken;         // of receives
  std::atomic<bool> flush_sends;  // went wrong by the peer's doing: its owner has to flush
};

struct FaultRow {
  std::atomic<bool> used;
  uint8_t kind;
  int32_t opcode;  // -1: any
  char device[IBV_SYSFS_NAME_MAX];
  int32_t host, port;
  uint32_t after, times;
  uint64_t min_bytes, max_bytes, us, value;
  std::atomic<uint32_t> seen, hits;
};

struct LogRow {
  std::atomic<uint64_t> ready;  // its number plus one
  uint64_t time_ns, id, bytes, address, remote_address;
  int32_t process;
  uint32_t pair, peer, immediate;
  uint8_t opcode, port, pieces, flags;
  char device[24];
};

struct World {
  uint64_t magic;
  SharedLock lock;  // rows of the tables that come and go
  SharedLock arena_lock;
  double time_scale;
  std::atomic<uint32_t> next_domain, next_serial;
  uint64_t arena_next;
  uint64_t arena_free[40];  // by power of two
  Device devices[kDevices];
  Process processes[kProcesses];
  std::atomic<uint32_t> fault_count;  // 0: the fast way
  FaultRow faults[kFaults];
  std::atomic<uint64_t> log_next, log_first;
  LogRow log[kLogEntries];
  std::atomic<uint32_t> violation_count;
  char violations[kViolations][160];
  CompletionQueue queues[kQueues];
  Pair pairs[kPairs];
  Region regions[kRegions];
};

// The world of this process: mapped at the first call, stays until set_up() asks for another.
extern std::atomic<World*> the_world;
World& make_world();
inline World& world() {
  World* w = the_world.load(std::memory_order_acquire);
  return w != nullptr ? *w : make_world();
}

// Memory of the arena by its offset; 0: none left.
uint64_t arena_take(uint64_t bytes);
void arena_give(uint64_t at, uint64_t bytes);
template <class T>
T* arena(uint64_t at) {
  return reinterpret_cast<T*>(reinterpret_cast<char*>(&world()) + at);
}

uint64_t now_ns();
// Words that processes wait for.
void futex_wait(std::atomic<uint32_t>& word, uint32_t seen, uint64_t ns);
void wake_word(std::atomic<uint32_t>& word);
void ring_word(std::atomic<uint32_t>& word);  // counts it up first
void violation(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace fake_verbs

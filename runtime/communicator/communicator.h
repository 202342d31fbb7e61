// Communicator: one rank's membership in a job. Collectives, groups, streams, asynchronous errors.
//
// Order: operations of one stream run in the order they were started; every rank must start the
// same operations in the same order. Calls return when the work is queued; the buffers stay the
// communicator's until the stream is synchronised. With Launch::blocking and an idle stream the
// work runs in the caller's thread. Threads: a communicator may be used by one thread at a time;
// streams of different communicators are independent. One thread may drive several communicators
// when it brackets their calls by Group. GPU ranks: start() and Group::end() return when the
// kernels are queued on the stream's CUstream, in which callers may queue copies of their own;
// buffers are addresses that the rank's device can use. Errors: argument errors are returned at
// once (usage); everything later is asynchronous: the first one is kept, the abort word is raised
// on every rank within a second, and every later call returns it.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/result.h"
#include "kernels/contract/report.h"
#include "kernels/cpu/wait_log.h"
#include "runtime/bootstrap/unique_id.h"
#include "runtime/links/link_info.h"
#include "runtime/plan/operation.h"
#include "runtime/plan/plan.h"
#include "runtime/request/options.h"
#include "runtime/tuner/plugin.h"
#include "runtime/window/user_window.h"
#include "transport/device/device.h"
#include "transport/peer.h"

namespace collctl::runtime {

struct InitTimes {  // seconds
  double bootstrap = 0, peers = 0, wire = 0, total = 0;
  double device = 0;  // opening the GPU, at the same time as the bootstrap
};

// Activity of a rank at this moment.
struct Activity {
  uint64_t calls = 0;  // so far; a send and a receive are one each
  std::string last;    // the last of them, in words
  bool busy = false;   // something is in flight
  // Waiting channels (each by itself) and their peers; on a GPU those that have waited for long.
  std::vector<kernels::WaitLog::Now> waits;
  // In a kernel made for windows, which does not say: the ranks that have not begun what it is in.
  std::optional<kernels::WindowWait> window;
};
// How a rank's time went, since its start.
struct WaitSums {
  struct Peer : kernels::PeerWait {
    int peer = 0;
    uint64_t carrying_ns = 0;  // a network carried data to it
  };
  std::vector<Peer> peers;  // those that were waited for or sent to
  uint64_t away_ns = 0;     // in waits, without a processor
  int channels = 0;  // that waited side by side; of a GPU the times are of the mean one already
};

class Stream;

class Communicator {
 public:
  static Result<std::unique_ptr<Communicator>> init(const UniqueId& id, int rank, int size,
                                                    const CommOptions& options);
  // Several ranks of this process at once (threads inside); the ranks given share the job `id`.
  static Result<std::vector<std::unique_ptr<Communicator>>> init_many(const UniqueId& id,
                                                                      std::span<const int> ranks,
                                                                      int size,
                                                                      const CommOptions& options);
  ~Communicator();

  // As ncclCommSplit: the ranks that say one colour become a communicator of their own, numbered in
  // the order of their keys, then of their ranks here. A rank with a negative colour takes part in
  // the call and gets null. Collective; first waits for what was started. The two share nothing: an
  // error of one is none of the other's, they may work at the same time and go in any order. The
  // new one has this one's options; its own errors number its ranks anew (in_numbers_of,
  // members.h), those of this call as here. Errors: deadline, lost, interrupted: a rank did not
  // come, and this communicator has ended; anything else is the group's alone.
  Result<std::unique_ptr<Communicator>> split(int colour, int key, Deadline deadline);
  // Its ranks' numbers in the communicator that it was split from. Else CommOptions::members.
  const std::vector<int>& members() const;

  int rank() const;
  int size() const;
  const std::vector<transport::PeerInfo>& peers() const;
  std::vector<LinkInfo> links() const;  // of this rank (both directions), ring and tree first
  const InitTimes& init_times() const;
  transport::DevicePointer device() const;  // this rank's GPU; null on CPU ranks
  // GPU memory held: links, windows and tables, but not the driver's context.
  uint64_t device_bytes() const;
  uint64_t hash() const;
  const TunerPlugin& tuner() const;  // its `calls` null: none

  enum class Launch : uint8_t { async, blocking };
  Status start(const Operation& operation, Stream& stream, Launch launch = Launch::async);
  // Several operations as one submission (what Group does for one communicator).
  Status start_all(std::span<const Operation> operations, Stream& stream,
                   Launch launch = Launch::async);
  // How this operation would run: algorithm, protocol, channels, chunks. Pure; for reports and
  // diagnosis.
  Result<Plan> plan_for(std::span<const Operation> operations) const;
  // The next operations use exactly these choices (empty = automatic again). Wires what they need.
  // Collective.
  Status set_choices(const std::string& algo, const std::string& proto, int channels);

  Activity activity() const;  // any thread
  // With CommOptions::count_waits. On a GPU rank, operations in flight are counted in part. Error:
  // the GPU's.
  Result<WaitSums> wait_sums() const;
  Status async_error() const;  // the first error of this communicator, or ok
  // Called with the first error, in the thread that meets it: for what must end with this one.
  std::shared_ptr<base::Cancel> failure() const;
  void abort(const Error& why);       // raises the abort word here and tells every rank
  Status barrier(Deadline deadline);  // over the bootstrap: slow, always works
  // Exchange of small blobs between all ranks over the bootstrap (results, diagnosis).
  Result<std::vector<Bytes>> gather_blobs(ByteView mine, Deadline deadline);
  // Users' buffers in windows, as user_window.h says; it also says what happens when a rank does
  // not register. Deregistering first waits for what was started.
  Result<std::vector<WindowPointer>> register_windows(std::span<const WindowRange> ranges,
                                                      Deadline deadline);
  Status deregister_windows(std::span<const WindowPointer> windows, Deadline deadline);
  const UserWindows& windows() const;
  // Why no collective copies directly between windows, whatever is registered: the same on all
  // ranks. Empty: those do that the model expects to be faster that way (PlannedOp::direct).
  std::string no_direct_path() const;
  Status finalize(Deadline deadline);  // collective; flushes and closes

 private:
  friend class Stream;
  friend class Group;
  friend class CommunicatorServices;
  Communicator(int rank, int size);
  class Start;
  struct State;
  static Result<std::unique_ptr<Communicator>> make(const UniqueId& id, int rank, int size,
                                                    const CommOptions& options);
  std::unique_ptr<State> state_;
};

// A queue of submissions executed in order: on CPU ranks by one worker (started when first needed),
// on GPU ranks by the GPU.
class Stream {
 public:
  explicit Stream(Communicator& communicator);
  ~Stream();
  Status synchronize();  // waits until all that was started is done; returns the asynchronous error
  bool idle() const;

  // --- GPU ranks only; elsewhere null and usage errors ---
  void* native() const;  // CUstream
  // Operations started on this stream by this thread from begin to end are recorded, not run; until
  // then the communicator's other streams must stay idle. Buffers and the communicator must outlive
  // the graph. All ranks record the same operations, and replay them equally often and in the same
  // order.
  Status capture_begin();
  Result<transport::DeviceGraph> capture_end();
  Status replay(const transport::DeviceGraph& graph);

 private:
  friend class Communicator;
  friend class Group;
  struct State;
  std::shared_ptr<State> state_;
};

// Operations started by this thread between the constructor (or begin) and end() are collected, and
// submitted together: one submission per communicator and stream. Groups nest; the outermost end()
// submits.
class Group {
 public:
  Group();
  ~Group();  // ends without waiting if end() was not called
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  // Submits (the outermost only). An argument error of any member is returned and nothing is
  // started. Waits for the members that were started with Launch::blocking.
  Status end();

 private:
  friend class Communicator;
  struct Collected;
  bool ended_ = false;
};

}  // namespace collctl::runtime

// The executor of GPU ranks: turns a cached plan into launches on the stream of the submission.
// Nothing here waits for the GPU but wait() and drain(); operations of all streams of a
// communicator run one after the other, because they share the channels' fifos (events put the
// streams in order). While something is in flight a watching thread looks for what kernels
// report, a GPU that has failed, and kernels that neither end nor report; otherwise it
// otherwise.
//
// Captured plans: what a graph's kernels read stays as long as the communicator. During a capture
// nothing else of the communicator runs.
//
// Threads: launch, replay, capture and drain are the thread's that uses the communicator; wait,
// abort and kernel_reported any. Ownership: one per communicator; the wire outlives it.
#pragma once
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cpu/wait_log.h"
#include "kernels/cuda/launch.h"
#include "runtime/executor/cuda_tables.h"
#include "runtime/executor/launch_queue.h"
#include "runtime/executor/window_look.h"
#include "runtime/links/proxy.h"
#include "runtime/plan/cache.h"

namespace collctl::runtime {

// A plan in the form that the GPU needs: the plan's works with addresses of the device, and how
// they are grouped into launches.
struct CudaPlan {
  struct Launch {
    bool window = false;
    bool copy = false;  // by the driver: one rank's whole operation, or a message to oneself
    kernels::Protocol protocol{};
    int first = 0, count = 0;  // works
    int threads = 0;           // of a block
    size_t first_step = 0;
  };
  std::vector<kernels::Work> works;
  std::vector<const int32_t*> orders;    // of works' rings, in host memory
  std::vector<kernels::PairStep> steps;  // of all works, one behind the other
  std::vector<Launch> launches;
  uint64_t bytes = 0;  // moved, roughly: how long it may continue without a sign
  std::vector<DevicePieces::Piece> pairs;
  std::shared_ptr<DevicePieces> owner;  // of the pieces
  ~CudaPlan();
};

class CudaExecutor {
 public:
  struct Options {
    int rank = 0, nranks = 1;
    transport::DevicePointer device;
    const kernels::cuda::Launcher* launcher = nullptr;
    double op_timeout_s = 30;
    bool count_waits = false;  // for wait_times(); costs two looks at the clock for each wait
    ProxyEngine* proxy = nullptr;
    // Where users' windows are mapped: read at direct launches between them.
    const kernels::FlatRange* flat = nullptr;
    // Gets errors on the GPU: the error of a report as of CpuExecutor, or of the device. From the
    // watching thread or one that waits; may be called more than once.
    std::function<void(Error)> on_failure;
  };
  static Result<std::unique_ptr<CudaExecutor>> make(Wire& wire, Options options);
  ~CudaExecutor();
  CudaExecutor(const CudaExecutor&) = delete;
  CudaExecutor& operator=(const CudaExecutor&) = delete;
  // For plans by window kernels; before the first launch.
  void use_window(const kernels::cuda::PeerMemory& window);
  // Instead: such plans go by the verbs.
  void use_verbs(const kernels::Window& window) {
    verbs_bank_bytes_ = window.bank_bytes;
    links_.use_window(window);
  }

  // Queues a plan whose links are all there. Errors name the GPU; a kernel that could not be
  // launched is as bad as one that failed (lost).
  Status launch(CachedPlan& plan, uint64_t first_op_count, const transport::DeviceStream& stream);
  // Waits until nothing is in flight, then records what is launched on `stream`.
  Status capture_begin(const transport::DeviceStream& stream);
  Result<transport::DeviceGraph> capture_end(const transport::DeviceStream& stream);
  // A recording stream must not be queried: that invalidates the graph.
  bool capturing(const transport::DeviceStream& stream);
  Status replay(const transport::DeviceGraph& graph, const transport::DeviceStream& stream);

  // Until all that was queued on the stream is done or aborted: kernels end by data, abort
  // word or their deadline. ok: no kernel reported anything.
  Status wait(const transport::DeviceStream& stream);
  Status drain(Deadline deadline);  // all streams
  // The stream will be destroyed; it is idle.
  void forget(const transport::DeviceStream& stream);

  // An injected stall: until the abort word is raised, or long after the others' deadline.
  void hang() const;
  void abort();                  // kernels abort
  bool kernel_reported() const;  // some kernel reported something
  Status settle();               // then: waits until on_failure was told
  int32_t* barrier_cell()        // two of them, on the device
  {
    return reinterpret_cast<int32_t*>(barrier_cell_.data);
  }
  uint64_t device_bytes() const { return pieces_->bytes(); }

  bool in_flight() const;  // as the watching thread last saw it; any thread
  // Current waits of kernels: those that have lasted some milliseconds, which is how long this
  // looks. Kernels made for windows do not say. Any thread.
  std::vector<kernels::WaitLog::Now> waits() const;
  // In kernels made for windows: the ranks that have not begun the current operation. Looks for a
  // sixth of a second, so that ranks that are a little late are not told. Any thread.
  std::optional<kernels::WindowWait> window_wait();
  // With count_waits, of peer r at [r]: of those that wait side by side in a launch, the mean. The
  // thread that uses the communicator; what is in flight may be counted in part.
  Result<std::vector<kernels::PeerWait>> wait_times();

 private:
  CudaExecutor(Wire& wire, Options options);
  Status set_up();
  Status prepare(CachedPlan& plan, const transport::DeviceStream& stream);
  uint64_t verbs_chunk(const kernels::Work& work) const;
  Status put_sendrecv(const Plan& plan, CudaPlan& made, const transport::DeviceStream& stream);
  Result<void*> scratch(uint16_t channel, uint64_t bytes);
  // The same order in host memory, that stays, and on the device.
  struct Order {
    const int32_t* host = nullptr;
    const int32_t* device = nullptr;
  };
  Result<Order> placed_order(const int32_t* order, const transport::DeviceStream& stream);
  Status upload(const transport::DeviceStream& stream, void* to, const void* from, uint64_t bytes);
  Status update_links(const transport::DeviceStream& stream);
  Status uploaded(Status status) const;
  Uploads::Aborted no_progress() const;
  bool aborted() const;
  int64_t patience_ns() const;
  Status start_all(const CudaPlan& plan, const transport::DeviceStream& stream);
  Status take_turn(const transport::DeviceStream& stream);
  Status may_launch(const transport::DeviceStream& stream) const;
  Status await_room(uint64_t kernels);
  void under_way(uint64_t bytes, uint64_t launches);
  void tell_proxy(bool begins);
  Error device_error(Error error) const;
  Error broken(Error error) const;

  // cuda_watch.cc
  void watch();
  void look(std::unique_lock<std::mutex>& lock);
  Status look_for_signs(int64_t now);
  int64_t drain_ns();
  void rest();
  void tell(std::unique_lock<std::mutex>& lock, std::optional<Error> device);
  Error first_report() const;

  Wire& wire_;
  const Options options_;
  kernels::cuda::PeerMemory window_;
  uint64_t verbs_bank_bytes_ = 0;          // 0: by window kernels
  transport::PinnedMemory shared_memory_;  // reports, the abort word on a line of its own, notes
  kernels::Report* reports_ = nullptr;
  uint32_t* abort_word_ = nullptr;
  kernels::WaitNote* notes_ = nullptr;
  std::shared_ptr<DevicePieces> pieces_;
  DevicePieces::Piece barrier_cell_;
  DevicePieces::Piece wait_times_;  // with count_waits: of each peer
  transport::PinnedMemory read_wait_times_;
  std::unique_ptr<Uploads> uploads_;
  LinkTables links_;
  std::map<std::vector<int32_t>, const int32_t*> orders_;  // of rings, and where on the device
  std::map<uint16_t, DevicePieces::Piece> scratch_;        // by channel
  std::vector<std::shared_ptr<CudaPlan>> captured_;
  transport::DeviceStream setup_stream_;  // uploads during a capture
  transport::DeviceEvent turn_event_;     // the end of what was queued on the stream before

  std::unique_ptr<DevicePulse> pulse_;
  std::mutex window_mutex_;  // of who looks at the window
  WindowLook window_look_;
  LaunchQueue queue_;
  // A launch is being queued, without the mutex: the driver may take its time.
  std::atomic<bool> launching_{false};
  std::atomic<int64_t> sign_ns_{0};  // when the GPU last showed progress

  // Under `mutex_`: the order of launches, and what the watching thread looks at.
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  const transport::DeviceStream* last_ = nullptr;       // the stream of the last launch
  const transport::DeviceStream* capturing_ = nullptr;  // must not be asked anything
  uint64_t launched_ = 0;                               // how often something was queued
  uint64_t largest_bytes_ = 0;                          // of a plan, since nothing was in flight
  uint64_t queued_launches_ = 0;                        // likewise: how many kernels
  uint64_t capture_bytes_ = 0, capture_launches_ = 0;   // of what is recorded so far
  uint64_t graph_bytes_ = 0, graph_launches_ = 0;       // of the largest graph
  bool busy_ = false;                                   // the watching thread looks
  bool proxy_busy_ = false;                             // the proxy polls
  bool look_now_ = false;
  bool stopping_ = false;
  bool told_ = false;  // on_failure knows what the kernels reported
  uint64_t seen_launches_ = 0;
  int64_t asked_ns_ = 0;       // when the driver was last asked whether the queue is empty
  int64_t idle_since_ns_ = 0;  // 0: something was in flight at the last look
  // A point in the last stream whose passing is watched.
  transport::DeviceEvent marker_;
  bool marked_ = false;
  int64_t marked_ns_ = 0, pulse_ns_ = 0;  // when it was set, when the pulse was last felt
  std::thread watcher_;
};

}  // namespace collctl::runtime

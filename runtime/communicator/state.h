// What a communicator, its streams and groups share. Private to runtime/communicator*.cc,
// stream.cc and group.cc.
//
// Turns: every submission gets a number when it is started; they run one after the other in that
// order, whichever stream they are on, because they share the channels' fifos. `issued` is the
// starting thread's; `done` moves when a submission ends. issued == done: nothing is in flight, so
// the starting thread may run the next one itself.
// Errors: the first is kept for ever and raises the abort word; only this rank's own are announced.
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "runtime/bootstrap/bootstrap.h"
#include "runtime/communicator/call_log.h"
#include "runtime/communicator/communicator.h"
#include "runtime/communicator/device_opening.h"
#include "runtime/executor/cuda.h"
#include "runtime/executor/executor.h"
#include "runtime/executor/torn_store.h"
#include "runtime/links/proxy.h"
#include "runtime/links/wire.h"
#include "runtime/plan/cache.h"
#include "runtime/plan/peer_info.h"
#include "runtime/plan/shared.h"
#include "runtime/request/settings.h"
#include "runtime/window/device_window.h"
#include "runtime/window/host_window.h"
#include "runtime/window/user_window.h"
#include "transport/table/nets.h"

namespace collctl::runtime {

struct Submission {
  Plan plan;
  uint64_t ticket = 0;
  uint64_t first_op = 0;
  bool wired = false;
};

struct Communicator::State {
  int rank = 0, size = 1;
  uint64_t hash = 0;
  uint64_t local_ranks = 1;
  Settings settings;
  Choices choices;
  HostGroups hosts;
  CommShape shape;
  std::vector<transport::PeerInfo> peers;
  InitTimes times;
  int32_t barrier_cells[2] = {};
  bool finalized = false;

  alignas(64) uint32_t abort_word = 0;
  std::atomic<bool> failed{false};
  std::mutex abort_mutex;  // the threads of bootstrap and proxy outlive the GPU's executor
  mutable std::mutex error_mutex;
  std::optional<Error> first_error;
  std::mutex bootstrap_mutex;  // its calls are one thread's at a time

  uint64_t issued = 0;
  std::atomic<uint64_t> done{0};
  std::mutex turn_mutex;
  int unwired = 0;  // submissions in flight that may still use the bootstrap; under turn_mutex
  std::condition_variable turn;
  uint64_t op_count = 0;
  CallLog calls;
  PlanCache cache;
  PlanCache window_cache{&make_shared_plan};  // of operations whose buffers lie in windows
  // CPU ranks: what this thread ran last if it was one operation alone, and its plan, which still
  // has that operation's buffers. A program that repeats it needs no look into caches and windows.
  // Forgotten by whatever plans, chooses or moves windows.
  Operation repeated;
  CachedPlan* repeated_plan = nullptr;
  std::vector<std::weak_ptr<Stream::State>> streams;

  transport::NetPresence networks;
  std::vector<std::string> nics;  // of the channels, as the topology has them; may be empty
  std::vector<transport::NicGdr> nic_gdr;            // of these
  std::optional<base::Cancel::Listener> cancelling;  // during start-up
  // Destroyed from the last to the first: workers are gone by then.
  std::unique_ptr<Bootstrap> bootstrap;
  std::unique_ptr<ProxyEngine> proxy;
  std::unique_ptr<HostWindow> window;  // null: none
  std::string window_failure;          // what this rank could not do towards it
  std::unique_ptr<UserWindows> user_windows;
  kernels::FlatRange flat;  // of user_windows, once something was registered
  std::unique_ptr<Wire> wire;
  std::unique_ptr<Executor> executor;  // CPU ranks

  // GPU ranks: these, and `device_window` instead of `window`.
  transport::DevicePointer device;
  const kernels::cuda::Launcher* launcher = nullptr;
  int weakest = 0;                         // the rank whose GPU has the least compute capability
  std::unique_ptr<DeviceOpening> opening;  // during start-up
  std::unique_ptr<DeviceWindow> device_window;
  std::unique_ptr<CudaExecutor> gpu;
  // A torn-store test that did not end, and the window it writes into: no longer used.
  std::unique_ptr<TornStoreRest> torn_store_rest;
  std::unique_ptr<DeviceWindow> lost_window;
  bool gpu_stands_still = false;        // a stream was left whose kernels had not ended
  CudaExecutor* gpu_to_stop = nullptr;  // the same while it is complete; under abort_mutex

  ~State();

  // Ends everything in flight. False: the GPU does not end its kernels, so nothing here may be
  // freed.
  bool stop();
  void raise_abort();

  // init.cc, in this order
  Status join(const UniqueId& id, const CommOptions& options, Deadline deadline);
  Status exchange_cards(const UniqueId& id, const CommOptions& options, Deadline deadline);
  Status connect(const UniqueId& id, Deadline deadline);
  Status make_window(Deadline deadline);
  void drop_window(const std::string& why);
  Status agree(Status mine, Deadline deadline);
  Status part(Status reason, Deadline deadline);
  void log_shape() const;
  // network.cc
  void describe_networks(RankCard& card) const;
  struct NetworkStart;
  Status make_reducers(Deadline deadline);
  Bytes listen_to_network(NetworkStart& start);
  Result<std::vector<transport::PluginHandle>> handles_of(int channel,
                                                          std::span<const Bytes> blobs) const;
  Status connect_to_network(NetworkStart& start, std::span<const Bytes> blobs, Deadline deadline);
  void log_complete() const;
  std::vector<Edge> collective_edges() const;

  // windows.cc
  Status make_user_windows(Deadline deadline);
  Status wait_until_wired(Deadline deadline);
  // Whether all ranks map all buffers of these operations, as far as this rank sees; then they
  // point into its slot of the flat range.
  bool place_in_windows(std::span<Operation> operations) const;
  // The plan for these; completes and places them.
  Result<CachedPlan*> plan_of(std::span<Operation> operations);

  // device.cc: GPU ranks
  bool nic_reaches_gpu() const;
  Status shape_gpus(std::span<const RankCard> cards, Deadline deadline);
  Status make_device_window(Deadline deadline);
  Status make_gpu_executor();
  Status test_lines(Deadline deadline);
  Status check_types(std::span<const Operation> operations) const;
  // Of a GPU rank: before the first operation the machine cannot; a rank that has worked is lost.
  void note_short(Error& error, uint64_t first_op) const;
  Status submit_to_gpu(CachedPlan& plan, uint64_t first_op, Stream::State& stream, bool blocking);
  void note_gpu_failure(Error error);
  int32_t* barrier_cell() { return gpu != nullptr ? gpu->barrier_cell() : barrier_cells; }
  bool needs_links(const Plan& plan) const;
  bool neighbours(const Edge& edge) const;
  Status check_links(const Plan& plan) const;
  // Whether a submission would have to connect links before it starts.
  Result<bool> would_connect(std::span<const Operation> operations);

  // communicator.cc
  void fail(const Error& error, bool announce);
  Status error() const;
  void leave_blame_to_the_nearest(Error& mine);  // blame.cc; may know a better one
  void blame_the_silent(Error& mine);
  void wait_until_told(Deadline deadline) const;
  void heed_abort(const Error& ended) const;
  Status heeded(Status status) const;
  bool idle() const { return done.load(std::memory_order_acquire) == issued; }
  Status drain(Deadline deadline);
  Status wire_plan(const Plan& plan);
  // For a submission whose turn it is: connects what its plan needs; then runs it.
  Status ready(const Plan& plan, uint64_t first_op, bool& wired);
  Status run(Plan& plan, uint64_t first_op);
  void run_in_turn(Submission& submission);
  // Plans and starts; in this thread when nothing is in flight and it may.
  bool repeats(const Operation& operation) const;
  Status repeat();
  Status submit(std::span<const Operation> operations, const std::shared_ptr<Stream::State>& stream,
                bool blocking);
  void trace(std::span<const Operation> operations, const Plan& plan, const void* stream) const;
  Status check(std::span<const Operation> operations) const;
};

struct Stream::State {
  Communicator::State* communicator = nullptr;  // null once it is gone
  // GPU ranks: the queue is the GPU's, the members below are not used.
  transport::DeviceStream device_stream;
  std::optional<Error> device_error;  // it could not be made

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Submission> queue;
  uint64_t pending = 0;  // queued or running
  bool stopping = false;
  std::thread worker;

  void push(Submission submission);
  void work();
  // Runs what is queued (aborts it if the abort word is raised), ends the worker. False: a GPU
  // does not end its kernels.
  bool stop();
  Status wait();
  bool stop_on_gpu();
  Status wait_for_gpu();
  Status gpu_ready() const;
  Status or_missed(Status status) const;
};

// Operations collected by this thread's open group.
struct Group::Collected {
  struct Batch {
    Communicator::State* communicator;
    std::shared_ptr<Stream::State> stream;
    std::vector<Operation> operations;
    bool blocking = false;
  };
  int depth = 0;
  std::vector<Batch> batches;
  static Collected& mine();
  bool open() const { return depth > 0; }
  Status add(Communicator::State& communicator, const std::shared_ptr<Stream::State>& stream,
             std::span<const Operation> operations, bool blocking);
  Status submit(bool wait);
  static Status submit_all(const std::vector<Batch>& all);
};

}  // namespace collctl::runtime

// State of a communicator, and how its operations run; a Stream and a Group see it. Private to
// runtime/communicator.
//
// Threads: the members are the communicator's thread's, but for those that lock for themselves
// (errors, turns, calls) and what a submission uses while it has its turn. Members are destroyed
// from the last to the first: a member that reports to another stands below it.
#pragma once
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_set>

#include "base/wait_policy.h"
#include "runtime/bootstrap/bootstrap.h"
#include "runtime/communicator/blame.h"
#include "runtime/communicator/call_log.h"
#include "runtime/communicator/communicator.h"
#include "runtime/communicator/first_error.h"
#include "runtime/communicator/plans.h"
#include "runtime/communicator/turns.h"
#include "runtime/executor/cuda.h"
#include "runtime/executor/executor.h"
#include "runtime/executor/torn_store.h"
#include "runtime/links/proxy.h"
#include "runtime/links/wire.h"
#include "runtime/plan/shape.h"
#include "runtime/request/settings.h"
#include "runtime/tuner/plugin.h"
#include "runtime/window/device_window.h"
#include "runtime/window/host_window.h"
#include "runtime/window/pinned_window.h"
#include "runtime/window/user_window.h"
#include "transport/table/nets.h"

namespace collctl::runtime {

struct Submission;

struct Communicator::State {
  const int rank, size;
  uint64_t hash = 0;
  uint64_t local_ranks = 1;
  CommOptions options;  // as it was made; what split() makes has them, too
  Settings settings;
  Choices choices;
  HostGroups hosts;
  CommShape shape;
  std::vector<transport::PeerInfo> peers;
  InitTimes times;
  transport::NetPresence networks;
  // That sockets use, with the addresses of the proxy's listeners; null: a single rank.
  std::shared_ptr<const std::vector<Interface>> interfaces;
  int core_ranks = 1;             // that use this rank's cores
  Address bootstrap_at;           // where it listens, without its port
  std::vector<int> members;       // of one that was split off: the ranks' numbers there
  uint32_t split_calls = 0;       // roll calls of split() so far
  int32_t barrier_cells[2] = {};  // of CPU ranks
  bool finalized = false;

  TunerPlugin tuner_plugin;            // its `calls` null: none
  std::unique_ptr<PluginTuner> tuner;  // shape.tuner
  // Questions to which all ranks' tuners gave the same answer (TunedChoice::question).
  std::unordered_set<uint64_t> tuned_alike;
  mutable std::mutex tuned_mutex;  // of tuned_alike: who starts looks, who has the turn adds

  FirstError errors;
  Turns turns;
  CallLog calls;
  Plans plans;
  uint64_t op_count = 0;
  std::vector<std::weak_ptr<Stream::State>> streams;

  std::optional<base::WaitPolicy> waiting;  // CPU ranks
  std::mutex bootstrap_mutex;               // its calls are one thread's at a time
  std::unique_ptr<Bootstrap> bootstrap;
  std::unique_ptr<ProxyEngine> proxy;
  std::unique_ptr<HostWindow> window;  // null: none
  std::string window_failure;          // what this rank could not do towards it
  std::unique_ptr<UserWindows> user_windows;
  kernels::FlatRange flat;  // of user_windows, once something was registered
  std::unique_ptr<Wire> wire;
  std::optional<Blame> blame;             // from the wire on
  std::optional<kernels::WaitLog> waits;  // CPU ranks
  std::unique_ptr<Executor> executor;     // CPU ranks

  // GPU ranks: these, and `device_window` instead of `window`.
  transport::DevicePointer device;
  const kernels::cuda::Launcher* launcher = nullptr;
  int weakest = 0;  // the rank whose GPU has the least compute capability
  std::unique_ptr<DeviceWindow> device_window;
  std::unique_ptr<PinnedWindow> pinned_window;  // or this
  std::unique_ptr<CudaExecutor> gpu;
  // A test of start-up that did not end, and the window it writes into: no longer used.
  std::unique_ptr<UnendedTest> unended_test;
  std::unique_ptr<DeviceWindow> lost_window;
  bool gpu_hangs = false;  // a stream was left whose kernels had not ended

  State(int of_rank, int of_size) : rank(of_rank), size(of_size), errors(of_rank), turns(of_rank) {}
  ~State() { errors.stop_gpu(nullptr); }

  // communicator.cc
  // Ends everything in flight. False: the GPU does not end its kernels, so nothing here may be
  // freed.
  bool stop();
  // All ranks together: CollNet where the choices allow it, and one answer to a step of all.
  Status make_reducers(Deadline deadline);
  Status agree_on(Status mine, Deadline deadline);
  void drop_window(const std::string& why);
  std::vector<Edge> collective_edges() const;  // of this rank, as the choices are now
  Status drain(Deadline deadline);             // until nothing is in flight
  // Whether all ranks map memory between users' windows, and kernels work there.
  bool maps_windows() const;
  int32_t* barrier_cell() { return gpu != nullptr ? gpu->barrier_cell() : barrier_cells; }

  // split.cc: what every rank brought to the next roll call; a rank that does not come ends this
  // communicator.
  Result<std::vector<Bytes>> call_roll(ByteView mine, Deadline deadline);

  // submit.cc: operations from start() to their end.
  Status check(std::span<const Operation> operations) const;
  // Plans and starts; in this thread when nothing is in flight and it may.
  Status submit(std::span<const Operation> operations, const std::shared_ptr<Stream::State>& stream,
                bool blocking);
  // The plan of an operation that is as the last, when nothing that submit() would find has
  // changed, and nobody wants to read of it. Else null.
  CachedPlan* repeats(const Operation& operation) const;
  Status repeat(const Operation& operation, CachedPlan& entry);
  // The plan for these; completes and places them.
  Result<CachedPlan*> plan_of(std::span<Operation> operations);
  // The same, of operations that do not run now.
  Result<Plan> plan_only(std::span<const Operation> operations);
  // Whether a submission would have to connect links before it starts.
  Result<bool> would_connect(std::span<const Operation> operations);
  // For a submission whose turn it is: connects what its plan needs; then runs it.
  Status ready(const Plan& plan, uint64_t first_op, bool& wired);
  Status connect_links(const Plan& plan);
  Status run(Plan& plan, uint64_t first_op);
  void note_wait(int awaited);
  void run_in_turn(Submission& submission);
  void trace(std::span<const Operation> operations, const Plan& plan, const void* stream) const;

  // tuned.cc: whether a tuner was asked about something of this plan on which the ranks have not
  // yet compared its answers; and the comparison. Error usage: they differ.
  bool compares_tuned(const Plan& plan) const;
  bool is_alike(const PlannedOp& op) const;
  Status compare_tuned(const Plan& plan, Deadline deadline);
  // Whether other ranks are needed before the plan runs.
  bool needs_others(const Plan& plan) const;

  // submit_gpu.cc: what is different about GPU ranks.
  Status check_types(std::span<const Operation> operations) const;
  // Before the first operation the machine cannot; a rank that has worked is lost.
  void lost_once_running(Error& error, uint64_t first_op) const;
  Status submit_to_gpu(CachedPlan& plan, uint64_t first_op, Stream::State& stream, bool blocking);
  void note_gpu_failure(Error error);
};

}  // namespace collctl::runtime

// Tasks of our ranks: a row of the table of tasks (cmd/rank_tasks.cc), its options as JSON that
// nobody else reads, and what every rank is told whatever it does. A command that works on ranks
// makes a TaskSpec, hands it to the job with a sink, and reports what comes back; the job knows no
// task by name. Threads: values; a sink is called by one thread at a time.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/wait.h"
#include "cmd/cli/command.h"
#include "runtime/bootstrap/unique_id.h"

namespace collctl::kernels::cuda {
struct Launcher;
}

namespace collctl::base {
class Record;
}

namespace collctl::cmd {

enum class DeviceRequest : uint8_t { cpu, cuda, automatic };

struct RankSettings {
  DeviceRequest device_request = DeviceRequest::automatic;  // settled before ranks read it
  std::string device_reason;  // why ranks are there, in words; once it is settled
  int device = -1;            // of the rank that reads this: CUDA ordinal; -1: CPU rank
  bool share_device = false;  // several ranks may drive one GPU
  double op_timeout_s = 0, start_timeout_s = 0;  // 0: knob
  double start_left_s = 0;  // of the start, for the communicator; 0: start_timeout_s
  int local_ranks = 0;      // that share this host's cores; 0: as the ranks find out
  int verbosity = 0;
  // Launcher of kernels on GPUs: null, this build's kernels. Tests put the host there; it does not
  // travel.
  const kernels::cuda::Launcher* launcher = nullptr;
};
void fields(base::Record& io, RankSettings& settings);

// Options of tasks that time operations.
struct TimedSettings : RankSettings {
  int iterations = 20;
  // How a rank reaches others; empty: as its variables say, else the best.
  std::string transport, net;
  bool integrity = false;  // data over networks carries MACs
};

// --on-loss shrink: ranks that a job has lost for one reason.
struct LostRanks {
  std::vector<int> ranks;  // by the job's numbers, as everywhere in reports
  Host host;
  std::string why, remedy;
};
// They are lost; the others go on.
struct Shrunk {
  std::vector<LostRanks> lost;
  int ranks_left = 0;
};
// To such others: what they go on with.
struct Continued {
  std::vector<int> members;  // the ranks left, by their numbers in the job, ascending; empty: all
  int job_size = 0;          // of those that began
  uint64_t done = 0;         // of the task, as TaskSink::done() has counted
  // Those that began, by the job's numbers, as TaskSink::groups() knows them; empty: none.
  std::vector<std::vector<int>> groups = {};
};

// Where a task's results go: called on the rank, in the launcher's process, or by what passes them
// on between the two.
class TaskSink {
 public:
  virtual ~TaskSink() = default;
  // True: this rank gets the records whatever its number, so that all ranks reach one verdict.
  virtual bool every_rank() const { return false; }
  // Rank 0's, a JSON object that the task's command understands. Error: it is none.
  virtual Status record(const std::string& json) = 0;
  virtual void progress(const std::string& text) = 0;  // "512 KiB, 3 of 20"
  virtual void phase(int rank, const std::string& name) = 0;
  // From here on the other ranks hear from the job of a failure of this one.
  virtual void checks_in() {}
  // In the launcher's process: how much of the task has come so far; what comes after that is lost
  // with a rank, and done again by the others.
  virtual uint64_t done() const { return 0; }
  virtual std::vector<std::vector<int>> groups() const { return {}; }
  virtual void shrunk(const Shrunk&) {}
};

// For a task that says all in one record: keeps the last.
class LastRecord : public TaskSink {
 public:
  using Tell = std::function<void(const std::string&)>;
  // `progress`: gets what is for people; may be empty.
  explicit LastRecord(Tell progress = nullptr) : progress_(std::move(progress)) {}
  Status record(const std::string& json) override {
    text = json;
    return {};
  }
  void progress(const std::string& what) override {
    if (progress_) progress_(what);
  }
  void phase(int, const std::string&) override {}
  std::string text;

 private:
  Tell progress_;
};

// Ranks that reach each other through their launcher, whatever becomes of the network between them:
// for what measures that network. Slow (two hops of its connections); messages of one rank to
// another arrive in their order. Threads: any, but one receives at a time.
class RankRelay {
 public:
  static constexpr int kAll = -1;  // every other rank of the job
  virtual ~RankRelay() = default;
  // Error lost: the launcher is gone.
  virtual Status send(int rank, ByteView bytes, Deadline deadline) = 0;
  // Errors: deadline, with the rank that is waited for; or why the job ends.
  virtual Result<Bytes> receive(int from, Deadline deadline) = 0;
};

struct RankTask;

struct TaskSpec {
  const RankTask* task = nullptr;
  RankSettings settings = {};
  std::string options = {};  // JSON, the task's own
};

struct TaskContext {
  const TaskSpec& spec;
  const runtime::UniqueId& id;
  int rank = 0, size = 1;
  TaskSink& sink;
  const Continued* continued = nullptr;  // null: this is the beginning
  RankRelay* relay = nullptr;            // null: no launcher passes anything on
};

// Where the ranks of a job compute, once it is known.
struct TaskPlace {
  bool on_gpus = false;
  std::string why;  // in words
  int ranks = 0;    // of the job; 0: not known
};

struct RankTask {
  const char* name;  // stable while a job runs: launcher and ranks have the same binary
  // The whole of it on one rank, in its thread.
  Status (*run)(const TaskContext& context);
  // The options as they are there, or why that is not possible. Null: nothing depends on it.
  Result<std::string> (*settle)(const TaskSpec& asked, const TaskPlace& place) = nullptr;
  // Its row in the table of commands, and the rows of options that only it has (in the scope
  // `own`). Null: it belongs to commands that have rows already, or has no such options.
  Command (*command)(uint32_t own) = nullptr;
  void (*add_options)(std::vector<Option>& table, uint32_t own) = nullptr;
};

// The task that was asked for, as the ranks there get it.
Result<TaskSpec> settled(const TaskSpec& asked, const TaskPlace& place);

// One rank of it, in this thread; the dump of the machine's topology (TOPO_DUMP_FILE) comes first.
Status run_task(const TaskContext& context);

// Option that must be alike for ranks that were started one by one. CommOptions::task takes a line
// of name, tab and value for each.
struct TaskField {
  const char* field;  // of the options
  const char* name;   // as the command line says it
};
// `what`: what ranks do, in the words of the command line ("allreduce").
std::string task_text(const std::string& what, const std::string& options,
                      std::span<const TaskField> fields);

}  // namespace collctl::cmd

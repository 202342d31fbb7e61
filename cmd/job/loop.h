// Shared by the files of a job: its loop, what it takes from its process, the ways to run one, and
// small common things. Used by cmd/job only.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cmd/job/interrupt.h"
#include "cmd/job/job_status.h"
#include "cmd/job/rank_output.h"
#include "cmd/job/root_cause.h"
#include "cmd/job/start.h"
#include "cmd/job/status_door.h"

namespace collctl::cmd {

// A job takes these from the process that launches it; the simulation (tests/sim) has others.
struct JobGround {
  Signals& signals;
  std::function<Result<std::unique_ptr<Door>>()> open_door;  // a null one: nobody can ask
};
inline Result<std::unique_ptr<Door>> no_door() {
  return std::unique_ptr<Door>();
}
using StartRanks = std::function<Result<StartedJob>(std::vector<HostEnd>& hosts)>;
// A task on the ranks that `start` starts (run.cc).
JobOutcome run_ranks(const LaunchOptions& options, const TaskSpec& spec, TaskSink& sink,
                     const JobGround& ground, const StartRanks& start);
// One rank of a foreign job (join.cc).
JobOutcome run_joined(const LaunchOptions& options, const TaskSpec& spec, TaskSink& sink);

// The engine's key-value store, by its variables (adopt.cc).
Result<std::unique_ptr<launcher::KeyValueStore>> open_store(launcher::RendezvousKind kind,
                                                            Deadline deadline);

int exit_code_of(const std::optional<Error>& error);
JobOutcome failed_outcome(Error error);

// The ranks of a running job say what they do, asked because somebody outside wants to know
// (collctl status) or because the job's time is up.
class Inquiry {
 public:
  // `answers`: else ranks say nothing, and how their processes are is all there is. A host without
  // a place for the door is no error: then nobody outside can ask, as with a null door.
  void open(bool answers, bool on_hosts, Result<std::unique_ptr<Door>> door);
  bool ranks_answer() const { return ranks_answer_; }
  int fd() const { return door_ != nullptr ? door_->fd() : -1; }  // readable: somebody asks

  void ask(launcher::RankGroup& job, const std::vector<RankFacts>& ranks);
  // While answers are waited for.
  const std::optional<base::Deadline>& answers_by() const { return answers_by_; }
  void answered(int rank, RankDoing doing);
  std::optional<RankDoing> doing(int rank) const;
  // Takes a question from outside, and ends the wait when all have answered or their time is up.
  // True once for a question from outside that can be answered now.
  bool look(launcher::RankGroup& job, const std::vector<RankFacts>& ranks);
  void answer_outside(std::string text);

 private:
  bool all_have_answered(launcher::RankGroup& job, const std::vector<RankFacts>& ranks) const;

  bool ranks_answer_ = true, on_hosts_ = false;
  std::unique_ptr<Door> door_;
  std::optional<base::Deadline> answers_by_;
  std::vector<std::optional<RankDoing>> answers_;
  bool from_outside_ = false;
};

// The loop of every job: its ranks, wherever they run (launcher::RankGroup), from their start to
// the end of the last. It handles events, signals, deadlines, who asks for the status, and a host
// that is lost; what ranks say, and whose fault a failure is, a policy decides (TaskJob,
// ProgramJob: derived classes). Threads: one, which made the job.
class JobLoop {
 public:
  virtual ~JobLoop() = default;
  JobOutcome run();

 protected:
  JobLoop(const LaunchOptions& options, const JobGround& ground)
      : options_(options), ground_(ground) {}

  // --- the policy ---
  virtual Status start() = 0;  // calls take_over()
  virtual Deadline own_deadline() const { return Deadline::after_seconds(kForever); }
  virtual Result<std::vector<launcher::Event>> wait(Deadline until);
  virtual void handle_frame(launcher::Event&) {}
  virtual Status handle_line(const launcher::Event& line) = 0;
  virtual void handle_exit(RankFacts& rank) = 0;
  virtual void handle_lost(RankFacts& rank, Error why) = 0;
  virtual Status tend() = 0;              // once a turn, after all that came
  virtual Status finish() { return {}; }  // after the last rank
  // Why the time is up, as the error begins; empty: it is not.
  virtual std::string overdue() const;
  // The first failure: the other ranks end, at once or when they have said what they know.
  virtual void trouble(const Error&) { end_now(options_.grace_s); }
  // The words so far do not say why, and a rank that may know lives: it has a little longer to
  // speak.
  virtual bool unexplained() { return false; }
  // Error and exit code of a job that no signal has ended.
  virtual void judge(JobOutcome& out) = 0;

  // --- for the policy ---
  // `answers`: the ranks say what they do when they are asked.
  void take_over(StartedJob& job, bool answers);
  void end_ranks(double grace_s, int signal_number = 0);
  void end_now(double grace_s, int signal_number = 0);
  void fail_job(Error error);
  void note(int rank);
  std::vector<RankFacts> facts() const;
  double age_s() const { return base::seconds_since(began_ns_); }

  static constexpr double kForever = 1e6;
  const LaunchOptions& options_;
  const JobGround& ground_;
  std::unique_ptr<launcher::RankGroup> job_;
  launcher::RemoteJob* remote_ = nullptr;  // the same, when it is on hosts
  bool in_process_ = false;                // its ranks are threads of this process
  int only_ = -1;                          // of a job that others have started: the rank here
  std::vector<HostEnd> hosts_;
  LastWords last_words_;
  std::vector<RankFacts> ranks_;  // by rank
  Inquiry inquiry_;
  bool asked_why_late_ = false;  // before a deadline of the whole job is its end
  std::string progress_;
  std::optional<Deadline> settle_;  // set by the first failure: then all are ended
  bool heard_on_ = false;           // once, beyond that
  bool ending_ = false;             // they have been told to end
  int signal_ = 0;                  // that ended the job
  std::optional<Error> job_error_;  // of the job itself: deadlines, defects

 private:
  Status turn();
  Status handle(launcher::Event& event);
  Deadline next_deadline() const;
  void take_signals();
  void suspend();
  void take_states();
  void check_deadlines();
  bool nobody_left_to_hear() const;
  JobNow now() const;

  const int64_t began_ns_ = now_ns();
  std::optional<Deadline> last_deadline_;  // a process left by then does not end even by SIGKILL
};

}  // namespace collctl::cmd

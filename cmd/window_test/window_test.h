// `collctl window-test`: proves windows of users' memory among the ranks of a job, stage by stage,
// measures what moves between every two ranks, and judges. Each rank runs WindowTest on its thread;
// after every stage all ranks hear what each has found, so that a rank that fails a check goes on
// with the others. An error of a stage (lost, deadline) is the end of the job, as it is of a
// collective. Rank 0 makes the report and hands it on after every stage, so that what was found
// before such an end is told; command.cc prints it.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/record.h"
#include "cmd/cli/parse.h"
#include "cmd/document/document.h"
#include "cmd/job/job.h"
#include "cmd/judge/verdict.h"
#include "cmd/measure/bench.h"
#include "runtime/one_sided/one_sided.h"
#include "runtime/window/user_window.h"

namespace collctl::cmd {

// The bytes that ranks write into windows to see whose memory they look at: each byte depends on
// the window's owner, on who wrote it, on the round and on where it lies, so that a byte that comes
// from another rank, another place or an earlier round is told from the right one. Pure.

struct PatternKey {
  int owner = 0;   // whose window
  int writer = 0;  // who wrote
  uint64_t round = 0;
};

uint8_t pattern_byte(const PatternKey& key, uint64_t offset);
// `bytes` lie from `offset` on in the owner's window.
void fill_pattern(std::span<uint8_t> bytes, const PatternKey& key, uint64_t offset);

struct PatternFault {
  uint64_t offset = 0, bad_bytes = 0;  // the first one's, and how many
  uint8_t expected = 0, found = 0;
  std::string whose;  // what it is instead, as far as it can be told; may be empty
};
// `ranks` and rounds up to the key's are looked through for what a wrong byte is.
std::optional<PatternFault> compare_pattern(std::span<const uint8_t> bytes, const PatternKey& key,
                                            uint64_t offset, int ranks);
// "byte 4096 is 3f, not 12 (1 byte wrong); it is what rank 2 wrote"
std::string text_of(const PatternFault& fault);

inline constexpr double kWindowTestSeconds = 300;
struct WindowTestSpec : TimedSettings {
  using Bases = OptionsOf<TimedSettings>;
  double budget_s = kWindowTestSeconds;  // no stage and no pair begins later
};
// Its own fields alone: the settings travel beside them.
void fields(Record& io, WindowTestSpec& spec);
// The row of the table of tasks.
extern const RankTask kWindowTestTask;

// --- the report: values, travels from rank 0 as JSON ---

struct WindowPair {  // an ordered pair of ranks: `from` puts to and gets from `to`
  int from = 0, to = 0;
  std::string path = {};              // "window": loads and stores; "NET/Socket"
  double put_us = 0, get_us = 0;      // of 8 bytes, one way; a get there and back
  double put_GBps = 0, get_GBps = 0;  // of large ones
};
void fields(Record& io, WindowPair& pair);
struct WindowRatio {  // a collective on windows beside the same on ordinary memory
  std::string op;
  uint64_t bytes = 0;
  double ordinary_us = 0, window_us = 0;
  double ratio() const { return window_us > 0 ? ordinary_us / window_us : 0; }
};
struct WindowReport {
  BenchHeader header;
  std::vector<Finding> checks;  // measured: comparisons, of all ranks together
  std::vector<WindowPair> pairs;
  uint64_t pairs_left_out = 0;  // of a job of many ranks
  std::vector<WindowRatio> ratios;
  std::vector<Culprit> culprits;
};
void fields(Record& io, WindowReport& report);
// `error`: that ended the job. Hosts that took no part count, too.
Verdict judge(const WindowReport& report, const std::vector<HostEnd>& hosts,
              std::optional<Error> error);
// The job ended by `error` in this stage: a check that failed, or that was not made when a user
// ended it.
void add_broken_stage(WindowReport& report, const std::string& stage, const Error& error);

// --- one rank's findings of one stage ---

struct WindowFailure {
  ErrorCode code = ErrorCode::failed;
  int accused = -1;  // the rank whose window, or whose put it was; -1: this rank's own affair
  std::string text;
};
class WindowFindings {
 public:
  static constexpr const char* kRecord = "list of what a rank found in windows";
  static constexpr size_t kMostKept = 4;
  static constexpr size_t kMostText = 1024;  // of one failure, or of why nothing was tested
  void looked(uint64_t times = 1) { looks_ += times; }
  void fail(ErrorCode code, int accused, const std::string& text);
  // A test that should have been made, and could not.
  void not_tested(const std::string& why);
  // A job like this has nothing to test here.
  void does_not_apply(const std::string& why) {
    not_tested(why);
    applies_ = false;
  }
  void compare(std::span<const uint8_t> bytes, const PatternKey& key, uint64_t offset, int ranks,
               const std::string& what);
  friend void fields(Record& io, WindowFindings& found);

  uint64_t looks() const { return looks_; }
  uint64_t failed() const { return failed_; }
  const std::vector<WindowFailure>& failures() const { return failures_; }
  const std::string& why_not_tested() const { return not_tested_; }
  bool applies() const { return applies_; }

 private:
  uint64_t looks_ = 0, failed_ = 0;
  std::vector<WindowFailure> failures_;  // the first few
  std::string not_tested_;
  bool applies_ = true;
};
// All ranks' findings of a stage as one check; accusations are added to `culprits`.
Finding merged_check(const std::string& name, std::span<const WindowFindings> ranks,
                     std::vector<Culprit>& culprits);

// --- the stages ---

class WindowTest {
 public:
  WindowTest(const WindowTestSpec& spec, runtime::Communicator& communicator, TaskSink& sink);
  ~WindowTest();
  Status run();

 private:
  using Stage = Status (WindowTest::*)(WindowFindings&);
  struct Memory {  // allocated and registered
    void* address = nullptr;
    runtime::WindowPointer window;
  };

  Status stage(const char* name, Stage what);
  // stages.cc
  Status aliasing(WindowFindings& found);
  Status strides(WindowFindings& found);
  Status sizes(WindowFindings& found);
  Status repeated(WindowFindings& found);
  Status concurrent(WindowFindings& found);
  Status exhaustion(WindowFindings& found);
  Status misuse(WindowFindings& found);
  // moves.cc
  Status moves(WindowFindings& found);
  Status ordering(WindowFindings& found);
  Status barriers(WindowFindings& found);
  // times.cc
  Status matrix(WindowFindings& found);
  Status collectives(WindowFindings& found);

  Result<double> time_of(const runtime::Operation& op, runtime::Stream& stream, int iterations);
  struct SideBuffers {  // of a collective: [kOrdinary], [kWindow]
    std::array<uint8_t*, 2> input, output;
  };
  static constexpr size_t kOrdinary = 0, kWindow = 1;
  Status compare_sides(kernels::Collective collective, uint64_t bytes, const SideBuffers& sides,
                       runtime::Stream& stream, WindowFindings& found);
  Status measure_pair(int from, int to, const Memory& memory, WindowPair& pair);
  Result<double> time_pings(int peer, bool active, const Memory& memory, uint64_t most,
                            int64_t share_ns);
  // An expected error of code usage; anything else is a finding.
  Status expect_usage(const char* what, const Status& got, WindowFindings& found);

  Result<Memory> make(uint64_t bytes);
  Result<std::vector<Memory>> make_all(std::span<const uint64_t> sizes);
  Status give_back(std::span<Memory> memories);
  // Whether rank 0's budget is spent, as all ranks hear at the same time.
  Result<bool> over_budget();
  std::string budget_words() const;
  Status barrier() { return one_sided_->barrier(deadline()); }
  Deadline deadline() const { return Deadline::after_seconds(timeout_s_); }
  int rank() const { return communicator_.rank(); }
  int size() const { return communicator_.size(); }
  // Reads and writes through the own address or a peer's mapping; on GPUs by copies.
  Status write(void* to, std::span<const uint8_t> bytes);
  Status read(const void* from, std::span<uint8_t> bytes);
  // As this rank sees another's window: by its mapping, else over the network.
  Status look_at(const Memory& memory, int owner, uint64_t offset, std::span<uint8_t> bytes);

  const WindowTestSpec& spec_;
  runtime::Communicator& communicator_;
  TaskSink& sink_;
  double timeout_s_;
  Deadline budget_;
  bool spent_ = false;  // the same on all ranks
  transport::DeviceStream stream_;
  std::unique_ptr<runtime::OneSided> one_sided_;
  WindowReport report_;
};

// --- how it is shown: pure ---

// A job that broke off gives collctl.error/1 around what was found before.
std::string window_json(const WindowReport& report, const Verdict& verdict);
// Whole: matrices instead of a line for each path. `json`: of window_json().
Document window_document(const WindowReport& report, std::string json);
// Back from that JSON, without the header's notes.
Result<WindowReport> read_window_report(const std::string& json);

// The task that a command line asks for. Error usage: an option that has no meaning here.
Result<TaskSpec> window_test_task(const ParsedLine& line);
// The command.
Result<int> window_test_command(const ParsedLine& line, Console& console);
Command window_test_row(uint32_t own);
void add_window_test_options(std::vector<Option>& table, uint32_t own);

}  // namespace collctl::cmd

// The report of a measurement: collects what the bench says, judges it, and writes it as table,
// JSON, CSV or files. Reporter is the BenchSink of the command line; it is called by whoever runs
// rank 0's bench (any thread, guarded) and finished by the command. Everything else here is pure:
// records to text.
#pragma once
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/json_writer.h"
#include "base/result.h"
#include "base/whole_file.h"
#include "cmd/document/document.h"
#include "cmd/document/judgement.h"
#include "cmd/job/job.h"
#include "cmd/judge/bench.h"
#include "cmd/text/console.h"
#include "cmd/text/file.h"

namespace collctl::cmd {

// text.cc. Lines end in \n; everything but the rows begins with #. A table wider than `width`
// characters leaves out columns: first those that are the same in every row of `spec`.
class TextTable {
 public:
  static constexpr int kWide = 1 << 20;
  explicit TextTable(const BenchSpec& spec, int ranks, int width = kWide);
  std::string titles() const;
  std::string row(const BenchRow& row) const;
  // Facts that stand in no column, for the footer: "type float32, algbw"; "": nothing.
  const std::string& left_out() const { return left_out_; }

 private:
  struct Column {
    std::string title, unit;
    int width;
    bool left = false, shown = true, begins_group = false;
  };
  void add_timing_columns();
  void leave_out_beyond(int width, const std::string& title, const std::string& value);
  int line_width() const;
  std::string timing(size_t& column, const Timing& timing) const;
  std::string cell(size_t column, const std::string& text) const;
  bool sync_each_, versus_;
  const char* rival_;
  bool out_of_place_, in_place_, window_, expects_, split_;
  std::vector<Column> columns_;
  size_t out_of_place_at_ = 0, in_place_at_ = 0, timing_columns_ = 0;
  std::string left_out_;
};
// Lines between the rows of all ranks and of those that are left.
std::string loss_lines(const LossLine& loss);
// "# on CPU cores: WHY", of CPU ranks whose header says it.
std::string cores_line(const BenchHeader& header);
std::string text_header(const BenchHeader& header, bool verbose);
// `left_out`: of the table.
std::string text_footer(const BenchReport& report, const Verdict& verdict, const Console& console,
                        const std::string& left_out = "");
// variants.cc: all configurations that another library was measured in; empty when that was one.
std::string variant_tables(const BenchReport& report);
// plot.cc. Rows that differ in anything but the size are curves of their own; so are the two
// placements. The timings are the rows'.
struct Curve {
  std::string name;
  std::map<uint64_t, const Timing*> points;  // by bytes
};
std::vector<Curve> curves_of(const std::vector<BenchRow>& rows);
// curves_svg.cc: bus bandwidth and time over size, as a picture, with what was expected where the
// document of the report says it (results[].expected).
std::map<uint64_t, double> expected_busbw(const std::string& measured);
std::string curves_svg(const BenchReport& report, const std::map<uint64_t, double>& expected = {});
// Bus bandwidth over size, in characters.
std::string plot(const std::vector<BenchRow>& rows);

// json.cc
// A run that broke off: error_json with what was measured before.
std::string bench_json(const BenchReport& report, const Verdict& verdict);
std::string error_json(const Error& error, int exit_code, const BenchReport& report);
// JSON Lines: the header, then a line for each row, fault, loss and closing as they come, then the
// end.
std::string jsonl_header(const BenchReport& report);
std::string jsonl_row(const BenchReport& report, const BenchRow& row);
std::string jsonl_loss(const LossLine& loss);
std::string jsonl_fault(const DataFault& fault);
std::string jsonl_closing(const BenchReport& report);
std::string jsonl_end(const Verdict& verdict);
// All of it; its text is that of the rows as they came. `json`: of bench_json().
Document bench_document(const BenchReport& report, const Verdict& verdict, std::string json);
std::string bench_csv(const BenchReport& report);
std::string csv_titles(const BenchSpec& spec);
std::string csv_row(const BenchReport& report, const BenchRow& row);

// trace_file.cc: Chrome's trace format, one event a line; the rows' need report.header and the row.
std::string trace_header(const BenchHeader& header);
std::string trace_rows(const BenchReport& report, const BenchTrace& trace);
std::string trace_end(const BenchReport& report, const Verdict& verdict);

// nccl_tests.cc: the same in the columns of nccl-tests 2.19, for programs that read those.
// The header needs report.header. The program that measures the collective there; "": there is
// none.
std::string nccl_tests_program(const BenchOp& op);
std::string nccl_tests_header(const BenchReport& report);
std::string nccl_tests_row(const BenchReport& report, const BenchRow& row);
std::string nccl_tests_footer(const BenchReport& report, const Verdict& verdict);

using base::write_file_atomically;

class Reporter : public BenchSink {
 public:
  // `speaks`: this process writes the results (rank 0 of an adopted job, and every launcher).
  Reporter(Console& console, OutputOptions output, BenchSpec spec, bool speaks);
  void on(BenchRecord record) override;
  void progress(const std::string& text) override;
  void phase(int rank, const std::string& name) override;
  uint64_t done() const override;
  std::vector<std::vector<int>> groups() const override;
  void shrunk(const Shrunk& shrunk) override;
  // Writes what is left and returns the exit code.
  int finish(const JobOutcome& outcome);

 private:
  // Files of JSON Lines grow line by line, so that whatever ends this process leaves them all rows
  // but the last.
  struct LineFile {
    std::string path;
    base::Fd fd;
    Status status;  // of the first write that failed
  };
  void take(BenchHeader header);
  void take(BenchRow row);
  void take(BenchClosing closing);
  void take(DataFault fault);
  void take(const BenchTrace& trace);
  bool is_whole(uint64_t number) const;
  void put_line(const std::string& line);
  void put_trace(const std::string& text);
  Status write_files(const Verdict& verdict);
  Status save_timings(const Verdict& verdict);  // --save-baseline
  mutable std::mutex mutex_;
  Console& console_;
  const OutputOptions output_;
  const bool speaks_;
  BenchReport report_;
  std::optional<TextTable> table_;
  std::vector<LineFile> line_files_;
  bool lines_begun_ = false;
  std::optional<LineFile> trace_file_;  // made anew with its first line
  Progress progress_;
};

}  // namespace collctl::cmd

// Judging a measurement, and the sink that the commands hand to the job.
#include "cmd/report/report.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

#include "base/format.h"
#include "cmd/verify/buffer_shape.h"
#include "cmd/report/document_file.h"
#include "cmd/text/sizes.h"

namespace collctl::cmd {
namespace {

template <class Visit>
void for_each_timing(const BenchRow& row, Visit visit) {
  if (row.out_of_place.measured) visit(row.out_of_place, "out of place");
  if (row.in_place.measured) visit(row.in_place, "in place");
}

std::string row_name(const BenchReport& report, const BenchRow& row) {
  std::string name =
      format("{} {}", kernels::name_of(report.spec.collective), human_bytes(row.bytes));
  name += format(" {}", kernels::name_of(row.type));
  if (row.has_op) name += format(" {}", kernels::name_of(row.op));
  if (row.root >= 0) name += format(" root {}", row.root);
  if (!row.algorithm.empty()) name += format(" {}/{}", row.algorithm, row.protocol);
  return name;
}

void judge_data(const BenchReport& report, Verdict& verdict) {
  constexpr size_t kMostReasons = 20;
  for (const auto& fault : report.faults)
    if (verdict.reasons.size() < kMostReasons)
      verdict.add(ReasonKind::wrong_data, fault.message, "", fault.rank);
  for (const BenchRow& row : report.rows)
    for_each_timing(row, [&](const Timing& timing, const char* where) {
      if (timing.wrong <= 0) return;
      // The faults say more; a count alone is for rows that have none.
      if (report.faults.empty() && verdict.reasons.size() < kMostReasons)
        verdict.add(ReasonKind::wrong_data,
                    format("{} {}: {} wrong elements", row_name(report, row), where, timing.wrong));
    });
}

// One threshold: all timings at its size. `below`: smaller than the limit is bad, else larger is.
void judge_limit(const BenchReport& report, const Limit& limit, uint64_t default_bytes, bool below,
                 Verdict& verdict) {
  const uint64_t asked = limit.at_bytes.value_or(default_bytes);
  const int ranks = report.header ? report.header->ranks : 1;
  int compared = 0;
  for (const BenchRow& row : report.rows) {
    const auto point =
        size_point(report.spec.collective, asked, ranks, kernels::element_size(row.type));
    if (point.bytes != row.bytes) continue;
    for_each_timing(row, [&](const Timing& timing, const char* where) {
      ++compared;
      const double seen = below ? timing.busbw_GBps : timing.time_us;
      if (below ? seen >= limit.value : seen <= limit.value) return;
      verdict.add(below ? ReasonKind::below_min_busbw : ReasonKind::above_max_latency,
                  format("{} {}: {} {} {}, {} {}", row_name(report, row), where,
                         below ? "bus bandwidth" : "time", four_digits(seen), below ? "GB/s" : "us",
                         below ? "below the minimum of" : "above the maximum of",
                         four_digits(limit.value)));
    });
  }
  if (compared != 0) return;
  verdict.add(ReasonKind::not_measured,
              format("{}: no timing at {} to compare", below ? "--min-busbw" : "--max-latency",
                     human_bytes(asked)));
}

// Hosts that were asked for and took no part (--allow-missing).
void judge_hosts(const BenchReport& report, Verdict& verdict) {
  for (const HostEnd& host : report.hosts) {
    if (!host.error) continue;
    verdict.add(ReasonKind::host_left_out,
                format("{} took no part: {}", host.host,
                       base::without_head(host.error->chain(), host.host + ": ")),
                host.host);
  }
}

// What was to be measured beside us and was not. Of NCCL's best any will do.
void judge_versus(const BenchReport& report, Verdict& verdict) {
  if (!report.closing || report.spec.versus.empty()) return;
  const auto missing = [&](std::string message) {
    verdict.add(ReasonKind::not_measured, std::move(message));
  };
  if (!report.spec.versus_best)
    for (const LeftOut& out : report.closing->left_out)
      missing(
          format("{} ({}) was not measured: {}", report.closing->other, out.variant, out.reason));
  else if (compared(report).timings == 0)
    missing(format("nothing of {} was measured", report.closing->other));
}

}  // namespace

Verdict judge(const BenchReport& report, const OutputOptions& output) {
  Verdict verdict;
  judge_data(report, verdict);
  const auto series = size_series({.min_bytes = report.spec.min_bytes,
                                   .max_bytes = report.spec.max_bytes,
                                   .step_factor = report.spec.step_factor,
                                   .step_bytes = report.spec.step_bytes});
  const bool sizes = series.ok() && !series->empty();
  if (output.min_busbw)
    judge_limit(report, *output.min_busbw, sizes ? series->back() : 0, true, verdict);
  if (output.max_latency)
    judge_limit(report, *output.max_latency, sizes ? series->front() : 0, false, verdict);
  if (report.rows.empty() && verdict.ok && !report.spec.soak)
    verdict.add(ReasonKind::not_measured, "nothing was measured");
  judge_versus(report, verdict);
  judge_hosts(report, verdict);
  return verdict;
}

int final_code(int job_code, const Verdict& verdict) {
  if (job_code == 0) return verdict.ok ? 0 : int(verdict.code);
  // What is missing after a job broke is no news; wrong data and thresholds are.
  if (verdict.ok || verdict.code == ErrorCode::incomplete || job_code > 128) return job_code;
  return base::severity(verdict.code) > base::severity(ErrorCode(job_code)) ? int(verdict.code)
                                                                            : job_code;
}

Average average_busbw(const BenchReport& report) {
  Average average;
  for (const BenchRow& row : report.rows)
    for_each_timing(row, [&](const Timing& timing, const char*) {
      average.busbw_GBps += timing.busbw_GBps;
      ++average.timings;
      if (timing.busbw_GBps > average.best_GBps) {
        average.best_GBps = timing.busbw_GBps;
        average.best_bytes = row.bytes;
      }
    });
  if (average.timings != 0) average.busbw_GBps /= average.timings;
  return average;
}

Comparison compared(const BenchReport& report) {
  Comparison found;
  double logarithms = 0;
  for (const BenchRow& row : report.rows)
    for_each_timing(row, [&](const Timing& timing, const char*) {
      const double ratio = timing.ratio();
      if (ratio <= 0) return;
      found.name = timing.versus[0].name;
      logarithms += std::log(ratio);
      if (found.timings++ != 0 && ratio >= found.lowest) return;
      found.lowest = ratio;
      found.lowest_bytes = row.bytes;
    });
  if (found.timings != 0) found.ratio = std::exp(logarithms / found.timings);
  return found;
}

Reporter::Reporter(Console& console, OutputOptions output, BenchSpec spec, bool speaks)
    : console_(console),
      output_(std::move(output)),
      speaks_(speaks),
      progress_(console, speaks && !output_.quiet) {
  report_.spec = std::move(spec);
  for (const OutputFile& file : output_.files)
    if (file.format == Format::jsonl) line_files_.push_back({file.path, {}, {}});
}

// The first line makes the files anew.
void Reporter::put_line(const std::string& line) {
  if (!speaks_) return;
  if (output_.format == Format::jsonl) console_.out(line);
  for (LineFile& file : line_files_) {
    if (!lines_begun_) {
      file.fd = Fd(::open(file.path.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0666));
      if (!file.fd)
        file.status = base::errno_error(ErrorCode::unavailable, "cannot write " + file.path, errno);
    }
    if (file.status) file.status = append_line(file.fd.get(), file.path, line);
  }
  lines_begun_ = true;
}

void Reporter::header(const BenchHeader& header) {
  std::lock_guard lock(mutex_);
  progress_.clear();
  report_.header = header;
  if (header.device == "cuda" && !report_.spec.max_bytes_given)  // known now, of ranks on hosts
    report_.spec.max_bytes = std::max(report_.spec.min_bytes, kMostBytesOnGpus);
  if (!speaks_) return;
  put_line(jsonl_header(report_));
  if (output_.format == Format::csv) console_.out(csv_titles(report_.spec));
  if (output_.format == Format::nccl_tests) console_.out(nccl_tests_header(report_));
  if (output_.format != Format::text) return;
  if (!output_.quiet) console_.out(text_header(header, output_.verbosity > 0));
  if (report_.spec.soak) return;
  table_.emplace(report_.spec, header.ranks,
                 output_.wide ? TextTable::kWide : console_.out_width());
  console_.out(table_->titles());
}

void Reporter::row(const BenchRow& row) {
  std::lock_guard lock(mutex_);
  report_.rows.push_back(row);
  if (!speaks_) return;
  put_line(jsonl_row(report_, row));
  if (output_.format == Format::csv) console_.out(csv_row(report_, row));
  if (output_.format == Format::nccl_tests) console_.out(nccl_tests_row(row));
  if (table_) console_.out(table_->row(row));
}

void Reporter::closing(const BenchClosing& closing) {
  std::lock_guard lock(mutex_);
  report_.closing = closing;
  put_line(jsonl_closing(report_));
}

void Reporter::progress(const std::string& text) {
  std::lock_guard lock(mutex_);
  progress_.text(text);
}

void Reporter::fault(const DataFault& fault) {
  std::lock_guard lock(mutex_);
  report_.faults.push_back(fault);
  put_line(jsonl_fault(fault));
}

void Reporter::phase(int rank, const std::string& name) {
  std::lock_guard lock(mutex_);
  if (!report_.header) progress_.phase(rank, name);
}

// The page has what the terminal would have had.
std::string Reporter::html(const std::string& json, const Verdict& verdict,
                           const Error* job_error) const {
  Document document{.title = format("collctl {}", name_of(report_.spec.collective)),
                    .json = json,
                    .rows = "",
                    .text = "",
                    .svg = curves_svg(report_)};
  if (report_.spec.soak) document.title = "collctl soak";
  if (!report_.header) return document_as(Format::html, document);
  document.text = text_header(*report_.header, true);
  if (!report_.spec.soak) {
    const TextTable table(report_.spec, report_.header->ranks);
    document.text += table.titles();
    for (const BenchRow& row : report_.rows) document.text += table.row(row);
    document.text += variant_tables(report_);
  }
  const Console plain(-1, -1);
  document.text += text_footer(report_, verdict, job_error, plain);
  return document_as(Format::html, document);
}

Status Reporter::write_files(const Verdict& verdict, const JobOutcome& outcome, int code) {
  const Error* job_error = outcome.error ? &*outcome.error : nullptr;
  Status first;
  const auto keep = [&first](Status status) {
    if (!status.ok() && first.ok()) first = std::move(status);
  };
  for (const OutputFile& file : output_.files) {
    if (file.format == Format::json)
      keep(write_file_atomically(file.path, job_error != nullptr
                                                ? error_json(*job_error, code, &report_)
                                                : bench_json(report_, verdict)));
    if (file.format == Format::svg) keep(write_file_atomically(file.path, curves_svg(report_)));
    if (file.format == Format::html)
      keep(write_file_atomically(
          file.path, html(job_error != nullptr ? error_json(*job_error, code, &report_)
                                               : bench_json(report_, verdict),
                          verdict, job_error)));
    if (file.format != Format::csv) continue;
    keep(write_file_atomically(file.path, bench_csv(report_)));
    if (job_error != nullptr)  // a CSV has no place to say so
      console_.note(format("{} holds the {} row{} from before the failure", file.path,
                           report_.rows.size(), report_.rows.size() == 1 ? "" : "s"));
  }
  if (!lines_begun_) put_line(jsonl_header(report_));  // the run never began
  put_line(jsonl_end(verdict, job_error, code));
  for (LineFile& file : line_files_) keep(std::move(file.status));
  return first;
}

int Reporter::finish(const JobOutcome& outcome) {
  std::lock_guard lock(mutex_);
  progress_.clear();
  report_.hosts = outcome.hosts;
  const Verdict verdict = judge(report_, output_);
  int code = final_code(outcome.exit_code, verdict);
  const Error* job_error = outcome.error ? &*outcome.error : nullptr;
  if (speaks_ && output_.format == Format::text && report_.header) {
    const std::string curve = output_.plot ? plot(report_.rows) : "";
    console_.out(curve);
    if (output_.verbosity > 0) console_.out(variant_tables(report_));
    console_.out(text_footer(report_, verdict, job_error, console_,
                             table_ ? table_->left_out() : ""));
  }
  if (speaks_ && output_.format == Format::nccl_tests && report_.header)
    console_.out(nccl_tests_footer(report_, job_error));
  Status files;
  if (speaks_) files = write_files(verdict, outcome, code);
  if (!files.ok() &&
      (code == 0 || base::severity(files.error().code) > base::severity(ErrorCode(code))))
    code = int(files.error().code);
  if (speaks_ && output_.format == Format::json) {
    if (job_error != nullptr)
      console_.out(error_json(*job_error, code, &report_));
    else if (!files.ok())
      console_.out(error_json(files.error(), code, &report_));
    else
      console_.out(bench_json(report_, verdict));
  }
  if (job_error != nullptr) console_.print_error(*job_error);
  if (job_error == nullptr && speaks_ && output_.format != Format::text)
    for (const Reason& reason : verdict.reasons)
      console_.err(format("collctl: {}\n", reason.message));
  if (!files.ok()) console_.print_error(files.error());
  return code;
}

}  // namespace collctl::cmd

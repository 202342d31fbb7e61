// The sink that the commands hand to the job.
#include "cmd/report/report.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "base/format.h"
#include "cmd/report/document_file.h"
#include "cmd/text/sizes.h"

namespace collctl::cmd {
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
  const Verdict verdict = judge(report_, output_.limits);
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

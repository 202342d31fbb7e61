// The sink that the commands hand to the job.
#include "cmd/report/report.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "base/format.h"
#include "cmd/document/document.h"
#include "cmd/report/options.h"
#include "cmd/text/sizes.h"
#include "cmd/text/table.h"

namespace collctl::cmd {
Reporter::Reporter(Console& console, OutputOptions output, BenchSpec spec, bool speaks)
    : console_(console),
      output_(std::move(output)),
      speaks_(speaks),
      progress_(console, speaks && !output_.quiet) {
  report_.spec = std::move(spec);
  report_.made = provenance();
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

void Reporter::put_trace(const std::string& text) {
  if (!speaks_ || output_.trace.empty()) return;
  if (!trace_file_) {
    trace_file_.emplace(LineFile{output_.trace, {}, {}});
    trace_file_->fd =
        Fd(::open(output_.trace.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0666));
    if (!trace_file_->fd)
      trace_file_->status =
          base::errno_error(ErrorCode::unavailable, "cannot write " + output_.trace, errno);
  }
  if (trace_file_->status)
    trace_file_->status = append_line(trace_file_->fd.get(), output_.trace, text);
}

void Reporter::on(BenchRecord record) {
  std::lock_guard lock(mutex_);
  std::visit([this](auto& each) { take(std::move(each)); }, record);
}

void Reporter::take(const BenchTrace& trace) {
  report_.trace_left_out += trace.left_out;
  put_trace(trace_rows(report_, trace));
}

void Reporter::take(BenchHeader told) {
  progress_.clear();
  BenchHeader& header = report_.header.emplace(std::move(told));
  header.launch_seconds = std::max(0., seconds_since_begin() - header.init_seconds);
  if (header.device == "cuda" && !report_.spec.max_bytes_given)  // known now, of ranks on hosts
    report_.spec.max_bytes = std::max(report_.spec.min_bytes, kMostBytesOnGpus);
  if (!speaks_) return;
  put_line(jsonl_header(report_));
  put_trace(trace_header(header));
  if (output_.format == Format::csv) console_.out(csv_titles(report_.spec));
  if (output_.format == Format::nccl_tests) console_.out(nccl_tests_header(report_));
  if (output_.format != Format::text) return;
  if (!output_.quiet)
    console_.out(
        comment_lines(text_header(header, output_.verbosity > 0), size_t(console_.out_width())));
  if (report_.spec.soak) return;
  table_.emplace(report_.spec, header.ranks,
                 output_.wide ? TextTable::kWide : console_.out_width());
  console_.out(table_->titles());
}

void Reporter::take(BenchRow told) {
  const BenchRow& row = report_.rows.emplace_back(std::move(told));
  if (!speaks_) return;
  put_line(jsonl_row(report_, row));
  if (output_.format == Format::csv) console_.out(csv_row(report_, row));
  if (output_.format == Format::nccl_tests) console_.out(nccl_tests_row(report_, row));
  if (table_) console_.out(table_->row(row));
}

void Reporter::take(BenchClosing closing) {
  report_.closing = std::move(closing);
  put_line(jsonl_closing(report_));
}

void Reporter::progress(const std::string& text) {
  std::lock_guard lock(mutex_);
  progress_.text(text);
}

void Reporter::take(DataFault fault) {
  put_line(jsonl_fault(fault));
  report_.faults.push_back(std::move(fault));
}

uint64_t Reporter::done() const {
  std::lock_guard lock(mutex_);
  return report_.rows.empty() ? 0 : report_.rows.back().number + 1;
}

// Every group that had ranks then has its row.
bool Reporter::is_whole(uint64_t number) const {
  const auto of_it = [&](const BenchRow& row) { return row.number == number; };
  const auto first = std::ranges::find_if(report_.rows, of_it);
  if (first->group < 0) return true;
  std::set<int> lost;
  for (const LossLine& loss : report_.losses)
    if (loss.at_row <= size_t(first - report_.rows.begin()))
      lost.insert(loss.lost.ranks.begin(), loss.lost.ranks.end());
  const auto was_there = [&](const GroupLine& group) {
    return std::ranges::any_of(group.ranks, [&](int rank) { return !lost.contains(rank); });
  };
  return std::ranges::count_if(report_.rows, of_it) >=
         std::ranges::count_if(report_.header->groups, was_there);
}

std::vector<std::vector<int>> Reporter::groups() const {
  std::lock_guard lock(mutex_);
  std::vector<std::vector<int>> all;
  if (report_.header)
    for (const GroupLine& group : report_.header->groups) all.push_back(group.ranks);
  return all;
}

void Reporter::shrunk(const Shrunk& shrunk) {
  std::lock_guard lock(mutex_);
  progress_.clear();
  // A row that only some groups have had is measured again by all.
  if (!report_.rows.empty() && !is_whole(report_.rows.back().number))
    std::erase_if(report_.rows, [last = report_.rows.back().number](const BenchRow& row) {
      return row.number == last;
    });
  for (const LostRanks& lost : shrunk.lost) {
    report_.losses.push_back({lost, shrunk.ranks_left, report_.rows.size()});
    if (!speaks_) continue;
    put_line(jsonl_loss(report_.losses.back()));
    if (table_ || output_.format == Format::nccl_tests)
      console_.out(loss_lines(report_.losses.back()));
  }
}

void Reporter::phase(int rank, const std::string& name) {
  std::lock_guard lock(mutex_);
  if (!report_.header) progress_.phase(rank, name);
}

// As it was printed row by row; whole: with what -v and --wide show.
std::string bench_text(const BenchReport& report, const Verdict& verdict, const TextStyle& style) {
  const Console plain(-1, -1);
  const Console& console = style.console != nullptr ? *style.console : plain;
  if (!report.header) return "";
  std::string text = comment_lines(text_header(*report.header, style.whole), style.width);
  std::string left_out;
  if (!report.spec.soak) {
    const TextTable table(report.spec, report.header->ranks, int(style.width));
    left_out = table.left_out();
    text += table.titles();
    const auto losses_before = [&](uint64_t row) {
      for (const LossLine& loss : report.losses)
        if (loss.at_row == row) text += loss_lines(loss);
    };
    for (size_t i = 0; i < report.rows.size(); ++i) {
      losses_before(i);
      text += table.row(report.rows[i]);
    }
    losses_before(report.rows.size());
    text += variant_tables(report);
  }
  text += comment_lines(text_footer(report, verdict, console, left_out), style.width);
  if (const auto& broke = verdict.error(); broke && style.tells_error)
    text += format("#   {}\n", broke->chain());
  return text;
}

Document bench_document(const BenchReport& report, const Verdict& verdict, std::string json) {
  Document document = document_with(std::move(json), "results");
  document.title =
      report.spec.soak ? "collctl soak" : format("collctl {}", name_of(report.spec.collective));
  document.own_text = [report, verdict](const TextStyle& style) {
    return bench_text(report, verdict, style);
  };
  document.csv = bench_csv(report);
  document.svg = curves_svg(report, expected_busbw(document.judged.document));
  return document;
}

Status Reporter::write_files(const Verdict& verdict) {
  Status first;
  const auto keep = [&first](Status status) {
    if (!status.ok() && first.ok()) first = std::move(status);
  };
  Document document;
  if (!output_.files.empty())
    document = bench_document(report_, verdict, bench_json(report_, verdict));
  for (const OutputFile& file : output_.files) {
    if (file.format == Format::jsonl) continue;
    keep(write_file_atomically(file.path, document_as(file.format, document)));
    if (file.format != Format::csv) continue;
    if (verdict.error())  // a CSV has no place to say so
      console_.note(format("{} holds the {} row{} from before the failure", file.path,
                           report_.rows.size(), report_.rows.size() == 1 ? "" : "s"));
  }
  if (!lines_begun_) put_line(jsonl_header(report_));  // the run never began
  put_line(jsonl_end(verdict));
  for (LineFile& file : line_files_) keep(std::move(file.status));
  if (!output_.trace.empty()) {
    put_trace(report_.header ? trace_end(report_, verdict) : "[" + trace_end(report_, verdict));
    keep(std::move(trace_file_->status));
    if (report_.trace_left_out != 0)
      console_.note(format("{}: {} operations are left out, a row has room for 200000 entries",
                           output_.trace, report_.trace_left_out));
  }
  return first;
}

Status Reporter::save_timings(const Verdict& verdict) {
  if (verdict.error() || verdict.code() == ErrorCode::bad_data || report_.rows.empty()) {
    console_.note(
        format("no timings were saved in {}: the run did not pass", output_.save_baseline));
    return {};
  }
  if (report_.closing && !report_.closing->busy.empty())
    console_.note(format("the timings saved in {} are of a busy machine: {}", output_.save_baseline,
                         report_.closing->busy[0].why));
  const BenchReport* const reports[] = {&report_};
  return save_baseline(output_.save_baseline, reports);
}

// The error that ended the job, with the group of its rank.
static std::optional<Error> in_its_group(const BenchReport& report, std::optional<Error> error) {
  if (!error || !report.header) return error;
  Groups groups;
  for (const GroupLine& group : report.header->groups) groups.push_back(group.ranks);
  return in_its_group(groups, std::move(*error));
}

int Reporter::finish(const JobOutcome& outcome) {
  std::lock_guard lock(mutex_);
  progress_.clear();
  report_.hosts = outcome.hosts;
  Verdict verdict = judge(report_, output_.limits, in_its_group(report_, outcome.error));
  if (speaks_ && output_.format == Format::text && report_.header) {
    const std::string curve = output_.plot ? plot(report_.rows) : "";
    console_.out(curve);
    if (output_.verbosity > 0) console_.out(variant_tables(report_));
    console_.out(
        comment_lines(text_footer(report_, verdict, console_, table_ ? table_->left_out() : ""),
                      size_t(console_.out_width())));
  }
  if (speaks_ && output_.format == Format::nccl_tests && report_.header)
    console_.out(nccl_tests_footer(report_, verdict));
  Status files;
  if (speaks_) files = write_files(verdict);
  if (speaks_ && files.ok() && !output_.save_baseline.empty()) files = save_timings(verdict);
  if (!files.ok()) verdict.worsen(files.error());
  if (speaks_ && output_.format == Format::json)
    console_.out(files.ok() || verdict.error()
                     ? bench_json(report_, verdict)
                     : error_json(files.error(), verdict.exit_code(), report_));
  if (verdict.error()) console_.print_error(*verdict.error());
  if (!verdict.error() && speaks_ && output_.format != Format::text)
    for (const Reason& reason : verdict.reasons())
      console_.err(format("collctl: {}\n", reason.message));
  if (!files.ok()) console_.print_error(files.error());
  return verdict.exit_code();
}

}  // namespace collctl::cmd

// libFuzzer target: any bytes as a saved report (`report FILE`), and as the records that a rank, or
// an agent in its name, sends: of collectives, rails, window-test, and the options of each. Input
// that is taken is printed in all forms, and what is written is taken again.
#include "cmd/command_line.h"
#include "cmd/measure/rank.h"
#include "cmd/rails/rails.h"
#include "cmd/report/read.h"
#include "cmd/window_test/window_test.h"
#include "tests/fuzz/fuzz.h"

using namespace collctl;
using namespace collctl::cmd;

namespace {

// Options of tasks are read by the table.
[[maybe_unused]] const bool installed = (install_tables(), true);

void saved(const std::string& text) {
  const auto report = read_report(text);
  if (!report) return;
  const std::string again = bench_json(report->report, report->verdict);
  const auto second = read_report(again);
  fuzz::must(second.ok());
  fuzz::must(bench_json(second->report, second->verdict) == again);
  (void)bench_csv(report->report);
  (void)curves_svg(report->report);
  (void)plot(report->report.rows);
  (void)variant_tables(report->report);
  (void)text_header(*report->report.header, true);
  const TextTable table(report->report.spec, report->report.header->ranks, 80);
  (void)table.titles();
  for (const BenchRow& row : report->report.rows) (void)table.row(row);
}

// Hands each record on as a text, once.
class Echo : public BenchSink {
 public:
  void on(BenchRecord record) override { text = encode_record(record); }
  void progress(const std::string&) override {}
  void phase(int, const std::string&) override {}
  std::string text;
};

void record(const std::string& text) {
  Echo first, second;
  if (!first.record(text)) return;
  fuzz::must(second.record(first.text).ok() && second.text == first.text);
}

template <class T>
void options(const std::string& text) {
  const auto read = record_of<T>(text);
  if (!read) return;
  const std::string sent = json_of(*read);
  const auto again = record_of<T>(sent);
  fuzz::must(again.ok() && json_of(*again) == sent);
}

void rails(const std::string& text) {
  const auto report = read_rails(text);
  if (!report) return;
  const RailsFindings found = judge_rails(*report, 0.5);
  const Verdict verdict = found.verdict(std::nullopt);
  (void)document_text(rails_document(*report, found, rails_json(*report, found, verdict)),
                      {.whole = true});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ByteView input(data, size);
  const size_t kind = fuzz::choose(input, 7);
  const std::string text(fuzz::text_of(input));
  switch (kind) {
    case 0:
      saved(text);
      break;
    case 1:
      record(text);
      break;
    case 2:
      rails(text);
      break;
    case 3:
      options<WindowReport>(text);
      break;
    case 4:
      options<BenchSpec>(text);
      break;
    case 5:
      options<RailsSpec>(text);
      break;
    default:
      options<WindowTestSpec>(text);
  }
  return 0;
}

// Meaning of a command line's output options. Errors: usage. Threads: values.
#pragma once
#include <span>

#include "cmd/cli/parse.h"
#include "cmd/document/document.h"
#include "cmd/judge/bench.h"
#include "cmd/measure/bench.h"

namespace collctl::cmd {

// `spec`: of a measurement; null: of anything else.
Result<OutputOptions> interpret_output(const ParsedLine& line, const BenchSpec* spec,
                                       FileKinds kinds = {});

// The same of a command that measures nothing by rows, with a look at every file: it can be
// written.
Result<OutputOptions> interpret_files(const ParsedLine& line, FileKinds kinds = {});

Result<Baseline> read_baseline(const std::string& file);
// Adds those reports whose data was right to the file (--save-baseline).
Status save_baseline(const std::string& file, std::span<const BenchReport* const> reports);

void add_output_options(std::vector<Option>& table);
// -o FILE for those scopes: what kinds of files there are (in words where they differ), and what is
// to be known of them.
inline constexpr FileKinds kAllFiles{.pictures = true, .monitoring = true};
void add_file_option(std::vector<Option>& table, uint32_t scopes, FileKinds kinds,
                     const char* more);
void add_file_option(std::vector<Option>& table, uint32_t scopes, const char* help,
                     const char* more);
inline constexpr const char* kWholeFiles =
    "The ending says which. The file appears whole or not at all. -o - is --json.";
inline constexpr const char* kMonitoredFiles =
    "The ending says which: .xml is JUnit, .prom a textfile for Prometheus' node_exporter. The "
    "file appears whole or not at all. -o - is --json.";
inline constexpr const char* kDrawnAndMonitored =
    "The ending says which: .svg draws what was measured as a heat map, .xml is JUnit, .prom a "
    "textfile for Prometheus' node_exporter. The file appears whole or not at all. -o - is "
    "--json.";

}  // namespace collctl::cmd

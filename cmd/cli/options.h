// From words on the command line to what they mean. parse() finds the command and checks every
// value against the tables; interpret_*() turn a parsed line into the records that the job and the
// bench take. Called by the command line before anything is started. All errors have code usage
// (or unavailable, for devices that are not here). Threads: values.
#pragma once
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "cmd/measure/bench.h"
#include "cmd/verify/buffer_shape.h"
#include "cmd/cli/command.h"
#include "cmd/job/job.h"

namespace collctl::cmd {

struct ParsedLine {
  const Command* command = nullptr;     // null: no command was given
  const Command* collective = nullptr;  // of run <collective> and of the direct form
  bool help = false;        // -h or --help is there
  std::string help_topic;   // what stood after it, see is_help_topic()
  bool has_program = false;  // a -- was there
  std::vector<std::string> program;
  std::vector<std::string> words;  // neither options nor their values, without the collective
  std::map<std::string, std::vector<std::string>> given;  // by long name; flags hold an entry each
  std::vector<std::string> notes;  // what was taken as something else, for standard error
  bool nccl_tests = false;         // options stand there as nccl-tests has them
  bool ranks_by_gpus = false;      // by -g and -t: of one process, where others start several

  bool has(const std::string& option) const { return given.count(option) != 0; }
  // The last value given, or the table's default.
  std::string text(const std::string& option) const;
  std::vector<std::string> all(const std::string& option) const;
  int times(const std::string& option) const;
  // A number that parse() has checked; `otherwise` when not given and the default is no number.
  double number(const std::string& option, double otherwise) const;
};

// `arguments` without the program's name.
inline Error usage(std::string message) {
  return {ErrorCode::usage, std::move(message)};
}

// What can stand after --help: all, a group of options, examples, exit-codes, an option's name.
bool is_help_topic(const std::string& word);
// "all, launch, ...", without the options.
std::string help_topics();

Result<ParsedLine> parse(const std::vector<std::string>& arguments);
// The options of one command, by CLI11 (options_parse.cc): fills `given` and `words`.
Status parse_options(const Command& command, const std::vector<std::string>& arguments,
                     ParsedLine& line);
// The option that a word such as -n or --ranks (without a joined value) is, or null.
const Option* option_of_word(const Command& command, const std::string& word);
// A value against its option's row.
Status check_value(const Option& option, const std::string& value);
// The comma separated parts of a choices value; "all" becomes every word of the row.
std::vector<std::string> expand_choices(const Option& option, const std::string& value);
// The nearest of the names, or "" when none is near.
std::string nearest(const std::string& word, const std::vector<std::string>& names);

struct Limit {  // --min-busbw, --max-latency
  double value = 0;
  std::optional<uint64_t> at_bytes;
};

enum class Format : uint8_t { text, json, csv, jsonl, nccl_tests, svg, html };
struct OutputFile {
  std::string path;  // never "-": that is --json (topo: the picture on standard output)
  Format format;
};
struct OutputOptions {
  Format format = Format::text;
  std::vector<OutputFile> files;
  bool plot = false, quiet = false, wide = false;
  int verbosity = 0;
  std::optional<Limit> min_busbw, max_latency;
};

// Reads the hostfile, if there is one.
Result<LaunchOptions> interpret_launch(const ParsedLine& line);
// The part about hosts (cmd/job/host_options.cc); also of commands that launch nothing.
Status interpret_hosts(const ParsedLine& line, LaunchOptions& launch);
launcher::PlaceOptions place_options(const LaunchOptions& launch);
// `ranks`: of the job, to check roots; 0: known when the hosts have answered.
Result<BenchSpec> interpret_bench(const ParsedLine& line, int ranks);
// A root that no rank of a job is: also asked when hosts have said how many there are.
Status check_root(int root, int ranks);
// The same of window-test (cmd/window_test/command.cc).
Result<BenchSpec> interpret_window_test(const ParsedLine& line);
// --device.
Result<DeviceWish> interpret_device(const ParsedLine& line);
// -b, -e, -f and --step-bytes.
Result<SizeRange> interpret_sizes(const ParsedLine& line);
Result<OutputOptions> interpret_output(const ParsedLine& line, const BenchSpec* spec);
// What was given and has no meaning for this collective, as sentences for standard error.
std::vector<std::string> useless_options(const ParsedLine& line);

}  // namespace collctl::cmd

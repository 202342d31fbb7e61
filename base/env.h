// Knobs: environment variables COLLCTL_<NAME>, with NCCL_<NAME> as fallback where the
// meaning is the same. The table is base/knobs.inc; `collctl env` prints it. getenv is called here
// and nowhere else. Threads: any; the environment is never changed after main has started (tests
// change it single-threaded).
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace collctl::base {

enum class KnobKind : uint8_t { text, integer, bytes, flag, seconds };
inline constexpr int kSecret = 1;
inline constexpr int kHidden = 2;

enum class KnobId : int {
#define COLL_KNOB(id, ...) id,
#include "base/knobs.inc"
#undef COLL_KNOB
  count
};

struct Knob {
  KnobId id;
  const char* name;       // without COLLCTL_
  const char* nccl_name;  // NCCL's variable, or ""
  KnobKind kind;
  const char* default_value;
  int64_t minimum, maximum;
  int flags;
  const char* help;
};

struct KnobValue {
  std::string text;
  std::string origin = {};    // "default", or the variable and, in brackets, its file
  std::string variable = {};  // "COLLCTL_X" or "NCCL_X"; empty: none is set
  std::string file = {};      // that set it (base/site_files.h); empty: the environment
};

std::span<const Knob> knobs();
const Knob& knob(KnobId id);
// The effective text and where it came from. An empty variable counts as unset. Ours goes before
// NCCL's, but what the environment says before what files say.
KnobValue knob_value(KnobId id);
inline std::string knob_text(KnobId id) {
  return knob_value(id).text;
}
// Parsed by kind (bytes: 1K, 4M binary; flag and integer within bounds); error code usage names the
// variable.
Result<int64_t> knob_int(KnobId id);
Result<double> knob_seconds(KnobId id);
// Every knob that is set has a legal value.
Status check_knobs();

// "8", "1K", "4M", "1G" (also KiB, MiB...): binary units. Error says what was expected.
Result<uint64_t> parse_bytes(const std::string& text);
// Seconds: "90", "0.5", "500ms", "90s", "15m", "2h", "1h30m", "1d"; a unit stands once, larger ones
// first. Error says what was expected.
Result<double> parse_seconds(const std::string& text);

// An environment variable that is not a knob (HOME, NO_COLOR, SLURM_*...). Empty optional when
// unset.
std::optional<std::string> environment(const char* name);
// A variable for another library of this process, which reads it while this lives; then it is as it
// was. The one exception to the rule above: only while no other thread of ours reads knobs.
class ScopedVariable {
 public:
  ScopedVariable(std::string name, const std::string& value);
  ~ScopedVariable();
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  std::string name_;
  std::optional<std::string> before_;
};

// Takes the values of secret knobs out of the environment, where children and /proc/PID/environ
// would show them; this process still finds them above. Called once, before there are threads.
void take_secrets();

// Sets a variable that is not set, for a file; `order` of the files, the first 0. False: it is set
// already. Before there are threads.
bool take_default(const std::string& name, const std::string& value, const std::string& file,
                  size_t order);
// The file that a variable came from; empty: none.
std::string file_of_variable(const std::string& name);

// The whole environment as "NAME=value", for handing it on to a child.
std::vector<std::string> environment_list();

}  // namespace collctl::base

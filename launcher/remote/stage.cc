#include "launcher/remote/stage.h"

#include <algorithm>

#include "base/format.h"
#include "launcher/remote/agent_protocol.h"

namespace collctl::launcher {
namespace {

// POSIX sh in one line. It stands between single quotes, so it must not contain any, nor a
// backslash (fish) or an exclamation mark (csh). $1 version, $2 hash, $3 path, $4 mode.
constexpr const char* kScript =
    R"(say() { echo "@collctl-agent $*"; }; )"
    R"(bad() { s=$1; shift; rm -f "$t"; say fail "$s" $*; exit 4; }; t=/nonexistent; )"
    R"(b=$3; if [ -z "$b" ]; then d=${XDG_CACHE_HOME:-$HOME/.cache}/collctl; b=$d/$1-$2/collctl; fi; )"
    R"(case $b in "~/"*) b=$HOME/${b#??};; esac; )"
    R"(echo; )"
    R"(case $4 in always) ;; *) if [ -x "$b" ]; then exec "$b" __agent; fi;; esac; )"
    R"(if [ "$4" = never ]; then say missing "$b"; exit 4; fi; )"
    R"(f=${b%/*}; e=$(mkdir -p "$f" 2>&1) || bad mkdir "$e"; )"
    R"(u=$(umask); umask 077; t=$f/.collctl.$(uname -n).$$; )"
    R"(if command -v gzip >/dev/null 2>&1; then z="gzip -dc"; say need gzip; else z=cat; say need plain; fi; )"
    R"(read -r n || exit 4; )"
    R"(e=$( { head -c "$n" | $z >"$t"; } 2>&1 ) || bad write "$e"; )"
    R"([ -z "$e" ] || bad write "$e"; )"
    R"(e=$(chmod 700 "$t" 2>&1) || bad chmod "$e"; )"
    R"(e=$("$t" __agent --verify "$2" 2>&1) || bad run "$f" $(uname -m) "$e"; )"
    R"(e=$(mv -f "$t" "$b" 2>&1) || bad rename "$e"; )"
    R"(umask $u; say staged; exec "$b" __agent)";

// For sh, within the single quotes that every shell understands. Names that would need more are
// refused before (see agent_command).
std::string in_quotes(const std::string& text) {
  return "'" + text + "'";
}

bool has(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

// The remedy for what a shell or the loader said.
std::string remedy(const std::string& text) {
  if (has(text, "No space left") || has(text, "Disk quota"))
    return "free some space there, or choose another folder with --remote-path";
  if (has(text, "Read-only file system")) return "choose a writable folder with --remote-path";
  if (has(text, "GLIBC_") || has(text, "version `GLIBC"))
    return "that host's C library is older than 2.34: use a newer system there";
  if (has(text, "Exec format error") || has(text, "cannot execute binary file"))
    return "that host has another processor architecture: install a collctl built for it and give "
           "its path with --remote-path";
  if (has(text, "required file not found") || has(text, "not found"))
    return "that system has no glibc (Alpine?), or another architecture: install a collctl built "
           "for it and give its path with --remote-path";
  if (has(text, "Permission denied"))
    return "the folder is not writable, or its file system is mounted noexec: choose another with "
           "--remote-path";
  return {};
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text.size() > 400 ? text.substr(0, 400) + "..." : text;
}

}  // namespace

std::string agent_command(const StageOptions& options) {
  const char* mode = options.staging == Staging::never    ? "never"
                     : options.staging == Staging::always ? "always"
                                                          : "auto";
  return format("exec sh -c {} collctl {} {} {} {}", in_quotes(kScript), in_quotes(options.version),
                in_quotes(options.hash.substr(0, 16)), in_quotes(options.path), mode);
}

Error stage_error(const std::string& word) {
  const size_t space = word.find(' ');
  const std::string kind = word.substr(0, space);
  const std::string rest = space == std::string::npos ? "" : word.substr(space + 1);
  if (kind == "missing")
    return Error(ErrorCode::launch, format("there is no collctl at {}", one_line(rest)),
                 "--stage auto copies it");
  const size_t second = rest.find(' ');
  const std::string step = rest.substr(0, second);
  const std::string text = one_line(second == std::string::npos ? "" : rest.substr(second + 1));
  const std::string what = step == "mkdir"    ? "cannot create the folder for the binary"
                           : step == "write"  ? "cannot write the binary"
                           : step == "chmod"  ? "cannot make the binary executable"
                           : step == "run"    ? "the binary does not run there"
                           : step == "rename" ? "cannot move the binary into place"
                                              : "cannot be staged (" + one_line(step) + ")";
  return Error(ErrorCode::launch, format("{}: {}", what, text), remedy(text));
}

Error start_error(int exit_code, const std::string& errors, const std::string& noise) {
  const std::string said = one_line(!errors.empty() ? errors : noise);
  Error e(ErrorCode::launch,
          format("the agent did not start (exit code {}){}{}", exit_code, said.empty() ? "" : ": ",
                 said),
          remedy(said));
  if (e.hint.empty() && exit_code == 127) e.hint = "is there a POSIX shell (sh) on that host?";
  if (e.hint.empty() && said.empty())
    e.hint = "does the user's login shell run commands there (nologin, forced command)?";
  return e;
}

}  // namespace collctl::launcher

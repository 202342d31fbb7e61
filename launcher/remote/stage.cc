#include "launcher/remote/stage.h"

#include <algorithm>

#include "base/format.h"
#include "launcher/local/spawn.h"
#include "launcher/remote/agent_protocol.h"

namespace collctl::launcher {
namespace {

constexpr size_t kHashInNames = 16, kMostMachine = 32;

// POSIX sh in one line. It stands between single quotes, so it must not contain any, nor a
// backslash (fish) or an exclamation mark (csh). $1 version, $2 hash, $3 path, $4 mode, $5 seconds
// for each read from a launcher that may be gone without a word, $6 machine of the binary with that
// hash.
//
// Files that another user could have put or could change there are not run or written to: `safe`
// says that a file and all folders above it belong to this user or to root, with nobody else able
// to write to them. Folders are compared without symbolic links, so none can be turned later. A
// sticky folder (/tmp) is safe for our files. Private groups and group 0 count as the user's own.
constexpr const char* kScript =
    R"(set -f; say() { echo "@collctl-agent $*"; }; d=; w=; me=$(id -u); own=0; )"
    R"(u=$(id -un); g=$(id -gn); if [ "$u" = "$g" ]; then own=$(id -g); fi; )"
    // Also when its launcher is gone and nobody reads what it says: then by SIGPIPE.
    R"(bye() { case $d in /*) rm -rf "$d";; esac; }; trap bye EXIT; trap "bye; exit 4" HUP INT PIPE TERM; )"
    R"(bad() { s=$1; shift; bye; say fail "$s" $* $w; exit 4; }; )"
    R"(owned() { p=$1; set -- $(ls -ldn "$p" 2>/dev/null); m=$1; g=$4; )"
    R"(case $3 in 0|"$me") ;; *) why="$p belongs to user $3"; return 1;; esac; }; )"
    R"(ours() { owned "$1" || return 1; why="others may write to $1"; )"
    R"(case $m in l*|d????????[tT]*) return 0;; ????????w*) return 1;; )"
    R"(?????w*) case $g in 0|"$own") ;; *) return 1;; esac;; esac; }; )"
    R"(safe() { q=$1; while ours "$q"; do if [ "$q" = / ]; then return 0; fi; )"
    R"(q=${q%/*}; q=${q:-/}; done; return 1; }; )"
    R"(look() { r=$(cd "${b%/*}/" 2>/dev/null && pwd -P) || return 1; r=${r%/}/${b##*/}; why=; )"
    R"([ -f "$r" ] && [ -x "$r" ] && safe "$r" || return 1; [ -L "$r" ] || return 0; )"
    R"(r=$(readlink -f "$r") && safe "$r"; }; )"
    R"(echo; )"
    R"(x=; if command -v timeout >/dev/null 2>&1; then x="timeout $5"; fi; )"
    // A path that is taken as it is needs no hash.
    R"(h=$2; why=; k=$(uname -m); case $k:$4:$3 in "$6":*|*:never:?*) ;; *) say machine "$k"; )"
    R"(h=$($x dd bs=1 count=17 2>/dev/null); h=${h%% *}; [ -n "$h" ] || exit 4;; esac; )"
    R"(b=$3; if [ -z "$b" ]; then b=${XDG_CACHE_HOME:-$HOME/.cache}/collctl/$1-$h/collctl; fi; )"
    R"(case $b in "~/"*) b=$HOME/${b#??};; esac; case $b in /*) ;; *) b=$PWD/$b;; esac; )"
    // The build that its user installed there is then the right one.
    R"(if [ "$h" = none ]; then if [ "$4" = auto ] && [ -n "$3" ] && look; then exec "$r" __agent; fi; )"
    R"([ -z "$why" ] || bad unsafe "$why"; bad machine "$k"; fi; )"
    R"(if [ "$4" = never ]; then if look; then exec "$r" __agent; fi; )"
    R"([ -z "$why" ] || bad unsafe "$why"; say missing "$b"; exit 4; fi; )"
    // The cache's folder is named by the hash; a path of the user's own may hold anything.
    R"(if [ "$4" = auto ] && look; then )"
    R"(if [ -z "$3" ] || "$r" __agent --verify "$h" </dev/null >/dev/null 2>&1; )"
    R"(then exec "$r" __agent; fi; )"
    R"(w="- another build is there, which --stage never runs"; fi; )"
    R"(u=$(umask); umask 077; f=${b%/*}/; e=$(mkdir -p "$f" 2>&1) || bad mkdir "$e"; )"
    R"(f=$(cd "$f" && pwd -P) || bad mkdir "$f"; safe "$f" || bad unsafe "$why"; )"
    R"(b=${f%/}/${b##*/}; if [ -e "$b" ] || [ -L "$b" ]; then owned "$b" || bad unsafe "$why"; )"
    R"(case $m in -*) ;; *) bad unsafe "$b is not a regular file";; esac; fi; )"
    // At once in d, where a signal in the midst finds it.
    R"(d=$(mktemp -d "${f%/}/.collctl.XXXXXX" 2>&1) || bad mkdir "$d"; t=$d/collctl; set -C; )"
    R"(if command -v gzip >/dev/null 2>&1; then z="gzip -dc"; say need gzip; else z=cat; say need plain; fi; )"
    R"(n=$($x dd bs=1 count=12 2>/dev/null); [ "${n:-0}" -gt 0 ] || exit 4; )"
    R"(e=$( { $x head -c $n | $z >"$t"; } 2>&1 ) || bad write "$e"; )"
    R"([ -z "$e" ] || bad write "$e"; )"
    R"(e=$(chmod 700 "$t" 2>&1) || bad chmod "$e"; )"
    // Another C library: then the build that its user installed there is the right one.
    R"(e=$("$t" __agent --verify "$h" 2>&1 </dev/null) || { )"
    R"(if [ -n "$w" ] && look; then bye; umask $u; exec "$r" __agent; fi; )"
    R"(bad run "$f" $(uname -m) "$e"; }; )"
    R"(e=$(mv -f "$t" "$b" 2>&1) || bad rename "$e"; bye; )"
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
    return "that host has another processor architecture: give a collctl built for it with "
           "--binary-for, or install one there and give its path with --remote-path";
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
  return format("exec sh -c {} collctl {} {} {} {} {} {}", in_quotes(kScript),
                in_quotes(options.version), in_quotes(options.hash.substr(0, kHashInNames)),
                in_quotes(options.path), mode, std::max(1, int(options.patience_s)),
                in_quotes(options.machine));
}

std::string staged_size(size_t bytes) {
  return format("{:<11}\n", bytes);
}

std::string staged_hash(const std::string& hash) {
  return format("{:<16}\n", hash.empty() ? "none" : hash.substr(0, kHashInNames));
}

bool is_machine_name(const std::string& name) {
  return !name.empty() && name.size() <= kMostMachine &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  c == '_' || c == '-';
         });
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
  if (step == "machine")
    return Error(
        ErrorCode::launch, format("there is no collctl for its architecture, {}", text),
        format("give one with --binary-for {0}=PATH, or put it beside this one as collctl-{0} (a "
               "host that carries others has none: leave out --tree-width); or install it there "
               "and give its path with --remote-path",
               text));
  if (step == "unsafe")
    return Error(
        ErrorCode::launch, format("the binary is neither run nor put there: {}", text),
        "what is at that path, and the folders above it, must be this user's or root's and "
        "closed to others (chown, chmod go-w); or choose another path with --remote-path");
  const std::string what = step == "mkdir"    ? "cannot create the folder for the binary"
                           : step == "write"  ? "cannot write the binary"
                           : step == "chmod"  ? "cannot make the binary executable"
                           : step == "run"    ? "the binary does not run there"
                           : step == "rename" ? "cannot move the binary into place"
                                              : "cannot be staged (" + one_line(step) + ")";
  return Error(ErrorCode::launch, format("{}: {}", what, text), remedy(text));
}

std::string exit_text(int exit_code) {
  // OpenSSH's client says 255 of a command that a signal ended; ours never ends so by itself.
  if (exit_code == 255) return "was killed by a signal";
  if (exit_code > 128) return "was killed by " + signal_text(exit_code - 128);
  return format("ended with exit code {}", exit_code);
}

Error start_error(int exit_code, const std::string& errors, const std::string& noise) {
  const std::string said = one_line(!errors.empty() ? errors : noise);
  const bool killed = exit_code > 128;
  Error e(ErrorCode::launch,
          format("{}{}{}",
                 killed ? format("the agent {} before it had started", exit_text(exit_code))
                        : format("the agent did not start (exit code {})", exit_code),
                 said.empty() ? "" : ": ", said),
          remedy(said));
  if (killed) return e;
  if (e.hint.empty() && exit_code == 127) e.hint = "is there a POSIX shell (sh) on that host?";
  if (e.hint.empty() && said.empty())
    e.hint = "does the user's login shell run commands there (nologin, forced command)?";
  return e;
}

}  // namespace collctl::launcher

// Standard output and standard error of the command line: every byte the commands print goes
// through here, but for what a program's ranks write themselves. Control characters come out
// escaped (base/printable), whoever sent them. Failed writes are remembered and asked for once, at
// the end. Colours, and a line that is overwritten, only where a person looks: a terminal that
// mpirun reads into a pipe is none. Threads: one (the command's).
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace collctl::cmd {

enum class Colours : uint8_t { automatic, always, never };

class Console {
 public:
  // The descriptors are the caller's. Tests give files. `under_engine`: an engine such as mpirun
  // has started this process, and may have given it a terminal that nobody sees.
  explicit Console(int out_fd = 1, int err_fd = 2, bool under_engine = false);
  void out(std::string_view text);  // data
  void err(std::string_view text);  // talk
  // "collctl: warning: ..." lines for people.
  void note(const std::string& text);
  void print_error(const Error& error);
  // --color; until then automatic: where a person looks, unless NO_COLOR or TERM says no.
  void set_colours(Colours colours);
  bool out_is_terminal() const { return out_is_terminal_; }
  bool err_is_terminal() const { return err_is_terminal_; }
  // Characters that a line of standard output has room for: COLUMNS, else the terminal's, else 100.
  int out_width() const;
  bool out_colours() const { return out_colours_; }
  // The text in an SGR colour when that stream shows colours, else as it is. "31" red, "1" bold...
  std::string out_colour(const char* sgr, std::string_view text) const;
  std::string err_colour(const char* sgr, std::string_view text) const;
  // Standard output took everything; else why not. A reader that went away (EPIPE) is not an error
  // worth a word: see reader_gone().
  Status out_status() const;
  bool reader_gone() const;
  // Shows what goes on now; empty: nothing any more. On a terminal a line at the end of standard
  // error, which the next one overwrites. Elsewhere a "collctl: now: ..." each time that nothing
  // was written on either stream for ten seconds.
  void transient(const std::string& text);
  // It goes on still: called once a second or so while nothing else is.
  void still();

 private:
  void wipe();
  void write_all(int fd, std::string_view text, int* failure);
  int out_fd_, err_fd_;
  bool out_is_terminal_, err_is_terminal_;
  bool out_colours_, err_colours_;
  int out_errno_ = 0, err_errno_ = 0;
  size_t transient_width_ = 0;
  std::string going_on_;
  int64_t draw_at_ns_ = 0;  // not before
  int64_t wrote_at_ns_;     // on either stream; before anything was: made
};

// Progress for a person who waits, or for a log where nobody watches (Console::transient). Threads:
// guarded by the caller.

class Progress {
 public:
  // Unless `wanted` it says nothing.
  Progress(Console& console, bool wanted) : console_(console), wanted_(wanted) {}
  // A rank reached a phase of its start.
  void phase(int rank, const std::string& name);
  void text(const std::string& text);
  void clear();

 private:
  Console& console_;
  const bool wanted_;
  std::map<int, std::string> phases_;
};

}  // namespace collctl::cmd

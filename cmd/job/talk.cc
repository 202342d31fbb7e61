#include "cmd/job/talk.h"

namespace collctl::cmd {

LaunchOptions::Talk console_talk(Console& console, bool quiet) {
  LaunchOptions::Talk talk;
  talk.note = [&console](const std::string& text) { console.note(text); };
  if (!quiet && console.err_is_terminal())
    talk.transient = [&console, next = int64_t(0)](const std::string& text) mutable {
      if (!text.empty() && now_ns() < next) return;
      next = now_ns() + 100'000'000;
      console.transient(text);
    };
  return talk;
}

}  // namespace collctl::cmd

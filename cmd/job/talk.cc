#include "cmd/job/talk.h"

namespace collctl::cmd {

LaunchOptions::Talk console_talk(Console& console, bool quiet) {
  LaunchOptions::Talk talk;
  talk.note = [&console](const std::string& text) { console.note(text); };
  if (quiet) return talk;
  talk.transient = [&console](const std::string& text) { console.transient(text); };
  talk.still = [&console] { console.still(); };
  return talk;
}

}  // namespace collctl::cmd

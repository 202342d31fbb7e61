#include "base/check.h"

#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace collctl::base {

void check_failed(const char* condition, const char* file, int line, const char* note) {
  char text[512];
  const int length = snprintf(text, sizeof text, "collctl: defect: %s:%d: check failed: %s%s%s\n",
                              file, line, condition, *note ? " - " : "", note);
  // write, not stdio: the process may be in any state.
  if (length > 0 && write(STDERR_FILENO, text, strnlen(text, sizeof text)) < 0) _exit(70);
  _exit(70);
}

}  // namespace collctl::base

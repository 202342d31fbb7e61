// Programmer errors: on in every build. A failed check prints one line and ends the process with
// code 70.
#pragma once

namespace collctl::base {
[[noreturn]] void check_failed(const char* condition, const char* file, int line, const char* note);
}

#define COLL_CHECK(condition)                        \
  (__builtin_expect(static_cast<bool>(condition), 1) \
       ? static_cast<void>(0)                        \
       : ::collctl::base::check_failed(#condition, __FILE__, __LINE__, ""))
#define COLL_CHECK_NOTE(condition, note)             \
  (__builtin_expect(static_cast<bool>(condition), 1) \
       ? static_cast<void>(0)                        \
       : ::collctl::base::check_failed(#condition, __FILE__, __LINE__, note))

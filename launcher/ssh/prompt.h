// Prompts at the terminal (/dev/tty), without echo. The poll loop is blocked meanwhile:
// one question at a time, at most two minutes; asked_ns() says how long that was, and deadlines
// that were made before are moved by it. Answers are kept, so that one password serves all hosts.
// Threads: any.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"

namespace collctl::launcher {

// Errors (unavailable): no terminal, no answer, or `stop_fd` (-1: none) became readable.
Result<std::string> ask_secret(const std::string& question, int stop_fd);
// The first answer to a question of this name, asking when there is none; `again` asks anew (the
// kept one was wrong).
Result<std::string> kept_secret(const std::string& name, const std::string& question, bool again,
                                int stop_fd);
// Time spent in questions since the process began, and other time that no host is to blame for.
int64_t asked_ns();
void pardon_ns(int64_t ns);
// Work that the loop's thread, which sets this, does now and then while it waits for an answer.
void while_asking(std::function<void()> work);

}  // namespace collctl::launcher

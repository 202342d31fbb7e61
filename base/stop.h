// A stop of this process (Ctrl-Z) that costs it no time: its clock (now_ns) stands still meanwhile,
// so no deadline passes by it. A stop that comes from outside (SIGSTOP) counts as before.
#pragma once

namespace collctl::base {

// Leaves this process's stops out of its time. Called once, before any other thread runs.
void stop_with_clock();
// SIGSTOP for the whole process; returns when it is continued. May be called by a signal handler.
// Threads: any; while one is in it, the calls of others return at once.
void stop_this_process();

}  // namespace collctl::base

// The hidden command `__rank`.
#pragma once

namespace collctl::cmd {

// A rank of ours, speaking frames on kControlFd. Returns the exit code.
int rank_main();

}  // namespace collctl::cmd

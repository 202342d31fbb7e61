// Calls that fail once because a test wants it (control.h: fail). In this process only.
#pragma once

namespace fake_verbs {

// Counts the call; the errno it is to fail with, else 0.
int refused(const char* function);

}  // namespace fake_verbs

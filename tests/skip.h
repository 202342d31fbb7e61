// A test that this machine cannot do. It has the tag [may_skip]: those of a folder are an entry of
// their own in CTest, which is shown as skipped, and `./dev test` says why at its end.
#pragma once
#include <string>

namespace collctl::test {

// The program ends with code 77 when nothing fails: in any other entry that is a failure.
void skip(const std::string& why);

}  // namespace collctl::test

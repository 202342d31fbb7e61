// Words from elsewhere (another host, a file, a stranger) for a person's terminal. Pure.
#pragma once
#include <string>
#include <string_view>

namespace collctl::base {

// The text with every control character that a terminal could obey as "\x1b", "\u009b": C0 but for
// line feed and tab, DEL, C1 in UTF-8, and bytes that are not UTF-8. `colours`: the few SGR
// sequences in which this program paints stay.
std::string printable(std::string_view text, bool colours = false);

}  // namespace collctl::base

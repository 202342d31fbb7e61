// The grammar of each kind of value: one parser for each, with its bounds, and what it expects in
// words. Pure; any thread.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cmd/cli/command.h"

namespace collctl::cmd {

// A value against its option's row; error usage.
Status check_value(const Option& option, const std::string& value);
// The number that a value is, within the row's bounds: seconds of a duration, without its unit, the
// one before a limit's @. Nothing: it is none.
std::optional<double> number_of(const Option& option, const std::string& value);
// The comma separated parts of a choices value; "all" becomes every word of the row.
std::vector<std::string> expand_choices(const Option& option, const std::string& value);

}  // namespace collctl::cmd

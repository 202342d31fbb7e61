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
// The words of an option that has several: of the last value given, or of all where that adds up.
std::vector<std::string> given_words(const Option& option, const std::vector<std::string>& given);
// The whole number that a value is, which has been checked: bytes of a size, a choice's place among
// the allowed words, -1 of a word in place of a number, how often a flag or file stands there.
int64_t whole_value(const Option& option, const std::vector<std::string>& given);

// A number of an enumeration as a field: by its word among the allowed ones, if there are any.
void word_field(base::Record& io, const Option& option, const char* name, uint64_t& number);
// The option's name with underscores, as records have it.
std::string field_name(const Option& option);
// Whether it is the first row of its name that fills that record: one field for all of them.
bool is_field(const Option& option);
// "--iters", tab and its value in a record's JSON.
std::string alike_line(const Option& option, const std::string& json);

}  // namespace collctl::cmd

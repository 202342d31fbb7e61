// Words that users of other tools type: options of nccl-tests, mpirun, torchrun, pdsh and srun, and
// words that have another name here. Pure tables and texts; any thread.
#pragma once
#include <string>
#include <vector>

#include "cmd/cli/parse.h"

namespace collctl::cmd {

// mpirun's long options with one dash get their second one: -np would be -n with the value p.
std::vector<std::string> with_two_dashes(std::vector<std::string> arguments);
// Replacement for another tool's option: "mpirun's --np 4 is -n 4 here"; several tools are joined
// by ";". Empty when the table has none that helps with this command. `value`: the word after the
// option, may be empty.
std::string foreign_option(const Command& command, const std::string& option,
                           const std::string& value);
// The word, or the options, that a value means which the option does not take: --device gpu is
// cuda. Empty when unknown.
std::string meant_value(const Option& option, const std::string& value);
// The options that a word means which the command has no place for: a host, a topology file. Empty
// when unknown.
std::string meant_word(const ParsedLine& line, const std::string& word);
// The command that another tool's or another spelling's name means: all_reduce_perf is allreduce.
std::string meant_command(const std::string& word);
// Takes what nccl-tests says for the same: types such as half, -g and -t as ranks, -o sum as the
// operation (with a note in the line). An error where -n means iterations, or -w pdsh's hosts.
Status take_habits(const std::vector<std::string>& arguments, ParsedLine& line);
// The same command with -- before the program that stands at `place`, to paste into a shell.
std::string with_program_dashes(const std::vector<std::string>& arguments, size_t place);

}  // namespace collctl::cmd

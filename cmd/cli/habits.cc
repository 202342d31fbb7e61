// Words of a line that other tools would take otherwise: taken as they are meant, or refused.
#include <unistd.h>

#include <algorithm>

#include "base/env.h"
#include "base/format.h"
#include "base/split.h"
#include "cmd/cli/foreign_options.h"
#include "cmd/cli/foreign_words.h"
#include "cmd/cli/option_rows.h"

namespace collctl::cmd {
namespace {

// -o sum: nccl-tests' operation. A file has an ending.
void take_operations(ParsedLine& line) {
  const Option* op = find_option("op", line.command->scopes);
  const auto output = line.given.find("output");
  if (op == nullptr || output == line.given.end()) return;
  std::vector<std::string> files;
  for (const std::string& word : output->second) {
    const bool known = std::ranges::find(op->allowed, word) != op->allowed.end();
    const std::string operation = known ? word : meant_value(*op, word);
    if (operation.empty() || word == "+") {
      files.push_back(word);
      continue;
    }
    line.given["op"].push_back(operation);
    line.notes.push_back(format(
        "-o {}: taken as the operation (--op {}); a file's name has an ending, such as .json", word,
        operation));
  }
  if (files.empty())
    line.given.erase(output);
  else
    line.given["output"] = std::move(files);
}

void take_types(ParsedLine& line) {
  const Option* dtype = find_option("dtype", line.command->scopes);
  const auto types = line.given.find("dtype");
  if (dtype == nullptr || types == line.given.end()) return;
  for (std::string& list : types->second) {
    std::string known;
    for (const std::string_view each : base::split(list, ',')) {
      std::string word(each);
      for (const auto& [words, ours] : dtype->synonyms)
        if (has_word(words, small_letters(word))) word = ours;
      known += "," + word;
    }
    list = known.substr(1);
  }
}

// -g GPUS and -t THREADS: so many ranks, on each host where there are several.
Status take_gpus(ParsedLine& line) {
  if (!line.has("ngpus") && !line.has("nthreads")) return {};
  const auto count = [&](const char* option) {
    const std::string text = line.has(option) ? line.text(option) : "1";
    return digits(text) && text.size() < 7 ? std::atol(text.c_str()) : 0;
  };
  const long ranks = count("ngpus") * count("nthreads");
  if (ranks == 0) return {};  // said when values are checked
  std::string said;
  if (line.has("nthreads")) said = format("-t {}", line.text("nthreads"));
  if (line.has("ngpus")) said += format("{}-g {}", said.empty() ? "" : " ", line.text("ngpus"));
  const bool hosts = line.has("hosts") || line.has("hostfile");
  const std::string ours = format("{} {}", hosts ? "-N" : "-n", ranks);
  if (line.has("ranks") && line.text("ranks") != std::to_string(ranks))
    return usage(
        format("-n {} beside {}: -n is the number of ranks here; for iterations write {} "
               "--iters {}",
               line.text("ranks"), said, ours, line.text("ranks")));
  if (hosts && line.has("ranks-per-host"))
    return usage(format("{} and -N {} both say how many ranks a host has", said,
                        line.text("ranks-per-host")));
  line.given[hosts ? "ranks-per-host" : "ranks"] = {std::to_string(ranks)};
  line.ranks_by_gpus = true;
  line.notes.push_back(format("{} is {} here", said, ours));
  return {};
}

// An option of ours with a value that tells that another tool's of the same name is meant.
struct Mistaken {
  const char *option, *typed;
  bool (*theirs)(const std::string& value);
  const char* wrong;
};
constexpr Mistaken kMistaken[] = {
    // Hosts of somebody who knows pdsh.
    {"warmup", "-w", [](const std::string& value) { return !value.empty() && !digits(value); },
     "expected a whole number"},
    {"identity", "-i",
     [](const std::string& value) {
       return base::parse_bytes(value).ok() && ::access(value.c_str(), F_OK) != 0;
     },
     "no such file"},
    {"size", "--size",
     [](const std::string& value) { return base::parse_bytes(value).ok() && !digits(value); },
     "expected how many ranks join"},
};

Status check_mistaken(const std::vector<std::string>& arguments, const ParsedLine& line) {
  for (const Mistaken& row : kMistaken) {
    if (!line.has(row.option) || !row.theirs(line.text(row.option))) continue;
    const auto typed = [&](const std::string& word) { return word.starts_with(row.typed); };
    if (std::ranges::none_of(arguments, typed)) continue;
    if (const std::string theirs = foreign_option(*line.command, row.typed, line.text(row.option));
        !theirs.empty())
      return usage(format("--{} {}: {}; {}", row.option, line.text(row.option), row.wrong, theirs));
  }
  // A path, and what pdsh and others put before one.
  const std::string hosts = line.has("hosts") ? line.text("hosts") : "";
  const bool path = hosts.find_first_of("./~^@") == 0;
  if (path && !line.has("hostfile"))
    return usage(format("-H {}: expected hosts; a file of them goes to --hostfile {}", hosts,
                        hosts.substr(hosts[0] == '^' || hosts[0] == '@' ? 1 : 0)));
  return {};
}

// plan's collective, before it was a word.
Status take_planned(ParsedLine& line) {
  const std::vector<std::string>& known = line.command->known_words;
  if (!line.has("op") || std::ranges::find(known, line.text("op")) == known.end()) return {};
  const std::string op = line.text("op");
  if (!line.words.empty())
    return usage(format("--op {} beside {}: expected one collective", op, line.words[0]));
  line.notes.push_back(format("--op {} is collctl plan {} here; --op is a reduction", op, op));
  line.words = {op};
  line.given.erase("op");
  return {};
}

}  // namespace

Status take_habits(const std::vector<std::string>& arguments, ParsedLine& line) {
  COLL_TRY(check_mistaken(arguments, line));
  COLL_TRY(take_planned(line));
  if (line.collective == nullptr) return {};
  const auto nccl_tests = [](const std::string& word) {
    return word.size() >= 2 && word[0] == '-' &&
           std::string_view("gtwcG").find(word[1]) != std::string_view::npos &&
           (word.size() == 2 || digits(word.substr(2)));
  };
  line.nccl_tests = std::ranges::any_of(arguments, nccl_tests);
  take_operations(line);
  line.nccl_tests |= !line.notes.empty();
  take_types(line);
  return take_gpus(line);
}

}  // namespace collctl::cmd

// The real binary's output for fixed files, beside tests/golden: help, topologies, plans, saved
// reports, and what it prints of itself.
#include <unistd.h>

#include <fstream>
#include <regex>

#include "base/format.h"
#include "tests/catch.h"
#include "tests/cli/pair_machine.h"
#include "tests/golden.h"
#include "tests/places.h"

namespace golden_tests {

using collctl::format;

namespace {

// The build's and the machine's.
std::string masked(std::string text) {
  char host[256] = "";
  REQUIRE(::gethostname(host, sizeof host - 1) == 0);
  const std::pair<const char*, std::string> kMasks[] = {
      {R"re("(revision|compiler|ssh)":"[^"]*")re", R"("$1":"TEXT")"},
      {R"re("cuda":\{[^}]*\})re", R"("cuda":{})"},
      {R"re("features":\[[^\]]*\])re", R"("features":[])"},
      {R"re(\{[^{}]*this build has no GPU kernels[^{}]*\})re", ""},
      {R"re(collctl: note: this build has no GPU kernels[^\n]*\n)re", ""},
      {R"re("(pid|seconds|wakeup_us)":[0-9.e-]+)re", R"("$1":N)"},
      {R"re(/calibration-[0-9a-f]+)re", "/calibration-HASH"},  // of this machine
      {R"re((runs again after) [0-9.]+ us)re", "$1 N us"},
      {R"re((# interface [^\n]*\n)+)re", "# interfaces of this machine\n"},
      {R"re("interfaces":\[(\{[^{}]*\},?)*\])re", R"("interfaces":[])"},
      {R"re(\(pid \d+, host [^)]*\))re", "(pid N, host HOST)"}};
  for (const auto& [what, by] : kMasks) text = std::regex_replace(text, std::regex(what), by);
  const std::string named = format("\"host\":\"{}\"", std::string(host));
  for (size_t at = 0; (at = text.find(named, at)) != std::string::npos; ++at)
    text.replace(at, named.size(), "\"host\":\"HOST\"");
  return text;
}

// Command lines in `folder`, by one shell.
std::vector<Ran> ran_in(const std::string& folder, const std::vector<std::string>& lines) {
  const TemporaryFolder kept;
  std::string script = format("cd {}\n", folder);
  for (size_t i = 0; i < lines.size(); ++i)
    script += format("{{}} {} > {}/{}.out 2> {}/{}.err; echo $? > {}/{}.code\n", lines[i],
                     kept.path(), i, kept.path(), i, kept.path(), i);
  REQUIRE(shell(script, "COLUMNS=100").code == 0);
  std::vector<Ran> all;
  for (size_t i = 0; i < lines.size(); ++i)
    all.push_back({std::stoi(file_content(kept / format("{}.code", i))),
                   file_content(kept / format("{}.out", i)),
                   file_content(kept / format("{}.err", i))});
  return all;
}

// Each line with what it prints and ends with.
std::string transcript(const std::string& line, const Ran& ran) {
  std::string text = format("$ collctl {}\n{}", line, ran.out);
  if (const std::string err = masked(ran.err); !err.empty())
    text += format("--- standard error\n{}", err);
  return text + (ran.code == 0 ? "\n" : format("--- exit code {}\n\n", ran.code));
}

std::string session(const std::string& folder, const std::vector<std::string>& lines) {
  const std::vector<Ran> all = ran_in(folder, lines);
  std::string text;
  for (size_t i = 0; i < lines.size(); ++i) text += transcript(lines[i], all[i]);
  return text;
}

// A file for each line.
void hold_each(Goldens& goldens, const std::string& folder,
               const std::vector<std::pair<std::string, std::string>>& files) {
  std::vector<std::string> lines;
  for (const auto& [name, line] : files) lines.push_back(line);
  const std::vector<Ran> all = ran_in(folder, lines);
  for (size_t i = 0; i < files.size(); ++i) goldens.hold(files[i].first, masked(all[i].out));
}

std::string goldens_folder() {
  return collctl::test::source_folder() + "/tests/golden";
}

}  // namespace

TEST_CASE("help is as it was", "[cli]") {
  Goldens goldens("help");
  const std::string all = run_collctl("help").out;
  goldens.hold("collctl.txt", all);
  // Two blanks before each command and collective, and several behind.
  const std::regex row("\n  ([a-z-]+) {2,}");
  std::vector<std::string> lines;
  for (std::sregex_iterator at(all.begin(), all.end(), row), end; at != end; ++at)
    lines.push_back((*at)[1].str() + " -h");
  const std::vector<Ran> each = ran_in(".", lines);
  std::string collectives;
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string name = lines[i].substr(0, lines[i].find(' '));
    const std::string text = transcript(lines[i], each[i]);
    if (all.find(format("\n  {} ", name)) < all.find("\nCollectives"))
      goldens.hold(name + ".txt", text);
    else
      collectives += text;
  }
  goldens.hold("collectives.txt", collectives);
  goldens.hold("options.txt", session(".", {"run --help min-busbw", "check --help output",
                                            "run --help exit-codes", "run --help nosuch"}));
}

TEST_CASE("what is printed of a machine is as it was", "[cli]") {
  const TemporaryFolder folder;
  const std::string& here = folder.path();
  write(folder, kPair);
  std::string narrow = kPair;
  const std::string nic = "class=\"0x020000\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"";
  REQUIRE(narrow.find(nic) != std::string::npos);
  narrow.replace(narrow.find(nic) + nic.size() - 3, 2, "8");
  std::ofstream(folder / "narrow.xml") << narrow;
  Goldens topo("topo");
  topo.hold("node.txt", session(here, {"topo --from node.xml --matrix --graph",
                                       "topo --from node.xml --nodes 2 --graph -v",
                                       "topo --from narrow.xml --diff node.xml",
                                       "topo --from node.xml --diff node.xml"}));
  hold_each(topo, here,
            {{"node.json", "topo --from node.xml --json"},
             {"node.svg", "topo --from node.xml -o -"},
             {"node.xml", "topo --from node.xml --xml -"},
             {"diff.json", "topo --from narrow.xml --diff node.xml --json"}});

  Goldens plan("plan");
  const std::string sweep = "plan --from node.xml --nodes 2 -b 1K -e 1M -f 32";
  plan.hold("node.txt", session(here, {sweep, sweep + " --wide -v", sweep + " --op nosuch"}));
  std::string all = sweep;
  const char* const kEndings[] = {"json", "jsonl", "csv", "html"};
  for (const char* ending : kEndings) all += format(" -o plan.{}", ending);
  ran_in(here, {all});
  for (const char* ending : kEndings)
    plan.hold(format("node.{}", ending), masked(file_content(folder / "plan." + ending)));
}

TEST_CASE("what is printed of saved reports is as it was", "[cli]") {
  Goldens goldens("report");
  const std::string here = goldens_folder();
  goldens.hold("one.txt", session(here, {"report run/allreduce.json", "report --wide run/lost.json",
                                         "report run/wrong.json --csv", "report run/shrunk.json",
                                         "report run/split.json", "report run/soak.json"}));
  goldens.hold("hosts.txt",
               session(here, {"report check/failed.json", "report doctor/failed.json",
                              "report rails/failed.json", "report window-test/lost.json",
                              "report topo/diff.json"}));
  goldens.hold("several.txt",
               session(here, {"report check/passed.json check/failed.json check/soak.json",
                              "report --diff check/passed.json check/failed.json",
                              "report --diff --below 0.5 run/split.json run/shrunk.json",
                              "report --diff run/lost.json run/lost.json", "report",
                              "report --diff run/lost.json", "report run/lost.csv"}));
  const TemporaryFolder folder;
  const std::pair<const char*, const char*> kFiles[] = {
      {"several", "report check/passed.json check/failed.json"},
      {"diff", "report --diff check/passed.json check/failed.json"}};
  for (const auto& [name, line] : kFiles) {
    std::vector<std::string> files;
    std::string all = line;
    for (const char* ending : {"json", "jsonl", "csv", "html", "xml", "prom"})
      all += " -o " + folder / files.emplace_back(format("{}.{}", name, ending));
    ran_in(here, {all});
    for (const std::string& file : files) goldens.hold(file, file_content(folder / file));
  }
}

TEST_CASE("what collctl says of itself and of a line is as it was", "[cli]") {
  Goldens goldens("line");
  const std::string ranks = "run -H node[01-02]:2,node03 ";
  goldens.hold("dry-run.txt", session(".", {ranks + "--dry-run allreduce",
                                            ranks + "--dry-run -n 3 --map-by host -- hostname"}));
  hold_each(goldens, ".",
            {{"dry-run.json", ranks + "--dry-run allreduce --json"},
             {"env.txt", "env"},
             {"env.json", "env --json"},
             {"version.json", "version --json"},
             {"mistake.json", "allreduce -n 0 --json"}});
  const TemporaryFolder folder;
  ran_in(folder.path(), {"run -n 1 -o program.json -- sh -c 'exit 3'"});
  goldens.hold("program.json", masked(file_content(folder / "program.json")));
  // A line's first word alone: the rest is the build's.
  const std::string version = run_collctl("version").out;
  goldens.hold("version.txt", std::regex_replace(version, std::regex("([^ \n]*)[^\n]*\n"), "$1\n"));
  goldens.hold("mistakes.txt",
               session(".", {"", "alreduce", "allreduce -n 0", "allreduce -b 1X",
                             "run -n 2 hostname", "-n 4 allreduce", "allreduce --bytes 1M",
                             "check --only nosuch", "run -H node[01- allreduce"}));
}

}  // namespace golden_tests

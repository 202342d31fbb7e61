#include "cmd/nccl_facts/nccl_facts.h"

#include <algorithm>
#include <filesystem>

#include "base/drivers/nccl.h"
#include "base/drivers/plugin.h"
#include "base/env.h"
#include "base/format.h"
#include "base/host_devices.h"
#include "base/host_facts.h"
#include "base/printable.h"
#include "base/record.h"
#include "base/site_files.h"
#include "cmd/report/one_rank.h"
#include "cmd/report/options.h"
#include "cmd/text/provenance.h"

namespace collctl::cmd {
namespace {

using base::drivers::PluginKind;

constexpr const char* kFactsSchema = "collctl.nccl-facts/1";
constexpr size_t kMostVariables = 512, kMostValue = 4096, kMostConfFiles = 16, kMostPorts = 1024;
constexpr size_t kMostPath = 4096;

std::string cut(std::string text, size_t most) {
  if (text.size() > most) text.resize(most);
  return base::printable(text);
}

// Behind the links, since the file's own name tells the version.
std::string real_path(const std::string& path) {
  std::error_code none;
  const auto real = std::filesystem::canonical(path, none);
  return cut(none ? path : real.string(), kMostPath);
}

NcclLibrary library_here() {
  const base::drivers::Nccl& nccl = base::drivers::nccl();
  NcclLibrary found{.missing = cut(nccl.missing, kMostPath)};
  if (!nccl.path.empty()) found.path = real_path(nccl.path);
  int version = 0;
  if (nccl.version != nullptr && nccl.version(&version) == base::drivers::kNcclSuccess)
    found.version = base::drivers::nccl_version_text(version);
  return found;
}

NcclLibrary plugin_here(PluginKind kind, const char* variable) {
  const auto plugin =
      base::drivers::look_for_plugin(kind, base::environment(variable).value_or(""));
  return {.path = plugin.path.empty() ? "" : real_path(plugin.path),
          .version = plugin.version > 0 ? format("v{}", plugin.version) : "",
          .missing = cut(plugin.missing, kMostPath)};
}

std::vector<NcclVariable> variables_here() {
  std::vector<NcclVariable> list;
  for (const std::string& line : base::environment_list()) {
    const size_t end = line.find('=');
    if (!line.starts_with("NCCL_") || end == std::string::npos) continue;
    const std::string name = line.substr(0, end);
    list.push_back({cut(name, 256), cut(line.substr(end + 1), kMostValue),
                    cut(base::file_of_variable(name), kMostPath)});
  }
  std::ranges::sort(list, {}, &NcclVariable::name);
  if (list.size() > kMostVariables) list.resize(kMostVariables);
  return list;
}

Status run_facts(const TaskContext& context) {
  return run_one_rank(context,
                      []() -> Result<std::string> { return nccl_facts_json(nccl_facts()); });
}

Command facts_row(uint32_t own) {
  return {.name = "nccl-facts",
          .kind = CommandKind::task,
          .arguments = "[-H HOST] [--json]",
          .scopes = kTask | own,
          .summary = "the NCCL that ranks on a host would use",
          .description =
              "One rank says which libnccl it finds, which plugins NCCL would load, and "
              "which variables and files it would read.",
          .examples = {{"collctl nccl-facts", "this host"}},
          .hidden = true,
          .run = nccl_facts_command};
}

void add_facts_options(std::vector<Option>& t, uint32_t own) {
  add_file_option(t, own, FileKinds{}, kWholeFiles);
}

std::string library_line(const char* what, const NcclLibrary& library) {
  std::string text = format("{:<10} {}", what, library.path.empty() ? "none" : library.path);
  if (!library.version.empty()) text += ", " + library.version;
  if (!library.missing.empty()) text += format(" ({})", library.missing);
  return text;
}

}  // namespace

static void fields(Record& io, NcclLibrary& library) {
  io.field("path", library.path);
  io.field("version", library.version, 64);
  io.unless_empty("missing", library.missing);
}
static void fields(Record& io, NcclVariable& variable) {
  io.field("name", variable.name, 4096);
  io.field("value", variable.value);
  io.unless_empty("file", variable.file);
}
static void fields(Record& io, NcclConfigFile& file) {
  io.field("path", file.path);
  io.unless_empty("problems", file.problems, kMostConfFiles);
}

void fields(Record& io, NcclFacts& facts) {
  io.field("gpus", facts.gpus, 0, 4096);
  io.field("library", facts.library);
  io.field("net_plugin", facts.net);
  io.field("tuner_plugin", facts.tuner);
  io.field("files", facts.files, kMostConfFiles);
  io.field("variables", facts.variables, kMostVariables);
  io.field("ports", facts.ports, kMostPorts, 256);
}

struct NcclFactsDocument {
  NcclFacts facts;
};

static void fields(Record& io, NcclFactsDocument& document) {
  std::string schema = kFactsSchema;
  io.field("schema", schema);
  if (schema != kFactsSchema) io.fail("schema", kFactsSchema);
  Provenance made = provenance();
  fields(io, made);
  io.field("host", document.facts.host, 256);
  fields(io, document.facts);
}

const std::string* NcclFacts::variable(const char* name) const {
  const auto at = std::ranges::find(variables, name, &NcclVariable::name);
  return at == variables.end() ? nullptr : &at->value;
}

std::string nccl_facts_json(const NcclFacts& facts) {
  return json_of(NcclFactsDocument{facts});
}

Result<NcclFacts> read_nccl_facts(const std::string& json) {
  COLL_ASSIGN(NcclFactsDocument document, record_of<NcclFactsDocument>(json));
  return std::move(document.facts);
}

Document nccl_facts_document(const NcclFacts& facts, std::string json) {
  Facts shown{{library_line("libnccl", facts.library), library_line("net", facts.net),
               library_line("tuner", facts.tuner)}};
  for (const NcclConfigFile& file : facts.files) {
    shown.lines.push_back(format("{:<10} {}", "file", file.path));
    for (const std::string& problem : file.problems)
      shown.lines.push_back(format("{:<10} {}: {}", "file", file.path, problem));
  }
  for (const NcclVariable& one : facts.variables)
    shown.lines.push_back(format("{:<10} {}={}{}", "variable", one.name, one.value,
                                 one.file.empty() ? "" : format(" ({})", one.file)));
  Document document = document_with(std::move(json), "variables");
  document.title = "collctl nccl-facts: " + facts.host;
  document.has_verdict = false;
  document.parts.push_back({std::move(shown)});
  return document;
}

NcclFacts nccl_facts() {
  NcclFacts facts;
  facts.host = base::host_name();
  facts.gpus = int(base::nvidia_gpus_here().size());
  facts.variables = variables_here();  // before libraries say their own
  facts.library = library_here();
  facts.net = plugin_here(PluginKind::net, "NCCL_NET_PLUGIN");
  facts.tuner = plugin_here(PluginKind::tuner, "NCCL_TUNER_PLUGIN");
  for (const base::SiteFile& file : base::site_files()) {
    if (facts.files.size() == kMostConfFiles) break;
    NcclConfigFile& mine = facts.files.emplace_back();
    mine.path = cut(file.path, kMostPath);
    for (const std::string& problem : file.problems)
      if (mine.problems.size() < kMostConfFiles) mine.problems.push_back(cut(problem, kMostPath));
  }
  for (const base::RdmaPort& port : base::rdma_ports())
    if (port.state == "ACTIVE" && facts.ports.size() < kMostPorts)
      facts.ports.push_back(format("{}/{}", port.device, port.port));
  return facts;
}

const RankTask kNcclFactsTask{
    .name = "nccl-facts", .run = run_facts, .command = facts_row, .add_options = add_facts_options};

Result<int> nccl_facts_command(const ParsedLine& given, Console& console) {
  return one_rank_command(given, console, kNcclFactsTask, "{}",
                          [](const std::string& record) -> Result<Document> {
                            COLL_ASSIGN(const NcclFacts facts, read_nccl_facts(record));
                            return nccl_facts_document(facts, nccl_facts_json(facts));
                          });
}

}  // namespace collctl::cmd

// `nccl-facts`: the NCCL that a rank on a host would use: its library, the plugins that it would
// load, the variables and files that it reads, where its RAS listens. One rank on each host says
// all of it, with the environment that ranks have. Part of `check --with nccl`; hidden otherwise.
// Threads: values.
#pragma once
#include <string>
#include <vector>

#include "base/record.h"
#include "cmd/cli/parse.h"
#include "cmd/document/document.h"
#include "cmd/measure/task.h"
#include "cmd/text/console.h"

namespace collctl::cmd {

struct NcclLibrary {
  std::string path = {};     // of the file; empty: there is none
  std::string version = {};  // "2.28.9"; of a plugin its interface's, "v11"
  std::string missing = {};  // why it is not there or cannot be used; empty: nothing is wrong
};
struct NcclVariable {
  std::string name, value;
  std::string file;  // that sets it; empty: the environment
};
struct NcclConfigFile {
  std::string path;
  std::vector<std::string> problems;
};
struct NcclFacts {
  std::string host;
  int gpus = 0;  // of NVIDIA, that a rank can open
  NcclLibrary library, net, tuner;
  std::vector<NcclConfigFile> files;    // nccl.conf, in the order in which they count
  std::vector<NcclVariable> variables;  // NCCL_*, by name
  std::vector<std::string> ports;       // RDMA ports that are active: "mlx5_0/1"
  const std::string* variable(const char* name) const;  // null: it is not set
};
// All but the host's name.
void fields(base::Record& io, NcclFacts& facts);
std::string nccl_facts_json(const NcclFacts& facts);
// Untrusted. Errors: usage, with the field.
Result<NcclFacts> read_nccl_facts(const std::string& json);
// `json`: nccl_facts_json(), or the file that the facts were read from.
Document nccl_facts_document(const NcclFacts& facts, std::string json);

// Those of this process. Loads the libraries.
NcclFacts nccl_facts();

extern const RankTask kNcclFactsTask;
Result<int> nccl_facts_command(const ParsedLine& line, Console& console);

}  // namespace collctl::cmd

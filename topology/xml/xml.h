// NCCL's topology files, both ways. Reading trusts nothing: size, depth, element count and
// every number are bounded; what is invalid is an error with file:line:column and what was
// expected, what is merely odd is a finding. Used by cmd (and later by detection and the dump of
// rank 0). Threads: any.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "topology/types.h"

namespace collctl::topology {

struct Document {
  System system;
  std::vector<Finding> findings;
};

// `name` stands in messages. Errors: usage, "NAME:LINE:COLUMN: ...".
Result<Document> read_xml(std::string_view text, const std::string& name);
// Errors: usage when there is no such regular file, it is larger than kMaxFileBytes, or as above.
Result<Document> read_xml_file(const std::string& path);

// Indented by two blanks, attributes in NCCL's order, unknown ones last. Reading it gives an
// equal System.
std::string write_xml(const System& system);

}  // namespace collctl::topology

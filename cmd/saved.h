// THE table of schemas that `report` reads: what each document holds, as text, pictures and rows.
// Nothing in a file is trusted. Threads: values.
#pragma once
#include <optional>
#include <string>

#include "cmd/report/compare.h"

namespace collctl::cmd {

struct Saved {
  Document document = {};
  std::optional<BenchReport> bench = {};
  PathMatrix paths = {};
};
// One document, or the lines of a .jsonl. Errors: usage, naming what was expected.
Result<Saved> read_saved(const std::string& text);

// The lines of a .jsonl as the document that they are of. Lines without their end become one that
// is not tested to its end; a last line that is cut is left out. One document stays as it is.
Result<std::string> document_of_lines(const std::string& text);

}  // namespace collctl::cmd

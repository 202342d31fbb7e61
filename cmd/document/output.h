// Where a report goes, and in which forms. Values.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "cmd/judge/limits.h"

namespace collctl::cmd {

enum class Format : uint8_t { text, json, csv, jsonl, nccl_tests, svg, html, junit, prometheus };
struct OutputFile {
  std::string path;  // never "-": that is --json (topo: the picture on standard output)
  Format format;
};
struct OutputOptions {
  Format format = Format::text;
  std::vector<OutputFile> files;
  bool plot = false, quiet = false, wide = false;
  int verbosity = 0;
  Limits limits;
  std::string save_baseline;  // empty: nowhere
  std::string trace;          // file of --trace; empty: none
};

}  // namespace collctl::cmd

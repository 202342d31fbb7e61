// A report as the kinds of files that -o names. All come out of its JSON document, so that every
// command writes the same kinds: a CSV and the lines of a .jsonl are the entries of its list. Pure
// but for write_documents(). Threads: any.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cmd/cli/parse.h"
#include "cmd/report/output.h"

namespace collctl::cmd {

// Hosts by checks: the host first, then a word of each check ("ok", "FAIL", "warn", ...).
struct HostTable {
  std::vector<std::string> checks;
  std::vector<std::vector<std::string>> rows;
};

struct Document {
  std::string title;          // "collctl doctor: 4 hosts"
  std::string json;           // the whole report, valid
  std::string rows;           // the key of the list in it that .csv and .jsonl are made of
  std::string text;           // as a person reads it, without colours
  std::string svg;            // a picture, or empty
  std::string more_svg = {};  // further pictures, for .html alone
  std::string csv = {};       // empty: made of the list
  // For .html: what, what was found, what it was held against.
  std::vector<std::vector<std::string>> evidence = {};
  HostTable hosts = {};  // for .html; empty: made of the checks in it, if there are any
};

// .jsonl: first the document without the list, then a line for each entry. .csv: a column for each
// key that an entry has, PARENT.KEY for those of an object inside. .html: one page that needs no
// other file and no network (page.cc). .xml: JUnit; .prom: Prometheus (monitoring.cc). The format
// is none of text and nccl_tests.
std::string document_as(Format format, const Document& document);
// Every file, each whole or not at all. The first that cannot be written is the error.
Status write_documents(const std::vector<OutputFile>& files, const Document& document);

// The entries of a list of the document, or of what was measured before its run broke off, as rows
// of texts.
struct Rows {
  std::vector<std::string> titles;
  std::vector<std::vector<std::string>> cells;  // by row and title
};
Rows rows_of(const std::string& json, const std::string& key);
// Every list of objects in it as a table, below what it says in single values: what a person sees
// of documents that nothing else can show.
std::string lists_text(const std::string& json, size_t width);

// page.cc, monitoring.cc
std::string page_of(const Document& document);
std::string junit_of(const Document& document);
std::string prometheus_of(const Document& document);

}  // namespace collctl::cmd

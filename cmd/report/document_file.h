// A report as the kinds of files that -o names. All come out of its JSON document, so that every
// command writes the same kinds: a CSV and the lines of a .jsonl are the entries of its list. Pure
// but for write_documents(). Threads: any.
#pragma once
#include <string>
#include <vector>

#include "base/result.h"
#include "cmd/cli/parse.h"

namespace collctl::cmd {

struct Document {
  std::string title;  // "collctl doctor: 4 hosts"
  std::string json;   // the whole report, valid
  std::string rows;   // the key of the list in it that .csv and .jsonl are made of
  std::string list = {};  // JSON of that list where the document has none; else empty
  std::string text;   // as a person reads it, without colours
  std::string svg;    // a picture, or empty
};

// .jsonl: first the document without the list, then a line for each entry. .csv: a column for each
// key that an entry has, PARENT.KEY for those of an object inside. .html: one file that needs no
// other, with the picture. The format is none of text and nccl_tests.
std::string document_as(Format format, const Document& document);
// Every file, each whole or not at all. The first that cannot be written is the error.
Status write_documents(const std::vector<OutputFile>& files, const Document& document);

}  // namespace collctl::cmd

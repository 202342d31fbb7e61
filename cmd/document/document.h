// Output of a command, made once and rendered as text, page, JUnit, Prometheus, CSV, lines or
// pictures. The JSON is the command's own (its keys are a contract); everything else that scripts
// read comes out of it, so that every command writes the same kinds of files. Pure but for
// write_documents(). Threads: any.
#pragma once
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "cmd/document/judgement.h"
#include "cmd/judge/limits.h"
#include "cmd/text/console.h"
#include "cmd/text/table.h"

namespace collctl::cmd {

// Where a report goes, and in which forms. Values.

enum class Format : uint8_t { text, json, csv, jsonl, nccl_tests, svg, html, junit, prometheus };
// Kinds of files that not every command can write: pictures; what monitoring reads of findings.
struct FileKinds {
  bool pictures = false, monitoring = false;
};
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

struct Facts {
  std::vector<std::string> lines;  // each goes on below where it does not fit
};
struct Table {
  std::vector<TableColumn> columns;
  std::vector<std::string_view> expendable = {};  // where there is no room, in this order
  // A row: as many cells as columns.
  void add(std::initializer_list<std::string> cells) {
    size_t column = 0;
    for (const std::string& cell : cells) columns[column++].cells.push_back(cell);
  }
};
struct Grid {
  std::string title = {};  // may be empty
  TextMatrix matrix = {};  // by rows and columns that are alike
};
// Hosts by checks: the host first, then a word of each check ("ok", "FAIL", "warn", ...).
struct HostTable {
  std::vector<std::string> checks;
  std::vector<std::vector<std::string>> rows;
  // Whether a row has nothing to say: those of many hosts are folded.
  static bool is_plain(const std::vector<std::string>& row);
};
// A measurement, and what it was compared with (empty: nothing, it is alone).
struct Evidence {
  std::string what, found, against;
};
using EvidenceList = std::vector<Evidence>;
// Lines for a person that nothing else here can show.
struct Drawn {
  std::function<std::string(size_t width)> lines;  // each ended
};

enum class Shown : uint8_t { always, brief, whole };  // brief: not where all is asked for
struct DocumentPart {
  std::variant<Facts, Table, Grid, HostTable, EvidenceList, Drawn> what;
  Shown shown = Shown::always;
  bool after = false;  // the findings
};

struct TextStyle {
  size_t width = kNoWidth;
  bool whole = false;                // with all that -v shows
  bool quiet = false;                // without the heading
  bool tells_error = false;          // that the run broke off with; else whoever ran it says so
  const Console* console = nullptr;  // with its colours; null: without
};

struct Document {
  std::string title = {};                // "collctl rails: 4 hosts"
  std::string heading = {};              // the first line of the text, with what it was done with
  std::vector<DocumentPart> parts = {};  // in this order
  Judgement judged = {};
  std::vector<std::string> hosts = {};  // that were judged; empty: not known
  std::string summary = {};             // the verdict's reasons in a few words; may be empty
  std::string json = {};                // the whole report, valid
  std::string rows = {};  // the key of the list in it that .csv and .jsonl are made of
  // Text that was printed as it came, row by row; none: made of the rest.
  std::function<std::string(const TextStyle&)> own_text = {};
  std::string csv = {};       // empty: made of the list
  std::string svg = {};       // a picture, or empty
  std::string more_svg = {};  // further pictures, for .html alone
  bool has_verdict = true;    // false: nothing was judged, it says what is (topo, plan, status)
};

// One with what its JSON says and nothing to print yet.
Document document_with(std::string json, std::string rows);

// text.cc: the heading, the parts, who is at fault, what failed, what is to know, what was not
// tested, and last the verdict. Nothing in it is obeyed by a terminal.
std::string document_text(const Document& document, const TextStyle& style);
// "passed", "FAILED: 1 of 6 hosts (node03)": THE words for how a run ended.
// sections.cc: who is at fault, what failed, what is to know, what was not tested, in this order;
// those with nothing are left out. Each check has at most so many lines.
struct Section {
  const char* title;  // "at fault"
  struct Entry {
    std::vector<std::pair<std::string, std::string>> lines =
        {};                   // by whom or which check, in words
    std::string remedy = {};  // of all of them; may be empty
  };
  std::vector<Entry> entries = {};
};
std::vector<Section> sections_of(const Judgement& judged, size_t most);
// Green, yellow or red.
std::string verdict_coloured(const Verdict& verdict, const Console* console,
                             const std::string& words);
std::string verdict_words(const Judgement& judged, size_t hosts = 0,
                          const std::string& summary = {});

// THE table of kinds of files, in the order of the help of -o.
struct FileKind {
  Format format;
  const char* ending;
  std::string (*made)(const Document& document);
  FileKinds only = {};  // of commands that can write such files
};
std::span<const FileKind> file_kinds();
// Those that such a command writes: ".json .jsonl .csv .html".
std::vector<FileKind> file_kinds_of(FileKinds kinds);

// .jsonl: first the document without the list, then a line for each entry. .csv: a column for each
// key that an entry has, PARENT.KEY for those of an object inside. .html: one page that needs no
// other file and no network (page.cc). .xml: JUnit; .prom: Prometheus (monitoring.cc). The format
// is none of text and nccl_tests.
std::string document_as(Format format, const Document& document);
// Every file, each whole or not at all. The first that cannot be written is the error.
Status write_documents(const std::vector<OutputFile>& files, const Document& document);
// Standard output in the form that was asked for; then every file, as above.
void print_document(const Document& document, const OutputOptions& output, Console& console);
Status deliver(const Document& document, const OutputOptions& output, Console& console);

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

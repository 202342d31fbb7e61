#include "tests/tidy/sentences.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <climits>
#include <cstdio>
#include <sstream>
#include <string_view>
#include <utility>

namespace tidy {
namespace {

// Lines that are read as one text, which end() cuts into sentences.
class Passage {
 public:
  void add(int line, const std::string& words) {
    std::istringstream in(words);
    for (std::string word; in >> word;) {
      if (!text_.empty()) text_ += ' ';
      lines_.emplace_back(text_.size(), line);
      text_ += word;
    }
  }
  // A sentence ends where a capital follows behind its stop; both may have quotes or brackets.
  void end(std::vector<Sentence>& to) {
    size_t begin = 0;
    for (size_t i = 0; i < text_.size(); ++i) {
      if (std::string_view(".!?:").find(text_[i]) == std::string_view::npos) continue;
      const size_t space = std::min(text_.find_first_not_of("\"')*", i + 1), text_.size());
      const size_t next = text_.find_first_not_of(" \"'(`*", space);
      if (next == std::string::npos || text_[space] != ' ' || std::isupper(text_[next]) == 0)
        continue;
      cut(begin, space, to);
      begin = space + 1;
    }
    cut(begin, text_.size(), to);
    text_.clear(), lines_.clear();
  }

 private:
  void cut(size_t begin, size_t end, std::vector<Sentence>& to) const {
    if (begin == end) return;
    auto word = std::upper_bound(lines_.begin(), lines_.end(), std::pair(begin, INT_MAX));
    to.push_back({std::prev(word)->second, text_.substr(begin, end - begin)});
  }

  std::string text_;
  std::vector<std::pair<size_t, int>> lines_;  // of each word: where it begins, its line
};

}  // namespace

size_t comment_at(const std::string& line) {
  const size_t at = line.find("//");
  // A "//" inside a string literal (a URL) is not a comment; good enough: count quotes before it.
  if (at == std::string::npos || std::count(line.begin(), line.begin() + long(at), '"') % 2 == 1)
    return std::string::npos;
  return at;
}

std::vector<Sentence> sentences_of_code(std::istream& in) {
  std::vector<Sentence> found;
  Passage passage;
  size_t column = std::string::npos;  // of the comment above
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    const size_t at = comment_at(line);
    const bool alone = at != std::string::npos && line.find_first_not_of(" \t") == at;
    const std::string text = at == std::string::npos ? "" : line.substr(at + 2);
    if (!alone || at != column || text.empty()) passage.end(found);
    passage.add(number, text);
    column = at;
  }
  passage.end(found);
  return found;
}

std::vector<Sentence> sentences_of_document(std::istream& in) {
  std::vector<Sentence> found;
  Passage passage;
  bool code = false;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    const size_t at = std::min(line.find_first_not_of(" \t"), line.size());
    const bool fence = line.compare(at, 3, "```") == 0;
    if (fence) code = !code;
    const bool title = line.compare(at, 1, "#") == 0, row = line.compare(at, 1, "|") == 0;
    const size_t item = line.find_first_not_of(">-*+0123456789.", at);
    const bool marked = item != at && item != std::string::npos && line[item] == ' ';
    if (fence || title || row || marked || at == line.size()) passage.end(found);
    if (fence || code) continue;
    if (!row) {
      passage.add(number, marked ? line.substr(item) : line);
      if (title) passage.end(found);
      continue;
    }
    std::istringstream cells(line.substr(at + 1));
    for (std::string cell; std::getline(cells, cell, '|'); passage.end(found))
      passage.add(number, cell);
  }
  passage.end(found);
  return found;
}

bool names_subject_late(const std::string& sentence) {
  static const std::array<std::string, 6> kLate{"Who",     "What",     "Whose",
                                                "Whoever", "Whatever", "Of"};
  const size_t begin = std::min(sentence.find_first_not_of("\"'(`*_"), sentence.size());
  const auto end = std::find_if(sentence.begin() + long(begin), sentence.end(),
                                [](unsigned char c) { return std::isalpha(c) == 0; });
  const std::string word(sentence.begin() + long(begin), end);
  return std::find(kLate.begin(), kLate.end(), word) != kLate.end() && !sentence.ends_with('?');
}

void SubjectsFirst::add(const std::string& path, const std::vector<Sentence>& sentences) {
  all_ += sentences.size();
  for (const auto& [line, text] : sentences)
    if (names_subject_late(text)) late_.push_back(path + ":" + std::to_string(line) + ": " + text);
}

bool SubjectsFirst::too_many() const {
  return late_.size() * 200 > all_;
}

int SubjectsFirst::report() const {
  std::printf("tidy: %zu of %zu sentences of %s begin with a relative clause or \"Of\"\n",
              late_.size(), all_, kind_.c_str());
  if (!too_many()) return 0;
  for (const std::string& one : late_) std::printf("%s\n", one.c_str());
  std::printf("    more than one in 200: name the subject first\n");
  return int(late_.size());
}

bool sees_late_subjects() {
  const auto late = [](auto sentences_of, const std::string& text) {
    std::istringstream in(text);
    std::string lines;
    for (const auto& [line, words] : sentences_of(in))
      if (names_subject_late(words)) lines += std::to_string(line);
    return lines;
  };
  const std::string code =
      "// One sentence. What\n// follows is late, \"of\" is not.\nint x;  // Of x.\n"
      "//\n// Who asks? And\n  // Of it\n  f(\"// Whose\");\n"
      "// (Whoever was here. A last\n// one.) No stop\n//\n// Whatever\n"
      "int y;  // a: Whatever\n        // stays: What\n";
  const std::string document =
      "# What is a title\nOf one\nline. *Of* two.\n\n- What is first\n- who is not\n"
      "```\nWho\n```\n| Of a | b Of | Whatever |\n|---|---|---|\n1. Who?\n";
  if (late(sentences_of_code, code) != "1368111213" ||
      late(sentences_of_document, document) != "2351010")
    return false;
  SubjectsFirst few("tests"), many("tests");
  few.add("x", std::vector<Sentence>(199, {1, "It is."})), few.add("x", {{1, "Of it."}});
  many.add("x", std::vector<Sentence>(198, {1, "It is."})), many.add("x", {{1, "Of it."}});
  return !few.too_many() && many.too_many();
}

}  // namespace tidy

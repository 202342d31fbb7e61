// Sentences of comments and documents. Few may begin with a relative clause ("Whoever fails ...")
// or with "Of ...": a reader wants to know at once what a sentence is about. Pure but for report().
#pragma once
#include <istream>
#include <string>
#include <utility>
#include <vector>

namespace tidy {

struct Sentence {
  int line;  // on which it begins, from 1
  std::string text;
};

// Where the comment of a line of C++ begins ("//"); npos: it has none.
size_t comment_at(const std::string& line);

// C++ and CUDA: of `//` comments.
std::vector<Sentence> sentences_of_code(std::istream& in);
// Markdown: of paragraphs, items, titles (each with its mark) and cells of tables, not of code.
std::vector<Sentence> sentences_of_document(std::istream& in);

// Whether it begins so. Questions and titles may.
bool names_subject_late(const std::string& sentence);

// Counts such sentences, over all files of a kind.
class SubjectsFirst {
 public:
  explicit SubjectsFirst(std::string kind) : kind_(std::move(kind)) {}
  void add(const std::string& path, const std::vector<Sentence>& sentences);
  bool too_many() const;  // more than one in 200
  // Prints the count, and where there are too many each of them. Their number then, otherwise 0.
  int report() const;

 private:
  std::string kind_;
  size_t all_ = 0;
  std::vector<std::string> late_;
};

// Shows that the count can fail.
bool sees_late_subjects();

}  // namespace tidy

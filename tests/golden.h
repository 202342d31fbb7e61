// Texts that the product prints, kept as files: tests/golden/FOLDER/NAME. A text that is not its
// file's fails with a unified diff. With COLLCTL_GOLDEN=write in the environment the files are
// written instead, and those that nothing holds any more are removed. Threads: one.
#pragma once
#include <set>
#include <string>

class Goldens {
 public:
  // Has the folder to itself.
  explicit Goldens(const std::string& folder);
  // Fails for a file of the folder that was not held.
  ~Goldens();
  Goldens(const Goldens&) = delete;
  Goldens& operator=(const Goldens&) = delete;
  // JSON (NAME.json, NAME.jsonl) is kept with a line for each key, nothing else of it is changed.
  // The version of this tree stands there as VERSION, the date of a report as DATE.
  void hold(const std::string& name, std::string text);

 private:
  const std::string folder_;
  const bool writes_;
  std::set<std::string> held_;
};

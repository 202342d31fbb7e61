// The committed topology files (tests/topology/data).
#pragma once
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/places.h"

inline std::string data_path(const std::string& name) {
  return collctl::test::topology_data() + "/" + name;
}

inline std::vector<std::string> data_files() {
  std::vector<std::string> paths;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(collctl::test::topology_data()))
    if (entry.path().extension() == ".xml") paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

inline std::string data_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

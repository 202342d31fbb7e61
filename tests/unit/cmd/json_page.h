// Documents against the page that describes them (docs/json.md): a section for each schema, with a
// table of keys, types and when they are there.
#pragma once
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/places.h"

namespace collctl::cmd::testing {

struct PageKey {
  std::string type, when, meaning;
};
using PageKeys = std::map<std::string, PageKey>;

// The rows of the table of "## title": | `key` | type | when | meaning |
inline PageKeys table_of(const std::string& title) {
  const auto page = std::filesystem::path(test::source_folder()) / "docs/json.md";
  std::ifstream in(page);
  PageKeys keys;
  bool here = false;
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("## ", 0) == 0) here = line == "## " + title;
    if (!here || line.rfind("| `", 0) != 0) continue;
    std::vector<std::string> cells;
    std::istringstream cut(line);
    for (std::string cell; std::getline(cut, cell, '|');) {
      const size_t from = cell.find_first_not_of(' '), to = cell.find_last_not_of(' ');
      cells.push_back(from == std::string::npos ? "" : cell.substr(from, to - from + 1));
    }
    REQUIRE(cells.size() >= 5);
    const std::string key = cells[1].substr(1, cells[1].size() - 2);
    CHECK(keys.emplace(key, PageKey{cells[2], cells[3], cells[4]}).second);
  }
  return keys;
}

inline PageKeys every_key(const std::string& schema);

// The rows of a schema's own table. "keys as `X`" (also "of `SCHEMA`") in a meaning: those below X
// are there as well.
inline PageKeys documented(const std::string& schema) {
  static const std::regex kAs("keys as `([^`]+)`(?: of `([^`]+)`)?");
  const PageKeys own = table_of(schema);
  PageKeys keys = own;
  for (const auto& [key, row] : own) {
    std::smatch as;
    if (!std::regex_search(row.meaning, as, kAs)) continue;
    PageKeys others = as[2].matched ? every_key(as[2]) : own;
    if (!as[2].matched) others.merge(table_of("In every report"));
    CHECK(others.count(as[1]) == 1);
    for (const auto& [other, what] : others) {
      if (!other.starts_with(as.str(1))) continue;
      std::string below = other.substr(as.str(1).size());
      if (row.type == "object" && below.starts_with("[]")) below.erase(0, 2);
      if (below.starts_with(".") || below.starts_with("[]")) keys.emplace(key + below, what);
    }
  }
  return keys;
}

// With those of every report.
inline PageKeys every_key(const std::string& schema) {
  PageKeys keys = documented(schema);
  keys.merge(table_of("In every report"));
  return keys;
}

inline std::string type_of(const nlohmann::json& value) {
  if (value.is_string()) return "text";
  if (value.is_boolean()) return "flag";
  if (value.is_number_integer()) return "whole";
  if (value.is_number()) return "number";
  if (value.is_array()) return "list";
  return value.is_null() ? "null" : "object";
}

inline bool type_fits(const std::string& said, const std::string& found) {
  if (said == found) return true;
  if (said == "number" && found == "whole") return true;  // 2.0 is written as 2
  const size_t at = said.find(" or ");
  return at != std::string::npos &&
         (type_fits(said.substr(0, at), found) || type_fits(said.substr(at + 4), found));
}

inline std::string unknown(const nlohmann::json& document);

// Mistakes in a value, one line each; `seen` gathers the keys.
inline void compare(const nlohmann::json& value, const std::string& path, const PageKeys& keys,
                    std::set<std::string>& seen, std::set<std::string>& wrong) {
  if (!path.empty()) {
    seen.insert(path);
    const auto known = keys.find(path);
    if (known == keys.end())
      wrong.insert(path + " is not documented");
    else if (!type_fits(known->second.type, type_of(value)))
      wrong.insert(path + " is " + type_of(value) + ", not " + known->second.type);
    else if (known->second.meaning.find("a document with") != std::string::npos) {
      if (const std::string its = unknown(value); !its.empty()) wrong.insert(path + ":\n" + its);
      return;
    }
  }
  if (value.is_array())
    for (const nlohmann::json& element : value) {
      // Elements that are objects have no line of their own.
      if (element.is_object())
        for (const auto& [key, inner] : element.items())
          compare(inner, path + "[]." + key, keys, seen, wrong);
      else
        compare(element, path + "[]", keys, seen, wrong);
    }
  if (!value.is_object()) return;
  for (const auto& [key, inner] : value.items())
    compare(inner, path.empty() ? key : path + "." + key, keys, seen, wrong);
}

inline std::string lines_of(const std::set<std::string>& wrong) {
  std::string text;
  for (const std::string& line : wrong) text += line + "\n";
  return text;
}

// Keys of a document that the page does not know, one line each; empty: none.
inline std::string unknown(const nlohmann::json& document) {
  std::set<std::string> seen, wrong;
  compare(document, "", every_key(document.at("schema")), seen, wrong);
  return lines_of(wrong);
}

// The same, and what is always there and is not. Adds its keys to `seen`.
inline std::string problems(const std::string& document, const PageKeys& keys,
                            std::set<std::string>& seen) {
  std::set<std::string> here, wrong;
  compare(nlohmann::json::parse(document), "", keys, here, wrong);
  for (const auto& [key, what] : keys) {
    if (what.when != "always" || here.count(key) != 0) continue;
    // Below what is not there.
    const std::string parent = key.substr(0, std::min(key.rfind('.'), key.size()));
    // Elements that are objects have no line of their own: their list has.
    const bool element = parent.ends_with("[]");
    const bool nothing_above =
        parent != key && here.count(element ? parent.substr(0, parent.size() - 2) : parent) == 0;
    if (!nothing_above) wrong.insert(key + " is missing");
  }
  seen.insert(here.begin(), here.end());
  return lines_of(wrong);
}

}  // namespace collctl::cmd::testing

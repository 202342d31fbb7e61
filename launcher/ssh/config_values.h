// The values of one host while its SSH configuration is being read: the first value of a keyword
// counts, identity files add up. Used by the two readers of config.h.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "launcher/ssh/config.h"

namespace collctl::launcher {

// 1..65535, digits only.
bool parse_port(const std::string& text, int& port);

class RawConfig {
 public:
  // A keyword in any case and its value; unknown keywords are skipped.
  void take(const std::string& keyword, const std::string& value);
  bool has(const std::string& keyword) const { return values_.count(keyword) == 1; }
  ResolvedHost finish(const ConfigPlace& place) const;

 private:
  std::string value(const std::string& keyword) const;

  std::map<std::string, std::string> values_;
  std::vector<std::string> identity_files_;
};

}  // namespace collctl::launcher

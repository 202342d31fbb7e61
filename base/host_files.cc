#include "base/host_files.h"

#include <algorithm>
#include <fstream>

#include "base/whole_number.h"

namespace collctl::base::host_files {

std::string head_of(const fs::path& path, size_t most) {
  std::ifstream in(path, std::ios::binary);
  std::string text(most, '\0');
  in.read(text.data(), std::streamsize(most));
  text.resize(size_t(std::max<std::streamsize>(in.gcount(), 0)));
  return text;
}

std::string value_of(const fs::path& path) {
  std::string text = head_of(path, kMostValue);
  text.resize(std::min(text.size(), text.find('\n')));
  for (char& c : text)
    if (uint8_t(c) < 0x20 || c == 0x7f) c = '?';
  return text;
}

std::string word_of(const fs::path& path) {
  const std::string text = value_of(path);
  const size_t colon = text.find(": ");
  return colon == std::string::npos ? text : text.substr(colon + 2);
}

std::vector<fs::path> entries_of(const fs::path& folder, size_t most) {
  std::vector<fs::path> list;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end && list.size() < most;
       at.increment(error))
    list.push_back(at->path());
  std::ranges::sort(list);
  return list;
}

std::vector<int> numbered(const fs::path& folder, size_t most) {
  std::vector<int> numbers;
  for (const fs::path& path : entries_of(folder, most))
    if (const auto number = whole_number(path.filename().string()); number && *number >= 0)
      numbers.push_back(*number);
  std::ranges::sort(numbers);
  return numbers;
}

bool is_bus_id(const std::string& text) {
  return text.size() == 12 && text[4] == ':' && text[7] == ':' && text[10] == '.' &&
         text.find_first_not_of("0123456789abcdef:.") == std::string::npos;
}

std::vector<fs::path> way_up(const fs::path& device) {
  std::error_code error;
  fs::path at = fs::canonical(device, error);
  std::vector<fs::path> chain;
  while (!error && chain.size() < 64 && is_bus_id(at.filename())) {
    chain.push_back(at);
    at = at.parent_path();
  }
  return chain;
}

}  // namespace collctl::base::host_files

// Small files and folders of the kernel (/sys, /proc): each read in part only, their text as a
// terminal may see it. For the readers base/host_*. Threads: any.
#pragma once
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace collctl::base::host_files {

namespace fs = std::filesystem;

// So many bytes at most, as they are; empty when it cannot be read.
std::string head_of(const fs::path& path, size_t most);
// The first line, of characters that a terminal may see.
std::string value_of(const fs::path& path);
// "4: ACTIVE" -> "ACTIVE"
std::string word_of(const fs::path& path);
// Sorted; none when the folder is not there.
std::vector<fs::path> entries_of(const fs::path& folder, size_t most);
// Those of a folder whose names are numbers, by value.
std::vector<int> numbered(const fs::path& folder, size_t most);
// "0000:18:00.0"
bool is_bus_id(const std::string& text);
// The device itself and all bridges above it, lowest first; empty when it is not on the PCI bus.
std::vector<fs::path> way_up(const fs::path& device);

inline constexpr size_t kMostValue = 256;     // bytes of a file that holds one value
inline constexpr size_t kMostDevices = 4096;  // of the PCI bus

}  // namespace collctl::base::host_files

// The PCI tree of a detection: devices are added by their folder in sysfs, together with the
// switches above them. Used by discover*.cc only. Threads: one.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "topology/detect/file_tree.h"
#include "topology/findings.h"
#include "topology/types.h"

namespace collctl::topology {

class PciWalk {
 public:
  PciWalk(FileTree& files, FindingList& findings) : files_(files), findings_(findings) {}

  // The folder of a device; nothing when the kernel does not show it.
  std::optional<std::string> folder_of(BusId device);
  // The nearest PCI device at or above a folder (a virtio interface lies below its device).
  static std::optional<std::string> device_above(const std::string& folder);
  static std::optional<BusId> device_of(const std::string& folder);
  std::optional<uint32_t> class_of(const std::string& folder);
  std::optional<uint32_t> hex_file(const std::string& path, uint32_t maximum);

  // Adds a device with all above it. Null when there are too many; valid as long as this.
  Pci* add(const std::string& folder);
  Pci* add_without_folder(BusId device);

  // By NUMA node (-1: unknown), in the order of addresses. Ends the walk.
  std::map<int, std::vector<Pci>> take();

 private:
  struct Found {
    Pci pci;
    std::string folder;
    std::optional<BusId> parent;
    int numa = -1;
    int level = 0;  // devices above it
  };
  void fill(Pci& pci, const std::string& folder);
  std::optional<std::string> words_of(const std::string& path);
  void fill_link(Pci& pci, const std::string& folder);
  void fill_peers(Pci& pci);
  Pci assemble(const Found& found, int& numa);

  FileTree& files_;
  FindingList& findings_;
  std::map<BusId, Found> found_;
  std::map<BusId, std::vector<BusId>> below_;
  size_t peers_ = 0;  // listed
};

}  // namespace collctl::topology

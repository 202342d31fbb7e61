// A folder in place of a machine's root, with the files of sysfs that a test wants.
#pragma once
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace collctl::base::testing {

namespace fs = std::filesystem;

class Root {
 public:
  Root() {
    std::string name = (fs::temp_directory_path() / "collctl-root-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~Root() { fs::remove_all(path_); }
  std::string text() const { return path_.string(); }
  void file(const std::string& at, const std::string& content) const {
    fs::create_directories((path_ / at).parent_path());
    std::ofstream(path_ / at, std::ios::binary) << content;
  }
  // `to`: relative to the link's folder.
  void link(const std::string& at, const std::string& to) const {
    fs::create_directories((path_ / at).parent_path());
    fs::create_symlink(to, path_ / at);
  }
  // A PCI device at `where` below sys/devices: "pci0000:00/0000:00:01.0".
  void pci(const std::string& where, const std::string& kind, const std::string& vendor) const {
    file("sys/devices/" + where + "/class", kind + "\n");
    file("sys/devices/" + where + "/vendor", vendor + "\n");
    link("sys/bus/pci/devices/" + where.substr(where.rfind('/') + 1), "../../../devices/" + where);
  }
  void rdma(const std::string& name, const std::string& where) const {
    const std::string at = "sys/devices/" + where + "/infiniband/" + name;
    file(at + "/fw_ver", "28.39.1002\n");
    link(at + "/device", "../..");
    link("sys/class/infiniband/" + name, "../../devices/" + where + "/infiniband/" + name);
  }

 private:
  fs::path path_;
};

}  // namespace collctl::base::testing

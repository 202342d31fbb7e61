// The folders that tests read from. One small file knows them (places.cc), so that everything else
// compiles to the same object in every copy of the tree. All are absolute paths.
#pragma once
#include <string>

namespace collctl::test {

std::string source_folder();   // the top of the tree
std::string topology_data();   // machines' topology files
std::string build_folder();    // of the tests: has fake_drivers, fake_fabric, fake_plugins
std::string collctl_binary();  // the product as it was built
inline std::string fake_plugins() {
  return build_folder() + "/fake_plugins";
}
inline std::string fake_drivers() {
  return build_folder() + "/fake_drivers";
}

}  // namespace collctl::test

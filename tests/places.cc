#include "tests/places.h"

namespace collctl::test {

std::string source_folder() {
  return COLLCTL_SOURCES;
}
std::string topology_data() {
  return COLLCTL_SOURCES "/tests/topology/data";
}
std::string build_folder() {
  return COLLCTL_TESTS_BUILD;
}
std::string collctl_binary() {
  return COLLCTL_BUILD "/collctl";
}

}  // namespace collctl::test

// The declarations of libibverbs by hand, against its header where that is installed.
#if __has_include(<infiniband/verbs.h>)
#include <infiniband/verbs.h>

#include <cstddef>

#include "base/drivers/verbs.h"
#include "tests/catch.h"

namespace detect_driver_layouts_tests {

using namespace collctl::base::drivers;

TEST_CASE("the structures of verbs are laid out as in the header") {
  CHECK(sizeof(VerbsDeviceFacts) == sizeof(ibv_device_attr));
  CHECK(offsetof(VerbsDeviceFacts, system_guid) == offsetof(ibv_device_attr, sys_image_guid));
  CHECK(offsetof(VerbsDeviceFacts, max_qp) == offsetof(ibv_device_attr, max_qp));
  CHECK(offsetof(VerbsDeviceFacts, ports) == offsetof(ibv_device_attr, phys_port_cnt));
  CHECK(sizeof(VerbsPortFacts) >= sizeof(ibv_port_attr));
  CHECK(offsetof(VerbsPortFacts, state) == offsetof(ibv_port_attr, state));
  CHECK(offsetof(VerbsPortFacts, width) == offsetof(ibv_port_attr, active_width));
  CHECK(offsetof(VerbsPortFacts, speed) == offsetof(ibv_port_attr, active_speed));
  CHECK(offsetof(VerbsPortFacts, link_layer) == offsetof(ibv_port_attr, link_layer));
  CHECK(IBV_PORT_ACTIVE == 4);
}

}  // namespace detect_driver_layouts_tests

#endif

#include "base/drivers/verbs.h"

#include "base/drivers/library.h"

namespace collctl::base::drivers {
namespace {

Verbs load() {
  Verbs table;
  const Library library("libibverbs.so.1");
  table.missing = library.error();
  if (!library) return table;
  library.find(table.device_list, "ibv_get_device_list");
  library.find(table.free_list, "ibv_free_device_list");
  library.find(table.name, "ibv_get_device_name");
  library.find(table.open, "ibv_open_device");
  library.find(table.close, "ibv_close_device");
  library.find(table.device_facts, "ibv_query_device");
  library.find(table.port_facts, "ibv_query_port");
  if (table.device_list == nullptr || table.free_list == nullptr || table.name == nullptr ||
      table.open == nullptr || table.close == nullptr || table.device_facts == nullptr ||
      table.port_facts == nullptr)
    table.missing = "libibverbs.so.1 lacks functions";
  return table;
}

}  // namespace

const Verbs& verbs() {
  static const Verbs table = load();
  return table;
}

}  // namespace collctl::base::drivers

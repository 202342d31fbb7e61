#include "base/drivers/verbs.h"

#include <utility>

#include "base/drivers/library.h"

namespace collctl::base::drivers {
namespace {

std::string lacking(const Finder& finder) {
  return finder.missing() == nullptr ? ""
                                     : std::string("libibverbs.so.1 lacks ") + finder.missing();
}

std::string find_facts(Verbs& t, const Library& library) {
  Finder f(library);
  f.find(t.device_list, "ibv_get_device_list").find(t.free_list, "ibv_free_device_list");
  f.find(t.name, "ibv_get_device_name");
  f.find(t.open, "ibv_open_device").find(t.close, "ibv_close_device");
  f.find(t.device_facts, "ibv_query_device").find(t.port_facts, "ibv_query_port");
  return lacking(f);
}

std::string find_transfer(Verbs& t, const Library& library) {
  Finder f(library);
  f.find(t.fork_init, "ibv_fork_init").find(t.query_gid, "ibv_query_gid");
  f.find(t.alloc_domain, "ibv_alloc_pd").find(t.free_domain, "ibv_dealloc_pd");
  f.find(t.register_memory, "ibv_reg_mr").find(t.deregister, "ibv_dereg_mr");
  f.find(t.make_channel, "ibv_create_comp_channel");
  f.find(t.destroy_channel, "ibv_destroy_comp_channel");
  f.find(t.make_cq, "ibv_create_cq").find(t.destroy_cq, "ibv_destroy_cq");
  f.find(t.get_cq_event, "ibv_get_cq_event").find(t.ack_cq_events, "ibv_ack_cq_events");
  f.find(t.make_qp, "ibv_create_qp").find(t.modify_qp, "ibv_modify_qp");
  f.find(t.destroy_qp, "ibv_destroy_qp");
  f.find(t.get_event, "ibv_get_async_event").find(t.ack_event, "ibv_ack_async_event");
  return lacking(f);
}

Verbs load_verbs() {
  Verbs table;
  const Library library("libibverbs.so.1");
  table.missing = table.transfer_missing = library.error();
  if (!library) return table;
  table.missing = find_facts(table, library);
  table.transfer_missing = find_transfer(table, library);
  if (table.transfer_missing.empty()) table.transfer_missing = table.missing;
  library.find(table.query_gid_entry, "_ibv_query_gid_ex");
  library.find(table.register_memory_at, "ibv_reg_mr_iova2");
  library.find(table.register_dmabuf, "ibv_reg_dmabuf_mr");
  return table;
}

}  // namespace

int64_t port_mbps(const VerbsPortFacts& port) {
  constexpr std::pair<uint8_t, int64_t> kSpeeds[] = {{1, 2500},   {2, 5000},    {4, 10000},
                                                     {8, 10000},  {16, 14000},  {32, 25000},
                                                     {64, 50000}, {128, 100000}};
  constexpr std::pair<uint8_t, int64_t> kLanes[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};
  int64_t lanes = 0, speed = 0;
  for (const auto& [code, value] : kSpeeds)
    if (code == port.speed) speed = value;
  for (const auto& [code, value] : kLanes)
    if (code == port.width) lanes = value;
  return lanes * speed;
}

const Verbs& verbs() {
  static const Verbs table = load_verbs();
  return table;
}

}  // namespace collctl::base::drivers

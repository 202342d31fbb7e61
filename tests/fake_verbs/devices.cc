// Devices, their facts and tables, contexts and asynchronous events.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>

#include "tests/fake_verbs/pair.h"
#include "tests/fake_verbs/refusals.h"

#undef ibv_query_port

// Fields ibv_query_port itself fills in; newer ones come only through the header's inline function.
struct _compat_ibv_port_attr {
  ibv_port_state state;
  ibv_mtu max_mtu, active_mtu;
  int gid_tbl_len;
  uint32_t port_cap_flags, max_msg_sz, bad_pkey_cntr, qkey_viol_cntr;
  uint16_t pkey_tbl_len, lid, sm_lid;
  uint8_t lmc, max_vl_num, sm_sl, subnet_timeout, init_type_reply;
  uint8_t active_width, active_speed, phys_state, link_layer, flags;
};

namespace fake_verbs {

void set_post_operations(ibv_context_ops& ops);
void set_queue_operations(ibv_context_ops& ops);

namespace {

std::mutex devices_mutex;
ibv_device handles[kDevices];  // by row of the world's table

int index_of(const ibv_device* device) {
  return int(device - handles);
}
const Device& row(ibv_context* context) {
  return world().devices[context_of(context)->device];
}

ibv_device* fill_handle(int index) {
  const Device& device = world().devices[index];
  ibv_device& handle = handles[index];
  handle.node_type = IBV_NODE_CA;
  handle.transport_type = IBV_TRANSPORT_IB;
  std::strcpy(handle.name, device.name);
  std::strcpy(handle.dev_name, ("uverbs" + std::to_string(index)).c_str());
  std::strcpy(handle.dev_path,
              (std::string("/sys/class/infiniband_verbs/") + handle.dev_name).c_str());
  std::strcpy(handle.ibdev_path, (std::string("/sys/class/infiniband/") + device.name).c_str());
  return &handle;
}

const Port* port_of(ibv_context* context, int number) {
  const Device& device = row(context);
  return number >= 1 && number <= device.ports ? &device.port[number - 1] : nullptr;
}

Context* make_context(int device, const int (&ends)[2]) {
  auto* context = new Context{};
  context->base.device = &handles[device];
  set_post_operations(context->base.ops);
  set_queue_operations(context->base.ops);
  context->base.cmd_fd = -1;
  context->base.async_fd = ends[0];
  context->base.num_comp_vectors = 4;
  pthread_mutex_init(&context->base.mutex, nullptr);
  context->device = device;
  context->event_fd = ends[1];
  context->fork_serial = local().fork_serial();
  return context;
}

}  // namespace
}  // namespace fake_verbs

using namespace fake_verbs;

extern "C" {

ibv_device** ibv_get_device_list(int* count) {
  if (const int error = refused("ibv_get_device_list"); error != 0) return errno = error, nullptr;
  std::lock_guard hold(devices_mutex);
  World& w = world();
  auto** list = new ibv_device* [kDevices + 1] {};
  int found = 0;
  for (int i = 0; i < kDevices; ++i)
    if (w.devices[i].used && w.devices[i].host == local().setup().host)
      list[found++] = fill_handle(i);
  if (count != nullptr) *count = found;
  return list;
}

void ibv_free_device_list(ibv_device** list) {
  delete[] list;
}

const char* ibv_get_device_name(ibv_device* device) {
  return device->name;
}

__be64 ibv_get_device_guid(ibv_device* device) {
  return world().devices[index_of(device)].guid;
}

int ibv_get_device_index(ibv_device* device) {
  return index_of(device);
}

ibv_context* ibv_open_device(ibv_device* device) {
  if (const int error = refused("ibv_open_device"); error != 0) return errno = error, nullptr;
  const int index = index_of(device);
  const Device& facts = world().devices[index];
  if (!facts.opens || facts.broken) return errno = facts.opens ? EIO : EACCES, nullptr;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return nullptr;
  ::fcntl(ends[1], F_SETFL, O_NONBLOCK);
  if (local().enter() < 0) {
    ::close(ends[0]);
    ::close(ends[1]);
    return errno = ENOMEM, nullptr;
  }
  Context* context = make_context(index, ends);
  local().engine().add(context);
  my_row().contexts.fetch_add(1);
  return &context->base;
}

int ibv_close_device(ibv_context* base) {
  if (!ours(base, "ibv_close_device")) return EPERM;
  Context* context = context_of(base);
  if (context->users != 0)
    violation("ibv_close_device with %d objects left", context->users.load());
  local().engine().remove(context);
  ::close(base->async_fd);
  ::close(context->event_fd);
  my_row().contexts.fetch_sub(1);
  local().leave();
  delete context;
  return 0;
}

int ibv_query_device(ibv_context* context, ibv_device_attr* attr) {
  if (const int error = refused("ibv_query_device"); error != 0) return error;
  if (!ours(context, "ibv_query_device")) return EPERM;
  const Device& device = row(context);
  if (device.broken) return EIO;
  *attr = {};
  std::strcpy(attr->fw_ver, "16.35.2000");
  attr->node_guid = attr->sys_image_guid = device.guid;
  attr->max_mr_size = device.max_region;
  attr->page_size_cap = ~0xfffull;
  attr->vendor_id = 0x02c9;
  attr->vendor_part_id = 4129;
  attr->max_qp = device.max_pairs;
  attr->max_qp_wr = device.max_depth;
  attr->max_sge = kMaxPieces;
  attr->max_cq = device.max_queues;
  attr->max_cqe = device.max_entries;
  attr->max_mr = kRegions;
  attr->max_pd = 4096;
  attr->max_qp_rd_atom = attr->max_qp_init_rd_atom = device.max_reads;
  attr->atomic_cap = IBV_ATOMIC_NONE;
  attr->max_pkeys = kPkeys;
  attr->local_ca_ack_delay = 15;
  attr->phys_port_cnt = uint8_t(device.ports);
  return 0;
}

int ibv_query_port(ibv_context* context, uint8_t number, _compat_ibv_port_attr* attr) {
  if (const int error = refused("ibv_query_port"); error != 0) return error;
  if (!ours(context, "ibv_query_port")) return EPERM;
  const Port* port = port_of(context, number);
  if (port == nullptr) return EINVAL;
  if (row(context).broken) return EIO;
  *attr = {};
  attr->state = port->up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  attr->max_mtu = ibv_mtu(port->max_mtu);
  attr->active_mtu = ibv_mtu(port->active_mtu);
  attr->gid_tbl_len = kGids;
  attr->max_msg_sz = port->max_message;
  attr->pkey_tbl_len = kPkeys;
  attr->lid = port->lid;
  attr->sm_lid = port->link_layer == IBV_LINK_LAYER_INFINIBAND ? 1 : 0;
  attr->max_vl_num = 4;
  attr->active_width = port->width;
  attr->active_speed = port->speed;
  attr->phys_state = port->up ? 5 : 3;  // link up; disabled
  attr->link_layer = port->link_layer;
  return 0;
}

int ibv_query_gid(ibv_context* context, uint8_t number, int index, ibv_gid* gid) {
  const Port* port = port_of(context, number);
  if (port == nullptr || index < 0 || index >= kGids) return errno = EINVAL, -1;
  std::memcpy(gid->raw, port->gids[index].raw, 16);  // an empty entry reads as zeros
  return 0;
}

int _ibv_query_gid_ex(ibv_context* context, uint32_t number, uint32_t index, ibv_gid_entry* entry,
                      uint32_t flags, size_t entry_size) {
  const Port* port = port_of(context, int(number));
  if (flags != 0 || port == nullptr || index >= kGids || entry_size < sizeof *entry) return EINVAL;
  if (!port->gids[index].used) return ENODATA;
  *entry = {};
  std::memcpy(entry->gid.raw, port->gids[index].raw, 16);
  entry->gid_index = index;
  entry->port_num = number;
  entry->gid_type = port->gids[index].type;
  return 0;
}

ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries, size_t max,
                             uint32_t flags, size_t entry_size) {
  size_t found = 0;
  for (int p = 1; p <= row(context).ports; ++p)
    for (uint32_t i = 0; i < kGids; ++i) {
      if (!port_of(context, p)->gids[i].used) continue;
      if (found == max) return -EINVAL;
      if (const int wrong =
              _ibv_query_gid_ex(context, uint32_t(p), i, entries + found, flags, entry_size))
        return -wrong;
      ++found;
    }
  return ssize_t(found);
}

int ibv_query_pkey(ibv_context* context, uint8_t number, int index, __be16* pkey) {
  const Port* port = port_of(context, number);
  if (port == nullptr || index < 0 || index >= kPkeys) return errno = EINVAL, -1;
  *pkey = htobe16(port->pkeys[index]);
  return 0;
}

int ibv_get_pkey_index(ibv_context* context, uint8_t number, __be16 pkey) {
  const Port* port = port_of(context, number);
  for (int i = 0; port != nullptr && i < kPkeys; ++i)
    if (port->pkeys[i] != 0 && htobe16(port->pkeys[i]) == pkey) return i;
  return errno = EINVAL, -1;
}

int ibv_fork_init() {
  return 0;
}

const char* ibv_wc_status_str(ibv_wc_status status) {
  static const char* const kNames[] = {"success",
                                       "local length error",
                                       "local QP operation error",
                                       "local EE context operation error",
                                       "local protection error",
                                       "Work Request Flushed Error",
                                       "memory management operation error",
                                       "bad response error",
                                       "local access error",
                                       "remote invalid request error",
                                       "remote access error",
                                       "remote operation error",
                                       "transport retry counter exceeded",
                                       "RNR retry counter exceeded"};
  return unsigned(status) < std::size(kNames) ? kNames[status] : "unknown";
}

}  // extern "C"

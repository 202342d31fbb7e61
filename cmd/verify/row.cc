#include "cmd/verify/row.h"

#include <algorithm>

namespace collctl::cmd {

using kernels::Collective;
using runtime::Operation;

std::vector<Operation> operations_for(const RowKey& key, const Place& place,
                                      const RunBuffers& buffers) {
  Operation op;
  op.collective = key.collective;
  op.input = buffers.input->data() + buffers.input_at;
  op.output = buffers.output->data() + buffers.output_at;
  op.count = key.size.count;
  op.type = key.type;
  op.op = key.op;
  op.root = std::max(key.root, 0);
  if (key.collective != Collective::send_recv) return {op};
  Operation send = op, recv = op;
  send.output = nullptr;
  send.peer = (place.rank + 1) % place.nranks;
  recv.input = nullptr;
  recv.peer = (place.rank + place.nranks - 1) % place.nranks;
  return {send, recv};
}

RunBuffers place_buffers(const RowKey& key, const Place& place, bool in_place, GuardedBuffer& input,
                         GuardedBuffer& output) {
  const BufferShape shape = buffer_shape(key.collective, key.size.count, place);
  const uint64_t size = kernels::element_size(key.type);
  if (!in_place) return {&input, &output, 0, 0, shape.input * size, shape.output * size};
  const uint64_t bytes = shape.in_place_elements * size;
  return {&output, &output, shape.in_place_input * size, shape.in_place_output * size,
          bytes,   bytes};
}

}  // namespace collctl::cmd

/* SPDX-License-Identifier: MIT */
/*
** Stream order: streams that use one tensor, and copies that the host does not wait for.
**
** A block remembers the stream that wrote it last, which streams are ordered after that write, and
** which used it since.  A stream that is not behind a write it needs is put behind everything that
** the writer was asked for: more than it has to wait for, but never less, and nobody has to say so.
*/
#include "tensor/tensor.h"

rg_status rg_tensor_stream_order_device(const rg_tensor *x, bool writes)
{
  rg_block *b = &rg_storage_root(x->_storage)->block;
  int32_t stream = rg_stream_now(x->_device);
  uint8_t own = (uint8_t)(1u << stream);
  uint8_t seen = atomic_load_explicit(&b->seen, memory_order_relaxed);
  uint8_t users = atomic_load_explicit(&b->users, memory_order_relaxed);
  uint32_t others = 0;

  if ((seen & own) == 0) {
    others |= 1u << b->writer;
  }
  if (writes) {
    others |= users & ~(uint32_t)own;
  }
  if (others != 0) {
    RG_TRY(rg_driver_of(x->_device)->join(x->_device, stream, others));
  }
  if (writes) {
    b->writer = (uint8_t)stream;
    atomic_store_explicit(&b->seen, own, memory_order_relaxed);
    atomic_store_explicit(&b->users, own, memory_order_relaxed);
  } else if ((seen & users & own) == 0) {
    atomic_fetch_or_explicit(&b->seen, own, memory_order_relaxed);
    atomic_fetch_or_explicit(&b->users, own, memory_order_relaxed);
  }
  return RG_OK;
}

rg_status rg_tensor_follow(const rg_tensor *x, const rg_event *event)
{
  uint8_t own;

  RG_TRY(rg_tensor_check(x, "follow"));
  if (x->_device == RG_CPU) {
    return RG_OK;
  }
  if (event == NULL || rg_event_device(event) != x->_device) {
    return rg_fail(RG_EARG, "follow: the event is not one of %s", rg_device_name(x->_device));
  }
  own = (uint8_t)(1u << rg_stream_now(x->_device));
  RG_TRY(rg_event_follow(event));
  atomic_fetch_or_explicit(&rg_storage_root(x->_storage)->block.seen, own, memory_order_relaxed);
  return RG_OK;
}

rg_status rg_tensor_arrived(const rg_tensor *x)
{
  rg_event *const *behind = x->_storage->block.behind;

  for (int32_t i = 0; behind != NULL && i < RG_DEVICES; i++) {
    if (behind[i] != NULL) {
      RG_TRY(rg_event_wait(behind[i]));
    }
  }
  return RG_OK;
}

/* Note that a copy on this thread's stream of a device may still use pinned memory.  An event is
** set in streams of its own device only, so each device has one. */
static rg_status under_way(const rg_tensor *pinned, int32_t device)
{
  rg_block *b = &pinned->_storage->block;

  if (b->behind == NULL) {
    b->behind = rg_host_zeroed(RG_DEVICES * sizeof(*b->behind));
  }
  if (b->behind == NULL) {
    return rg_fail(RG_ENOMEM, "copy: no memory for the note that it is under way");
  }
  if (b->behind[device] == NULL) {
    RG_TRY(rg_event_new(device, &b->behind[device]));
  } else {
    RG_TRY(rg_event_follow(b->behind[device])); /* the one mark is for both copies */
  }
  return rg_event_set(b->behind[device]);
}

rg_status rg_tensor_transfer(rg_tensor *to, const rg_tensor *from)
{
  const rg_tensor *host = to->_device == RG_CPU ? to : from;
  int32_t device = to->_device != RG_CPU ? to->_device : from->_device;
  bool pinned = host->_device == RG_CPU && (host->_flags & RG_TENSOR_PINNED) != 0;
  int64_t begun = -1;
  rg_status status;

  if (rg_tensor_bytes(from) == 0) {
    return RG_OK;
  }
  RG_TRY(rg_tensor_stream_order(from, false));
  RG_TRY(rg_tensor_stream_order(to, true));
  pinned = pinned && device != RG_CPU;
  if (pinned) {
    RG_TRY(rg_tensor_arrived(host));
  }
  if (rg_ring_on != 0) {
    begun = rg_ring_begin(RG_EVENT_COPY, device, "copy");
  }
  if ((rg_ring_on & RG_RING_TRACED) != 0) {
    rg_activity_asked(device, begun);
  }
  /* memory that is not pinned has been read when a copy to a device returns */
  status = rg_device_copy(to->_device, to->_data, from->_device, from->_data, rg_tensor_bytes(from),
                          pinned || to->_device != RG_CPU);
  if ((rg_ring_on & RG_RING_TRACED) != 0) {
    rg_activity_asked(RG_CPU, -1);
  }
  if (begun >= 0) {
    rg_noted *event = rg_ring_end(begun);

    if (event != NULL) {
      event->bytes = (double)rg_tensor_bytes(from);
    }
  }
  if (status == RG_OK && pinned) {
    status = under_way(host, device);
    if (status != RG_OK) { /* then it is waited for here */
      RG_TRY(rg_device_wait(device));
    }
  }
  return status;
}

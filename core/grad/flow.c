/* SPDX-License-Identifier: MIT */
/*
** What flows back: the gradient that has arrived at a storage so far, in the storage's own layout.
*/
#include "grad/node.h"

/* The window at p into what has arrived at its storage. */
rg_status rg_flow_window(const place *p, rg_tensor **out)
{
  return rg_tensor_view_of(p->track->flow->_storage, p->at._dtype, p->at._shape, p->at._stride,
                           p->at._ndim, p->offset, out);
}

static bool fills_storage(const place *p)
{
  return p->offset == 0 && (p->at._flags & RG_TENSOR_CONTIGUOUS) != 0 &&
         p->at._count * rg_dtype_bytes(p->at._dtype) == p->storage_bytes;
}

void rg_flow_set(track *t, rg_tensor *flow, bool own)
{
  rg_tensor_release(t->flow);
  t->flow = flow;
  t->flow_own = own;
}

/* Make sure that flow is there and may be written to. */
rg_status rg_flow_own(const place *p)
{
  track *t = p->track;
  rg_tensor *flow = NULL;

  if (t->flow == NULL) {
    int64_t n = p->storage_bytes / rg_dtype_bytes(p->at._dtype);

    RG_TRY(rg_empty(p->at._dtype, p->at._device, &n, 1, &flow));
    rg_flow_set(t, flow, true);
    return rg_fill_(flow, 0);
  }
  if (!t->flow_own) {
    RG_TRY(rg_clone(t->flow, &flow));
    rg_flow_set(t, flow, true);
  }
  return RG_OK;
}

/* Could dx serve as the gradient of the whole storage at p? */
static bool may_take(const place *p, const rg_tensor *dx)
{
  return fills_storage(p) && rg_is_contiguous(dx) && dx->_dtype == p->at._dtype &&
         dx->_storage->bytes == p->storage_bytes && dx->_data == dx->_storage->block.data;
}

/* Add dx to what has arrived at p. */
rg_status rg_flow_arrive(const place *p, rg_tensor *dx)
{
  track *t = p->track;
  rg_tensor *at;
  rg_tensor *sum;
  rg_status status;

  if (t->flow == NULL && may_take(p, dx)) {
    rg_flow_set(t, rg_tensor_retain(dx), false);
    return RG_OK;
  }
  if (t->flow != NULL && !t->flow_own && fills_storage(p)) {
    RG_TRY(rg_flow_window(p, &at));
    status = rg_add(at, dx, &sum);
    rg_tensor_release(at);
    if (status == RG_OK) {
      rg_flow_set(t, sum, true);
    }
    return status;
  }
  bool first = t->flow == NULL;

  RG_TRY(rg_flow_own(p));
  RG_TRY(rg_flow_window(p, &at));
  status = first ? rg_copy_(at, dx) : rg_add_(at, dx); /* zeros lie around, or what came before */
  rg_tensor_release(at);
  return status;
}

/* Take what has arrived at a result; NULL where nothing has. */
rg_status rg_flow_take(const place *p, rg_tensor **out)
{
  track *t = p->track;
  rg_tensor *at;
  rg_status status;

  *out = NULL;
  if (t == NULL || t->flow == NULL) {
    return RG_OK;
  }
  if (!p->over) {
    return rg_flow_window(p, out);
  }
  RG_TRY(rg_flow_own(p)); /* what was there before was overwritten: nothing goes on from here */
  RG_TRY(rg_flow_window(p, &at));
  status = rg_clone(at, out);
  if (status == RG_OK) {
    status = rg_fill_(at, 0);
  }
  rg_tensor_release(at);
  return status;
}

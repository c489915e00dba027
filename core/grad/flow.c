/* SPDX-License-Identifier: MIT */
/*
** Accumulation: the gradient of a storage so far, in the storage's own layout,
** or in that of the part which requires one.
*/
#include "grad/node.h"

extern const rg_op rg_op_sum;

/* The window at p into the gradient of its storage so far. */
rg_status rg_flow_window(const place *p, rg_tensor **out)
{
  return rg_window_view(&p->track->window, p->track->flow, &p->at, p->offset, out);
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

/* Elements of the incoming gradient of p's storage. */
static int64_t flow_count(const place *p)
{
  return rg_window_bytes(&p->track->window, p->storage_bytes) / rg_dtype_bytes(p->at._dtype);
}

/* Make flow, undefined so far: in the leaf's buffer where there is one that is free. */
static rg_status flow_empty(const place *p)
{
  int64_t n = flow_count(p);
  rg_tensor *flow = rg_tensor_retain(rg_buffer_free(p));

  if (flow == NULL) {
    RG_TRY(rg_empty(p->at._dtype, p->at._device, &n, 1, &flow));
  }
  rg_flow_set(p->track, flow, true);
  return RG_OK;
}

/* Make sure that flow is there and may be written to. */
rg_status rg_flow_own(const place *p)
{
  track *t = p->track;
  rg_tensor *flow = NULL;

  if (t->flow == NULL) {
    RG_TRY(flow_empty(p));
    return rg_fill_(t->flow, 0);
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

/* Are p's elements different ones? */
static bool reads_each_once(const place *p)
{
  for (int32_t i = 0; i < p->at._ndim; i++) {
    if (p->at._shape[i] > 1 && p->at._stride[i] == 0) {
      return false;
    }
  }
  return true;
}

/* Does p have every element of the incoming gradient? */
static bool covers(const place *p)
{
  return p->at._count == flow_count(p) && reads_each_once(p);
}

rg_tensor *rg_flow_target(const place *p)
{
  return p->track != NULL && p->track->window.width == 0 && fills_storage(p) ? rg_buffer_free(p)
                                                                             : NULL;
}

rg_status rg_flow_room(const place *p)
{
  const track *t = p->track;

  return t->flow == NULL && t->window.width == 0 && covers(p) ? flow_empty(p) : rg_flow_own(p);
}

/* Where only a part of the storage requires a gradient: p and dx cut down to it, then as below. */
static rg_status arrive_in_window(const place *p, rg_tensor *dx)
{
  track *t = p->track;
  place part = *p;
  rg_tensor *at = NULL;
  rg_tensor *cut = NULL;
  rg_status status = RG_OK;
  bool first = t->flow == NULL;

  switch (rg_window_fit(&t->window, &p->at, p->offset)) {
  case RG_FIT_OUTSIDE:
    return RG_OK;
  case RG_FIT_INSIDE:
    cut = rg_tensor_retain(dx);
    break;
  default: {
    int64_t start = 0;
    int64_t length = 0;
    int32_t axis = 0;
    char text[96];

    if (!rg_window_cut(&t->window, &p->at, p->offset, &axis, &start, &length)) {
      return rg_fail(RG_ENOSUP, "backward: %s mixes elements that require a gradient with others",
                     rg_tensor_text(&p->at, text, sizeof(text)));
    }
    part.at._count = part.at._count / part.at._shape[axis] * length;
    part.at._shape[axis] = length;
    part.offset += start * part.at._stride[axis] * rg_dtype_bytes(part.at._dtype);
    RG_TRY(rg_narrow(dx, axis, start, length, 1, &cut));
  }
  }
  status = first && covers(&part) ? flow_empty(&part) : rg_flow_own(&part);
  if (status == RG_OK) {
    status = rg_flow_window(&part, &at);
  }
  if (status == RG_OK) {
    status = first ? rg_copy_(at, cut) : rg_add_(at, cut);
  }
  rg_tensor_release(at);
  rg_tensor_release(cut);
  return status;
}

/* Where p repeats elements (expand): what comes to each of the repetitions is summed. */
static rg_status arrive_repeated(const place *p, const rg_tensor *dx)
{
  place once = *p;
  int32_t axes[RG_MAX_DIMS];
  int32_t n = 0;
  rg_tensor *sum = NULL;

  for (int32_t i = 0; i < p->at._ndim; i++) {
    if (p->at._shape[i] > 1 && p->at._stride[i] == 0) {
      axes[n++] = i;
      once.at._count /= p->at._shape[i];
      once.at._shape[i] = 1;
    }
  }
  rg_target(&rg_op_sum, 0, rg_flow_target(&once));
  rg_status status = rg_sum(dx, axes, n, true, &sum);

  rg_targets_clear();
  RG_TRY(status);
  status = rg_flow_arrive(&once, sum);

  rg_tensor_release(sum);
  return status;
}

/* The first that comes for the whole storage, and could be kept as it is: it was made in the leaf's
** buffer, or goes there. */
static rg_status arrive_in_buffer(const place *p, const rg_tensor *dx, rg_tensor *buffer)
{
  rg_tensor *at;
  rg_status status;

  rg_flow_set(p->track, rg_tensor_retain(buffer), true);
  if (rg_tensor_same_storage(dx, buffer)) {
    return RG_OK;
  }
  RG_TRY(rg_flow_window(p, &at));
  status = rg_copy_(at, dx);
  rg_tensor_release(at);
  p->track->copied += rg_tensor_bytes(buffer);
  return status;
}

/* Add dx to the gradient at p. */
rg_status rg_flow_arrive(const place *p, rg_tensor *dx)
{
  if (!reads_each_once(p)) {
    return arrive_repeated(p, dx);
  }
  if (p->track->window.width > 0) {
    return arrive_in_window(p, dx);
  }
  track *t = p->track;
  rg_tensor *at;
  rg_tensor *sum;
  rg_status status;

  if (t->flow == NULL && may_take(p, dx)) {
    rg_tensor *buffer = rg_buffer_free(p);

    if (buffer != NULL) {
      return arrive_in_buffer(p, dx, buffer);
    }
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

  RG_TRY(rg_flow_room(p));
  RG_TRY(rg_flow_window(p, &at));
  status = first ? rg_copy_(at, dx) : rg_add_(at, dx); /* zeros lie around, or what came before */
  rg_tensor_release(at);
  return status;
}

/* Take the accumulated gradient of a result; NULL where there is none. */
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

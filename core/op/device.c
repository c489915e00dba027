/* SPDX-License-Identifier: MIT */
/*
** Tensors from one device to another, and the backward pass of their gradients.
**
** A move is no call of the dispatcher, which keeps a call on one device; the tape alone is told of
** it.
*/
#include <string.h>

#include "op/rule.h"

typedef struct move_args {
  int32_t from;
} move_args;

/* The incoming gradient is copied to where the tensor came from: a move again, which may be
** recorded. */
static rg_status move_grad(rg_grad *g)
{
  const move_args *args = g->call->args;

  return g->needs[0] ? rg_to_device(g->dout[0], args->from, &g->dx[0]) : RG_OK;
}

static const rg_op op_move = { .name = "to",
                               .doc = "the elements on another device",
                               .id = -1,
                               .amp = RG_AMP_NONE,
                               .args_size = sizeof(move_args),
                               .moves = true,
                               .grad = move_grad };

/* Tell the tape, where gradient flows, that y was moved from x. */
static rg_status record(const rg_tensor *x, rg_tensor *y)
{
  rg_call call = { .op = &op_move,
                   .in = (const rg_tensor *const[]){ x },
                   .n_in = 1,
                   .device = x->_device,
                   .args = &(move_args){ .from = x->_device },
                   .tracked = true,
                   .n_out = 1 };

  call.out[0] = rg_meta_of(y);
  return rg_tape->ran(&call, (rg_tensor *const[]){ y });
}

static bool recording(void)
{
  int32_t before = rg_grad_mode(0);

  (void)rg_grad_mode(before);
  return before != 0 && rg_tape != NULL;
}

static rg_status moved(const rg_tensor *x, int32_t device, rg_tensor **out)
{
  rg_tensor *y;
  rg_status status;

  RG_TRY(rg_empty(x->_dtype, device, x->_shape, x->_ndim, &y));
  status = rg_tensor_transfer(y, x);
  if (status == RG_OK && recording() && rg_tensor_tracked(x) && rg_dtype_is_float(x->_dtype)) {
    status = record(x, y);
  }
  if (status != RG_OK) {
    rg_tensor_release(y);
    return status;
  }
  *out = y;
  return RG_OK;
}

/* What moves of any kind check first; here: x is there already, and out is it. */
static rg_status check_move(const rg_tensor *x, int32_t device, rg_tensor **out, bool *here)
{
  *here = false;
  if (out == NULL) {
    return rg_fail(RG_EARG, "to: out is NULL");
  }
  RG_TRY(rg_tensor_check(x, "to"));
  if (x->_device == device || (device == RG_PINNED && (x->_flags & RG_TENSOR_PINNED) != 0)) {
    *here = true;
    *out = rg_tensor_retain((rg_tensor *)x);
    return RG_OK;
  }
  if (device != RG_PINNED) {
    RG_TRY(rg_device_open(device));
  }
  if (rg_host_access_refused) {
    return rg_fail(RG_ECAPTURE, "to: a plan stays on one device; move tensors before");
  }
  return RG_OK;
}

rg_status rg_to_device(const rg_tensor *x, int32_t device, rg_tensor **out)
{
  rg_tensor *whole;
  rg_status status;
  bool here;

  RG_TRY(check_move(x, device, out, &here));
  if (here) {
    return RG_OK;
  }
  RG_TRY(rg_contiguous(x, &whole));
  status = moved(whole, device, out);
  rg_tensor_release(whole);
  return status;
}

/* -- Mirrors -------------------------------------------------------------------------------- */

/* A copy of a whole storage on another device, kept with it for one version of both. */
typedef struct mirror {
  rg_derived derived;
  rg_storage *there;
  uint64_t version; /* of there: whoever writes to what he was given has spoilt it */
} mirror;

static void mirror_release(rg_derived *derived)
{
  rg_storage_release(((mirror *)derived)->there);
  rg_host_free(derived);
}

static mirror *mirror_find(rg_storage *of, const uint64_t key[4])
{
  mirror *m = (mirror *)rg_derived_find(of, key);

  if (m != NULL && rg_storage_version(m->there) != m->version) {
    m->derived.version = UINT64_MAX; /* it is of no contents: gone with the next look */
    m = (mirror *)rg_derived_find(of, key);
  }
  return m;
}

static rg_status mirror_new(const rg_tensor *x, int32_t device, const uint64_t key[4], mirror **out)
{
  mirror *m = rg_host_zeroed(sizeof(*m));
  uint8_t tag = rg_tag_now;
  rg_tensor *y = NULL;
  rg_status status;

  if (m == NULL) {
    return rg_fail(RG_ENOMEM, "no memory to describe a copy on %s", rg_device_name(device));
  }
  memcpy(m->derived.key, key, sizeof(m->derived.key));
  m->derived.version = rg_storage_version(x->_storage);
  m->derived.release = mirror_release;
  rg_tag_now = x->_storage->block.tag; /* it is counted as what it is of */
  status = rg_empty(x->_dtype, device, x->_shape, x->_ndim, &y);
  rg_tag_now = tag;
  if (status == RG_OK) {
    status = rg_tensor_transfer(y, x);
  }
  if (status == RG_OK) {
    m->there = y->_storage;
    rg_storage_retain(m->there);
    m->version = rg_storage_version(m->there);
    m->derived.bytes = m->there->block.bytes;
    rg_derived_keep(rg_storage_root(x->_storage), &m->derived);
    *out = m;
  } else {
    rg_host_free(m);
  }
  rg_tensor_release(y);
  return status;
}

/* A tensor of its own in memory that is kept. */
static rg_status mirrored(const rg_tensor *x, const mirror *m, rg_tensor **out)
{
  rg_storage *storage;
  rg_tensor *y = NULL;
  rg_status status;

  RG_TRY(rg_storage_share(m->there, &storage));
  status = rg_tensor_view_of(storage, x->_dtype, x->_shape, x->_stride, x->_ndim, 0, &y);
  rg_storage_release(storage);
  if (status == RG_OK && recording() && rg_tensor_tracked(x) && rg_dtype_is_float(x->_dtype)) {
    status = record(x, y);
  }
  if (status != RG_OK) {
    rg_tensor_release(y);
    return status;
  }
  y->_flags |= x->_flags & RG_TENSOR_PARAM;
  *out = y;
  return RG_OK;
}

rg_status rg_mirror(const rg_tensor *x, int32_t device, rg_tensor **out)
{
  mirror *m;
  bool here;

  RG_TRY(check_move(x, device, out, &here));
  if (here) {
    return RG_OK;
  }
  if (device == RG_PINNED || !rg_is_contiguous(x) || x->_count == 0 ||
      rg_tensor_bytes(x) != x->_storage->bytes) {
    return rg_to_device(x, device, out);
  }
  rg_storage *of = rg_storage_root(x->_storage);
  const uint64_t key[4] = { 0x6d6972726f72ULL /* "mirror" */, (uint64_t)device, 0, 0 };

  m = mirror_find(of, key);
  if (m == NULL) {
    RG_TRY(mirror_new(x, device, key, &m));
  }
  return mirrored(x, m, out);
}

/* -- Copies --------------------------------------------------------------------------------- */

/* Can the bytes of y be those of x as they are, with nobody to tell of it? */
static bool goes_straight(const rg_tensor *x, const rg_tensor *y)
{
  return x->_dtype == y->_dtype && rg_is_contiguous(x) && rg_is_contiguous(y) &&
         rg_tensor_shaped(x, y->_shape, y->_ndim) &&
         !(recording() && (rg_tensor_tracked(x) || rg_tensor_tracked(y)));
}

rg_status rg_copy_across(rg_tensor *x, const rg_tensor *y)
{
  rg_tensor *there;
  rg_status status;

  if (rg_host_access_refused) {
    return rg_fail(RG_ECAPTURE, "copy: a plan stays on one device; copy before");
  }
  if (goes_straight(x, y)) {
    RG_TRY(rg_tensor_transfer(x, y));
    rg_storage_wrote(x->_storage);
    return RG_OK;
  }
  RG_TRY(rg_to_device(y, x->_device, &there));
  status = rg_copy_(x, there);
  rg_tensor_release(there);
  return status;
}

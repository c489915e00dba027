/* SPDX-License-Identifier: MIT */
/*
** Weights in a lower-precision type, on devices: converted once for each version of their contents
** and kept with their storage, so that autocast converts a weight once between two steps of an
** optimizer, however often the forward pass, the backward pass and what is recomputed use it.  (The
** CPU keeps packed weights instead, cpu/packed.c.)
**
** Only the kernel sees the copy: the tape, and with it the gradient, has the weight itself.  The
** copy is a tensor like others, so streams that use it are ordered after the one that made it.  It
** is of the whole storage, element by element, so that every view of the weight (its transpose)
** finds its own numbers at the same places.
**
** What is kept outside of a capture is no part of a plan, and what a plan's steps make is nobody
** else's: while one is captured its conversions are steps of it, each weight's the first where it
** is used, and they are remembered here until the capture ends.
*/
#include <string.h>

#include "op/cast.h"
#include "op/list.h"

enum { MADE_FIRST = 16 };

extern const rg_op rg_op_cast;

/* -- Outside of a capture ------------------------------------------------------------------ */

typedef struct kept {
  rg_derived derived;
  rg_storage *low;
} kept;

static void cast_release(rg_derived *derived)
{
  rg_storage_release(((kept *)derived)->low);
  rg_host_free(derived);
}

/* -- In a capture -------------------------------------------------------------------------- */

typedef struct made {
  rg_storage *of; /* held weakly */
  uint64_t version;
  rg_storage *low;
  int32_t dtype;
} made;

static _Thread_local struct {
  made *list;
  int64_t n, room;
} capture;

static void forget(int64_t i)
{
  made *m = &capture.list[i];

  rg_storage_release(m->low);
  rg_storage_unhold(m->of);
  *m = capture.list[--capture.n];
}

void rg_weight_cast_end(void)
{
  while (capture.n > 0) {
    forget(capture.n - 1);
  }
  rg_host_free(capture.list);
  capture.list = NULL;
  capture.room = 0;
}

void rg_weight_cast_wrote(const rg_storage *of)
{
  for (int64_t i = capture.n - 1; i >= 0; i--) {
    if (capture.list[i].of == of) {
      forget(i);
    }
  }
}

static rg_storage *find_made(const rg_storage *of, int32_t dtype)
{
  for (int64_t i = 0; i < capture.n; i++) {
    made *m = &capture.list[i];

    if (m->of == of && m->dtype == dtype) {
      if (m->version == rg_storage_version(of)) {
        return m->low;
      }
      forget(i);
      return NULL;
    }
  }
  return NULL;
}

static rg_status remember(rg_storage *of, int32_t dtype, rg_storage *low)
{
  if (capture.n == capture.room) {
    int64_t room = capture.room > 0 ? 2 * capture.room : MADE_FIRST;
    made *list = rg_host_alloc((size_t)room * sizeof(*list));

    if (list == NULL) {
      return rg_fail(RG_ENOMEM, "capture: no memory to remember %lld converted weights",
                     (long long)room);
    }
    if (capture.n > 0) {
      memcpy(list, capture.list, (size_t)capture.n * sizeof(*list));
    }
    rg_host_free(capture.list);
    capture.list = list;
    capture.room = room;
  }
  rg_storage_hold(of);
  rg_storage_retain(low);
  capture.list[capture.n++] = (made){ of, rg_storage_version(of), low, dtype };
  return RG_OK;
}

/* -- Making -------------------------------------------------------------------------------- */

/* All of a storage, element by element. */
static rg_status flat_of(rg_storage *storage, int32_t dtype, rg_tensor **out)
{
  int64_t count = storage->bytes / rg_dtype_bytes(dtype);
  int64_t one = 1;

  return rg_tensor_view_of(storage, dtype, &count, &one, 1, 0, out);
}

/* The whole storage in another type, by an operation like others; counted as the weight is. */
static rg_status convert(rg_storage *of, int32_t dtype, rg_storage **low)
{
  int32_t mode = rg_grad_mode(0);
  const rg_graph_hooks *recorder = rg_graph_recorder; /* who runs the graph converts it again */
  uint8_t tag = rg_tag_now;
  rg_tensor *flat = NULL;
  rg_tensor *out = NULL;
  rg_status status = flat_of(of, RG_F32, &flat);

  rg_tag_now = of->block.tag;
  rg_graph_recorder = NULL;
  if (status == RG_OK) {
    status = rg_cast(flat, dtype, &out);
  }
  rg_graph_recorder = recorder;
  rg_tag_now = tag;
  rg_grad_mode(mode);
  if (status == RG_OK) {
    *low = out->_storage;
    rg_storage_retain(*low);
  }
  rg_tensor_release(out);
  rg_tensor_release(flat);
  return status;
}

/* A new one, kept; low: a reference more. */
static rg_status make(rg_storage *of, int32_t dtype, const uint64_t key[4], rg_storage **low)
{
  kept *k;
  rg_status status;

  if (rg_capture_active != NULL) {
    RG_TRY(convert(of, dtype, low));
    status = remember(of, dtype, *low);
    if (status != RG_OK) {
      rg_storage_release(*low);
    }
    return status;
  }
  k = rg_host_zeroed(sizeof(*k));
  if (k == NULL) {
    return rg_fail(RG_ENOMEM, "no memory to describe a converted weight");
  }
  memcpy(k->derived.key, key, sizeof(k->derived.key));
  k->derived.version = rg_storage_version(of);
  k->derived.release = cast_release;
  status = convert(of, dtype, &k->low);
  if (status != RG_OK) {
    rg_host_free(k);
    return status;
  }
  k->derived.bytes = k->low->block.bytes;
  rg_derived_keep(of, &k->derived);
  rg_storage_retain(k->low);
  *low = k->low;
  return RG_OK;
}

/* -- What the dispatcher and the rules call ---------------------------------------------------- */

/* A small part of something large would pay for all of it. */
bool rg_weight_casts(const rg_tensor *x, int32_t dtype)
{
  return (dtype == RG_BF16 || dtype == RG_F16) && x->_device != RG_CPU && x->_dtype == RG_F32 &&
         (x->_flags & RG_TENSOR_PARAM) != 0 && x->_storage != NULL && x->_count > 0 &&
         x->_storage->bytes % 4 == 0 && 2 * x->_count >= x->_storage->bytes / 4;
}

rg_status rg_weight_cast(const rg_tensor *x, int32_t dtype, rg_tensor *as)
{
  rg_storage *of = rg_storage_root(x->_storage);
  uint64_t key[4] = { 0x6c6f776572ULL /* "lower" */, (uint64_t)dtype, 0, 0 };
  rg_storage *low = NULL;

  if (rg_capture_active != NULL) {
    low = find_made(of, dtype);
  } else {
    kept *k = (kept *)rg_derived_find(of, key);

    low = k != NULL ? k->low : NULL;
  }
  if (low != NULL) {
    rg_storage_retain(low);
  } else {
    RG_TRY(make(of, dtype, key, &low));
  }
  int64_t at = ((char *)x->_data - (char *)of->block.data) / rg_dtype_bytes(RG_F32);

  *as = rg_tensor_struct(x);
  as->_dtype = dtype;
  as->_storage = low;
  as->_data = (char *)low->block.data + at * rg_dtype_bytes(dtype);
  as->_flags &= (uint32_t)RG_TENSOR_CONTIGUOUS;
  return RG_OK;
}

/* The recorder of a graph does not see conversions, as the calls that read weights convert them
** again.  A call whose input is what was converted has to find out of what. */
static rg_status record(rg_storage *of, int32_t dtype, rg_storage *low)
{
  rg_tensor *in = NULL;
  rg_tensor *out = NULL;

  if (rg_graph_recorder == NULL || rg_graph_recorder->knows(low)) {
    return RG_OK;
  }
  rg_status status = flat_of(of, RG_F32, &in);

  status = status == RG_OK ? flat_of(low, dtype, &out) : status;
  if (status == RG_OK) {
    rg_call call = { .op = &rg_op_cast,
                     .in = (const rg_tensor *const *)&in,
                     .n_in = 1,
                     .device = in->_device,
                     .args = &(rg_cast_args){ .dtype = dtype },
                     .compute = -1,
                     .weight_cast = -1,
                     .n_out = 1 };

    call.out[0] = rg_meta_of(out);
    status = rg_graph_recorder->ran(&call, &out);
  }
  rg_tensor_release(in);
  rg_tensor_release(out);
  return status;
}

rg_status rg_weight_cast_view(const rg_tensor *x, int32_t dtype, rg_tensor **out)
{
  rg_tensor low;

  RG_TRY(rg_weight_cast(x, dtype, &low));
  rg_status status = record(rg_storage_root(x->_storage), dtype, low._storage);

  status = status == RG_OK
               ? rg_tensor_view_of(low._storage, dtype, low._shape, low._stride, low._ndim,
                                   (char *)low._data - (char *)low._storage->block.data, out)
               : status;
  rg_storage_release(low._storage);
  return status;
}

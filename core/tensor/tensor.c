/* SPDX-License-Identifier: MIT */
/*
** Tensors: making, holding, releasing, and moving bytes between them and the host.
*/
#include <stdio.h>
#include <string.h>

#include "tensor/half.h"
#include "tensor/scope.h"
#include "tensor/tensor.h"

static rg_tally n_live;

_Static_assert(sizeof(rg_tensor) <= 512 && sizeof(rg_storage) <= 512, "rg_struct_alloc");

/* -- Text for messages ----------------------------------------------------------- */

const char *rg_shape_text(const int64_t *shape, int32_t ndim, char *text, size_t size)
{
  size_t used = (size_t)snprintf(text, size, "[");

  for (int32_t i = 0; i < ndim && used + 1 < size; i++) {
    used +=
        (size_t)snprintf(text + used, size - used, "%s%lld", i > 0 ? "," : "", (long long)shape[i]);
  }
  if (used + 1 < size) {
    snprintf(text + used, size - used, "]");
  }
  return text;
}

const char *rg_tensor_text(const rg_tensor *x, char *text, size_t size)
{
  int used;

  if (x == NULL) {
    snprintf(text, size, "nil");
    return text;
  }
  used = snprintf(text, size, "%s", rg_dtype_name(x->_dtype));
  if (used > 0 && (size_t)used < size) {
    rg_shape_text(x->_shape, x->_ndim, text + used, size - (size_t)used);
  }
  return text;
}

/* -- Making ---------------------------------------------------------------------- */

/* A tensor struct with one reference, listed in the scope. */
static rg_status header_new(rg_tensor **out)
{
  rg_tensor *x = rg_struct_alloc(sizeof(*x));

  if (x == NULL) {
    return rg_fail(RG_ENOMEM, "tensor: no memory for its header");
  }
  x->_refs = 1;
  x->_handles = 0;
  x->_place = 0;
  if (rg_scope_depth() > 0) {
    rg_status status = rg_scope_add(x);

    if (status != RG_OK) {
      rg_struct_free(x, sizeof(*x));
      return status;
    }
  }
  rg_tally_add(&n_live, 1);
  *out = x;
  return RG_OK;
}

/* Take back a header that never got its storage. */
static void header_free(rg_tensor *x)
{
  x->_storage = NULL;
  x->_data = NULL;
  x->_flags = RG_TENSOR_RELEASED;
  rg_tensor_release(x);
}

rg_status rg_tensor_view_of(rg_storage *storage, int32_t dtype, const int64_t *shape,
                            const int64_t *stride, int32_t ndim, int64_t offset_bytes,
                            rg_tensor **out)
{
  const int64_t size = rg_dtype_sizes[dtype];
  const bool pinned = storage->block.device == RG_PINNED;
  int64_t low = 0; /* elements that are reached before the first one, and behind it */
  int64_t high = 0;
  int64_t count = 1;
  bool contiguous = true;
  bool empty = false; /* then it reaches nowhere */
  bool far = false;
  rg_tensor *x;

  RG_TRY(header_new(&x));
  for (int32_t i = ndim - 1; i >= 0; i--) { /* one loop: views are made often */
    int64_t n = shape[i];
    int64_t step = stride[i];
    int64_t reach;

    x->_shape[i] = n;
    x->_stride[i] = step;
    contiguous = contiguous && (n == 1 || step == count);
    empty = empty || n == 0;
    count = (int64_t)((uint64_t)count * (uint64_t)n); /* what overflows is too far, too */
    far = far || n < 0 || __builtin_mul_overflow(n - 1, step, &reach) ||
          __builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high);
  }
  far = far || __builtin_mul_overflow(low, size, &low) || __builtin_mul_overflow(high, size, &high);
  far = far || __builtin_add_overflow(low, offset_bytes, &low) ||
        __builtin_add_overflow(high, offset_bytes, &high) || low < 0 ||
        high > storage->bytes - size;
  if (far && !empty) {
    char text[128];

    header_free(x);
    return rg_fail(RG_EBUG, "tensor: a view of %s%s reaches out of its storage of %lld bytes",
                   rg_dtype_name(dtype), rg_shape_text(shape, ndim, text, sizeof(text)),
                   (long long)storage->bytes);
  }
  rg_storage_retain(storage);
  x->_dtype = dtype;
  x->_device = pinned ? RG_CPU : storage->block.device;
  x->_ndim = ndim;
  x->_count = count;
  x->_flags = (contiguous || empty ? RG_TENSOR_CONTIGUOUS : 0) | (pinned ? RG_TENSOR_PINNED : 0);
  x->_storage = storage;
  x->_data = (char *)storage->block.data + offset_bytes;
  *out = x;
  return RG_OK;
}

rg_status rg_empty(int32_t dtype, int32_t device, const int64_t *shape, int32_t ndim,
                   rg_tensor **out)
{
  char text[128];
  int64_t size = rg_dtype_bytes(dtype);
  int64_t count = 1;
  int64_t span = 1;
  rg_tensor *x;
  rg_status status;

  if (out == NULL || (shape == NULL && ndim > 0)) {
    return rg_fail(RG_EARG, "tensor: a pointer is NULL");
  }
  if (size == 0) {
    return rg_fail(RG_EDTYPE, "tensor: there is no element type %d", dtype);
  }
  if (ndim < 0 || ndim > RG_MAX_DIMS) {
    return rg_fail(RG_ESHAPE, "tensor: %d axes; at most %d are possible", ndim, RG_MAX_DIMS);
  }
  for (int32_t i = 0; i < ndim; i++) {
    if (shape[i] < 0) {
      return rg_fail(RG_ESHAPE, "tensor: size %lld of axis %d is negative", (long long)shape[i],
                     i + 1);
    }
    if (!rg_count_grows(&span, shape[i])) {
      return rg_fail(RG_ESHAPE, "tensor: %s has too many elements",
                     rg_shape_text(shape, ndim, text, sizeof(text)));
    }
    count *= shape[i];
  }
  RG_TRY(header_new(&x));
  x->_dtype = dtype;
  x->_device = device == RG_PINNED ? RG_CPU : device;
  x->_ndim = ndim;
  x->_count = count;
  x->_flags = RG_TENSOR_CONTIGUOUS | (device == RG_PINNED ? RG_TENSOR_PINNED : 0);
  for (int32_t i = ndim - 1; i >= 0; i--) {
    x->_shape[i] = shape[i];
    x->_stride[i] = i == ndim - 1 ? 1 : x->_stride[i + 1] * rg_max_i64(shape[i + 1], 1);
  }
  status = rg_storage_new(device, count * size, &x->_storage);
  if (status != RG_OK) {
    header_free(x);
    return status;
  }
  x->_data = x->_storage->block.data;
  *out = x;
  return RG_OK;
}

rg_status rg_tensor_from(rg_source *source, void *data, int32_t dtype, const int64_t *shape,
                         int32_t ndim, rg_tensor **out)
{
  int64_t stride[RG_MAX_DIMS];
  int64_t count = 1;
  rg_storage *storage;
  rg_status status;

  for (int32_t i = ndim - 1; i >= 0; i--) {
    stride[i] = count;
    count *= shape[i];
  }
  RG_TRY(rg_storage_from(source, data, count * rg_dtype_bytes(dtype), &storage));
  status = rg_tensor_view_of(storage, dtype, shape, stride, ndim, 0, out);
  rg_storage_release(storage);
  if (status == RG_OK && data == NULL) {
    (*out)->_flags |= RG_TENSOR_LATER;
    (*out)->_data = NULL;
  }
  return status;
}

/* Have the elements come.  Other threads may ask for the same: the flag goes when all is there, and
** is written once, since who has passed here reads it as any other field. */
static rg_status arrive(rg_tensor *x)
{
  rg_storage *storage = x->_storage;

  RG_TRY(storage->source->fill(storage->source, storage));
  rg_spin_enter(&storage->derived_lock);
  if ((x->_flags & RG_TENSOR_LATER) != 0) {
    x->_data = storage->block.data;
    __atomic_store_n(&x->_flags, x->_flags & ~(uint32_t)RG_TENSOR_LATER, __ATOMIC_RELEASE);
  }
  rg_spin_leave(&storage->derived_lock);
  return RG_OK;
}

/* -- Holding and releasing ------------------------------------------------------- */

rg_tensor *rg_tensor_retain(rg_tensor *x)
{
  if (x != NULL) {
    __atomic_fetch_add(&x->_refs, 1, __ATOMIC_RELAXED);
  }
  return x;
}

void rg_tensor_drop(rg_tensor *x)
{
  if (x != NULL && x->_storage != NULL) {
    rg_storage *storage = x->_storage;

    x->_storage = NULL;
    x->_data = NULL;
    x->_flags |= RG_TENSOR_RELEASED;
    rg_storage_release(storage);
  }
}

/* One reference less; whoever holds the last one is alone with the count. */
static int64_t drop_one(int64_t *refs)
{
  if (__atomic_load_n(refs, __ATOMIC_ACQUIRE) == 1) {
    return 0;
  }
  return __atomic_sub_fetch(refs, 1, __ATOMIC_ACQ_REL);
}

void rg_tensor_release(rg_tensor *x)
{
  int32_t place;
  int64_t left;

  if (x == NULL) {
    return;
  }
  place = rg_scope_place(x);
  left = drop_one(&x->_refs);
  if (left == 1 && rg_scope_forget(x, place)) {
    left = drop_one(&x->_refs);
  }
  if (left == 0) {
    rg_tensor_drop(x);
    rg_tally_add(&n_live, -1);
    rg_struct_free(x, sizeof(*x));
  }
}

int64_t rg_live_tensors(void)
{
  return rg_tally_read(&n_live);
}

rg_status rg_tensor_writable(const rg_tensor *x, const char *what)
{
  char text[96];

  for (int32_t i = 0; i < x->_ndim; i++) {
    if (x->_stride[i] == 0 && x->_shape[i] > 1) {
      return rg_fail(RG_EARG, "%s: %s repeats its elements (expand) and cannot be written to", what,
                     rg_tensor_text(x, text, sizeof(text)));
    }
  }
  return RG_OK;
}

rg_status rg_tensor_check(const rg_tensor *x, const char *what)
{
  uint32_t flags;

  if (x == NULL) {
    return rg_fail(RG_EARG, "%s: a tensor is expected, got nil", what);
  }
  flags = __atomic_load_n(&x->_flags, __ATOMIC_ACQUIRE);
  if ((flags & RG_TENSOR_RELEASED) != 0) {
    char text[96];

    return rg_fail(RG_ERELEASED, "%s: the tensor %s was released", what,
                   rg_tensor_text(x, text, sizeof(text)));
  }
  if ((flags & RG_TENSOR_LATER) != 0) {
    return arrive((rg_tensor *)x);
  }
  return (flags & RG_TENSOR_PINNED) != 0 ? rg_tensor_arrived(x) : RG_OK;
}

/* -- Facts ----------------------------------------------------------------------- */

int64_t rg_tensor_bytes(const rg_tensor *x)
{
  return x == NULL ? 0 : x->_count * rg_dtype_bytes(x->_dtype);
}

uint64_t rg_tensor_version(const rg_tensor *x)
{
  return x == NULL || x->_storage == NULL ? 0 : rg_storage_version(x->_storage);
}

int32_t rg_tensor_same_storage(const rg_tensor *x, const rg_tensor *y)
{
  return x != NULL && y != NULL && x->_storage != NULL && x->_storage == y->_storage;
}

void rg_tensor_set_param(rg_tensor *x, int32_t on)
{
  if (x != NULL) {
    x->_flags = on ? x->_flags | RG_TENSOR_PARAM : x->_flags & ~(uint32_t)RG_TENSOR_PARAM;
  }
}

int64_t rg_tensor_packed_bytes(const rg_tensor *x)
{
  return x != NULL ? rg_derived_bytes(x->_storage) : 0;
}

void rg_tensor_set_part(rg_tensor *x, int32_t on)
{
  if (x != NULL) {
    x->_flags = on ? x->_flags | RG_TENSOR_PART : x->_flags & ~(uint32_t)RG_TENSOR_PART;
  }
}

/* Lowest and highest byte of x, exclusive at the end. */
static void range_of(const rg_tensor *x, const char **low, const char **high)
{
  int64_t size = rg_dtype_bytes(x->_dtype);
  const char *data = x->_data;

  *low = data;
  *high = data + size;
  for (int32_t i = 0; i < x->_ndim; i++) {
    int64_t reach = (x->_shape[i] - 1) * x->_stride[i] * size;

    *low += rg_min_i64(reach, 0);
    *high += rg_max_i64(reach, 0);
  }
}

bool rg_tensor_overlap(const rg_tensor *x, const rg_tensor *y)
{
  const char *a;
  const char *b;
  const char *c;
  const char *d;

  if (x->_storage != y->_storage || x->_count == 0 || y->_count == 0) {
    return false;
  }
  range_of(x, &a, &b);
  range_of(y, &c, &d);
  return a < d && c < b;
}

bool rg_tensor_same_view(const rg_tensor *x, const rg_tensor *y)
{
  if (x->_data != y->_data || x->_ndim != y->_ndim || x->_dtype != y->_dtype) {
    return false;
  }
  for (int32_t i = 0; i < x->_ndim; i++) {
    if (x->_shape[i] != y->_shape[i] || (x->_shape[i] > 1 && x->_stride[i] != y->_stride[i])) {
      return false;
    }
  }
  return true;
}

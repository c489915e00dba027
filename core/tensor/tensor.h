/* SPDX-License-Identifier: MIT */
/*
** Storage, and what the core itself does with tensors beyond the public header.
*/
#ifndef RIDGE_TENSOR_TENSOR_H
#define RIDGE_TENSOR_TENSOR_H

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "base/base.h"
#include "ridge/tensor.h"

/*
** Something worked out from a storage's contents and kept with it: a packed weight, a cast copy.
** It is right for one version of the contents; kernels look it up by what they need (the key) and
** the view they need it of.  Derive a struct from it; release frees everything.
*/
typedef struct rg_derived rg_derived;
struct rg_derived {
  rg_derived *next;
  uint64_t key[4];  /* made by the kernel from what the copy is for */
  uint64_t version; /* of the storage when it was made */
  int64_t bytes;    /* of device memory it takes */
  void (*release)(rg_derived *self);
};

/* rg_dtype_bytes of a tensor's own type, without a call. */
extern const int8_t rg_dtype_sizes[RG_DTYPE_COUNT];

/* A tensor of the largest type with so many elements still has a size in bytes. */
#define RG_MAX_COUNT (INT64_MAX / 16)

/*
** Multiply the count by one more size; false when it grows too large.  A size of 0 counts as 1: the
** strides beside it are worked out all the same.
*/
static inline bool rg_count_grows(int64_t *count, int64_t size)
{
  return !__builtin_mul_overflow(*count, rg_max_i64(size, 1), count) && *count <= RG_MAX_COUNT;
}

/* What the tape keeps with a storage (core/grad/node.h); forget is called when only the tape itself
** still holds the memory. */
typedef struct rg_tracking rg_tracking;
struct rg_tracking {
  void (*forget)(rg_tracking *self);
  void (*release)(rg_tracking *self);
};

/*
** What a storage's contents come from other than kernels: a file (core/io/late.c).  One source for
** each storage.
*/
typedef struct rg_source rg_source;
typedef struct rg_storage rg_storage;
struct rg_source {
  /* Give the storage its block, with contents, where it has none yet.  Any thread. */
  rg_status (*fill)(rg_source *self, rg_storage *storage);
  void (*release)(rg_source *self); /* with the storage, behind its block */
  bool owns;                        /* the memory is the source's, and no block of a pool's */
};

/* Memory that tensors look into.  strong counts views; weak counts who only keeps the struct. */
struct rg_storage {
  _Atomic int64_t strong;
  _Atomic int64_t weak; /* one for all strong ones together, plus plan steps */
  _Atomic uint64_t version;
  rg_block block;
  int64_t bytes; /* asked for */
  rg_derived *derived;
  rg_spin derived_lock;
  _Atomic int64_t saved;   /* of the strong ones, those of the tape's saved tensors */
  rg_tracking *tracking;   /* NULL: no gradient flows here */
  struct rg_storage *base; /* whose memory this is (rg_storage_share), held; NULL: its own */
  rg_source *source;       /* NULL: none */
};

rg_status rg_storage_new(int32_t device, int64_t bytes, rg_storage **out) RG_CHECK;
void rg_storage_retain(rg_storage *storage);
void rg_storage_release(rg_storage *storage);

/* A storage that is another one's memory and contents, but has a gradient of its own; base: held.
** Writes to either are writes to both. */
rg_status rg_storage_share(rg_storage *base, rg_storage **out) RG_CHECK;

/* Where memory, writes and users are counted. */
static inline rg_storage *rg_storage_root(rg_storage *storage)
{
  return storage->base != NULL ? storage->base : storage;
}

/* A storage of so many bytes on the CPU with the contents of a source, which it takes over; data:
** its memory where that is the source's own, or NULL: it is filled later. */
rg_status rg_storage_from(rg_source *source, void *data, int64_t bytes, rg_storage **out) RG_CHECK;

/* Keep the struct, not the memory. */
void rg_storage_hold(rg_storage *storage);
void rg_storage_unhold(rg_storage *storage);

/* Count a write.  Only a storage that several tensors look into can be written to side by side. */
static inline void rg_storage_wrote(rg_storage *storage)
{
  storage = rg_storage_root(storage);
  if (atomic_load_explicit(&storage->strong, memory_order_relaxed) == 1) {
    uint64_t version = atomic_load_explicit(&storage->version, memory_order_relaxed);

    atomic_store_explicit(&storage->version, version + 1, memory_order_relaxed);
  } else {
    atomic_fetch_add_explicit(&storage->version, 1, memory_order_relaxed);
  }
}

static inline uint64_t rg_storage_version(const rg_storage *storage)
{
  return atomic_load_explicit(&rg_storage_root((rg_storage *)storage)->version,
                              memory_order_relaxed);
}

/*
** The derived copy with this key that fits the current version, or NULL.  Stale copies with the key
** are released on the way.  Callers of one plan run on one thread; side by side, plans share what
** is found, so whoever finds it may use it as long as the storage lives and is not written to.
*/
rg_derived *rg_derived_find(rg_storage *storage, const uint64_t key[4]);

/* Keep a derived copy with the storage, which takes it over; version must be set. */
void rg_derived_keep(rg_storage *storage, rg_derived *derived);
/* Bytes of the derived copies that exist now and fit the contents. */
int64_t rg_derived_bytes(rg_storage *storage);

/* A view of a storage: shape and strides as given, data at byte offset.  Retains the storage. */
rg_status rg_tensor_view_of(rg_storage *storage, int32_t dtype, const int64_t *shape,
                            const int64_t *stride, int32_t ndim, int64_t offset_bytes,
                            rg_tensor **out) RG_CHECK;

/*
** A struct that shows what x shows and holds nothing, for whoever keeps it or changes its fields.
** Other threads may retain and release x meanwhile, so its counts are not copied.
*/
static inline rg_tensor rg_tensor_struct(const rg_tensor *x)
{
  rg_tensor copy;

  memcpy(&copy, x, offsetof(rg_tensor, _refs));
  copy._refs = 1; /* whoever retains it gives it back before it goes */
  copy._handles = 0;
  copy._place = 0;
  memcpy(copy._shape, x->_shape, sizeof(copy._shape));
  memcpy(copy._stride, x->_stride, sizeof(copy._stride));
  return copy;
}

/* A tensor of the shape that is all of a source's contents, contiguous.  The source is taken over,
** whatever comes out; data as in rg_storage_from. */
rg_status rg_tensor_from(rg_source *source, void *data, int32_t dtype, const int64_t *shape,
                         int32_t ndim, rg_tensor **out) RG_CHECK;

/* RG_OK if x is a tensor that still has its storage; else RG_EARG or RG_ERELEASED naming what.  A
** copy into or out of pinned memory is done after this; elements that were to come are there. */
rg_status rg_tensor_check(const rg_tensor *x, const char *what) RG_CHECK;

/* RG_OK where each element of x has memory of its own, else RG_EARG that says what of it is not. */
rg_status rg_tensor_writable(const rg_tensor *x, const char *what) RG_CHECK;

/* -- Stream order (stream_order.c) -------------------------------------------------- */

/* Order this thread's stream after what other streams do with x: after the last write and, to
** write, after every use.  RG_EDEVICE. */
rg_status rg_tensor_stream_order_device(const rg_tensor *x, bool writes) RG_CHECK;

static inline rg_status rg_tensor_stream_order(const rg_tensor *x, bool writes)
{
  return x->_device == RG_CPU ? RG_OK : rg_tensor_stream_order_device(x, writes);
}

/* All of a tensor's bytes, without gaps, into another of the same size on any device: behind what
** both have to wait for.  Between pinned memory and a GPU it may still be under way when this
** returns. */
rg_status rg_tensor_transfer(rg_tensor *to, const rg_tensor *from) RG_CHECK;

/* Wait for a copy into or out of pinned memory. */
rg_status rg_tensor_arrived(const rg_tensor *x) RG_CHECK;

/* Does gradient flow through x? */
static inline bool rg_tensor_tracked(const rg_tensor *x)
{
  return x->_storage != NULL && x->_storage->tracking != NULL &&
         (x->_flags & RG_TENSOR_DETACHED) == 0;
}

/* Do the memory ranges of two tensors touch? */
bool rg_tensor_overlap(const rg_tensor *x, const rg_tensor *y);

/* Has x exactly this shape? */
static inline bool rg_tensor_shaped(const rg_tensor *x, const int64_t *shape, int32_t ndim)
{
  bool same = x->_ndim == ndim;

  for (int32_t i = 0; same && i < ndim; i++) {
    same = x->_shape[i] == shape[i];
  }
  return same;
}

/* Do x and y have the same data pointer, shape and strides? */
bool rg_tensor_same_view(const rg_tensor *x, const rg_tensor *y);

/* An axis or index as messages say it: from 1, negative ones as they are. */
static inline long long rg_from_one(int64_t index)
{
  return index < 0 || index == INT64_MAX ? index : index + 1;
}

/* "f32[256,784]" into text, for messages; returns text.  RG_TENSOR_TEXT is room for any. */
enum { RG_TENSOR_TEXT = 96 };
const char *rg_tensor_text(const rg_tensor *x, char *text, size_t size);
const char *rg_shape_text(const int64_t *shape, int32_t ndim, char *text, size_t size);

/* Set while a plan is captured: contents may not be read or set from the host. */
extern _Thread_local bool rg_host_access_refused;

/* -- Walking --------------------------------------------------------------------- */

enum { RG_WALK_MAX = 4 };

/*
** A loop over n tensors of one shape, with axes of length 1 dropped and neighbours joined, so that
** the innermost run is as long as it can be.  Strides are in bytes.
*/
typedef struct rg_walk {
  int32_t ndim; /* at least 1 */
  int32_t n;
  int64_t count;
  int64_t shape[RG_MAX_DIMS];
  int64_t stride[RG_WALK_MAX][RG_MAX_DIMS];
  char *data[RG_WALK_MAX];
} rg_walk;

/*
** Prepare a walk over tensors broadcast to shape.
**
** xs       n tensors, each broadcastable to the shape (size-1 axes get stride 0)
** n        1 .. RG_WALK_MAX
** shape    ndim sizes
*/
void rg_walk_init(rg_walk *walk, const rg_tensor *const *xs, int32_t n, const int64_t *shape,
                  int32_t ndim);

/*
** Byte offsets of the walk's outer position (row-major over all axes but the last) for each tensor.
**
** row      0 .. count / shape[ndim-1] - 1
*/
void rg_walk_row(const rg_walk *walk, int64_t row, int64_t offset[RG_WALK_MAX]);

/* Rows of the innermost axis. */
int64_t rg_walk_rows(const rg_walk *walk);

#endif

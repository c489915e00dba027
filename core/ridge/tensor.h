/* SPDX-License-Identifier: MIT */
/*
** Tensors: typed, strided windows into reference-counted storage.
*/
#ifndef RIDGE_TENSOR_H
#define RIDGE_TENSOR_H

#include "ridge/device.h"

/*
** Element types, a row each: all that a new type for storing needs but for its conversions.
**
** name     as printed
** stored   what an element is in C
** kind     how its numbers are dealt with (RG_KIND_...)
** lane     what loops and kernels compute in
** rank     of two types that meet, the result has the one of higher rank (rg_promote)
** least    and most: of whole numbers
*/
/* clang-format off */
/*  code        name    stored    kind    lane rank least      most */
#define RG_DTYPE_LIST(X)                                            \
  X(RG_F32,    f32,    float,    FLOAT,  F32, 5, 0,         0)         \
  X(RG_F64,    f64,    double,   FLOAT,  F64, 6, 0,         0)         \
  X(RG_F16,    f16,    uint16_t, HALF,   F32, 4, 0,         0)         \
  X(RG_BF16,   bf16,   uint16_t, HALF,   F32, 4, 0,         0)         \
  X(RG_I64,    i64,    int64_t,  WHOLE,  I64, 3, INT64_MIN, INT64_MAX) \
  X(RG_I32,    i32,    int32_t,  WHOLE,  I32, 2, INT32_MIN, INT32_MAX) \
  X(RG_I8,     i8,     int8_t,   WHOLE,  I8,  1, INT8_MIN,  INT8_MAX)  \
  X(RG_U8,     u8,     uint8_t,  WHOLE,  U8,  1, 0,         UINT8_MAX) \
  X(RG_BOOL,   bool,   uint8_t,  LOGIC,  U8,  0, 0,         1)         \
  X(RG_F8E4M3, f8e4m3, uint8_t,  STORED, F32, 0, 0,         0)         \
  X(RG_F8E5M2, f8e5m2, uint8_t,  STORED, F32, 0, 0,         0)
/* clang-format on */

#define RG_DTYPE_ENUM(code, ...) code,
enum { RG_DTYPE_LIST(RG_DTYPE_ENUM) RG_DTYPE_COUNT };

/* Kinds of element types, as bits: sets of them are asked for. */
enum {
  RG_KIND_FLOAT = 1,  /* floats that loops compute in */
  RG_KIND_HALF = 2,   /* floats that are computed with, in f32 */
  RG_KIND_STORED = 4, /* kept, copied and converted, but not computed with */
  RG_KIND_WHOLE = 8,  /* integers */
  RG_KIND_LOGIC = 16  /* true or false */
};

/* Devices: 0 is the CPU, 1 .. the CUDA devices in order. */
enum { RG_CPU = 0, RG_DEVICE_COUNT = 17 };

enum { RG_MAX_DIMS = 8 };

/*
** A tensor.  The fields here are for reading; they begin with an underscore so that in Lua no
** field hides a method.  Strides count elements.  _data is NULL in a released tensor.
*/
typedef struct rg_tensor {
  int32_t _dtype;
  int32_t _device;
  int32_t _ndim;
  uint32_t _flags; /* RG_TENSOR_... */
  int64_t _count;  /* elements */
  void *_data;     /* first element */
  struct rg_storage *_storage;
  int64_t _refs;    /* changed atomically */
  int32_t _handles; /* of _refs, those that Lua holds */
  int32_t _place;   /* in the list of its scope, from 1; 0: in none */
  int64_t _shape[8];
  int64_t _stride[8];
} rg_tensor;

enum {
  RG_TENSOR_CONTIGUOUS = 1, /* row-major without gaps */
  RG_TENSOR_PARAM = 2,      /* a weight: packed copies of it are worth keeping */
  RG_TENSOR_RELEASED = 4,   /* a scope ended; the storage is gone */
  RG_TENSOR_DETACHED = 8,   /* no gradient flows through this view, whatever flows through others */
  RG_TENSOR_PINNED = 16,    /* in host memory that a GPU's copies reach by themselves */
  RG_TENSOR_PART = 32,      /* a gradient that it wants is kept for it alone, not for all of its
                            ** storage */
  RG_TENSOR_LATER = 64,     /* its elements come out of a file when it is used first; no _data */

  /* who uses a tensor has to ask rg_tensor_check before */
  RG_TENSOR_ASK = RG_TENSOR_RELEASED | RG_TENSOR_PINNED | RG_TENSOR_LATER
};

/*
** f8e4m3 and f8e5m2 are the 8-bit floats of the OCP standard, and types for storing: such tensors
** are made, filled, copied, converted, joined, taken from, saved and printed; what computes (but
** for rg_scaled_linear) refuses them with RG_EDTYPE, and wants them converted first.  What is too
** large for them becomes nan in f8e4m3, which has no infinities (above 464; its largest number is
** 448), and infinity in f8e5m2 (from 61440 on; 57344): clamp before the conversion where that is
** not wanted.
*/

/* Bytes an element of a dtype takes; 0 for a number that is no dtype. */
RG_API int64_t rg_dtype_bytes(int32_t dtype);

/* "f32"; "?" for a number that is no dtype. */
RG_API const char *rg_dtype_name(int32_t dtype);

/* RG_KIND_FLOAT ...; 0 for a number that is no dtype. */
RG_API int32_t rg_dtype_kind(int32_t dtype);

/* "uint16_t": what an element is in C; "?" for a number that is no dtype. */
RG_API const char *rg_dtype_stored(int32_t dtype);

/*
** A new tensor with undefined elements, contiguous.
**
** dtype    RG_F32 ...
** device   RG_CPU ..., or RG_PINNED for a tensor of the CPU's in pinned memory
** shape    ndim sizes, each 0 or more
** ndim     0 .. RG_MAX_DIMS; 0 is a scalar
** out      new reference
** RG_EDTYPE, RG_EDEVICE, RG_ESHAPE (negative size, too many elements), RG_ENOMEM.
*/
RG_API rg_status rg_empty(int32_t dtype, int32_t device, const int64_t *shape, int32_t ndim,
                          rg_tensor **out) RG_CHECK;

/*
** A new tensor with a copy of count values, converted to dtype.
**
** values   row-major, count of them
** count    must be the product of the shape
** dtype    RG_F32 ...
** shape    ndim sizes
** ndim     0 .. RG_MAX_DIMS
** out      new reference, on the CPU
** RG_ESHAPE when count differs from the shape's product.
*/
RG_API rg_status rg_tensor_from_doubles(const double *values, int64_t count, int32_t dtype,
                                        const int64_t *shape, int32_t ndim,
                                        rg_tensor **out) RG_CHECK;

RG_API rg_tensor *rg_tensor_retain(rg_tensor *x);
RG_API void rg_tensor_release(rg_tensor *x);

/* Drop the storage now, whoever still holds x: later uses answer RG_ERELEASED. */
RG_API void rg_tensor_drop(rg_tensor *x);

/*
** What Lua holds: a struct by value around the pointer, because arithmetic on a bare pointer would
** be arithmetic on an address (docs/why/architecture.md).  A tensor may be in one handle of a
** thread's Lua state.  In Lua its type is another one with the same fields (lua/ridge/ffi/ref.lua).
*/
typedef struct rg_ref {
  rg_tensor *_t; /* NULL once released */
  int32_t _slot; /* where the state's rg_handles notes the reference, from 1 */
} rg_ref;

/*
** The references that the handles of one Lua state hold, a slot each.  A handle that dies leaves
** its slot behind, which Lua finds in a weak table; handles need no finalizers.  All zero is none.
*/
typedef struct rg_handles {
  rg_tensor **_tensors; /* by slot; NULL: released, or nobody's slot */
  int32_t *_free;       /* a stack of nobody's slots */
  int32_t _n_free;
  int32_t _n;   /* slots, the last one's number */
  int32_t _due; /* 1: handles have died since the slots were looked through */
} rg_handles;

/* n slots, more than there are; the new ones are free.  RG_ENOMEM, and nothing has changed. */
RG_API rg_status rg_handles_grow(rg_handles *handles, int32_t n) RG_CHECK;

/* Release the tensors of the slots that were pushed to _free last.  n: how many. */
RG_API void rg_handles_reap(rg_handles *handles, int32_t n);

/* Release a handle's tensor now, once; the slot stays the handle's.  ref: may be empty. */
RG_API void rg_handles_drop(rg_handles *handles, rg_ref *ref);

/* Release everything; what is left is all zero. */
RG_API void rg_handles_close(rg_handles *handles);

/* Live tensors of this process, for leak tests. */
RG_API int64_t rg_live_tensors(void);

/* Bytes of x's elements (count times element size); the storage may be larger. */
RG_API int64_t rg_tensor_bytes(const rg_tensor *x);

/* How often the storage was written since it was made; packed weights are kept by it. */
RG_API uint64_t rg_tensor_version(const rg_tensor *x);

/* 1 if both look into the same storage. */
RG_API int32_t rg_tensor_same_storage(const rg_tensor *x, const rg_tensor *y);

/*
** Copy bytes out of or into a contiguous CPU tensor; the write counts as a new version.
**
** x        contiguous
** data     host memory
** bytes    exactly the bytes of x
** RG_ESHAPE when bytes differ or x has gaps; RG_ECAPTURE: reading while a plan is captured.
*/
RG_API rg_status rg_tensor_read(const rg_tensor *x, void *data, int64_t bytes) RG_CHECK;
RG_API rg_status rg_tensor_write(rg_tensor *x, const void *data, int64_t bytes) RG_CHECK;

/*
** All elements as doubles, in row-major order (i64 above 2^53 is rounded).  Every NaN becomes the
** one that Lua can hold: other NaN bits are types of LuaJIT's own.
**
** x        contiguous
** values   room for count of them
** count    exactly x's
** RG_ESHAPE when count differs or x has gaps; RG_ECAPTURE: reading while a plan is captured.
*/
RG_API rg_status rg_tensor_to_doubles(const rg_tensor *x, double *values, int64_t count) RG_CHECK;

/*
** The same for numbers in memory, wherever they come from.
**
** data     count elements of the type dtype
** out      room for count doubles
** RG_EARG.
*/
RG_API rg_status rg_doubles_from(const void *data, int64_t count, int32_t dtype,
                                 double *out) RG_CHECK;

/*
** One element as a double (i64 above 2^53 is rounded).
**
** index    one 0-based index for each axis; n of them
** n        must be the number of axes
** out      the value
** RG_EAXIS out of range; RG_ECAPTURE while a plan is captured.
*/
RG_API rg_status rg_tensor_get(const rg_tensor *x, const int64_t *index, int32_t n,
                               double *out) RG_CHECK;

/* Set one element; the value is converted to the dtype as in rg_cast.  index, n: as above. */
RG_API rg_status rg_tensor_set(rg_tensor *x, const int64_t *index, int32_t n,
                               double value) RG_CHECK;

/*
** Order this thread's stream after an event recorded behind the last write to x: else its first use
** of x waits for everything queued on the writer's stream until then.
**
** x        of a GPU; of the CPU there is nothing to do
** event    of the same device, set on the stream that wrote x last
** RG_ERELEASED, RG_EARG for another device's event, RG_EDEVICE.
*/
RG_API rg_status rg_tensor_follow(const rg_tensor *x, const rg_event *event) RG_CHECK;

/* -- Views: share the storage, never copy ----------------------------------- */

/*
** The same elements in another shape.
**
** x        any
** shape    ndim sizes; one may be -1 and is worked out
** ndim     0 .. RG_MAX_DIMS
** out      new reference to a view
** RG_ESHAPE when counts differ or the strides do not allow a view (then copy first).
*/
RG_API rg_status rg_view(const rg_tensor *x, const int64_t *shape, int32_t ndim,
                         rg_tensor **out) RG_CHECK;

/* The same of x, and a copy where the strides do not allow a view.  shape, ndim: as there; out: new
** reference.  RG_ESHAPE. */
RG_API rg_status rg_reshape(const rg_tensor *x, const int64_t *shape, int32_t ndim,
                            rg_tensor **out) RG_CHECK;

/* Axes a and b of x exchanged; negative ones count from the last.  out: view.  RG_EAXIS. */
RG_API rg_status rg_transpose(const rg_tensor *x, int32_t a, int32_t b, rg_tensor **out) RG_CHECK;

/* Axes of x in another order.  order: a permutation of 0 .. ndim-1, n of them; out: view.
** RG_EAXIS. */
RG_API rg_status rg_permute(const rg_tensor *x, const int32_t *order, int32_t n,
                            rg_tensor **out) RG_CHECK;

/*
** A range of one axis.
**
** x        any
** axis     -ndim .. ndim-1
** start    0 .. size; length 0 .. size - start; step at least 1
** length   elements taken
** step     distance between them
** out      view
** RG_EAXIS.
*/
RG_API rg_status rg_narrow(const rg_tensor *x, int32_t axis, int64_t start, int64_t length,
                           int64_t step, rg_tensor **out) RG_CHECK;

/* One position of one axis of x, which goes away.  axis, index: 0-based; out: view.  RG_EAXIS. */
RG_API rg_status rg_select(const rg_tensor *x, int32_t axis, int64_t index,
                           rg_tensor **out) RG_CHECK;

/*
** Axes of size 1 repeated without copying (stride 0), new ones in front.
**
** shape    ndim sizes
** ndim     at least x's
** out      view
** RG_ESHAPE when a size other than 1 would change.
*/
RG_API rg_status rg_expand(const rg_tensor *x, const int64_t *shape, int32_t ndim,
                           rg_tensor **out) RG_CHECK;

/* An axis of size 1 put into x before axis (0 .. ndim, or negative).  out: view.  RG_EAXIS. */
RG_API rg_status rg_unsqueeze(const rg_tensor *x, int32_t axis, rg_tensor **out) RG_CHECK;

/* An axis of size 1 taken out of x.  axis: -ndim .. ndim-1; out: view.  RG_EAXIS, RG_ESHAPE. */
RG_API rg_status rg_squeeze(const rg_tensor *x, int32_t axis, rg_tensor **out) RG_CHECK;

/* The same elements, through which no gradient flows.  x: any; out: view. */
RG_API rg_status rg_detach(const rg_tensor *x, rg_tensor **out) RG_CHECK;

/* on = 1 marks x as a weight: packed and cast copies of it are kept until it is written to. */
RG_API void rg_tensor_set_param(rg_tensor *x, int32_t on);

/* Bytes of the packed and cast copies that are kept of x's memory now; 0 for NULL. */
RG_API int64_t rg_tensor_packed_bytes(const rg_tensor *x);

/*
** on = 1: when x requires a gradient, the rest of its storage shall take no memory for one.
**
** x        the same columns of all rows of a matrix, or a range of its rows; of any other view it
**          means nothing
*/
RG_API void rg_tensor_set_part(rg_tensor *x, int32_t on);

/* -- Scopes ------------------------------------------------------------------ */

/* Remember where the list of created tensors stands; returns the depth of the new scope. */
RG_API int32_t rg_scope_enter(void);

/*
** Release everything created in the scopes above depth - 1 that nobody in C holds and that is
** not kept.  The Lua handles of those stay valid and answer RG_ERELEASED.
**
** depth    what rg_scope_enter returned
*/
RG_API void rg_scope_leave(int32_t depth);

/* Let x outlive the scope it was made in: it moves to the scope around it. */
RG_API void rg_scope_keep(rg_tensor *x);

/* The current depth; 0 outside every scope. */
RG_API int32_t rg_scope_depth(void);

/* A scope that is set aside: a coroutine inside it waits. */
typedef struct rg_parked rg_parked;

/* Set the innermost scope aside with what was made in it.  out: to be gone on with or released;
** NULL outside every scope. */
RG_API rg_status rg_scope_park(rg_parked **out) RG_CHECK;

/* Go on with a parked scope as the innermost one.  depth: out, its depth now. */
RG_API rg_status rg_scope_go_on(rg_parked *parked, int32_t *depth) RG_CHECK;

/* Nobody will go on with a parked scope: what was made in it belongs to its handles alone. */
RG_API void rg_scope_forget_parked(rg_parked *parked);

#endif

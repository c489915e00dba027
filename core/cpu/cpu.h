/* SPDX-License-Identifier: MIT */
/*
** What the CPU's kernels share: their declarations, work spread over threads, lane types, tiles of
** strided tensors, and loops applied to whole tensors.
*/
#ifndef RIDGE_CPU_CPU_H
#define RIDGE_CPU_CPU_H

#include "cpu/simd/simd.h"
#include "op/list.h"
#include "op/op.h"
#include "tensor/dtype.h"
#include "tensor/tensor.h"

#define RG_OP_LINE(NAME, name) rg_kernel rg_cpu_##name;
RG_OP_LIST
#undef RG_OP_LINE

/* The table that core/ridge.c registers. */
const rg_backend *rg_cpu_backend(void);

/* -- Threads ---------------------------------------------------------------------- */

/* Items begin .. end - 1 of some work; false when it stopped early for an interrupt. */
typedef bool rg_job(void *work, int64_t begin, int64_t end);

/*
** Do n items of work on so many threads (rg_threads_for), each taking one contiguous range.
** Without a second thread no OpenMP is involved at all.
**
** RG_EINTR when a job stopped.
*/
rg_status rg_parallel(int32_t threads, int64_t n, rg_job *job, void *work) RG_CHECK;

/* Elements of a long row between two looks at the interrupt flag. */
enum { RG_LOOK = 1 << 16 };

/* Has Ctrl-C come?  Asked at each element i of a row, which may have billions of them. */
static inline bool rg_stops(int64_t i)
{
  return (i & (RG_LOOK - 1)) == 0 && rg_interrupt_pending();
}

/* -- Lanes -------------------------------------------------------------------------- */

/* The type loops run in for a dtype: f32 for all narrower floats, u8 for bool. */
static inline int32_t rg_lane_of(int32_t dtype)
{
#define RG_DTYPE_LANE(code, name, stored, kind, lane, ...) [code] = RG_LANE_##lane,
  static const int8_t lanes[RG_DTYPE_COUNT] = { RG_DTYPE_LIST(RG_DTYPE_LANE) };
#undef RG_DTYPE_LANE

  return lanes[dtype];
}

int64_t rg_lane_bytes(int32_t lane);

static inline bool rg_is_half(int32_t dtype)
{
  return rg_kind_of(dtype) == RG_KIND_HALF;
}

/* Are elements of a dtype floats narrower than their lane? */
static inline bool rg_is_narrow(int32_t dtype)
{
  return (rg_kind_of(dtype) & RG_KINDS_NARROW) != 0;
}

/* The loop that converts one lane type to the lanes of a dtype, rounded so that narrowing them
** afterwards rounds once. */
rg_loop *const *rg_lanes_loop(int32_t from, int32_t dtype);

/* A number as one lane of a dtype: rounded to the dtype, then widened if that is narrower. */
typedef union rg_lane_value {
  float f32;
  double f64;
  int64_t i64;
  int32_t i32;
  int8_t i8;
  uint8_t u8;
} rg_lane_value;

rg_lane_value rg_lane_value_of(int32_t dtype, double value);

/* n lanes to elements of a dtype. */
void rg_lanes_narrow(int32_t dtype, void *to, const void *lanes, int64_t n);

/* -- Tiles -------------------------------------------------------------------------- */

enum { RG_TILE = 512 }; /* elements: the largest lane fills 4 KB, an eighth of L1 */

/* Room for one operand's tile. */
typedef struct rg_tile {
  _Alignas(64) unsigned char lanes[RG_TILE * 8];
  _Alignas(64) unsigned char narrow[RG_TILE * 2];
} rg_tile;

/*
** Elements at .. at + n - 1 (row-major) of tensor t of a walk, as lanes side by side: the tensor's
** own memory where it is so, else copied into room.  n <= RG_TILE.
*/
const void *rg_tile_load(const rg_walk *walk, int32_t t, int64_t at, int64_t n, int32_t dtype,
                         rg_tile *room);

/* Where to compute those elements to: the tensor's own memory if it is side by side, else room. */
void *rg_tile_open(const rg_walk *walk, int32_t t, int64_t at, int64_t n, int32_t dtype,
                   rg_tile *room);

/* Bring what was computed in rg_tile_open's place to the tensor. */
void rg_tile_close(const rg_walk *walk, int32_t t, int64_t at, int64_t n, int32_t dtype,
                   rg_tile *room, const void *from);

/* Elements of tensor t, any strides, to and from memory side by side, whatever their type. */
void rg_gather(const rg_walk *walk, int32_t t, int64_t at, int64_t n, int64_t size, void *to);
void rg_scatter(const rg_walk *walk, int32_t t, int64_t at, int64_t n, int64_t size,
                const void *from);

/* Elements of x side by side: where they are, or a copy at *room, which moves on behind it in steps
** of 64 bytes. */
const void *rg_gathered(const rg_tensor *x, char **room);

/* Byte offset of element at (row-major) of tensor t. */
int64_t rg_walk_offset(const rg_walk *walk, int32_t t, int64_t at);

/* Element at (row-major) of tensor t, of an integer type. */
int64_t rg_integer_at(const rg_walk *walk, int32_t t, int64_t at, int32_t dtype);

/* -- Elementwise ---------------------------------------------------------------------- */

/* One loop over whole tensors: y[i] = loop(a[i], b[i]), inputs broadcast to y. */
typedef struct rg_map {
  rg_loop *const *loops; /* by RG_FORM_...; only the first one for functions of one input */
  rg_tensor *y;
  const rg_tensor *a;
  const rg_tensor *b; /* NULL: none, or the number one */
  const void *one;    /* a lane in b's place (RG_FORM_RUN_ONE) or a's (RG_FORM_ONE_RUN) */
  int32_t one_form;
  bool raw;      /* the loop takes narrow types as they are; y and a must be contiguous then */
  double weight; /* elementary operations an element, to choose the number of threads */
} rg_map;

rg_status rg_map_run(const rg_map *map) RG_CHECK;

/* The activation of n lanes side by side, in their place, with the bits of the unary function.
** lane: RG_LANE_F32 or RG_LANE_F64. */
void rg_activate(int32_t act, int32_t lane, void *x, int64_t n);

/* Copy x, broadcast to y's shape and converted to its type, into y. */
rg_status rg_cpu_convert(rg_tensor *y, const rg_tensor *x) RG_CHECK;

/* Write the call's draw into hidden result i, where somebody wants it. */
void rg_cpu_keep_draw(const rg_call *call, int32_t i, rg_tensor *const *out);

#endif

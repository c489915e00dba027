/* SPDX-License-Identifier: MIT */
/*
** Choosing between two tensors, element by element.  Elements are bits of one size, whatever their
** type, so that half types are not converted.
**
** Where the innermost axis is long and each input goes along it in steps of one element or stands
** still, loops run over the tensors' own memory; elsewhere tiles are brought together.
*/
#include "cpu/cpu.h"

enum {
  PIECE = 16384,     /* elements between two looks at the interrupt flag */
  SHORTEST_ROW = 32, /* below it the loop's start-up costs more than bringing rows together */
  Y = 0,
  COND,
  ON,
  OFF,
  OPERANDS
};

typedef struct where_work {
  rg_walk walk; /* y, the condition, both inputs */
  int64_t size; /* of an element */
  rg_choose *const *choose;
  bool direct; /* loops run over the tensors' own memory */
} where_work;

/* Room for a tile of each. */
typedef struct where_room {
  _Alignas(64) char at[OPERANDS][RG_TILE * 8];
} where_room;

static int64_t size_of(const where_work *w, int32_t t)
{
  return t == COND ? 1 : w->size;
}

/* n elements of the tensors' own memory, of one row; n <= PIECE. */
static void choose_run(const where_work *w, int64_t at, int64_t n)
{
  const rg_walk *walk = &w->walk;
  int32_t inner = walk->ndim - 1;
  char *place[OPERANDS];
  uint8_t same[RG_TILE];

  for (int32_t t = 0; t < OPERANDS; t++) {
    place[t] = walk->data[t] + rg_walk_offset(walk, t, at);
  }
  rg_choose *choose = w->choose[(walk->stride[ON][inner] == 0 ? RG_CHOOSE_ONE_ON : 0) |
                                (walk->stride[OFF][inner] == 0 ? RG_CHOOSE_ONE_OFF : 0)];
  if (walk->stride[COND][inner] != 0) {
    choose(place[Y], (const uint8_t *)place[COND], place[ON], place[OFF], n);
    return;
  }
  for (int64_t i = 0; i < RG_TILE; i++) {
    same[i] = *(const uint8_t *)place[COND];
  }
  for (int64_t done = 0; done < n; done += RG_TILE) {
    choose(place[Y] + done * walk->stride[Y][inner], same,
           place[ON] + done * walk->stride[ON][inner], place[OFF] + done * walk->stride[OFF][inner],
           rg_min_i64(RG_TILE, n - done));
  }
}

static void choose_tile(const where_work *w, int64_t at, int64_t n, where_room *room)
{
  for (int32_t t = COND; t < OPERANDS; t++) {
    rg_gather(&w->walk, t, at, n, size_of(w, t), room->at[t]);
  }
  w->choose[0](room->at[Y], (const uint8_t *)room->at[COND], room->at[ON], room->at[OFF], n);
  rg_scatter(&w->walk, Y, at, n, w->size, room->at[Y]);
}

static bool job(void *work, int64_t begin, int64_t end)
{
  const where_work *w = work;
  int64_t row = w->walk.shape[w->walk.ndim - 1];
  where_room room;

  for (int64_t i = begin; i < end; i++) {
    int64_t last = rg_min_i64((i + 1) * PIECE, w->walk.count);
    int64_t n;

    if (rg_interrupt_pending()) {
      return false;
    }
    for (int64_t at = i * PIECE; at < last; at += n) {
      n = rg_min_i64(last - at, w->direct ? row - at % row : RG_TILE);
      if (w->direct) {
        choose_run(w, at, n);
      } else {
        choose_tile(w, at, n, &room);
      }
    }
  }
  return true;
}

static bool is_direct(const where_work *w)
{
  int32_t inner = w->walk.ndim - 1;
  bool direct = w->walk.shape[inner] >= SHORTEST_ROW || w->walk.ndim == 1;

  for (int32_t t = 0; t < OPERANDS; t++) {
    int64_t stride = w->walk.stride[t][inner];

    direct = direct && (stride == size_of(w, t) || (stride == 0 && t != Y));
  }
  return direct;
}

rg_status rg_cpu_where(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_tensor *const xs[] = { out[0], call->in[0], call->in[1], call->in[2] };
  where_work w = { .size = rg_dtype_bytes(out[0]->_dtype) };
  int32_t form = w.size == 1 ? 0 : w.size == 2 ? 1 : w.size == 4 ? 2 : 3;

  (void)frame;
  if (out[0]->_count == 0) {
    return RG_OK;
  }
  w.choose = rg_simd()->where->choose[form];
  rg_walk_init(&w.walk, xs, OPERANDS, out[0]->_shape, out[0]->_ndim);
  w.direct = is_direct(&w);
  return rg_parallel(rg_threads_for(3.0 * (double)w.walk.count), (w.walk.count + PIECE - 1) / PIECE,
                     job, &w);
}

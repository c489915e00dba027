/* SPDX-License-Identifier: MIT */
/*
** Steps of optimizers on the CPU: all parameters are one row of pieces, spread over the threads.
*/
#include <math.h>

#include "cpu/cpu.h"
#include "op/step.h"

enum { PIECE = 16384 }; /* elements of one parameter in one item of work */

typedef struct step_work {
  const rg_call *call;
  const rg_step_args *args;
  rg_step_loop *const *loops; /* f32, f64 */
  rg_step_numbers numbers;
} step_work;

static int64_t pieces_of(const rg_tensor *x)
{
  return (x->_count + PIECE - 1) / PIECE;
}

/* The one number a tensor holds. */
static double number_of(const rg_tensor *x)
{
  rg_tile room;
  rg_walk walk;
  const void *lane;

  rg_walk_init(&walk, &x, 1, x->_shape, x->_ndim);
  lane = rg_tile_load(&walk, 0, 0, 1, x->_dtype, &room);
  return x->_dtype == RG_F64 ? *(const double *)lane : (double)*(const float *)lane;
}

/* -- One parameter ------------------------------------------------------------------------ */

typedef struct step_room {
  rg_tile param;
  rg_tile grad;
  rg_tile state[3];
} step_room;

typedef struct step_place {
  rg_walk param; /* 1: its gradient */
  rg_walk state;
  int32_t dtype;
  int32_t grad_dtype;
  int32_t state_dtype;
  int64_t states;
  int64_t count;
} step_place;

static void find(const step_work *w, int64_t i, step_place *place)
{
  const rg_tensor *p = w->call->in[rg_step_param(i)];
  const rg_tensor *both[] = { p, w->call->in[rg_step_grad(w->args, i)] };
  const rg_tensor *states[3];

  place->dtype = p->_dtype;
  place->grad_dtype = both[1]->_dtype;
  place->state_dtype = p->_dtype == RG_F64 ? RG_F64 : RG_F32;
  place->states = w->args->states;
  place->count = p->_count;
  rg_walk_init(&place->param, both, 2, p->_shape, p->_ndim);
  for (int64_t k = 0; k < place->states; k++) {
    states[k] = w->call->in[rg_step_state(w->args, k, i)];
  }
  if (place->states > 0) {
    rg_walk_init(&place->state, states, (int32_t)place->states, p->_shape, p->_ndim);
  }
}

static void step_piece(const step_work *w, const step_place *at, int64_t begin, int64_t end,
                       step_room *room)
{
  rg_step_loop *loop = w->loops[at->dtype == RG_F64];

  for (; begin < end; begin += RG_TILE) {
    int64_t n = rg_min_i64(RG_TILE, end - begin);
    void *state[3] = { NULL, NULL, NULL };
    const void *g = rg_tile_load(&at->param, 1, begin, n, at->grad_dtype, &room->grad);
    /* read and written: loading gathers what is not contiguous into scratch, which close writes
    ** back */
    void *p = (void *)rg_tile_load(&at->param, 0, begin, n, at->dtype, &room->param);

    for (int32_t k = 0; k < at->states; k++) {
      state[k] = (void *)rg_tile_load(&at->state, k, begin, n, at->state_dtype, &room->state[k]);
    }
    loop(p, g, state, &w->numbers, n);
    rg_tile_close(&at->param, 0, begin, n, at->dtype, &room->param, p);
    for (int32_t k = 0; k < at->states; k++) {
      rg_tile_close(&at->state, k, begin, n, at->state_dtype, &room->state[k], state[k]);
    }
  }
}

/* -- All of them --------------------------------------------------------------------------- */

static bool step_job(void *work, int64_t begin, int64_t end)
{
  const step_work *w = work;
  int64_t first = 0; /* piece of the parameter at hand */
  step_place place;
  step_room room;

  for (int64_t i = 0; i < w->args->n && first < end; i++) {
    int64_t pieces = pieces_of(w->call->in[rg_step_param(i)]);

    if (first + pieces > begin && pieces > 0) {
      find(w, i, &place);
      for (int64_t k = rg_max_i64(begin - first, 0); k < rg_min_i64(pieces, end - first); k++) {
        step_piece(w, &place, k * PIECE, rg_min_i64((k + 1) * PIECE, place.count), &room);
      }
    }
    first += pieces;
  }
  return true; /* a step half taken would be worse than one that ends late */
}

/* Count the step and take it; false where the scale says that there is none to take. */
static bool begin_step(step_work *w, const rg_call *call)
{
  const rg_tensor *scale = call->in[RG_STEP_SCALE];
  double *count = call->in[RG_STEP_COUNT]->_data;

  w->call = call;
  w->args = call->args;
  w->numbers.scale = scale != NULL ? number_of(scale) : 1;
  w->numbers.rate = number_of(call->in[RG_STEP_RATE]);
  w->numbers.shrink = 1;
  if (!isfinite(w->numbers.scale)) {
    return false;
  }
  *count += 1;
  return true;
}

static rg_status take_step(step_work *w, double flops_each)
{
  int64_t pieces = 0;
  double elements = 0;

  for (int64_t i = 0; i < w->args->n; i++) {
    const rg_tensor *p = w->call->in[rg_step_param(i)];

    pieces += pieces_of(p);
    elements += (double)p->_count;
  }
  return rg_parallel(rg_threads_for(flops_each * elements), pieces, step_job, w);
}

rg_status rg_cpu_sgd_step(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  step_work w = { .loops = rg_simd()->step->sgd };

  (void)out;
  (void)frame;
  if (!begin_step(&w, call)) {
    return RG_OK;
  }
  const rg_sgd_options *o = &w.args->o.sgd;
  bool first = *(const double *)call->in[RG_STEP_COUNT]->_data == 1;

  w.numbers.decay = o->weight_decay;
  w.numbers.beta1 = first ? 0 : o->momentum;
  w.numbers.beta2 = first ? 1 : 1 - o->dampening;
  w.numbers.ahead = o->momentum;
  w.numbers.nesterov = o->nesterov != 0;
  return take_step(&w, 4);
}

rg_status rg_cpu_adam_step(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  step_work w = { .loops = rg_simd()->step->adam };

  (void)out;
  (void)frame;
  if (!begin_step(&w, call)) {
    return RG_OK;
  }
  const rg_adam_options *o = &w.args->o.adam;
  double t = *(const double *)call->in[RG_STEP_COUNT]->_data;

  if (o->decoupled != 0) {
    w.numbers.shrink = 1 - w.numbers.rate * o->weight_decay;
  } else {
    w.numbers.decay = o->weight_decay;
  }
  w.numbers.beta1 = o->beta1;
  w.numbers.beta2 = o->beta2;
  w.numbers.eps = o->eps;
  w.numbers.rate /= 1 - pow(o->beta1, t);
  w.numbers.root = 1 / sqrt(1 - pow(o->beta2, t));
  return take_step(&w, 20);
}

rg_status rg_cpu_lion_step(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  step_work w = { .loops = rg_simd()->step->lion };

  (void)out;
  (void)frame;
  if (!begin_step(&w, call)) {
    return RG_OK;
  }
  const rg_lion_options *o = &w.args->o.lion;

  w.numbers.shrink = 1 - w.numbers.rate * o->weight_decay;
  w.numbers.beta1 = o->beta1;
  w.numbers.beta2 = o->beta2;
  return take_step(&w, 10);
}

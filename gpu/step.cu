/* SPDX-License-Identifier: MIT */
/*
** Steps of optimizers.  What the step's numbers are is worked out on the device, where the rate,
** the count and the scale live: nothing waits for the host, and a captured step counts on at
** replay.
*/
#include "gpu/kernels.cuh"
#include "gpu/pack.cuh"
#include "gpu/team.cuh"

extern "C" {
#include "op/step.h"
}

enum { SGD, ADAM, LION };
enum {
  FOUR = 4,     /* elements of a thread at a time */
  TABLE = 64,   /* parameters in one launch: what a launch can be told is 4 KiB */
  LEAST = 2048, /* elements of a block */
  MOST = 16384, /* a launch has some of the parameters only, and its blocks are to come in waves */
  BLOCKS_OF_A_UNIT = 8
};

/* -- Numbers ----------------------------------------------------------------------------------- */

/* Where they come from. */
struct step_source {
  rg_step_args args;
  double *count;
  const void *rate;
  const void *scale; /* NULL: 1 */
  int32_t rate_type, scale_type;
};

/* What the loops take, in their lane; worked out in double, as on the CPU. */
template <class L> struct step_numbers {
  L scale, rate, decay, shrink, beta1, rest1, beta2, rest2, ahead, eps, root;
  int32_t nesterov;
  int32_t taken; /* 0: the scale says that there is no step */
};

__device__ static inline double scale_of(const step_source &from)
{
  return from.scale != NULL ? rg_number_of(from.scale, from.scale_type, 0).d : 1;
}

__device__ static inline bool is_finite(double x)
{
  return x - x == 0;
}

/* The step is counted before any block reads the count. */
__global__ void k_count(step_source from)
{
  if (is_finite(scale_of(from))) {
    *from.count += 1;
  }
}

template <class L, int KIND>
__device__ static inline step_numbers<L> numbers_of(const step_source &from)
{
  const double scale = scale_of(from);
  const double count = *from.count;
  double rate = rg_number_of(from.rate, from.rate_type, 0).d;
  step_numbers<L> c = {};

  c.taken = is_finite(scale);
  c.scale = (L)scale;
  c.shrink = 1;
  if (KIND == SGD) {
    const rg_sgd_options &o = from.args.o.sgd;

    c.decay = (L)o.weight_decay;
    c.beta1 = (L)(count == 1 ? 0 : o.momentum);
    c.beta2 = (L)(count == 1 ? 1 : 1 - o.dampening);
    c.ahead = (L)o.momentum;
    c.nesterov = o.nesterov != 0;
  } else if (KIND == ADAM) {
    const rg_adam_options &o = from.args.o.adam;

    if (o.decoupled != 0) {
      c.shrink = (L)(1 - rate * o.weight_decay);
    } else {
      c.decay = (L)o.weight_decay;
    }
    c.rest1 = (L)(1 - o.beta1);
    c.beta2 = (L)o.beta2;
    c.rest2 = (L)(1 - o.beta2);
    c.eps = (L)o.eps;
    rate /= 1 - pow(o.beta1, count);
    c.root = (L)(1 / sqrt(1 - pow(o.beta2, count)));
  } else {
    const rg_lion_options &o = from.args.o.lion;

    c.shrink = (L)(1 - rate * o.weight_decay);
    c.rest1 = (L)(1 - o.beta1);
    c.rest2 = (L)(1 - o.beta2);
  }
  c.rate = (L)rate;
  return c;
}

/* Each block works them out for itself: no memory is shared between calls. */
template <class L, int KIND>
__device__ static inline step_numbers<L> block_numbers(const step_source &from)
{
  RG_SHARED(step_numbers<L>, room, 1);

  if (threadIdx.x == 0) {
    room[0] = numbers_of<L, KIND>(from);
  }
  __syncthreads();
  return room[0];
}

/* -- Elements ---------------------------------------------------------------------------------- */

/* The new value of a parameter; s: its states, of which there are n. */
template <class L, int KIND>
__device__ static inline L stepped(const step_numbers<L> &c, L p, L g, L *s, int32_t n)
{
  g = c.scale * g;
  if (KIND == LION) {
    L m = s[0];
    L way = m + c.rest1 * (g - m);
    L sign = (L)((way > 0) - (way < 0));

    s[0] = m + c.rest2 * (g - m);
    return c.shrink * p - c.rate * (way == way ? sign : way); /* nan has to show */
  }
  g = g + c.decay * p;
  if (KIND == SGD) {
    if (n == 0) {
      return p - c.rate * g;
    }
    L m = c.beta1 * s[0] + c.beta2 * g;

    s[0] = m;
    return p - c.rate * (c.nesterov ? g + c.ahead * m : m);
  }
  L a = s[0] + c.rest1 * (g - s[0]);
  L b = c.beta2 * s[1] + c.rest2 * g * g;
  L top = b;

  s[0] = a;
  s[1] = b;
  if (n > 2) {
    top = s[2] > b ? s[2] : b;
    s[2] = top;
  }
  return c.shrink * p - c.rate * (a / (sqrt(top) * c.root + c.eps));
}

/* -- Many parameters in one launch ------------------------------------------------------------- */

/* One parameter, everything of it side by side. */
struct step_tensor {
  char *p;
  const char *g;
  char *state[3]; /* of the lane's type */
  int64_t n;
};

struct step_table {
  step_source from;
  step_tensor x[TABLE];
  int32_t first[TABLE + 1]; /* block of each */
  int8_t p_type[TABLE], g_type[TABLE];
  int8_t wide[TABLE]; /* four at a time */
  int32_t n;
  int32_t chunk; /* elements of a block */
  int32_t states;
};

static_assert(sizeof(step_table) <= 4096, "what a launch can be told");

/* N elements from i on. */
template <class L, int KIND, int N>
__device__ static inline void some(const step_table &t, int32_t x, const step_numbers<L> &c,
                                   int64_t i)
{
  const step_tensor &to = t.x[x];
  L p[N] = {};
  L g[N] = {};
  L s[3][N] = {};

  rg_load_pack<N>(to.p, t.p_type[x], i, p);
  rg_load_pack<N>(to.g, t.g_type[x], i, g);
#pragma unroll
  for (int k = 0; k < 3; k++) {
    if (k < t.states) {
      rg_unpack<L, N>(to.state[k], i, s[k]);
    }
  }
#pragma unroll
  for (int j = 0; j < N; j++) {
    L own[3] = { s[0][j], s[1][j], s[2][j] };

    p[j] = stepped<L, KIND>(c, p[j], g[j], own, t.states);
    s[0][j] = own[0];
    s[1][j] = own[1];
    s[2][j] = own[2];
  }
  rg_store_pack<N>(to.p, t.p_type[x], i, p);
#pragma unroll
  for (int k = 0; k < 3; k++) {
    if (k < t.states) {
      rg_pack_into<L, N>(to.state[k], i, s[k]);
    }
  }
}

template <class L, int KIND> __global__ void k_steps(const __grid_constant__ step_table t)
{
  const step_numbers<L> c = block_numbers<L, KIND>(t.from);
  const int32_t block = (int32_t)blockIdx.x;
  int32_t x = 0;

  if (c.taken == 0) {
    return;
  }
  for (int32_t half = TABLE / 2; half > 0; half /= 2) { /* the last that begins here or before */
    x += x + half < t.n && t.first[x + half] <= block ? half : 0;
  }
  int64_t begin = (int64_t)(block - t.first[x]) * t.chunk;
  int64_t end = begin + t.chunk < t.x[x].n ? begin + t.chunk : t.x[x].n;

  for (int64_t i = begin + FOUR * threadIdx.x; i < end; i += FOUR * RG_BLOCK) {
    if (t.wide[x] != 0 && i + FOUR <= end) {
      some<L, KIND, FOUR>(t, x, c, i);
    } else {
      for (int64_t j = i; j < i + FOUR && j < end; j++) {
        some<L, KIND, 1>(t, x, c, j);
      }
    }
  }
}

/* -- One parameter of any strides -------------------------------------------------------------- */

struct step_views {
  step_source from;
  rg_strided p, g, state[3];
  int64_t n;
  int32_t p_type, g_type, states;
};

template <class L, int KIND> __global__ void k_step(const __grid_constant__ step_views t)
{
  const step_numbers<L> c = block_numbers<L, KIND>(t.from);

  for (int64_t i = RG_FIRST; c.taken != 0 && i < t.n; i += RG_NEXT) {
    int64_t at = rg_at(t.p, i);
    L s[3] = {};

#pragma unroll
    for (int k = 0; k < 3; k++) {
      s[k] = k < t.states ? ((const L *)t.state[k].data)[rg_at(t.state[k], i)] : (L)0;
    }
    rg_store(t.p.data, t.p_type, at,
             stepped<L, KIND>(c, rg_load<L>(t.p.data, t.p_type, at),
                              rg_load<L>(t.g.data, t.g_type, rg_at(t.g, i)), s, t.states));
#pragma unroll
    for (int k = 0; k < 3; k++) {
      if (k < t.states) {
        ((L *)t.state[k].data)[rg_at(t.state[k], i)] = s[k];
      }
    }
  }
}

/* -- Calls ------------------------------------------------------------------------------------- */

static step_source source_of(const rg_call *call)
{
  const rg_tensor *rate = call->in[RG_STEP_RATE];
  const rg_tensor *scale = call->in[RG_STEP_SCALE];
  step_source s = {};

  s.args = *(const rg_step_args *)call->args;
  s.count = (double *)call->in[RG_STEP_COUNT]->_data;
  s.rate = rate->_data;
  s.rate_type = rate->_dtype;
  s.scale = scale != NULL ? scale->_data : NULL;
  s.scale_type = scale != NULL ? scale->_dtype : 0;
  return s;
}

static bool side_by_side(const rg_call *call, int64_t i)
{
  const rg_step_args *args = (const rg_step_args *)call->args;
  bool all = rg_is_contiguous(call->in[rg_step_param(i)]) &&
             rg_is_contiguous(call->in[rg_step_grad(args, i)]);

  for (int64_t k = 0; k < args->states; k++) {
    all = all && rg_is_contiguous(call->in[rg_step_state(args, k, i)]);
  }
  return all;
}

/* Parameter i as the next one of a table. */
static void add(const rg_call *call, step_table *t, int64_t i)
{
  const rg_step_args *args = (const rg_step_args *)call->args;
  const rg_tensor *p = call->in[rg_step_param(i)];
  const rg_tensor *g = call->in[rg_step_grad(args, i)];
  step_tensor *x = &t->x[t->n];
  bool wide = rg_aligned(p->_data, rg_bytes_of(p->_dtype), FOUR) &&
              rg_aligned(g->_data, rg_bytes_of(g->_dtype), FOUR);

  *x = step_tensor{ (char *)p->_data, (const char *)g->_data, {}, p->_count };
  for (int32_t k = 0; k < t->states; k++) {
    const rg_tensor *s = call->in[rg_step_state(args, k, i)];

    x->state[k] = (char *)s->_data;
    wide = wide && rg_aligned(s->_data, rg_bytes_of(s->_dtype), FOUR);
  }
  t->p_type[t->n] = (int8_t)p->_dtype;
  t->g_type[t->n] = (int8_t)g->_dtype;
  t->wide[t->n] = wide;
  t->first[t->n + 1] = t->first[t->n] + (int32_t)((p->_count + t->chunk - 1) / t->chunk);
  t->n++;
}

template <class L, int KIND> static rg_status launch_table(const rg_call *call, step_table *t)
{
  rg_launch_cfg cfg = { dim3((unsigned)t->first[t->n]), dim3(RG_BLOCK), 0,
                        rg_gpu_stream(call->device) };

  if (t->n == 0) {
    return RG_OK;
  }
  RG_CUDA(call->op->name, rg_launch(k_steps<L, KIND>, cfg, *t));
  t->n = 0;
  return RG_OK;
}

template <class L, int KIND> static rg_status launch_one(const rg_call *call, int64_t i)
{
  const rg_step_args *args = (const rg_step_args *)call->args;
  const rg_tensor *p = call->in[rg_step_param(i)];
  const rg_tensor *g = call->in[rg_step_grad(args, i)];
  step_views t = {};

  t.from = source_of(call);
  t.p = rg_view_of(p);
  t.g = rg_view_as(g, p->_shape, p->_ndim);
  t.n = p->_count;
  t.p_type = p->_dtype;
  t.g_type = g->_dtype;
  t.states = (int32_t)args->states;
  for (int32_t k = 0; k < t.states; k++) {
    t.state[k] = rg_view_of(call->in[rg_step_state(args, k, i)]);
  }
  return rg_gpu_status(call->op->name,
                       rg_launch(k_step<L, KIND>, rg_over(t.n, rg_gpu_stream(call->device)), t));
}

/* All parameters that are computed in L. */
template <class L, int KIND> static rg_status steps(const rg_call *call)
{
  const rg_step_args *args = (const rg_step_args *)call->args;
  const int64_t blocks = (int64_t)BLOCKS_OF_A_UNIT * rg_gpu_units(call->device);
  step_table t = {};
  int64_t all = 0;

  for (int64_t i = 0; i < args->n; i++) {
    all += call->in[rg_step_param(i)]->_count;
  }
  t.from = source_of(call);
  t.states = (int32_t)args->states;
  t.chunk = (int32_t)rg_clamped(rg_round_up(all / blocks, LEAST), LEAST, MOST);
  for (int64_t i = 0; i < args->n; i++) {
    const rg_tensor *p = call->in[rg_step_param(i)];

    if (p->_count == 0 || (p->_dtype == RG_F64) != (sizeof(L) == 8)) {
      continue;
    }
    if (!side_by_side(call, i)) {
      RG_TRY((launch_one<L, KIND>(call, i)));
      continue;
    }
    if (t.n == TABLE) {
      RG_TRY((launch_table<L, KIND>(call, &t)));
    }
    add(call, &t, i);
  }
  return launch_table<L, KIND>(call, &t);
}

template <int KIND> static rg_status step(const rg_call *call)
{
  const rg_launch_cfg one = { dim3(1), dim3(1), 0, rg_gpu_stream(call->device) };

  RG_CUDA(call->op->name, rg_launch(k_count, one, source_of(call)));
  RG_TRY((steps<float, KIND>(call)));
  return steps<double, KIND>(call);
}

rg_status rg_gpu_sgd_step(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  (void)out;
  (void)frame;
  return step<SGD>(call);
}

rg_status rg_gpu_adam_step(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  (void)out;
  (void)frame;
  return step<ADAM>(call);
}

rg_status rg_gpu_lion_step(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  (void)out;
  (void)frame;
  return step<LION>(call);
}

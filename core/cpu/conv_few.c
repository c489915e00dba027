/* SPDX-License-Identifier: MIT */
/*
** Convolutions of few channels, in f32: oneDNN's kernels keep channels in the lanes of a vector, of
** which an image of one channel fills one.  Here neighbouring results do (simd/conv.c).
**
** The gradient for x is a convolution of dy by the kernel rotated by 180 degrees, its channels in
** and out exchanged.  Work is cut into bands of rows of one image: each thread copies a band with
** its padding into room of its own.  A result is one sum in one order, however many threads there
** are.
*/
#include <stdatomic.h>
#include <string.h>

#include "cpu/conv.h"
#include "cpu/cpu.h"
#include "cpu/simd/simd.h"

/* More channels of a group than these are oneDNN's, which has as fast kernels for 16 results, for
** one channel by itself, and for gradients that are mostly padding (results/kept/conv_few.txt). */
enum { FEW_IN = 16, FEW_BACK = 12, FEW_OUT = 12 };

/* About so many products are made between two looks at Ctrl-C; at most, where a band has more rows
** because those that it reads besides its own are many. */
enum { BAND_PRODUCTS = 1 << 20, MOST_PRODUCTS = 1 << 30 };

/* A channel's row is copied in the time of about so many products, and so many for each column. */
enum { ROW_PRODUCTS = 400, COLUMN_PRODUCTS = 3 };

typedef struct few {
  const float *x;
  const float *bias; /* or NULL */
  float *y;
  int32_t act;
  bool adds; /* to what lies in y */
  int64_t groups;
  int64_t in, outs;  /* channels of one group */
  int64_t size[2];   /* rows, columns of x */
  int64_t to[2];     /* of y */
  int64_t kernel[2]; /* of the kernel */
  int64_t dilation[2];
  int64_t pad[2]; /* above, on the left; not below 0 */
  int64_t width;  /* of a padded row */
  int64_t band;   /* rows of y done at a time */
  int64_t bands;  /* of an image */
  float *weights; /* [groups x outs x in x rows x columns] */
  char *rooms;
  int64_t room_bytes;
  atomic_int next_room;
} few;

/* -- Which ----------------------------------------------------------------------------------- */

static int64_t extent(int64_t kernel, int64_t dilation)
{
  return (kernel - 1) * dilation + 1;
}

bool rg_conv_may_be_few(const rg_call *call, rg_tensor *const *out)
{
  const rg_conv2d_args *args = call->args;
  const rg_conv2d_options *o = &args->o;
  const bool rotated = call->op->id == RG_OP_CONV2D_BACK_DATA;

  if (call->op->id == RG_OP_CONV2D_BACK_WEIGHT || o->layout != RG_NCHW || o->stride[0] != 1 ||
      o->stride[1] != 1 || out[0]->_dtype != RG_F32 || !rg_is_contiguous(out[0])) {
    return false;
  }
  for (int32_t i = 0; i < call->n_in; i++) {
    const rg_tensor *x = call->in[i];

    if (x != NULL && (x->_dtype != RG_F32 || !rg_is_contiguous(x))) {
      return false;
    }
  }
  const rg_conv2d_sizes s = rg_conv2d_sizes_of(call);
  const int64_t in = (rotated ? s.o : s.c) / s.groups;
  const int64_t outs = (rotated ? s.c : s.o) / s.groups;
  const int64_t *to = rotated ? s.x : s.y;

  for (int i = 0; i < 2; i++) {
    int64_t reach = extent(s.w[i], o->dilation[i]);

    /* the gradient's padding is reach - 1 - pad */
    if (o->pad_low[i] >= reach || o->pad_high[i] >= reach) {
      return false;
    }
  }
  const int64_t width = to[1] + extent(s.w[1], o->dilation[1]) - 1;

  return in * outs * s.w[0] * s.w[1] <= MOST_PRODUCTS / width;
}

bool rg_conv_is_few(const rg_call *call, rg_tensor *const *out)
{
  if (!rg_conv_may_be_few(call, out)) {
    return false;
  }
  const rg_conv2d_args *args = call->args;
  const bool rotated = call->op->id == RG_OP_CONV2D_BACK_DATA;
  const rg_conv2d_sizes s = rg_conv2d_sizes_of(call);
  const int64_t in = (rotated ? s.o : s.c) / s.groups;
  const int64_t outs = (rotated ? s.c : s.o) / s.groups;
  const int64_t *to = rotated ? s.x : s.y;
  const int64_t width = to[1] + extent(s.w[1], args->o.dilation[1]) - 1;

  return in <= (rotated ? FEW_BACK : FEW_IN) && outs <= FEW_OUT && (in > 1 || outs > 1) &&
         2 * to[0] * width <= 3 * s.y[0] * s.y[1];
}

/* -- What goes in ------------------------------------------------------------------------------ */

/* Kernels in the order of few.weights; rotated: those of the gradient for x.  False where one of
** them is inf or nan, which times the zeros of the padding would be nan. */
static bool take_weights(const few *f, float *to, const float *w, bool rotated)
{
  const int64_t taps = f->kernel[0] * f->kernel[1];
  float rest = 0;

  for (int64_t g = 0; g < f->groups; g++) {
    for (int64_t o = 0; o < f->outs; o++) {
      for (int64_t c = 0; c < f->in; c++) {
        const float *from =
            w + (rotated ? (g * f->in + c) * f->outs + o : (g * f->outs + o) * f->in + c) * taps;

        for (int64_t k = 0; k < taps; k++) {
          float weight = from[rotated ? taps - 1 - k : k];

          *to++ = weight;
          rest += weight * 0;
        }
      }
    }
  }
  return rest == 0;
}

/* Rows of a band: so many that Ctrl-C is seen soon, but also that little of the time goes into the
** rows that it reads besides its own. */
static int64_t band_of(const few *f)
{
  const int64_t row = f->in * f->outs * f->kernel[0] * f->kernel[1] * f->width;
  const int64_t besides = f->in * (extent(f->kernel[0], f->dilation[0]) - 1) *
                          (ROW_PRODUCTS + COLUMN_PRODUCTS * f->width);
  const int64_t products = rg_min_i64(rg_max_i64(BAND_PRODUCTS, 4 * besides), MOST_PRODUCTS);

  return rg_max_i64(1, rg_min_i64(f->to[0], products / row));
}

static few few_of(const rg_call *call, rg_tensor *const *out)
{
  const rg_conv2d_args *args = call->args;
  const rg_conv2d_options *o = &args->o;
  const rg_conv2d_sizes s = rg_conv2d_sizes_of(call);
  const bool rotated = call->op->id == RG_OP_CONV2D_BACK_DATA;
  few f = { .x = call->in[0]->_data, .y = out[0]->_data, .groups = s.groups };

  f.in = (rotated ? s.o : s.c) / s.groups;
  f.outs = (rotated ? s.c : s.o) / s.groups;
  if (!rotated) {
    f.act = o->act;
    f.bias = call->n_in > 2 && call->in[2] != NULL ? call->in[2]->_data : NULL;
  }
  for (int i = 0; i < 2; i++) {
    f.size[i] = rotated ? s.y[i] : s.x[i];
    f.to[i] = rotated ? s.x[i] : s.y[i];
    f.kernel[i] = s.w[i];
    f.dilation[i] = o->dilation[i];
    f.pad[i] = rotated ? extent(s.w[i], o->dilation[i]) - 1 - o->pad_low[i] : o->pad_low[i];
  }
  f.width = f.to[1] + extent(f.kernel[1], f.dilation[1]) - 1;
  f.band = band_of(&f);
  f.bands = (f.to[0] + f.band - 1) / f.band;
  return f;
}

/* -- One band ---------------------------------------------------------------------------------- */

/* Elements of a band's channel, with its padding; of its results. */
static int64_t plane_of(const few *f)
{
  return (f->band + extent(f->kernel[0], f->dilation[0]) - 1) * f->width;
}

static int64_t results_of(const few *f)
{
  return rg_round_up(f->band * f->width, 16) + RG_CONV_SLACK;
}

/* Rows first .. first + rows - 1 of the padded image of one channel. */
static void pad_rows(const few *f, float *to, const float *x, int64_t first, int64_t rows)
{
  const int64_t columns = rg_min_i64(f->size[1], f->width - f->pad[1]);

  for (int64_t i = 0; i < rows; i++, to += f->width) {
    int64_t row = first + i - f->pad[0];

    if (row < 0 || row >= f->size[0]) {
      memset(to, 0, (size_t)f->width * sizeof(float));
      continue;
    }
    memset(to, 0, (size_t)f->pad[1] * sizeof(float));
    memcpy(to + f->pad[1], x + row * f->size[1], (size_t)columns * sizeof(float));
    memset(to + f->pad[1] + columns, 0, (size_t)(f->width - f->pad[1] - columns) * sizeof(float));
  }
}

/* The epilogue: results without what lies between rows, plus bias, through the activation. */
static void put(const few *f, float *y, const float *from, int64_t rows, float bias)
{
  for (int64_t i = 0; i < rows; i++) {
    const float *row = from + i * f->width;
    float *to = y + i * f->to[1];

    for (int64_t j = 0; !f->adds && j < f->to[1]; j++) {
      to[j] = row[j] + bias;
    }
    for (int64_t j = 0; f->adds && j < f->to[1]; j++) {
      to[j] = row[j] + bias + to[j];
    }
  }
  rg_activate(f->act, RG_LANE_F32, y, rows * f->to[1]);
}

static void do_band(const few *f, float *room, int64_t image, int64_t group, int64_t band)
{
  const int64_t first = band * f->band;
  const int64_t rows = rg_min_i64(f->band, f->to[0] - first);
  const int64_t taps = f->kernel[0] * f->kernel[1];
  const rg_conv_run r = { .n = (rows - 1) * f->width + f->to[1],
                          .outs = f->outs,
                          .channels = f->in,
                          .rows = f->kernel[0],
                          .columns = f->kernel[1],
                          .kernel = f->in * taps,
                          .plane = plane_of(f),
                          .row_step = f->dilation[0] * f->width,
                          .column_step = f->dilation[1],
                          .y_step = results_of(f) };
  float *y = room + rg_round_up(f->in * r.plane + RG_CONV_SLACK, 16);
  const int64_t g0 = image * f->groups + group;

  for (int64_t c = 0; c < f->in; c++) {
    pad_rows(f, room + c * r.plane, f->x + (g0 * f->in + c) * f->size[0] * f->size[1], first,
             rows + extent(f->kernel[0], f->dilation[0]) - 1);
  }
  rg_simd()->conv->run(&r, y, room, f->weights + group * f->outs * r.kernel);
  for (int64_t o = 0; o < f->outs; o++) {
    put(f, f->y + ((g0 * f->outs + o) * f->to[0] + first) * f->to[1], y + o * r.y_step, rows,
        f->bias != NULL ? f->bias[group * f->outs + o] : 0);
  }
}

static bool bands_job(void *work, int64_t begin, int64_t end)
{
  few *f = work;
  float *room = (float *)(void *)(f->rooms + atomic_fetch_add(&f->next_room, 1) * f->room_bytes);

  for (int64_t at = begin; at < end; at++) {
    if (rg_interrupt_pending()) {
      return false;
    }
    do_band(f, room, at / (f->groups * f->bands), at / f->bands % f->groups, at % f->bands);
  }
  return true;
}

/* -- All of them --------------------------------------------------------------------------- */

/* In a plan's arena the room's address stays good. */
typedef struct kept {
  rg_memo memo;
  void *room;
  int32_t threads; /* that have a room */
} kept;

static void release(rg_memo *memo)
{
  rg_host_free(memo);
}

static rg_status keep(const rg_call *call, rg_frame *frame, void *room, int32_t threads)
{
  kept *k = rg_host_zeroed(sizeof(*k));

  if (k == NULL) {
    return rg_fail(RG_ENOMEM, "%s: no memory for a step of a plan", call->op->name);
  }
  k->memo.release = release;
  k->room = room;
  k->threads = threads;
  *frame->memo = &k->memo;
  return RG_OK;
}

static int64_t weight_bytes(const few *f)
{
  int64_t n = f->groups * f->outs * f->in * f->kernel[0] * f->kernel[1];

  return rg_round_up(n * (int64_t)sizeof(float), 64);
}

/* Bands so short that all threads have some: bits of results do not depend on them. */
static void share(few *f, int64_t images, int32_t threads)
{
  int64_t enough = (f->to[0] * images * f->groups + 4 * threads - 1) / (4 * threads);

  if (threads > 1 && f->band > enough) {
    f->band = enough;
    f->bands = (f->to[0] + f->band - 1) / f->band;
  }
}

rg_status rg_conv_few(const rg_call *call, rg_tensor *const *out, rg_frame *frame, bool adds,
                      bool *finite)
{
  const int64_t images = out[0]->_shape[0];
  few f = few_of(call, out);
  f.adds = adds;
  kept *k = frame->memo != NULL ? (kept *)*frame->memo : NULL;
  int32_t threads = rg_threads_for(call->op->cost(call).flops);
  rg_block block = { 0 };
  rg_status status = RG_OK;

  /* at each replay the room of the first run, and as many threads at most */
  threads = k != NULL ? (int32_t)rg_min_i64(threads, k->threads) : threads;
  share(&f, images, k != NULL ? k->threads : threads);
  f.room_bytes = (rg_round_up(f.in * plane_of(&f) + RG_CONV_SLACK, 16) + f.outs * results_of(&f)) *
                 (int64_t)sizeof(float);
  if (k == NULL) {
    RG_TRY(rg_block_alloc(RG_CPU, weight_bytes(&f) + threads * f.room_bytes, &block));
    if (frame->memo != NULL) {
      status = keep(call, frame, block.data, threads);
    }
  }
  if (status == RG_OK) {
    char *room = k != NULL ? k->room : block.data;

    float *weights = (float *)(void *)room;

    f.weights = weights;
    f.rooms = room + weight_bytes(&f);
    *finite = take_weights(&f, weights, call->in[1]->_data, call->op->id == RG_OP_CONV2D_BACK_DATA);
    if (*finite) {
      status = rg_parallel(threads, images * f.groups * f.bands, bands_job, &f);
    }
  }
  if (block.data != NULL) {
    rg_block_free(&block);
  }
  return status;
}

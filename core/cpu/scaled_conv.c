/* SPDX-License-Identifier: MIT */
/*
** Convolutions of bytes with scales on the CPU, by tiles of ridge's own product of bytes.
**
** A row of the product is what the kernel sees of one result, channels innermost; images in another
** order are brought into this one first.  What several results of a row of the image see overlaps:
** where a tile may read it so, it reads images in their place, with their padding around them ("own
** bytes in place"); else (groups, dilated columns, channels that do not come in fours) rows are
** gathered, a block that stays in L2 at a time.  Where each channel has a kernel of its own there
** is no product (scaled_depth.c); where products of 16 bits are what there is, kernels of 3 x 3
** have fewer of them (scaled_winograd.c).
*/
#include <string.h>

#include "cpu/cpu.h"
#include "cpu/scaled_depth.h"
#include "cpu/scaled_winograd.h"
#include "op/conv.h"

/* A tensor in the order batch, rows, columns, channels without gaps, or a copy of it that is. */
typedef struct side {
  rg_tensor view; /* the tensor, its axes in that order */
  rg_tensor copy;
  rg_block block; /* data NULL: no copy is needed */
  void *data;
} side;

typedef struct work {
  rg_conv2d_sizes s;
  const rg_conv2d_options *o;
  rg_i8_product product; /* of one group */
  side x, y;
  uint8_t flip;  /* of the bytes of x */
  uint8_t empty; /* the byte that stands for 0 */
  int64_t group; /* gathered now */
  int64_t c;     /* channels in and out of a group */
  int64_t of;
  /* in place: images with their padding, as far as they are needed now, or as they are (bare), */
  uint8_t *padded;
  bool bare;
  int64_t size[2];   /* rows and columns of one */
  int64_t row_bytes; /* as the kernels read them */
  int64_t pixel_bytes;
  int64_t reach;  /* rows that a result sees, and those between them */
  int64_t window; /* rows that a thread has room for */
  int64_t pitch;  /* 0, or results that a row of them takes where tiles go on over its end */
  int64_t bands;  /* of rows of results, that an image is cut into */
  float *numbers; /* the scales, the bias */
  rg_block room;
} work;

/* -- Layout ------------------------------------------------------------------------------- */

static rg_status take_side(side *s, const rg_tensor *x, int32_t layout)
{
  const int axis[4] = { 0, rg_rows_axis(layout), rg_rows_axis(layout) + 1,
                        rg_channels_axis(layout) };
  int64_t stride = 1;

  s->view = rg_tensor_struct(x);
  s->view._flags = 0;
  for (int i = 0; i < 4; i++) {
    s->view._shape[i] = x->_shape[axis[i]];
    s->view._stride[i] = x->_stride[axis[i]];
  }
  s->copy = s->view;
  s->copy._flags = RG_TENSOR_CONTIGUOUS;
  for (int i = 3; i >= 0; i--) {
    s->copy._stride[i] = stride;
    stride *= s->copy._shape[i];
  }
  s->data = x->_data;
  for (int i = 0; i < 4; i++) {
    if (s->view._shape[i] != 1 && s->view._stride[i] != s->copy._stride[i]) {
      RG_TRY(
          rg_block_alloc(RG_CPU, rg_max_i64(64, x->_count * rg_dtype_bytes(x->_dtype)), &s->block));
      s->data = s->copy._data = s->block.data;
      break;
    }
  }
  return RG_OK;
}

static void give_back(rg_block *block)
{
  if (block->data != NULL) {
    rg_block_free(block);
  }
}

/* -- Rows gathered ----------------------------------------------------------------------------- */

/* One row of the kernel over one row of the image, or over none. */
static void gather_part(const work *w, const uint8_t *row, int64_t first, uint8_t *to)
{
  int64_t bytes = w->c;
  bool is_inside = row != NULL && first >= 0 && first + w->s.w[1] <= w->s.x[1];

  if (is_inside && w->o->dilation[1] == 1 && w->s.groups == 1) { /* side by side */
    memcpy(to, row + first * bytes, (size_t)(w->s.w[1] * bytes));
    return;
  }
  for (int64_t q = 0; q < w->s.w[1]; q++, to += bytes) {
    int64_t column = first + q * w->o->dilation[1];

    if (row == NULL || column < 0 || column >= w->s.x[1]) {
      memset(to, w->empty, (size_t)bytes);
    } else if (bytes == RG_I8_STEP) { /* groups of four: without a call */
      memcpy(to, row + column * w->s.c, RG_I8_STEP);
    } else {
      memcpy(to, row + column * w->s.c, (size_t)bytes);
    }
  }
}

static void gather(const void *context, const rg_i8_kernels *kernels, int64_t i0, int64_t i1,
                   uint8_t *to, int64_t ld)
{
  const work *w = context;
  const uint8_t *x = (const uint8_t *)w->x.data + w->group * w->c;
  int64_t part = w->s.w[1] * w->c;
  /* kernels that widen read from elsewhere: the end of the same row */
  int64_t behind = kernels->width == 1 ? 0 : ld - rg_round_up(w->product.k, RG_I8_STEP);

  for (int64_t i = i0; i < i1; i++, to += ld) {
    int64_t image = i / (w->s.y[0] * w->s.y[1]);
    int64_t row = i / w->s.y[1] % w->s.y[0] * w->o->stride[0] - w->o->pad_low[0];
    int64_t column = i % w->s.y[1] * w->o->stride[1] - w->o->pad_low[1];
    uint8_t *some = to + behind;

    for (int64_t p = 0; p < w->s.w[0]; p++, row += w->o->dilation[0], some += part) {
      bool there = row >= 0 && row < w->s.x[0];

      gather_part(w, there ? x + (image * w->s.x[0] + row) * w->s.x[1] * w->s.c : NULL, column,
                  some);
    }
    kernels->row(to, to + behind, w->product.k, w->flip);
  }
}

static rg_i8_weight weight_of(const work *w, const rg_tensor *weight, int64_t group)
{
  return (rg_i8_weight){
    .data = (const int8_t *)weight->_data + group * w->of * weight->_stride[0],
    .storage = weight->_storage,
    .n = w->of,
    .n_step = weight->_stride[0],
    .size = { w->s.w[0], w->s.w[1], w->c },
    .step = { weight->_stride[2], weight->_stride[3], weight->_stride[1] },
    .keeps = (weight->_flags & RG_TENSOR_PARAM) != 0,
  };
}

/* A product for each group, over all rows. */
static rg_status run_gathered(work *w, const rg_tensor *weight, void *room)
{
  int64_t size = rg_dtype_bytes(w->product.dtype);
  int64_t of_rounded = rg_round_up(w->of, RG_PANEL);
  rg_status status = RG_OK;

  for (int64_t g = 0; g < w->s.groups && status == RG_OK; g++) {
    rg_i8_weight b = weight_of(w, weight, g);
    rg_i8_product p = w->product;
    rg_i8_packed packed;

    w->group = g;
    RG_TRY(rg_i8_pack(&b, p.n_threads, &packed));
    p.b = packed.data;
    p.w_scale += g * of_rounded;
    p.bias = p.bias != NULL ? p.bias + g * of_rounded : NULL;
    p.whole = p.whole != NULL ? p.whole + g * of_rounded : NULL;
    p.y = (char *)w->y.data + g * w->of * size;
    status = rg_i8_multiply(&p, room);
    rg_i8_unpack(&packed);
  }
  return status;
}

/* -- In place ---------------------------------------------------------------------------------- */

static bool is_in_place(const work *w)
{
  return w->s.groups == 1 && w->o->dilation[1] == 1 && w->c % RG_I8_STEP == 0;
}

/* Row r of an image between its padding, as the kernels read it. */
static void pad_row(const work *w, const rg_i8_kernels *kernels, int64_t image, int64_t r,
                    uint8_t *to)
{
  int64_t left = w->o->pad_low[1];
  int64_t there = rg_min_i64(w->s.x[1], w->size[1] - left); /* that a kernel reaches */
  int64_t row = r - w->o->pad_low[0];
  bool is_there = row >= 0 && row < w->s.x[0];
  int64_t first = is_there ? left : w->size[1]; /* what is beside the row, or all */
  uint8_t zeros[64];

  memset(zeros, w->empty, sizeof(zeros));
  for (int64_t j = 0; j < w->size[1]; j++) {
    if (j == first) { /* the row itself */
      kernels->row(to + j * w->pixel_bytes,
                   (const uint8_t *)w->x.data + (image * w->s.x[0] + row) * w->s.x[1] * w->s.c,
                   there * w->s.c, w->flip);
      j += there - 1;
      continue;
    }
    for (int64_t l = 0; l < w->s.c; l += (int64_t)sizeof(zeros)) {
      kernels->row(to + j * w->pixel_bytes + l * kernels->width, zeros,
                   rg_min_i64((int64_t)sizeof(zeros), w->s.c - l), w->flip);
    }
  }
}

/* Rows first .. end of a padded image, which lie in a thread's room. */
typedef struct window {
  uint8_t *room;
  int64_t image, first, end;
} window;

/* Rows first .. end of an image, w->row_bytes apart: those that are not there yet are padded now,
** shortly before they are read. */
static const uint8_t *rows_of(const work *w, const rg_i8_kernels *kernels, window *there,
                              int64_t image, int64_t first, int64_t end)
{
  if (w->bare) {
    return (const uint8_t *)w->x.data + (image * w->s.x[0] + first) * w->row_bytes;
  }
  if (there->image != image || first < there->first || first > there->end ||
      end - there->first > w->window) {
    there->image = image;
    there->first = there->end = first;
  }
  for (; there->end < end; there->end++) {
    pad_row(w, kernels, image, there->end,
            there->room + (there->end - there->first) * w->row_bytes);
  }
  return there->room + (first - there->first) * w->row_bytes;
}

static void run_rows(const work *w, rg_i8_pipe *pipe, const rg_i8_run *run, const uint8_t *a,
                     int64_t i, int64_t rows)
{
  int64_t wide = w->s.y[1];
  int64_t tiles = (wide + pipe->kernels->rows_most - 1) / pipe->kernels->rows_most;

  for (int64_t y = 0; y < rows; y++, a += w->o->stride[0] * w->row_bytes) {
    for (int64_t t = 0; t < tiles; t++) {
      int64_t x0 = wide * t / tiles;

      rg_i8_pipe_tile(pipe, run, a + x0 * run->lda, (const char *)pipe->b, i + y * wide + x0,
                      wide * (t + 1) / tiles - x0);
    }
  }
}

/* As if a row of results went on to where the next one begins: sums in between are left out. */
static void run_on(const work *w, rg_i8_pipe *pipe, const rg_i8_run *run, const uint8_t *a,
                   int64_t i, int64_t rows)
{
  const rg_i8_gaps gaps = { .run = w->s.y[1], .gap = w->pitch - w->s.y[1] };
  int64_t most = pipe->kernels->rows_most;
  int64_t all = (rows - 1) * w->pitch + w->s.y[1];

  for (int64_t at = 0; at < all; at += most) {
    rg_i8_pipe_gaps(pipe, run, a, i, at, rg_min_i64(at + most, all), &gaps);
  }
}

/* Rows y0 .. y1 of an image's results, of all channels: a panel at a time. */
static void run_band(const work *w, rg_i8_pipe *pipe, window *there, int64_t image, int64_t y0,
                     int64_t y1)
{
  const rg_i8_product *p = &w->product;
  const rg_i8_run run = { .parts = w->s.w[0],
                          .part = w->o->dilation[0] * w->row_bytes,
                          .steps = w->s.w[1] * w->c / RG_I8_STEP,
                          .lda = w->o->stride[1] * w->pixel_bytes };
  const uint8_t *a = rows_of(w, pipe->kernels, there, image, y0 * w->o->stride[0],
                             (y1 - 1) * w->o->stride[0] + w->reach);
  int64_t i = (image * w->s.y[0] + y0) * w->s.y[1];

  pipe->next = (const char *)w->x.data +
               (image * w->s.x[0] + (y1 - 1) * w->o->stride[0] + w->reach - w->o->pad_low[0]) *
                   w->s.x[1] * w->s.c;
  pipe->next_end = pipe->next + (y1 - y0) * w->o->stride[0] * w->s.x[1] * w->s.c;
  for (int64_t j = 0; j < p->n && !rg_interrupt_pending(); j += RG_PANEL) {
    rg_i8_pipe_panel(pipe, j / RG_PANEL);
    if (w->pitch > 0) {
      run_on(w, pipe, &run, a, i, y1 - y0);
    } else {
      run_rows(w, pipe, &run, a, i, y1 - y0);
    }
  }
}

/* Shares begin .. end of the bands, as many as there are threads. */
static bool run_bands(void *context, int64_t begin, int64_t end)
{
  const work *w = context;
  int64_t units = w->s.n * w->bands;
  int64_t shares = rg_max_i64(1, w->product.n_threads);
  rg_i8_pipe pipe;

  rg_i8_pipe_begin(&pipe, &w->product);
  for (int64_t t = begin; t < end; t++) {
    window there = { .room = w->padded + t * w->window * w->row_bytes, .image = -1 };

    for (int64_t u = units * t / shares; u < units * (t + 1) / shares && !rg_interrupt_pending();
         u++) {
      int64_t band = u % w->bands;

      run_band(w, &pipe, &there, u / w->bands, w->s.y[0] * band / w->bands,
               w->s.y[0] * (band + 1) / w->bands);
    }
  }
  rg_i8_pipe_end(&pipe);
  return !rg_interrupt_pending();
}

static rg_status run_in_place(work *w, const rg_tensor *weight)
{
  rg_i8_weight b = weight_of(w, weight, 0);
  rg_i8_packed packed;
  rg_status status;

  RG_TRY(rg_i8_pack(&b, w->product.n_threads, &packed));
  w->product.b = packed.data;
  status = rg_parallel(w->product.n_threads, rg_max_i64(1, w->product.n_threads), run_bands, w);
  rg_i8_unpack(&packed);
  return status;
}

/* Results from where one row of them begins to where the next does, if tiles had better go on over
** what lies in between; else 0.  A tile register takes as long for one row as for sixteen, and two
** of them share what is loaded. */
static int64_t pitch_of(const work *w, const rg_i8_kernels *kernels)
{
  enum { ROWS = 16, OWN = 4 }; /* of a tile instruction; what a tile costs besides, in rows */
  int64_t row = w->o->stride[0] * w->row_bytes;
  int64_t step = w->o->stride[1] * w->pixel_bytes;
  int64_t wide = w->s.y[1];
  int64_t tiles = (wide + kernels->rows_most - 1) / kernels->rows_most;
  int64_t by_row = 0;

  if (kernels->beside == NULL || row % step != 0 || row / step < wide) {
    return 0;
  }
  for (int64_t t = 0; t < tiles; t++) {
    by_row += OWN + rg_round_up(wide * (t + 1) / tiles - wide * t / tiles, ROWS);
  }
  return row / step + row / step * OWN / kernels->rows_most < by_row ? row / step : 0;
}

/* How large an image with its padding is, as far as kernels reach, and what an image is cut into:
** results that take a panel of b long enough to come, and inputs that stay in L2 meanwhile. */
static int64_t padded_bytes(work *w)
{
  enum { RESULTS = 1568, SLACK = 64, L2 = 1 << 20 };
  const rg_i8_kernels *kernels = rg_i8_kernels_now();
  int64_t l2 = rg_machine_facts()->l2_bytes;
  int64_t threads = rg_max_i64(1, w->product.n_threads);

  w->bare = kernels->width == 1 && w->flip == 0;
  for (int i = 0; i < 2; i++) {
    w->size[i] = (w->s.y[i] - 1) * w->o->stride[i] + (w->s.w[i] - 1) * w->o->dilation[i] + 1;
    w->bare = w->bare && w->o->pad_low[i] == 0 && w->size[i] <= w->s.x[i];
  }
  w->reach = (w->s.w[0] - 1) * w->o->dilation[0] + 1;
  w->pixel_bytes = w->c * kernels->width;
  w->row_bytes = (w->bare ? w->s.x[1] : w->size[1]) * w->pixel_bytes;
  w->pitch = pitch_of(w, kernels);
  w->bands = rg_max_i64(1, w->s.y[0] / rg_max_i64(1, RESULTS / w->s.y[1]));
  if (w->s.n * w->bands < threads) {
    w->bands = rg_min_i64(w->s.y[0], (threads + w->s.n - 1) / w->s.n);
  }
  /* a band, and those behind it as long as all of them take a quarter of L2 */
  w->window = (l2 > 0 ? l2 / 4 : L2) / w->row_bytes;
  w->window = rg_max_i64(w->window,
                         ((w->s.y[0] + w->bands - 1) / w->bands - 1) * w->o->stride[0] + w->reach);
  w->window = w->bare ? 0 : rg_min_i64(w->window, w->size[0]);
  return rg_round_up(threads * w->window * w->row_bytes + SLACK, 64);
}

/* -- The kernel ------------------------------------------------------------------------------- */

/* The scales and the bias: those of a group in whole panels. */
static rg_status gather_numbers(work *w, const rg_call *call)
{
  const rg_tensor *w_scale = call->in[3];
  const rg_tensor *bias = call->n_in > 4 ? call->in[4] : NULL;
  int64_t of_rounded = rg_round_up(w->of, RG_PANEL);
  float *scales = w->numbers;
  float *biases = w->numbers + w->s.groups * of_rounded;

  memset(w->numbers, 0, (size_t)(2 * w->s.groups * of_rounded) * sizeof(float));
  for (int64_t g = 0; g < w->s.groups; g++) {
    for (int64_t j = 0; j < w->of; j++) {
      int64_t at = w_scale->_count == 1 ? 0 : (g * w->of + j) * w_scale->_stride[0];

      scales[g * of_rounded + j] = ((const float *)w_scale->_data)[at];
    }
    if (bias != NULL && bias->_dtype != RG_I32) {
      rg_run_f32(bias->_data, bias->_dtype, g * w->of * bias->_stride[0], bias->_stride[0], w->of,
                 biases + g * of_rounded);
    } else if (bias != NULL) {
      RG_TRY(rg_i8_whole_bias(call, g * w->of, w->of, w->product.k,
                              (int32_t *)(void *)(biases + g * of_rounded)));
    }
  }
  w->product.w_scale = scales;
  if (bias != NULL && bias->_dtype == RG_I32) {
    w->product.whole = (const int32_t *)(const void *)biases;
  } else if (bias != NULL) {
    w->product.bias = biases;
  }
  return RG_OK;
}

static void describe(work *w, const rg_call *call)
{
  const rg_scaled_conv2d_args *args = call->args;
  bool is_signed = call->in[0]->_dtype == RG_I8;

  w->s = rg_conv2d_sizes_of(call);
  w->o = &args->conv.o;
  w->c = w->s.c / w->s.groups;
  w->of = w->s.o / w->s.groups;
  w->flip = is_signed ? 0x80 : 0;
  w->empty = (uint8_t)args->more.x_zero;
  w->product = (rg_i8_product){
    .m = w->s.n * w->s.y[0] * w->s.y[1],
    .n = w->of,
    .k = w->c * w->s.w[0] * w->s.w[1],
    .n_threads = rg_threads_for(call->op->cost(call).flops),
    .fill = gather,
    .context = w,
    .offset = (is_signed ? 128 : 0) + (int32_t)args->more.x_zero,
    .x_scale = call->in[2]->_data,
    .act = args->conv.o.act,
    .dtype = args->more.dtype,
    .y_zero = (int32_t)args->more.y_zero,
    .y_row = w->s.o,
  };
  if (call->n_in > 5 && call->in[5] != NULL) {
    w->product.y_scale = *(const float *)call->in[5]->_data;
  }
}

/* Each channel by itself. */
static rg_status run_depth(work *w, const rg_call *call)
{
  const rg_scaled_depth d = { .s = w->s,
                              .o = w->o,
                              .p = &w->product,
                              .x = w->x.data,
                              .is_signed = w->flip != 0,
                              .zero = w->flip != 0 ? (int8_t)w->empty : w->empty,
                              .w = (int32_t *)(void *)w->padded };

  return rg_scaled_depth_run(&d, call->in[1]);
}

static rg_status run_winograd(work *w, const rg_call *call)
{
  const rg_scaled_winograd d = { .s = w->s,
                                 .o = w->o,
                                 .p = &w->product,
                                 .x = w->x.data,
                                 .is_signed = w->flip != 0,
                                 .zero = w->flip != 0 ? (int8_t)w->empty : w->empty,
                                 .room = w->padded };

  return rg_scaled_winograd_run(&d, call->in[1]);
}

/* Ways to the sums. */
typedef enum way { DEPTH, WINOGRAD, IN_PLACE, GATHERED } way;

static way way_of(const work *w, const rg_call *call)
{
  return rg_scaled_depth_takes(&w->s)                         ? DEPTH
         : rg_scaled_winograd_takes(&w->s, w->o, call->in[1]) ? WINOGRAD
         : is_in_place(w)                                     ? IN_PLACE
                                                              : GATHERED;
}

/* Bytes of scratch. */
static int64_t room_of(work *w, way by)
{
  switch (by) {
  case DEPTH:
    return rg_scaled_depth_room(&w->s, w->o);
  case WINOGRAD:
    return rg_scaled_winograd_room(&w->s, w->product.n_threads);
  case IN_PLACE:
    return padded_bytes(w);
  default:
    return rg_i8_room(&w->product);
  }
}

static rg_status run_by(work *w, const rg_call *call, way by)
{
  switch (by) {
  case DEPTH:
    return run_depth(w, call);
  case WINOGRAD:
    return run_winograd(w, call);
  case IN_PLACE:
    return run_in_place(w, call->in[1]);
  default:
    return run_gathered(w, call->in[1], w->padded);
  }
}

static rg_status run(work *w, const rg_call *call, rg_frame *frame)
{
  way by = way_of(w, call);

  if (by == DEPTH) { /* one group of columns, for what follows the sums */
    w->s.groups = 1;
    w->of = w->product.n = w->s.o;
  }
  int64_t bytes_n = 2 * w->s.groups * rg_round_up(w->of, RG_PANEL) * (int64_t)sizeof(float);

  RG_TRY(rg_block_alloc(RG_CPU, bytes_n + room_of(w, by), &w->room));
  w->numbers = w->room.data;
  RG_TRY(gather_numbers(w, call));
  if (w->x.block.data != NULL) {
    RG_TRY(rg_cpu_convert(&w->x.copy, &w->x.view));
  }
  frame->path = by == DEPTH      ? "own:depth"
                : by == WINOGRAD ? "own:winograd"
                                 : rg_i8_kernels_now()->path;
  w->padded = (uint8_t *)w->room.data + bytes_n;
  w->product.y = w->y.data;
  RG_TRY(run_by(w, call, by));
  return w->y.block.data != NULL ? rg_cpu_convert(&w->y.view, &w->y.copy) : RG_OK;
}

rg_status rg_cpu_scaled_conv2d(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  work w;
  rg_status status;

  memset(&w, 0, sizeof(w));
  if (out[0]->_count == 0) {
    return RG_OK;
  }
  describe(&w, call);
  status = take_side(&w.x, call->in[0], w.o->layout);
  if (status == RG_OK) {
    status = take_side(&w.y, out[0], w.o->layout);
  }
  if (status == RG_OK) {
    status = run(&w, call, frame);
  }
  give_back(&w.room);
  give_back(&w.y.block);
  give_back(&w.x.block);
  return status;
}

/* SPDX-License-Identifier: MIT */
/*
** Convolutions of bytes in which each channel has a kernel of its own: as products of matrices they
** would have one column each.  Channels last, a panel of 32 channels is summed up over the elements
** of the kernel that lie in the image; what lies outside stands for 0 and adds nothing.
*/
#include <string.h>

#include "cpu/cpu.h"
#include "cpu/scaled_depth.h"

bool rg_scaled_depth_takes(const rg_conv2d_sizes *s)
{
  return s->groups > 1 && s->groups == s->c && s->o == s->c && s->w[0] * s->w[1] <= RG_DEPTH_TAPS;
}

int64_t rg_scaled_depth_room(const rg_conv2d_sizes *s)
{
  return rg_round_up(s->w[0] * s->w[1] * rg_round_up(s->o, RG_PANEL) * (int64_t)sizeof(int32_t),
                     64);
}

/* Kernels as rows of channels, one for each element; the upper halves of numbers are 0. */
static void turn_weight(const rg_scaled_depth *d, const rg_tensor *weight)
{
  int64_t row = rg_round_up(d->s.o, RG_PANEL);

  for (int64_t p = 0; p < d->s.w[0]; p++) {
    for (int64_t q = 0; q < d->s.w[1]; q++) {
      const int8_t *from =
          (const int8_t *)weight->_data + p * weight->_stride[2] + q * weight->_stride[3];
      int32_t *to = d->w + (p * d->s.w[1] + q) * row;

      for (int64_t j = 0; j < row; j++) {
        to[j] = j < d->s.o ? (uint16_t)from[j * weight->_stride[0]] : 0;
      }
    }
  }
}

/* What result (y, x) of an image sees: pixels, and the rows of weights beside them. */
static int64_t taps_of(const rg_scaled_depth *d, const uint8_t *image, int64_t y, int64_t x,
                       const uint8_t **pixel, const int32_t **weight)
{
  int64_t row = rg_round_up(d->s.o, RG_PANEL);
  int64_t n = 0;

  for (int64_t p = 0; p < d->s.w[0]; p++) {
    int64_t r = y * d->o->stride[0] - d->o->pad_low[0] + p * d->o->dilation[0];

    for (int64_t q = 0; q < d->s.w[1] && r >= 0 && r < d->s.x[0]; q++) {
      int64_t c = x * d->o->stride[1] - d->o->pad_low[1] + q * d->o->dilation[1];

      if (c >= 0 && c < d->s.x[1]) {
        pixel[n] = image + (r * d->s.x[1] + c) * d->s.c;
        weight[n++] = d->w + (p * d->s.w[1] + q) * row;
      }
    }
  }
  return n;
}

/* What some neighbouring results see. */
typedef struct seen {
  int64_t n[RG_ROWS_MOST];
  const uint8_t *pixel[RG_ROWS_MOST][RG_DEPTH_TAPS];
  const int32_t *weight[RG_ROWS_MOST][RG_DEPTH_TAPS];
} seen;

/* The channels of `some` results from number `at` on. */
static void some_results(const rg_scaled_depth *d, const seen *see, int64_t at, int64_t some)
{
  const rg_i8_end *loops = rg_i8_end_now();
  _Alignas(64) int32_t sums[RG_ROWS_MOST * RG_PANEL];
  int32_t fix[RG_PANEL];

  for (int64_t j = 0; j < d->s.o; j += RG_PANEL) {
    for (int c = 0; c < RG_PANEL; c++) {
      fix[c] = d->p->whole != NULL ? d->p->whole[j + c] : 0;
    }
    for (int64_t r = 0; r < some; r++) {
      loops->depth[d->is_signed](sums + r * RG_PANEL, see->n[r], see->pixel[r], see->weight[r], j,
                                 rg_min_i64(RG_PANEL, d->s.o - j), d->zero);
    }
    rg_i8_finish(d->p, sums, fix, at, some, j);
  }
}

/* Rows of results, of all images. */
static bool some_rows(void *context, int64_t begin, int64_t end)
{
  const rg_scaled_depth *d = context;
  int64_t wide = d->s.y[1];
  seen see;

  for (int64_t i = begin; i < end; i++) {
    const uint8_t *image = d->x + i / d->s.y[0] * d->s.x[0] * d->s.x[1] * d->s.c;
    int64_t some;

    if (rg_interrupt_pending()) {
      return false;
    }
    for (int64_t x = 0; x < wide; x += some) {
      some = rg_min_i64(RG_ROWS_MOST, wide - x);
      for (int64_t r = 0; r < some; r++) {
        see.n[r] = taps_of(d, image, i % d->s.y[0], x + r, see.pixel[r], see.weight[r]);
      }
      some_results(d, &see, i * wide + x, some);
    }
  }
  return true;
}

rg_status rg_scaled_depth_run(const rg_scaled_depth *d, const rg_tensor *weight)
{
  turn_weight(d, weight);
  return rg_parallel(d->p->n_threads, d->s.n * d->s.y[0], some_rows, (void *)(uintptr_t)d);
}

/* SPDX-License-Identifier: MIT */
/*
** Convolutions of bytes in which each channel has a kernel of its own: as products of matrices they
** would have one column each.  Channels last, a panel of 32 channels is summed up over the elements
** of the kernel; what lies outside of the image stands for 0 and adds nothing.
*/
#include <string.h>

#include "cpu/cpu.h"
#include "cpu/scaled_depth.h"

bool rg_scaled_depth_takes(const rg_conv2d_sizes *s)
{
  return s->groups > 1 && s->groups == s->c && s->o == s->c && s->w[0] * s->w[1] <= RG_DEPTH_TAPS;
}

static int64_t pairs_of(const rg_conv2d_sizes *s)
{
  return (s->w[0] * s->w[1] + 1) / 2;
}

static int64_t panels_of(const rg_conv2d_sizes *s)
{
  return (s->o + RG_PANEL - 1) / RG_PANEL;
}

/* The first channel of a panel: the last panel ends with the channels, and shares some with the one
** before it. */
static int64_t first_of(const rg_conv2d_sizes *s, int64_t panel)
{
  return rg_max_i64(0, rg_min_i64(panel * RG_PANEL, s->o - RG_PANEL));
}

static int64_t weight_bytes(const rg_conv2d_sizes *s)
{
  return panels_of(s) * pairs_of(s) * RG_PANEL * (int64_t)sizeof(int32_t);
}

/* Pixels that stand for 0, as many as neighbouring results step over. */
static int64_t blank_bytes(const rg_conv2d_sizes *s, const rg_conv2d_options *o)
{
  return (1 + (RG_ROWS_MOST - 1) * rg_min_i64(o->stride[1], s->x[1])) * s->c;
}

int64_t rg_scaled_depth_room(const rg_conv2d_sizes *s, const rg_conv2d_options *o)
{
  return weight_bytes(s) + rg_round_up(blank_bytes(s, o), 64);
}

/* Two elements of a kernel of each channel together, a panel of channels after the other. */
static void turn_weight(const rg_scaled_depth *d, const rg_tensor *weight)
{
  const uint8_t *column = rg_i8_end_now()->depth_column;
  const int64_t n = d->s.w[0] * d->s.w[1];
  const int64_t pairs = pairs_of(&d->s);
  int64_t at[RG_DEPTH_TAPS] = { 0 };

  for (int64_t t = 0; t < n; t++) {
    at[t] = t / d->s.w[1] * weight->_stride[2] + t % d->s.w[1] * weight->_stride[3];
  }
  for (int64_t panel = 0; panel < panels_of(&d->s); panel++) {
    int32_t *to = d->w + panel * pairs * RG_PANEL;

    for (int64_t lane = 0; lane < RG_PANEL; lane++) {
      int64_t channel = first_of(&d->s, panel) + column[lane];
      const int8_t *from = (const int8_t *)weight->_data + channel * weight->_stride[0];

      for (int64_t t = 0; t < pairs; t++) {
        uint32_t even = channel < d->s.o ? (uint16_t)from[at[2 * t]] : 0;
        uint32_t odd = channel < d->s.o && 2 * t + 1 < n ? (uint16_t)from[at[2 * t + 1]] : 0;

        to[t * RG_PANEL + lane] = (int32_t)(even | odd << 16);
      }
    }
  }
}

/* -- What results see -------------------------------------------------------------------------- */

/* Of some neighbouring results; each of them sees pixels `step` bytes on. */
typedef struct run {
  int64_t some;
  const uint8_t *pixel[RG_DEPTH_TAPS + 1];
} run;

/* Of result (y, x) of an image. */
static void see(const rg_scaled_depth *d, const uint8_t *image, int64_t y, int64_t x, run *s)
{
  const uint8_t *blank = (const uint8_t *)d->w + weight_bytes(&d->s);
  int64_t n = 0;

  for (int64_t p = 0; p < d->s.w[0]; p++) {
    int64_t r = y * d->o->stride[0] - d->o->pad_low[0] + p * d->o->dilation[0];

    for (int64_t q = 0; q < d->s.w[1]; q++) {
      int64_t c = x * d->o->stride[1] - d->o->pad_low[1] + q * d->o->dilation[1];
      bool inside = r >= 0 && r < d->s.x[0] && c >= 0 && c < d->s.x[1];

      s->pixel[n++] = inside ? image + (r * d->s.x[1] + c) * d->s.c : blank;
    }
  }
  s->pixel[n] = s->pixel[n - 1]; /* beside the last of an odd number, with a weight of 0 */
}

/* How many results from column x on see columns of the image alone: what one sees lies a fixed way
** behind what the one before it sees, or is blank for both.  1 where the first one does not. */
static int64_t alike(const rg_scaled_depth *d, int64_t x, int64_t most)
{
  int64_t c = x * d->o->stride[1] - d->o->pad_low[1];
  int64_t last = d->s.x[1] - 1 - (d->s.w[1] - 1) * d->o->dilation[1]; /* where c may be */

  return c < 0 || c > last ? 1 : rg_min_i64(most, (last - c) / d->o->stride[1] + 1);
}

/* -- Results ----------------------------------------------------------------------------------- */

/* The panel where there are fewer channels than it has: their bytes are copied, so that nothing
** behind them is read. */
static void few_channels(const rg_scaled_depth *d, const run *s, int32_t *sums)
{
  const rg_i8_end *loops = rg_i8_end_now();
  int64_t n = 2 * pairs_of(&d->s);
  uint8_t bytes[(RG_DEPTH_TAPS + 1) * RG_PANEL] = { 0 };
  const uint8_t *pixel[RG_DEPTH_TAPS + 1];

  for (int64_t r = 0; r < s->some; r++) {
    for (int64_t t = 0; t < n; t++) {
      pixel[t] =
          memcpy(bytes + t * RG_PANEL, s->pixel[t] + r * d->o->stride[1] * d->s.c, (size_t)d->s.c);
    }
    loops->depth[d->is_signed](sums + r * RG_PANEL, 1, n / 2, pixel, 0, d->w, d->zero);
  }
}

/* A panel of a run's results. */
static void run_panel(const rg_scaled_depth *d, const run *s, int64_t panel, int32_t *sums)
{
  const int64_t pairs = pairs_of(&d->s);
  const int64_t j = first_of(&d->s, panel);
  const uint8_t *pixel[RG_DEPTH_TAPS + 1];

  if (d->s.c < RG_PANEL) {
    few_channels(d, s, sums);
    return;
  }
  for (int64_t t = 0; t < 2 * pairs; t++) {
    pixel[t] = s->pixel[t] + j;
  }
  rg_i8_end_now()->depth[d->is_signed](sums, s->some, pairs, pixel, d->o->stride[1] * d->s.c,
                                       d->w + panel * pairs * RG_PANEL, d->zero);
}

/* The channels of `some` results from number `at` on, which are n runs. */
static void some_results(const rg_scaled_depth *d, const run *runs, int64_t n, int64_t at,
                         int64_t some)
{
  _Alignas(64) int32_t sums[RG_ROWS_MOST * RG_PANEL];
  int32_t fix[RG_PANEL];

  for (int64_t panel = 0; panel < panels_of(&d->s); panel++) {
    int64_t j = first_of(&d->s, panel);
    int32_t *to = sums;

    for (int c = 0; c < RG_PANEL; c++) {
      fix[c] = d->p->whole != NULL ? d->p->whole[j + c] : 0;
    }
    for (int64_t i = 0; i < n; i++) {
      run_panel(d, &runs[i], panel, to);
      to += runs[i].some * RG_PANEL;
    }
    rg_i8_finish(d->p, sums, fix, at, some, j);
  }
}

/* Rows of results, of all images. */
static bool some_rows(void *context, int64_t begin, int64_t end)
{
  const rg_scaled_depth *d = context;
  int64_t wide = d->s.y[1];
  run runs[RG_ROWS_MOST];

  for (int64_t i = begin; i < end; i++) {
    const uint8_t *image = d->x + i / d->s.y[0] * d->s.x[0] * d->s.x[1] * d->s.c;
    int64_t y = i % d->s.y[0];
    int64_t some;

    if (rg_interrupt_pending()) {
      return false;
    }
    for (int64_t x = 0; x < wide; x += some) {
      int64_t n = 0;

      some = rg_min_i64(RG_ROWS_MOST, wide - x);
      for (int64_t r = 0; r < some; r += runs[n++].some) {
        runs[n].some = alike(d, x + r, some - r);
        see(d, image, y, x + r, &runs[n]);
      }
      some_results(d, runs, n, i * wide + x, some);
    }
  }
  return true;
}

rg_status rg_scaled_depth_run(const rg_scaled_depth *d, const rg_tensor *weight)
{
  turn_weight(d, weight);
  memset((char *)d->w + weight_bytes(&d->s), (uint8_t)d->zero, (size_t)blank_bytes(&d->s, d->o));
  return rg_parallel(d->p->n_threads, d->s.n * d->s.y[0], some_rows, (void *)(uintptr_t)d);
}

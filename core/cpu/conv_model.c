/* SPDX-License-Identifier: MIT */
/*
** Which way of a convolution is expected to be the fastest where nothing was measured: each way's
** time is a sum of what it does, times what that takes (conv_rates.c).
**
** What makes ways slow, and is a term here: oneDNN's kernels compute whole vectors of channels, so
** that few channels are mostly padding, and bring images to their own layout and back (blocked).
** Channels first in place (plain), oneDNN writes each image out once per tap of the kernel and
** multiplies matrices, one of each image and group, in tiles of results. A product of our own has
** no copies, but channels first one call an image; an implicit one finds a pointer for each
** position and tap. Tiles pad rows of results to vectors, and copy the rows that they read.
**
** Neither threads nor the images' contents decide, so that results are the same on any number of
** threads, but for what a way does by itself.
*/
#include <string.h>

#include "cpu/conv.h"
#include "cpu/conv_model.h"
#include "cpu/cpu.h"
#include "cpu/dnnl.h"

/* A convolution's sizes as terms take them. */
typedef struct sizes {
  double images, groups, taps;
  double in, outs;      /* channels of a group */
  double sum, make;     /* the same: those that are summed up, those that are made */
  double pixels, spots; /* of x, of the result; of all images */
  double src, dst;      /* elements */
  int64_t rows, columns;
  int32_t lanes;
  bool depth;        /* each channel has a kernel of its own */
  bool depth_kernel; /* and oneDNN a way that is written for that */
  bool one;          /* a kernel of 1 x 1 that sees every pixel once */
  bool first;        /* channels first */
  int32_t work;
} sizes;

static double up(double n, double to)
{
  return (double)((((int64_t)n + (int64_t)to - 1) / (int64_t)to) * (int64_t)to);
}

static bool sees_all(const rg_conv2d_sizes *s, const rg_conv2d_options *o)
{
  for (int i = 0; i < 2; i++) {
    if (s->w[i] != 1 || o->stride[i] != 1 || o->pad_low[i] != 0 || o->pad_high[i] != 0) {
      return false;
    }
  }
  return true;
}

/* Gradients have no such kernels with dilation, and those of weights none for wide kernels, nor
** where windows leave gaps. */
static bool has_depth_kernel(const rg_conv2d_sizes *s, const rg_conv2d_options *o, int32_t work)
{
  enum { MOST_COLUMNS = 3 };

  if (work == 0) {
    return true;
  }
  for (int i = 0; i < 2; i++) {
    if (o->dilation[i] != 1 || (work == 2 && o->stride[i] > s->w[i])) {
      return false;
    }
  }
  return work == 1 || s->w[1] <= MOST_COLUMNS;
}

static sizes sizes_of(const rg_conv2d_sizes *s, const rg_conv2d_options *o, int32_t work,
                      int32_t lanes)
{
  const bool data = work == 1;
  sizes z = { .images = (double)s->n, .groups = (double)s->groups, .lanes = lanes, .work = work };

  z.taps = (double)(s->w[0] * s->w[1]);
  z.in = (double)(s->c / s->groups);
  z.outs = (double)(s->o / s->groups);
  z.sum = data ? z.outs : z.in;
  z.make = data ? z.in : z.outs;
  z.pixels = z.images * (double)(s->x[0] * s->x[1]);
  z.spots = z.images * (double)(s->y[0] * s->y[1]);
  z.src = z.pixels * (double)s->c;
  z.dst = z.spots * (double)s->o;
  z.rows = data ? s->x[0] : s->y[0];
  z.columns = data ? s->x[1] : s->y[1];
  z.depth = s->groups > 1 && s->c == s->groups && s->o == s->groups;
  z.one = sees_all(s, o);
  z.first = o->layout == RG_NCHW;
  z.depth_kernel = z.depth && has_depth_kernel(s, o, work);
  return z;
}

/* -- What ways do ---------------------------------------------------------------------------- */

enum { OPERATIONS = 100, ELEMENTS = 10 }; /* so many of them are one */

static const double a_call = 3000, a_product = 300, a_row = 30, a_copied_row = 50;

/* oneDNN's kernels for vectors of channels. */
static void of_channels(const sizes *z, const rg_conv2d_sizes *s, bool blocked, double *t)
{
  const double sum = up(z->sum, z->lanes), make = up(z->make, z->lanes);
  const double spots = z->taps * z->spots * z->groups / OPERATIONS;
  const double in = up(z->in, z->lanes) * z->groups, outs = up(z->outs, z->lanes) * z->groups;

  t[1] = sum * make * spots;
  t[2] = z->sum * make * spots;
  t[3] = make * spots;
  t[4] = a_row * z->images * z->groups * (double)s->y[0];
  t[5] = z->src / ELEMENTS;
  t[6] = z->dst / ELEMENTS;
  t[7] = blocked ? in * z->pixels / ELEMENTS : 0;
  t[8] = blocked ? outs * z->spots / ELEMENTS : 0;
  t[9] = z->work == 2 ? up(z->in, z->lanes) * outs * z->taps / ELEMENTS : 0;
}

/* Its kernels where each channel has one of its own. */
static void of_depth(const sizes *z, double *t)
{
  const double channels = up(z->groups, z->lanes);

  t[1] = channels * z->taps * z->spots / OPERATIONS;
  t[2] = channels * (z->pixels + z->spots) / ELEMENTS;
  t[3] = z->src / ELEMENTS;
  t[4] = z->dst / ELEMENTS;
  t[5] = channels > z->groups ? t[1] : 0; /* the last channels are loaded one by one */
}

/* Its matrix products of images that are written out. */
static void of_columns(const sizes *z, double *t)
{
  enum { TILE = 8, DEPTH = 16 };
  const double spots = z->spots * z->groups;
  const double written = spots * z->in / ELEMENTS;

  t[1] = z->in * z->outs * z->taps * spots / OPERATIONS;
  t[2] = z->in * up(z->outs, TILE) * z->taps * spots / OPERATIONS;
  t[3] = up(z->in * z->taps, DEPTH) * z->outs * spots / OPERATIONS;
  t[4] = z->taps > 1 ? written * z->taps : 0;
  t[5] = z->taps > 1 || z->one ? 0 : written;
  t[6] = z->src / ELEMENTS;
  t[7] = z->dst / ELEMENTS;
  t[8] = a_product * z->images * z->groups;
}

static void of_product(const sizes *z, double *t)
{
  t[1] = z->in * z->outs * z->spots / OPERATIONS;
  t[2] = up(z->in, z->lanes) * up(z->outs, z->lanes) * z->spots / OPERATIONS;
  t[3] = z->src / ELEMENTS;
  t[4] = z->dst / ELEMENTS;
  t[5] = z->first ? a_product * z->images : 0;
}

static void of_tiles(const sizes *z, const rg_conv2d_sizes *s, double *t)
{
  enum { TOGETHER = 4 };
  const double cells = z->images * (double)z->rows * up((double)z->columns, z->lanes) * z->taps *
                       z->sum * z->groups / OPERATIONS;

  t[1] = cells * z->make;
  t[2] = cells * up(z->make, TOGETHER);
  t[3] = z->src / ELEMENTS;
  t[4] = z->dst / ELEMENTS;
  t[5] = a_copied_row * z->images * z->groups * z->sum * (double)(z->work == 0 ? s->x[0] : s->y[0]);
}

/* A product of rows that are gathered, a pointer for each tap, in strips of columns. */
static void of_implicit(const sizes *z, double *t)
{
  enum { STRIP = 16 };
  const double outs = up(z->outs, STRIP) * z->groups;

  t[1] = z->in * outs * z->taps * z->spots / OPERATIONS;
  t[2] = z->taps * z->spots / ELEMENTS;
  t[3] = outs * z->taps * z->spots / OPERATIONS; /* what a strip begins with */
  t[4] = z->src / ELEMENTS;
  t[5] = z->dst / ELEMENTS;
  t[6] = z->in * outs * z->taps / ELEMENTS; /* weights */
}

/* -- Which is the fastest -------------------------------------------------------------------- */

/* oneDNN's kernels in place for AVX2, forward: the direct one masks the last channels in each step
** where those of a group do not fill vectors; kernels of 1 x 1 have one of their own, which gathers
** the pixels first where they do not see all. */
static int32_t in_place(const sizes *z, int64_t groups)
{
  enum { LANES = 8 };
  const int64_t in = (int64_t)z->in, outs = (int64_t)z->outs;

  if (z->lanes != LANES || z->work != 0) {
    return RG_RATES_PLAIN;
  }
  if (groups > 1) {
    return in % LANES > 0 || outs % LANES > 0 ? RG_RATES_TAILS : RG_RATES_PLAIN;
  }
  return z->taps > 1 ? RG_RATES_PLAIN : z->one ? RG_RATES_POINTS : RG_RATES_STRIDED;
}

/* By which kernels a way goes: RG_RATES_... */
static int32_t kernels_of(const sizes *z, const rg_conv2d_sizes *s, int32_t way)
{
  enum { COLOURS = 3 };
  const bool lacks = z->depth && !z->depth_kernel;

  switch (way) {
  case RG_CONV_TILES:
    return RG_RATES_TILES;
  case RG_CONV_PRODUCT:
    return RG_RATES_PRODUCT;
  case RG_CONV_IMPLICIT:
    return RG_RATES_IMPLICIT;
  case RG_CONV_BLOCKED:
    return lacks      ? (z->first ? RG_RATES_COLUMNS_DEPTH : RG_RATES_COPIED_DEPTH)
           : z->depth ? RG_RATES_BLOCKED_DEPTH
           : z->first && s->groups == 1 && s->c <= COLOURS ? RG_RATES_FIRST
                                                           : RG_RATES_BLOCKED;
  default:
    if (z->depth) {
      return z->first ? RG_RATES_COLUMNS_DEPTH
             : lacks  ? RG_RATES_VECTOR_DEPTH
                      : RG_RATES_PLAIN_DEPTH;
    }
    /* an image of one channel lies channels first, too, and is taken as such */
    return z->first                 ? RG_RATES_COLUMNS
           : s->c == 1 || s->o == 1 ? RG_RATES_ONE
                                    : in_place(z, s->groups);
  }
}

/*
** oneDNN 2.6 for AVX2, weights' gradients in place: where a group has one channel it is put into a
** register beside what was left there, and multiplied with that.  For kernels of 4 and 5 columns
** it is 40 to 190 times as slow, which looks like subnormal numbers there (not counted).
*/
static bool is_assisted(const sizes *z, const rg_conv2d_sizes *s, int32_t set)
{
  return set == RG_RATES_F32_AVX2 && z->work == 2 && !z->first && z->depth && !z->depth_kernel &&
         (s->w[1] == 4 || s->w[1] == 5);
}

/* Kernels of 1 x 1 that make one channel of many: in AVX2's vectors of eight they are up to 6 times
** as slow as the product that they are, too. */
static bool is_mostly_padding(const sizes *z, const rg_conv2d_sizes *s, int32_t set)
{
  enum { MANY = 16 };

  return set == RG_RATES_F32_AVX2 && !z->first && z->one && s->groups == 1 && z->make == 1 &&
         z->sum >= MANY;
}

/* Has oneDNN nothing better than loops in C for it?  rg_conv_dnnl refuses what is missed here. */
static bool is_refused(const sizes *z, const rg_conv2d_sizes *s, int32_t way, int32_t set)
{
  enum { MANY_TAPS = 25, FEW_OUTS = 8 };

  if ((way == RG_CONV_PLAIN && is_assisted(z, s, set)) ||
      (way != RG_CONV_PRODUCT && is_mostly_padding(z, s, set))) {
    return true;
  }

  if (!z->first && s->c == 1 && s->o == 1) { /* one number by another: a product in place */
    return (way == RG_CONV_PLAIN) == (z->taps > 1);
  }
  return way == RG_CONV_PLAIN && z->first && s->n == 1 && z->taps >= MANY_TAPS &&
         z->outs <= FEW_OUTS;
}

/* The least that both ridge's kernels and oneDNN's have here. */
static int32_t set_of(int32_t dtype)
{
  const int32_t level = rg_isa();

  if (dtype == RG_F32) {
    return level >= RG_ISA_AVX512 && rg_dnnl_uses(RG_DNNL_AVX512) ? RG_RATES_F32_AVX512
                                                                  : RG_RATES_F32_AVX2;
  }
  if (level >= RG_ISA_AMX && rg_dnnl_uses(RG_DNNL_AMX)) {
    return RG_RATES_BF16_AMX;
  }
  return level >= RG_ISA_AVX512_BF16 && rg_dnnl_uses(RG_DNNL_AVX512_BF16)
             ? RG_RATES_BF16_AVX512_BF16
             : RG_RATES_BF16_AVX512;
}

/* Nanoseconds, but for a factor that all ways of a work have; 0: nobody measured such kernels. */
static double time_of(const sizes *z, const rg_conv2d_sizes *s, int32_t set, int32_t way)
{
  const int32_t kernels = kernels_of(z, s, way);
  const int32_t *rate = rg_conv_rates(set, z->work, z->first ? 0 : 1, kernels);
  double t[RG_RATES_TERMS] = { a_call }, ns = 0;

  switch (kernels) {
  case RG_RATES_TILES:
    of_tiles(z, s, t);
    break;
  case RG_RATES_PRODUCT:
    of_product(z, t);
    break;
  case RG_RATES_IMPLICIT:
    of_implicit(z, t);
    break;
  case RG_RATES_COLUMNS:
  case RG_RATES_COLUMNS_DEPTH:
  case RG_RATES_COPIED_DEPTH:
  case RG_RATES_ONE:
    of_columns(z, t);
    break;
  case RG_RATES_BLOCKED_DEPTH:
  case RG_RATES_PLAIN_DEPTH:
    of_depth(z, t);
    break;
  default:
    of_channels(z, s, way == RG_CONV_BLOCKED, t);
  }
  for (int32_t i = 0; i < RG_RATES_TERMS; i++) {
    ns += t[i] * (double)rate[i];
  }
  return ns;
}

int32_t rg_conv_fastest(const rg_conv2d_sizes *s, const rg_conv2d_options *o, int32_t work,
                        int32_t set, const bool able[RG_WAYS])
{
  const sizes z = sizes_of(s, o, work, set == RG_RATES_F32_AVX2 ? 8 : 16);
  int32_t best = RG_CONV_AUTO;
  double least = 0;

  for (int32_t way = 1; way < RG_CONV_COUNT; way++) {
    if (!able[way] || is_refused(&z, s, way, set)) {
      continue;
    }
    const double ns = time_of(&z, s, set, way);

    if (ns > 0 && (best == RG_CONV_AUTO || ns < least)) {
      least = ns;
      best = way;
    }
  }
  return best;
}

int32_t rg_conv_expected(const rg_call *call, rg_tensor *const *out, const bool able[RG_WAYS])
{
  const rg_conv2d_options *o = &((const rg_conv2d_args *)call->args)->o;
  const rg_conv2d_sizes s = rg_conv2d_sizes_of(call);
  const int32_t id = call->op->id;
  const int32_t work = id == RG_OP_CONV2D ? 0 : id == RG_OP_CONV2D_BACK_DATA ? 1 : 2;
  const int32_t way = rg_conv_fastest(&s, o, work, set_of(out[0]->_dtype), able);

  return way != RG_CONV_AUTO ? way : rg_conv_dnnl_standard(call);
}
